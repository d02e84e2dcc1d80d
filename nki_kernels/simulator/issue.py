"""What an instruction issues: what it costs and how it computes, for operands of one signature.

An instruction is a function that checks the rules and returns an Issue. The ``instruction``
decorator keeps issues by the signature of the operands and the values of the other arguments, so
that a loop pays for the checks once.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable
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
        "onto",
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
        "macs",
        "dma_descriptors",
        "hbm_bytes",
        "is_dynamic",
        "checks_reads",
        "skips_out_of_bounds",
        "writes_where",
        "undefined",
        "meets",
        "recorded",
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
        self.recorded: Any = None  # how the NkiScalar was computed that it stores
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
        # Of a matmul, which runs with the written tensor, too: elements of it that are added to.
        self.onto: Any = None
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
        self.macs = 0  # products that TensorE adds up
        self.dma_descriptors = 0
        self.hbm_bytes = 0
        self.is_dynamic = False
        self.checks_reads = True
        self.skips_out_of_bounds = False
        self.writes_where: Any = None  # mask of the written elements, from ins; None: all
        self.undefined: tuple[int, ...] = ()  # writes whose elements have no defined value
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
        _locate(issue, parameters, [*args, *kwargs.values()], len(args), kwargs)
        if session.warned == warned:  # else the next call must warn, too
            session.issues.put(signature, issue)
        return issue

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> NkiInstruction:
        session = active()
        name = kwargs.pop("name", None)
        values = [*args, *kwargs.values()]
        try:
            kinds = [v.signature() if type(v) is NkiTensor else frozen(v) for v in values]
        except NotByValue:
            issue = function(*args, **kwargs)
            _locate(issue, parameters, values, len(args), kwargs)
        else:
            # With the number of arguments: a text by position is no keyword.
            signature = (label, len(args), *kwargs, *kinds)
            issue = session.issues.get(signature)
            if issue is None:
                issue = plan(session, signature, args, kwargs)
        write_slots, read_slots = issue.slots
        writes = [values[slot] for slot in write_slots]
        reads = [values[slot] for slot in read_slots]
        return NkiInstruction(session.issue(issue, writes, reads, name), session)

    return wrapper


def _own(value: Any) -> Any:
    return copy.deepcopy(value) if isinstance(value, (list, tuple, dict, np.ndarray)) else value


def _locate(
    issue: Issue,
    parameters: inspect.Signature,
    values: list[Any],
    positional: int,
    keywords: Iterable[str],
) -> None:
    """Find the operands' places in the call, so that later calls need no binding."""
    names = [*list(parameters.parameters)[:positional], *keywords]
    issue.slots = (
        tuple([names.index(name) for name in issue.writes]),
        tuple([names.index(name) for name in issue.reads]),
    )
    operands = [values[slot] for slots in issue.slots for slot in slots]
    if any(tensor._dynamic is not None for tensor in operands):
        issue.is_dynamic = True
