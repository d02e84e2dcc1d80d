"""Issues: the cost and the arithmetic of an instruction, for operands of one signature.

An instruction is a function that checks the rules and returns an Issue. The ``instruction``
decorator caches issues by the signature of the operands and the values of the other arguments, so
that a loop runs the checks once.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

import numpy as np

from nki_sim.base.enums import reduce_cmd
from nki_sim.base.running import active, current
from nki_sim.errors import NkiValidationError
from nki_sim.views.tensor import NkiTensor

from .issue_cache import CONSTANT, NotByValue, frozen


class NkiInstruction:
    """A handle of an issued instruction; ``depends_on`` adds scheduling edges."""

    __slots__ = ("number", "session", "loop")

    def __init__(self, number: int, session: Any) -> None:
        self.number = number
        self.session = session
        self.loop = session.loop_scope

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Makes this instruction run after each of ``producers``, and returns itself."""
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                rule = "must be the value that an instruction of nki.isa returned"
                raise NkiValidationError("depends_on", "a producer", repr(producer), rule)
            around = self.loop
            while around is not None and around is not producer.loop:
                around = around.outer
            if around is not producer.loop:
                rule = (
                    "it is inside of a fori_loop or while_loop that has ended, and an edge cannot "
                    "leave a loop"
                )
                value = f"instruction {producer.number}"
                raise NkiValidationError("depends_on", "a producer", value, rule)
            self.session.extra_edges.append((self.number, producer.number))
        return self


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
        "in_turn",
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
        self.in_turn = False  # uses state of its engine, in turn with others of its queue
        # The same on ScalarE, where the kernel names no engine and the compiler may choose ScalarE.
        self.on_scalar: Issue | None = None
        # The same for a moving operand that begins anywhere in 16 bytes, where that is dearer.
        self.misaligned: Issue | None = None
        self.meets: Any = None  # for core_barrier and sendrecv: what both programs must agree on


def instruction(function: Callable[..., Issue]) -> Callable[..., NkiInstruction]:
    """Turns a function that plans an Issue into an instruction of nki.isa."""
    parameters = inspect.signature(function)
    label = f"nisa.{function.__name__}"

    def plan(session: Any, signature: Any, args: Any, kwargs: Any) -> Issue:
        warned = session.warned
        # The issue outlives the call, so it copies what the caller may change later.
        own = {keyword: _own(value) for keyword, value in kwargs.items()}
        issue = function(*[_own(value) for value in args], **own)
        _locate(issue, parameters, (*args, *kwargs.values()), len(args), kwargs)
        issue.signature = signature
        issue.in_turn = issue.in_turn or any(type(v) is reduce_cmd for v in (*args, *own.values()))
        if session.warned == warned:  # else the next call must warn, too
            session.issues.put(signature, issue)
        return issue

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> NkiInstruction:
        session = current() or active()
        name = None
        values = args
        if kwargs:
            name = kwargs.pop("name", None)
            values = (*args, *kwargs.values())
        # The number of arguments distinguishes a text given by position from a keyword.
        parts = [label, len(args), *kwargs]
        try:
            for value in values:
                kind = type(value)
                if kind is NkiTensor:
                    parts.append(value._layout)
                else:
                    parts.append(value if kind in CONSTANT else frozen(value))
        except NotByValue:
            issue = function(*args, **kwargs)
            _locate(issue, parameters, values, len(args), kwargs)
        else:
            signature = tuple(parts)
            issue = session.issues.recent.get(signature) or session.issues.get(signature)
            if issue is None:
                issue = plan(session, signature, args, kwargs)
        writes, reads = issue.pick_writes(values), issue.pick_reads(values)
        return NkiInstruction(session.issue(issue, writes, reads, name), session)

    return wrapper


def _own(value: Any) -> Any:
    return copy.deepcopy(value) if isinstance(value, (list, tuple, dict, np.ndarray)) else value


def _locate(
    issue: Issue,
    parameters: inspect.Signature,
    values: tuple[Any, ...],
    positional: int,
    keywords: Iterable[str],
) -> None:
    """Notes the operands' places in the call, so that later calls need not bind arguments."""
    names = [*_names(parameters, positional), *keywords]
    issue.pick_writes = _picker(*[names.index(name) for name in issue.writes])
    issue.pick_reads = _picker(*[names.index(name) for name in issue.reads])
    operands = (*issue.pick_writes(values), *issue.pick_reads(values))
    if any(tensor._dynamic is not None for tensor in operands):
        issue.is_dynamic = True


def _names(parameters: inspect.Signature, positional: int) -> list[str]:
    """Returns the names of so many arguments by position. Those of ``*src`` are src0, src1, ..."""
    names: list[str] = []
    for one in parameters.parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            return names + [f"{one.name}{i}" for i in range(positional - len(names))]
        names.append(one.name)
    return names[:positional]


@functools.lru_cache
def _picker(*places: int) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Returns a function that returns the items at these places as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    first = places[0] if places else 0
    return itemgetter(slice(first, first + len(places)))
