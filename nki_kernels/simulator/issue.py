"""What an instruction issues: what it costs and how it computes, for operands of one signature.

An instruction is a function that checks the rules and returns an Issue. The ``instruction``
decorator keeps issues by operand signature, so that a loop pays for the checks once.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .tensor import NkiTensor


class NkiInstruction:
    """Handle of an issued instruction; ``depends_on`` adds scheduling edges."""

    __slots__ = ("number", "session", "loop")

    def __init__(self, number: int, session: Any) -> None:
        self.number = number
        self.session = session
        self.loop = session.loop_scope

    def depends_on(self, *producers: NkiInstruction) -> NkiInstruction:
        """Make this instruction run after each of ``producers``; returns itself."""
        from .errors import NkiValidationError

        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                rule = "must be what an instruction of nki.isa returned"
                raise NkiValidationError("depends_on", "producer", repr(producer), rule)
            around = self.loop
            while around is not None and around is not producer.loop:
                around = around.outer
            if around is not producer.loop:
                rule = "an edge cannot leave a fori_loop/while_loop"
                raise NkiValidationError("depends_on", "producer", producer.number, rule)
            self.session.extra_edges.append((self.number, producer.number))
        return self


class Issue:
    """Cost and arithmetic of one instruction.

    ``run(outs, ins)`` takes NumPy arrays in the order of ``writes`` and ``reads`` (parameter
    names). ``cost_ns`` is how long the engine is busy, ``latency_ns`` how much later others see
    the result. ``queue`` names the in-order instruction stream.
    """

    __slots__ = (
        "instruction",
        "engine",
        "queue",
        "cost_ns",
        "latency_ns",
        "load_stationary_ns",
        "rows",
        "columns",
        "run",
        "accumulates",
        "after",
        "writes",
        "reads",
        "slots",
        "ports",
        "dma_ns",
        "dma_bytes",
        "dma_descriptors",
        "hbm_bytes",
        "is_dynamic",
        "checks_reads",
        "skips_out_of_bounds",
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
        self.queue = engine
        self.cost_ns = cost_ns
        self.latency_ns = 0.0
        self.load_stationary_ns = 0.0
        self.rows = (0, 4)  # 32-row and 32-column groups of the systolic array
        self.columns = (0, 4)
        self.run: Any = run
        self.accumulates = False  # run(outs, ins, written tensor) of a matmul
        self.after: Any = None
        self.writes = writes
        self.reads = reads
        self.slots: tuple[tuple[Any, ...], tuple[Any, ...]] = ((), ())
        self.ports: tuple[str, ...] = ()
        self.dma_ns: tuple[float, ...] = ()
        self.dma_bytes = 0
        self.dma_descriptors = 0
        self.hbm_bytes = 0
        self.is_dynamic = False
        self.checks_reads = True
        self.skips_out_of_bounds = False


_NUMBERS = (int, float)


def _freeze(value: Any) -> Any:
    """Hashable stand-in for a scalar argument; 1, 1.0 and True stay apart."""
    if isinstance(value, _NUMBERS):
        return (type(value), value)
    if isinstance(value, (list, tuple)):
        return tuple([_freeze(v) for v in value])
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def instruction(function: Callable[..., Issue]) -> Callable[..., NkiInstruction]:
    """Turn a planning function into an instruction of nki.isa."""
    from .session import active

    parameters = inspect.signature(function)
    label = f"nisa.{function.__name__}"

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> NkiInstruction:
        session = active()
        name = kwargs.pop("name", None)
        key: list[Any] = [label]
        for value in args:
            key.append(value.signature() if type(value) is NkiTensor else _freeze(value))
        for keyword, value in kwargs.items():
            key.append(keyword)
            key.append(value.signature() if type(value) is NkiTensor else _freeze(value))
        frozen = tuple(key)
        issue = session.issues.get(frozen)
        if issue is None:
            issue = function(*args, **kwargs)
            _locate(issue, parameters, args, kwargs)
            session.issues[frozen] = issue
        write_slots, read_slots = issue.slots
        writes = [args[s] if type(s) is int else kwargs[s] for s in write_slots]
        reads = [args[s] if type(s) is int else kwargs[s] for s in read_slots]
        return NkiInstruction(session.issue(issue, writes, reads, name), session)

    return wrapper


def _locate(
    issue: Issue, parameters: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Find the operands' places in the call, so that later calls need no binding."""
    names = list(parameters.parameters)
    places: dict[str, Any] = {names[i]: i for i in range(len(args))}
    places.update({keyword: keyword for keyword in kwargs})
    issue.slots = (
        tuple([places[n] for n in issue.writes]),
        tuple([places[n] for n in issue.reads]),
    )
    for slots in issue.slots:
        for slot in slots:
            tensor = args[slot] if isinstance(slot, int) else kwargs[slot]
            issue.is_dynamic = issue.is_dynamic or tensor._dynamic is not None
