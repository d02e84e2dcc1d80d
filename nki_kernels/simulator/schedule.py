"""Start and end of every instruction of one launch.

The engines each issue their instructions in program order; loads and stores are two in-order DMA
queues. An instruction starts when its queue has come to it, what it depends on is visible
(`hazards`), and its engine is free (`engines`). All engines meet around each iteration of a loop on
the device (`device_loops`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .device_loops import DeviceLoop
from .dma_written import check_dma_written
from .engines import Engines
from .errors import NkiValidationError
from .memory_reuse import add_memory_waits


class _Queue:
    """An in-order instruction stream."""

    __slots__ = ("items", "position", "ready", "waits_for", "free", "last")

    def __init__(self, free: float, last: int) -> None:
        self.items: list[int] = []
        self.position = 0
        self.ready = -1.0  # when the head's operands are there; -1: not known yet
        self.waits_for = -1
        self.free = free
        self.last = last


def add_waits(session: Any) -> None:
    """Complete a launch's trace: edges of depends_on and with_schedule, reuse of memory."""
    for n, m in session.extra_edges:
        session.trace[n][1].append(m)
    add_memory_waits(session)


class Core:
    """One core of a launch: its engines, what it runs, and how far it has come.

    Attributes: ``steps``: in turn, numbers of instructions, and loops where they begin and end;
    ``begin``, nanoseconds before which nothing more starts; ``after``, the instruction that took
    until then; ``times``: how often each instruction runs.
    """

    def __init__(self, session: Any, engines: Engines, first: int = 0) -> None:
        self.engines = engines
        self.begin = 0.0
        self.after = -1
        self._branch_ns = session.chip.loop_iteration_ns
        self._trace = session.trace
        self._open: list[tuple[Any, float, list[float]]] = []  # loops, and what was before them
        count = len(session.trace)
        order = session.order or range(count)
        self.steps = _steps(session.loop_marks, order, first)
        self.times = [1] * count
        for loop in {loop for _, loop in session.loop_marks}:
            for n in range(loop.first, loop.end):
                self.times[n] *= loop.trips

    def come_to(self, loop: Any) -> None:
        """A loop begins or ends: its one iteration stands for all of them."""
        if not self._open or self._open[-1][0] is not loop:
            # ScalarE has its functions before the first iteration, or each would load them.
            functions = {issue.table for issue, *_ in self._trace[loop.first : loop.end]}
            self.begin += self.engines.load_tables(functions - {""})
            self._open.append((loop, self.begin, self.engines.count_busy()))
            return
        _, start, busy = self._open.pop()
        self.begin = start + loop.trips * (self.begin - start + self._branch_ns)
        self.engines.repeat_busy(busy, loop.trips - 1)


def _steps(marks: list[tuple[int, Any]], order: Sequence[int], first: int) -> list[Any]:
    """Numbers of instructions, from ``first`` on, between where loops begin and end."""
    if not marks:
        return [order if not first else [first + n for n in order]]
    steps: list[Any] = []
    position = 0
    for n, loop in marks:
        steps += [[first + m for m in order if position <= m < n], loop]
        position = n
    return [*steps, [first + m for m in order if m >= position]]


class Schedule:
    """Start and end of every instruction of one launch, and which one each waited for.

    ``times`` says how often each runs: only the first iteration of a loop on the device is here.
    ``where`` is the chip and the degree of LNC.
    """

    def __init__(self, session: Any) -> None:
        add_waits(session)
        core = Core(session, Engines(session.chip, session.banks))
        self.split = len(session.trace)  # where the instructions of a second core begin
        self.trace = session.trace
        self._plan([core], core.engines.place)
        self.busy = core.engines.busy
        check_dma_written(session, self)

    def _plan(self, cores: list[Core], place: Any) -> None:
        count = len(self.trace)
        self.where = f"{cores[0].engines.chip.name}, LNC={len(cores)}"
        self.start = [0.0] * count
        self.end = [0.0] * count
        self.done: list[float] = [-1.0] * count  # visible to others; -1: not scheduled
        self.blame = [-1] * count
        self.times = [n for core in cores for n in core.times]
        for step in zip(*[core.steps for core in cores], strict=True):
            self._run_step(cores, step, place)
        last = max(cores, key=lambda core: core.begin)
        self.last, self.total_ns = last.after, last.begin

    def _run_step(self, cores: list[Core], step: tuple[Any, ...], place: Any) -> None:
        """What all cores run up to the next loop's begin or end, or that."""
        queues = []
        for core, part in zip(cores, step, strict=True):
            if isinstance(part, DeviceLoop):
                core.come_to(part)
            else:
                queues += self._queues(part, core)
        self._run(queues, place)
        for core, part in zip(cores, step, strict=True):
            if not isinstance(part, DeviceLoop) and len(part):
                last = max(part, key=self.done.__getitem__)
                if self.done[last] > core.begin:
                    core.begin, core.after = self.done[last], last

    def _run(self, live: list[_Queue], place: Any) -> None:
        trace = self.trace
        while live:
            best, start = self._next(live)
            n = best.items[best.position]
            placed = place(n, trace[n][0], start)
            self.start[n], self.end[n], self.done[n], free, held_by = placed
            if held_by < 0:
                waited = best.waits_for >= 0 and best.ready >= best.free
                held_by = best.waits_for if waited else best.last
            self.blame[n] = held_by
            best.free = free
            best.last = n
            best.position += 1
            best.ready = -1.0
            if best.position == len(best.items):
                live.remove(best)

    def _queues(self, order: Sequence[int], core: Core) -> list[_Queue]:
        queues: dict[str, _Queue] = {}
        for n in order:
            name = self.trace[n][0].queue
            queue = queues.get(name)
            if queue is None:
                queue = queues[name] = _Queue(core.begin, core.after)
            queue.items.append(n)
        return list(queues.values())

    def _next(self, live: list[_Queue]) -> tuple[_Queue, float]:
        """The queue whose head can start first, and when."""
        trace, done, end = self.trace, self.done, self.end
        best: _Queue | None = None
        best_start = 0.0
        for queue in live:
            ready = queue.ready
            if ready < 0:
                ready = 0.0
                waits_for = -1
                for m in trace[queue.items[queue.position]][1]:
                    time = done[m] if m >= 0 else (end[~m] if done[~m] >= 0 else -1.0)
                    if time < 0:
                        break
                    if time > ready:
                        ready, waits_for = time, (m if m >= 0 else ~m)
                else:
                    queue.ready = ready
                    queue.waits_for = waits_for
                if queue.ready < 0:
                    continue
            when = ready if ready > queue.free else queue.free
            if best is None or when < best_start:
                best, best_start = queue, when
        if best is None:
            raise NkiValidationError(
                "schedule", "edges", "circular", "depends_on/with_schedule edges form a cycle"
            )
        return best, best_start
