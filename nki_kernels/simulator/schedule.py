"""Start and end of every instruction of one launch.

Each engine issues its instructions in program order, and loads and stores use two in-order DMA
queues. An instruction starts when its queue has reached it, the results that it depends on are
visible (`hazards`), and its engine is free (`engines`). All engines wait for each other before and
after each iteration of a loop on the device (`device_loops`).
"""

from __future__ import annotations

import copy
import functools
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nki_kernels.hardware import NeuronCore

from .device_loops import DeviceLoop
from .dma_written import check_dma_written
from .engines import ENGINES, Engines
from .errors import NkiValidationError
from .instruction_notes import Note
from .memory_over_time import Held, held_memory
from .memory_reuse import add_memory_waits
from .waits import DEPENDS_ON, LOOP, OPERAND, QUEUE
from .work import priced


class _Queue:
    """An in-order instruction stream."""

    __slots__ = ("items", "position", "ready", "waits_for", "free", "last")

    def __init__(self, free: float, last: int) -> None:
        self.items: list[int] = []
        self.position = 0
        self.ready = 0.0  # when the operands of the next instruction are ready
        self.waits_for = -1
        self.free = free
        self.last = last


def add_waits(session: Any) -> None:
    """Adds waits to a launch's trace: edges of depends_on and with_schedule, reuse of memory."""
    for n, m in session.extra_edges:
        waits = session.trace[n][1]
        session.note_waits(n, waits, DEPENDS_ON)
        waits.append(m)
    add_memory_waits(session)


@dataclass(frozen=True)
class LoopRun:
    """A loop on the device. Times are modelled, in nanoseconds.

    Attributes:
        label: the function, such as "nl.fori_loop".
        trips: the number of iterations.
        core: 0 or 1.
        first, end: its instructions are those from ``first`` to ``end``, exclusive.
        start_ns: when the first iteration begins.
        iteration_end_ns: when the first iteration and its branch end.
        end_ns: when the last iteration ends.
    """

    label: str
    trips: int
    core: int
    first: int
    end: int
    start_ns: float
    iteration_end_ns: float
    end_ns: float


class Core:
    """One core of a launch, with its engines, its steps and its progress.

    Attributes:
        steps: lists of numbers of instructions, and loops where they begin and end, in order.
        begin: the time in nanoseconds before which no further instruction starts.
        after: the instruction that ended at that time.
        times: how often each instruction runs.
        loops: the loops that have ended.
    """

    def __init__(self, session: Any, first: int = 0) -> None:
        self._first, self._program = first, session.program
        self._branch_ns = session.chip.loop_iteration_ns
        self._trace = session.trace
        count = len(session.trace)
        order = session.order or range(count)
        self.steps = _steps(session.loop_marks, order, first)
        self.times = [1] * count
        for loop in {loop for _, loop in session.loop_marks}:
            for n in range(loop.first, loop.end):
                self.times[n] *= loop.trips

    def starts_on(self, engines: Engines) -> None:
        """Puts the core before its first instruction, with engines that have not run."""
        self.engines = engines
        self.begin = 0.0
        self.after = -1
        self.loops: list[LoopRun] = []
        self._open: list[tuple[Any, float, list[float]]] = []  # loops, with time and busy before

    def come_to(self, loop: Any) -> None:
        """Begins or ends a loop. One iteration stands for all iterations."""
        if not self._open or self._open[-1][0] is not loop:
            # ScalarE loads its tables before the loop. Otherwise each iteration would load them.
            functions = {issue.table for issue, *_ in self._trace[loop.first : loop.end]}
            self.begin += self.engines.load_tables(functions - {""})
            self._open.append((loop, self.begin, self.engines.count_busy()))
            return
        _, start, busy = self._open.pop()
        iteration_ns = self.begin - start + self._branch_ns
        self.begin = start + loop.trips * iteration_ns
        self.loops.append(
            LoopRun(
                loop.label,
                loop.trips,
                self._program,
                first=self._first + loop.first,
                end=self._first + loop.end,
                start_ns=start,
                iteration_end_ns=start + iteration_ns,
                end_ns=self.begin,
            )
        )
        self.engines.repeat_busy(busy, loop.trips - 1)


def _steps(marks: list[tuple[int, Any]], order: Sequence[int], first: int) -> list[Any]:
    """Returns numbers of instructions, from ``first`` on, and the begins and ends of loops."""
    if not marks:
        return [order if not first else [first + n for n in order]]
    steps: list[Any] = []
    position = 0
    for n, loop in marks:
        steps += [[first + m for m in order if position <= m < n], loop]
        position = n
    return [*steps, [first + m for m in order if m >= position]]


