"""Issues: the cost and the arithmetic of an instruction, for operands of one signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nki_sim.base.dtypes import Array

# The arithmetic of an instruction: it writes the first arrays and reads the second.
Run = Callable[[list[Array], list[Array]], None]


class Issue:
    """The cost and the arithmetic of one instruction.

    The arguments of ``run(outs, ins)`` are NumPy arrays in the order of ``writes`` and ``reads``,
    which are names of parameters. ``cost_ns`` is how long the engine is busy, and ``latency_ns``
    how much later the result is visible. ``queue`` names the in-order stream of instructions; a
    transfer continues after its queue has triggered it.
    """

    __slots__ = (
        "instruction",
        "engine",
        "queue",
        "stream",
        "cost_ns",
        "latency_ns",
        "load_stationary_ns",
        "rows",
        "columns",
        "is_transpose",
        "may_overtake",
        "run",
        "onto",
        "after",
        "breaks",
        "writes",
        "reads",
        "pick_writes",
        "pick_reads",
        "ports",
        "takes_banks",
        "table",
        "dma_ns",
        "dma_shared_ns",
        "prepared_ns",
        "work",
        "trigger_ns",
        "uses_software_dge",
        "dma_bytes",
        "macs",
        "dma_descriptors",
        "hbm_bytes",
        "is_dynamic",
        "checks_reads",
        "skips_out_of_bounds",
        "writes_where",
        "undefined",
        "meets",
        "uses_state",
        "on_scalar",
        "misaligned",
        "recorded",
        "signature",
    )

    def __init__(
        self,
        instruction: str,
        engine: str,
        cost_ns: float,
        run: Callable[..., None] | None = None,
        writes: tuple[str, ...] = (),
        reads: tuple[str, ...] = (),
    ) -> None:
        self.instruction = instruction
        self.engine = engine
        self.recorded: Any = None  # how the stored NkiScalar was computed
        # The values of all arguments and the layouts of tensors, or None if a value has no key.
        self.signature: tuple[Any, ...] | None = None
        self.queue = engine
        self.stream = engine  # accesses to memory in one stream are in order
        self.cost_ns = cost_ns
        self.latency_ns = 0.0
        self.load_stationary_ns = 0.0
        self.rows = (0, 4)  # 32-row and 32-column groups of the systolic array
        self.columns = (0, 4)
        self.is_transpose = False
        self.may_overtake = False  # may end before an earlier instruction of its queue
        self.run: Any = run
        # For a matmul, a function that finds the elements of dst to which the product is added.
        self.onto: Any = None
        self.after: Any = None
        # Device rules that the operands break, or functions of the issue and the written and
        # read views, for what their places decide. The signature of an operand has no place in HBM.
        self.breaks: tuple[Any, ...] = ()
        self.writes = writes
        self.reads = reads
        # Functions that pick the operands out of the arguments of a call.
        self.pick_writes: Any = None
        self.pick_reads: Any = None
        # Resources that one instruction uses at a time. GpSimdE also writes descriptors for DMA.
        self.ports: tuple[str, ...] = ("gpsimd",) if engine == "gpsimd" else ()
        self.table = ""  # the function whose table ScalarE needs
        self.takes_banks = False  # uses PSUM banks, each by one engine or array tile at a time
        self.dma_ns: tuple[float, ...] = ()  # the time of each DMA engine
        self.dma_shared_ns = 0.0  # the time of all engines together, at the rate of a core
        self.prepared_ns = 0.0  # how long each of these DMA engines prepares the copy
        self.work: Any = None  # from which a price follows: a class of `work`
        self.trigger_ns = 0.0  # how long the queue is busy before the transfer starts
        self.uses_software_dge = False  # GpSimdE is busy for trigger_ns, too
        self.dma_bytes = 0
        self.macs = 0  # multiply-accumulate operations of TensorE
        self.dma_descriptors = 0
        self.hbm_bytes = 0
        self.is_dynamic = False
        self.checks_reads = True
        self.skips_out_of_bounds = False
        self.writes_where: Any = None  # function of ins: mask of written elements; None: all
        self.undefined: tuple[int, ...] = ()  # writes whose values are undefined afterwards
        self.uses_state = False  # of its engine: its queue keeps the order of such instructions
        # The same on ScalarE, where the kernel names no engine and the compiler may choose ScalarE.
        self.on_scalar: Issue | None = None
        # The same for a moving operand that begins anywhere in 16 bytes, where that is dearer.
        self.misaligned: Issue | None = None
        self.meets: Any = None  # for core_barrier and sendrecv: what both programs must agree on
