"""Start and end of every instruction of one launch.

The engines each issue their instructions in program order; loads and stores are two in-order DMA
queues. An instruction starts when its queue has come to it, what it depends on is visible
(`hazards`), and its engine is free (`engines`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .dma_written import check_dma_written
from .engines import Engines
from .errors import NkiValidationError
from .memory_reuse import add_memory_waits


class _Queue:
    """An in-order instruction stream."""

    __slots__ = ("items", "position", "ready", "waits_for", "free", "last")

    def __init__(self) -> None:
        self.items: list[int] = []
        self.position = 0
        self.ready = -1.0  # when the head's operands are there; -1: not known yet
        self.waits_for = -1
        self.free = 0.0
        self.last = -1


def add_waits(session: Any) -> None:
    """Complete a launch's trace: edges of depends_on and with_schedule, reuse of memory."""
    for n, m in session.extra_edges:
        session.trace[n][1].append(m)
    add_memory_waits(session)


class Schedule:
    """Start and end of every instruction of one launch, and which one each waited for."""

    def __init__(self, session: Any) -> None:
        add_waits(session)
        engines = Engines(session.chip, session.banks)
        self.split = len(session.trace)  # where the instructions of a second core begin
        order = session.order or range(self.split)
        self.trace = session.trace
        self._plan(self._queues(order), engines.place)
        self.busy = engines.busy
        check_dma_written(session, self)

    def _plan(self, queues: list[_Queue], place: Any) -> None:
        trace = self.trace
        count = len(trace)
        self.start = [0.0] * count
        self.end = [0.0] * count
        self.done: list[float] = [-1.0] * count  # visible to others; -1: not scheduled
        self.blame = [-1] * count
        self._run(queues, place)
        self.last = max(range(count), key=self.done.__getitem__) if count else -1
        self.total_ns = self.done[self.last] if count else 0.0

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

    def _queues(self, order: Sequence[int]) -> list[_Queue]:
        queues: dict[str, _Queue] = {}
        for n in order:
            name = self.trace[n][0].queue
            queue = queues.get(name)
            if queue is None:
                queue = queues[name] = _Queue()
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