class Schedule:
    """Start and end of every instruction of one launch, and which instruction each waited for.

    Of a loop on the device the schedule contains the first iteration only; ``times`` says how often
    each instruction runs. ``where`` is a text with the chip and the degree of LNC, ``cores``.
    ``held`` is the memory of the tiles of each core.
    """

    notes: list[Note] | None = None  # one for each instruction, if the launch has taken notes
    wait_kinds: dict[int, list[tuple[int, str]]]

    def __init__(self, session: Any) -> None:
        add_waits(session)
        self.split = len(session.trace)  # where the instructions of a second core begin
        self.trace = session.trace
        self.notes, self.wait_kinds = session.notes, session.wait_kinds
        self._cores, self._banks = [Core(session)], [session.banks]
        self._plan(session.chip)
        self.held: list[list[Held]] = [held_memory(session, self)]
        check_dma_written(session, self)

    def _engines(self, chip: NeuronCore) -> tuple[list[Engines], Any]:
        """Returns new engines of each core, and the function that places an instruction."""
        engines = Engines(chip, self._banks[0])
        return [engines], engines.place

    @functools.cached_property
    def low_ns(self) -> float:
        """The total in ns by the cheapest reading of the records: ``NeuronCore.cheapest``."""
        return min(self.total_ns, self._total_ns_on(self.chip.cheapest))

    @functools.cached_property
    def high_ns(self) -> float:
        """The total in ns by the dearest reading of the records: ``NeuronCore.dearest``."""
        return max(self.total_ns, self._total_ns_on(self.chip.dearest))

    def _total_ns_on(self, chip: NeuronCore) -> float:
        """Returns the total with the costs of ``chip``; order and memory stay as they are."""
        again = copy.copy(self)
        issues: dict[int, Any] = {}
        again.trace = []
        for issue, waits, name in self.trace:
            new = issues.get(id(issue)) or issues.setdefault(id(issue), priced(issue, chip))
            again.trace.append((new, waits, name))
        again._cores = [copy.copy(core) for core in self._cores]
        again._plan(chip)
        return again.total_ns

    def _plan(self, chip: NeuronCore) -> None:
        count = len(self.trace)
        engines, place = self._engines(chip)
        cores = self._cores
        for core, own in zip(cores, engines, strict=True):
            core.starts_on(own)
        self.cores = len(cores)
        self.chip = chip
        self.where = f"{chip.name}, LNC={len(cores)}"
        self.start = [0.0] * count
        # The times at which waits are over, or -1. `done` of n is at n, `end` of n at ~n.
        self._over = [-1.0] * (2 * count)
        self.placed: list[int] = []  # the order in which engines took the instructions
        self.blame = [-1] * count
        self.why = [""] * count  # why it waited: a kind of `waits`
        self.times = [n for core in cores for n in core.times]
        for step in zip(*[core.steps for core in cores], strict=True):
            self._run_step(cores, step, place)
        self.done = self._over[:count]  # visible to others
        self.end = self._over[: -count - 1 : -1]
        last = max(cores, key=lambda core: core.begin)
        self.last, self.total_ns = last.after, last.begin
        self.loops = [loop for core in cores for loop in core.loops]
        self.busy = {name: max(own.busy[name] for own in engines) for name in ENGINES}

    def _run_step(self, cores: list[Core], step: tuple[Any, ...], place: Any) -> None:
        """Runs the instructions of all cores up to the next step of a loop, or this step."""
        queues = []
        for core, part in zip(cores, step, strict=True):
            if isinstance(part, DeviceLoop):
                core.come_to(part)
            else:
                queues += self._queues(part, core)
        self._run(queues, place)
        for core, part in zip(cores, step, strict=True):
            if not isinstance(part, DeviceLoop) and len(part):
                last = max(part, key=self._over.__getitem__)
                if self._over[last] > core.begin:
                    core.begin, core.after = self._over[last], last

    def _run(self, queues: list[_Queue], place: Any) -> None:
        """Places the next instructions of queues, always the one that can start first.

        At equal times the first queue takes precedence. Instructions whose waits are all scheduled
        are in a heap. Each other instruction is listed under one of its waits.
        """
        trace, over, start = self.trace, self._over, self.start
        blame, why, placed = self.blame, self.why, self.placed
        heads: list[tuple[float, int]] = []
        blocked: dict[int, list[int]] = {}
        for number, queue in enumerate(queues):
            self._come_to_head(queue, number, heads, blocked)
        while heads:
            earliest, number = heapq.heappop(heads)
            queue = queues[number]
            position = queue.position
            n = queue.items[position]
            start[n], over[~n], over[n], free, blame[n], why[n] = place(n, trace[n][0], earliest)
            placed.append(n)
            if blame[n] < 0:
                if queue.waits_for >= 0 and queue.ready >= queue.free:
                    blame[n], why[n] = queue.waits_for, OPERAND
                else:
                    blame[n], why[n] = queue.last, QUEUE if position else LOOP
            queue.free, queue.last = free, n
            queue.position = position + 1
            if queue.position < len(queue.items):
                self._come_to_head(queue, number, heads, blocked)
            if n in blocked:
                for other in blocked.pop(n):
                    self._come_to_head(queues[other], other, heads, blocked)
        if blocked:
            raise NkiValidationError(
                "schedule",
                "the graph of waits",
                "circular",
                "the edges of depends_on and with_schedule must not form a cycle: remove an edge",
            )

    def _queues(self, order: Sequence[int], core: Core) -> list[_Queue]:
        queues: dict[str, _Queue] = {}
        for n in order:
            name = self.trace[n][0].queue
            queue = queues.get(name)
            if queue is None:
                queue = queues[name] = _Queue(core.begin, core.after)
            queue.items.append(n)
        return list(queues.values())

    def _come_to_head(
        self,
        queue: _Queue,
        number: int,
        heads: list[tuple[float, int]],
        blocked: dict[int, list[int]],
    ) -> None:
        """Finds when a queue's next instruction can start, or which wait is not scheduled yet."""
        over = self._over
        ready, last = 0.0, -1
        for m in self.trace[queue.items[queue.position]][1]:
            time = over[m]
            if time > ready:
                ready, last = time, m
            elif time < 0:
                blocked.setdefault(m if m >= 0 else ~m, []).append(number)
                return
        queue.ready = ready
        queue.waits_for = -1 if ready == 0 else last if last >= 0 else ~last
        heapq.heappush(heads, (max(ready, queue.free), number))
