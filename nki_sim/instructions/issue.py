"""Issues: the cost and the arithmetic of an instruction, for operands of one signature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nki_sim.base.dtypes import Array

# The arithmetic of an instruction: it writes the first arrays and reads the second.
Run = Callable[[list[Array], list[Array]], None]


@dataclass(slots=True, eq=False)
class Issue:
    """The cost and the arithmetic of one instruction.

    The arguments of ``run(outs, ins)`` are NumPy arrays in the order of ``writes`` and ``reads``,
    which are names of parameters. ``cost_ns`` is how long the engine is busy, and ``latency_ns``
    how much later the result is visible. ``queue`` names the in-order stream of instructions; a
    transfer continues after its queue has triggered it.
    """

    instruction: str
    engine: str
    cost_ns: float
    run: Any = None
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    queue: str = field(init=False)  # accesses to memory in one queue are in order
    recorded: Any = None  # how the stored NkiScalar was computed
    # The values of all arguments and the layouts of tensors, or None if a value has no key.
    signature: tuple[Any, ...] | None = None
    latency_ns: float = 0.0
    load_stationary_ns: float = 0.0
    rows: tuple[int, int] = (0, 4)  # 32-row and 32-column groups of the systolic array
    columns: tuple[int, int] = (0, 4)
    is_transpose: bool = False
    may_overtake: bool = False  # may end before an earlier instruction of its queue
    # For a matmul, a function that finds the elements of dst to which the product is added.
    onto: Any = None
    after: Any = None
    # Device rules that the operands break, or functions of the issue and the written and
    # read views, for what their places decide. The signature of an operand has no place in HBM.
    breaks: tuple[Any, ...] = ()
    # Functions that pick the operands out of the arguments of a call.
    pick_writes: Any = None
    pick_reads: Any = None
    # Resources that one instruction uses at a time. GpSimdE also writes descriptors for DMA.
    ports: tuple[str, ...] = field(init=False)
    table: str = ""  # the function whose table ScalarE needs
    takes_banks: bool = False  # uses PSUM banks, each by one engine or array tile at a time
    dma_ns: tuple[float, ...] = ()  # the time of each DMA engine
    dma_shared_ns: float = 0.0  # the time of all engines together, at the rate of a core
    prepared_ns: float = 0.0  # how long each of these DMA engines prepares the copy
    work: Any = None  # from which a price follows: a class of `work`
    trigger_ns: float = 0.0  # how long the queue is busy before the transfer starts
    uses_software_dge: bool = False  # GpSimdE is busy for trigger_ns, too
    dma_bytes: int = 0
    macs: int = 0  # multiply-accumulate operations of TensorE
    dma_descriptors: int = 0
    hbm_bytes: int = 0
    is_dynamic: bool = False
    skips_out_of_bounds: bool = False
    writes_where: Any = None  # function of ins: mask of written elements; None: all
    undefined: tuple[int, ...] = ()  # writes whose values are undefined afterwards
    uses_state: bool = False  # of its engine: its queue keeps the order of such instructions
    # The same on ScalarE, where the kernel names no engine and the compiler may choose ScalarE.
    on_scalar: Issue | None = None
    # The same for a moving operand that begins anywhere in 16 bytes, where that is dearer.
    misaligned: Issue | None = None
    meets: Any = None  # for core_barrier and sendrecv: what both programs must agree on

    def __post_init__(self) -> None:
        self.queue = self.engine
        self.ports = ("gpsimd",) if self.engine == "gpsimd" else ()
