"""What an instruction issues: what it costs and how it computes, for operands of one signature.

An instruction is a function that checks the rules and returns an Issue. The ``instruction``
decorator keeps issues by the signature of the operands and the values of the other arguments, so
that a loop pays for the checks once.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .issue_cache import NotByValue, frozen
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
    the result. ``queue`` names the in-order instruction stream; a transfer that it triggered goes
    on without it.
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
        "accumulates",
        "after",
        "breaks",
        "writes",
        "reads",
        "slots",
        "ports",
        "takes_banks",
        "table",
        "dma_ns",
        "dma_shared_ns",
        "trigger_ns",
        "uses_software_dge",
        "dma_bytes",
        "dma_descriptors",
        "hbm_bytes",
        "is_dynamic",
        "checks_reads",
        "skips_out_of_bounds",
        "writes_where",
        "meets",
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
        self.stream = engine  # whose accesses to memory follow each other
        self.cost_ns = cost_ns
        self.latency_ns = 0.0
        self.load_stationary_ns = 0.0
        self.rows = (0, 4)  # 32-row and 32-column groups of the systolic array
        self.columns = (0, 4)
        self.is_transpose = False
        self.may_overtake = False  # may end before, or after, others of its queue
        self.run: Any = run
        self.accumulates = False  # run(outs, ins, written tensor) of a matmul
        self.after: Any = None
        self.breaks: tuple[Any, ...] = ()  # of device rules, that the operands show
        self.writes = writes
        self.reads = reads
        self.slots: tuple[tuple[Any, ...], tuple[Any, ...]] = ((), ())
        # What one instruction has at a time; GpSimdE, since it writes descriptors for DMA, too.
        self.ports: tuple[str, ...] = ("gpsimd",) if engine == "gpsimd" else ()
        self.table = ""  # of the function that ScalarE computes
        self.takes_banks = False  # of PSUM, one engine or array tile at a time
        self.dma_ns: tuple[float, ...] = ()  # of each DMA engine
        self.dma_shared_ns = 0.0  # of all of them together, at what a core reaches
        self.trigger_ns = 0.0  # of the queue, before the transfer starts
        self.uses_software_dge = False  # trigger_ns are GpSimdE's, too
        self.dma_bytes = 0
        self.dma_descriptors = 0
        self.hbm_bytes = 0
        self.is_dynamic = False
        self.checks_reads = True
        self.skips_out_of_bounds = False
        self.writes_where: Any = None  # mask of the written elements, from ins; None: all
        self.meets: Any = None  # of core_barrier and sendrecv: what the other program must match


def instruction(function: Callable[..., Issue]) -> Callable[..., NkiInstruction]:
    """Turn a planning function into an instruction of nki.isa."""
    from .session import active

    parameters = inspect.signature(function)
    label = f"nisa.{function.__name__}"

    def plan(session: Any, signature: Any, args: Any, kwargs: Any) -> Issue:
        warned = session.warned
        # The issue outlives the call: what the caller may change later it has for itself.
        own = {keyword: _own(value) for keyword, value in kwargs.items()}
        issue = function(*[_own(value) for value in args], **own)
        _locate(issue, parameters, args, kwargs)
        if session.warned == warned:  # else the next call must warn, too
            session.issues.put(signature, issue)
        return issue

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> NkiInstruction:
        session = active()
        name = kwargs.pop("name", None)
        # With the number of arguments: a text by position is no keyword.
        key: list[Any] = [label, len(args)]
        try:
            for value in args:
                key.append(value.signature() if type(value) is NkiTensor else frozen(value))
            for keyword, value in kwargs.items():
                key.append(keyword)
                key.append(value.signature() if type(value) is NkiTensor else frozen(value))
        except NotByValue:
            issue = function(*args, **kwargs)
            _locate(issue, parameters, args, kwargs)
        else:
            signature = tuple(key)
            issue = session.issues.get(signature)
            if issue is None:
                issue = plan(session, signature, args, kwargs)
        write_slots, read_slots = issue.slots
        writes = [args[s] if type(s) is int else kwargs[s] for s in write_slots]
        reads = [args[s] if type(s) is int else kwargs[s] for s in read_slots]
        return NkiInstruction(session.issue(issue, writes, reads, name), session)

    return wrapper


def _own(value: Any) -> Any:
    return copy.deepcopy(value) if isinstance(value, (list, tuple, dict, np.ndarray)) else value


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
