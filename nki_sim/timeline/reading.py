"""The times of a launch's instructions in a given order: one reading of a kernel.

Each queue runs its instructions in that order. An instruction starts when its queue has reached it,
the results that it depends on are visible, and its engine is free (`engines`). All engines wait for
each other before and after each iteration of a loop on the device (`device_loops`).
"""

from __future__ import annotations

import copy
import heapq
import itertools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from operator import index
from threading import Lock
from typing import Any

from nki_sim.hardware import NeuronCore
from nki_sim.instructions.device_loops import DeviceLoop
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState
from nki_sim.instructions.work import priced
from nki_sim.rules.accesses import Joint, Wait

from .compiler_order import CompilerOrder
from .engines import ENGINES, Engines, Place
from .memory_reuse import add_memory_waits
from .placed import LoopRun, Placed
from .waits import LOOP, QUEUE, READ, WRITTEN, circular, kind_at


@dataclass
class Ordered:
    """The instructions of one core in one order; of an instruction the waits, and their kinds."""

    issues: list[Issue]
    waits: list[list[Any]]
    order: Sequence[int]
    joints: list[Joint]
    wait_kinds: dict[int, list[tuple[int, str]]]
    end_ns: float = 0.0  # when it would end on one core, as far as it is known

    @classmethod
    def as_compiled(cls, session: LaunchState) -> Ordered:
        """Returns the instructions of a session in the order that the compiler may choose."""
        order = CompilerOrder(session)
        found = order.found
        return cls(order.issues, found.waits, order.order, found.joints, found.kinds, order.end_ns)

    @classmethod
    def as_written(cls, session: LaunchState) -> Ordered:
        """Returns the instructions of a session in program order; changes the session's trace."""
        add_memory_waits(session)
        joints = [joint for storage in session.storages for joint in storage.joints]
        issues = [issue for issue, _, _ in session.recorded()]
        waits = [found for _, found, _ in session.recorded()]
        order = session.order or range(len(issues))
        return cls(issues, waits, order, joints, session.wait_kinds)

    def reading(self, session: LaunchState) -> Reading:
        """Returns the reading of a launch on one core."""
        core = Core(session, 0, self.order)
        return Reading(self.issues, self.waits, [core], self.joints, self.wait_kinds)


class Core:
    """One core of a launch, with its engines, its sections and its progress.

    Attributes:
        sections: lists of numbers of instructions, and loops where they begin and end, in order.
        begin: the time in nanoseconds before which no further instruction starts.
        after: the instruction that ended at that time.
        times: how often each instruction runs.
        loops: the loops that have ended.
    """

    def __init__(self, session: LaunchState, first: int, order: Sequence[int]) -> None:
        self.chip: NeuronCore = session.chip
        self._first, self._program = first, session.program
        self._branch_ns = session.chip.loop_iteration_ns
        self._issues = [issue for issue, _, _ in session.recorded()]
        count = len(session.recorded())
        self.sections = _sections(session.loop_marks, order, first)
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

    def come_to(self, loop: DeviceLoop) -> None:
        """Begins or ends a loop. One iteration stands for all iterations."""
        if not self._open or self._open[-1][0] is not loop:
            # ScalarE loads its tables before the loop. Otherwise each iteration would load them.
            functions = {issue.table for issue in self._issues[loop.first : loop.end]}
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


def _sections(marks: list[tuple[int, DeviceLoop]], order: Sequence[int], first: int) -> list[Any]:
    """Returns numbers of instructions, from ``first`` on, and the begins and ends of loops."""
    if not marks:
        return [order if not first else [first + n for n in order]]
    sections: list[Any] = []
    position = 0
    for n, loop in marks:
        sections += [[first + m for m in order if position <= m < n], loop]
        position = n
    return [*sections, [first + m for m in order if m >= position]]


@dataclass(slots=True, eq=False)
class _Queue:
    """An in-order instruction stream."""

    place: Callable[[int, Issue, float], Place]  # runs an instruction on the queue's engine
    free: float
    last: int
    items: list[int] = field(default_factory=list)
    position: int = 0
    ready: float = 0.0  # when the operands of the next instruction are ready
    waits_for: Wait = -1  # the wait that is over then


class _Placing:
    """The state while instructions are given their times, which `Placed` describes."""

    def __init__(
        self,
        issues: list[Issue],
        waits: list[list[Wait]],
        wait_kinds: dict[int, list[tuple[int, str]]],
        joints: list[Joint],
    ) -> None:
        count = len(issues)
        self.issues, self._waits, self._wait_kinds = issues, waits, wait_kinds
        self.start = [0.0] * count
        # The times at which waits are over, or -1. The time at which the result of n is visible is
        # at n, and the end of n at ~n.
        self.over = [-1.0] * (2 * count)
        for joint in joints:
            joint.begin(self.over)
        self.sequence: list[int] = []
        self.blame = [-1] * count
        self.why = [""] * count

    def run_section(self, cores: list[Core], section: tuple[Any, ...]) -> None:
        """Runs the instructions of all cores of a section, or lets all cores come to a loop."""
        queues = []
        for core, part in zip(cores, section, strict=True):
            if isinstance(part, DeviceLoop):
                core.come_to(part)
            else:
                queues += self._queues(part, core)
        self._run(queues)
        for core, part in zip(cores, section, strict=True):
            if not isinstance(part, DeviceLoop) and len(part):
                last = max(part, key=self.over.__getitem__)
                if self.over[last] > core.begin:
                    core.begin, core.after = self.over[last], last

    def _run(self, queues: list[_Queue]) -> None:
        """Places the next instructions of queues, always the one that can start first.

        At equal times the first queue takes precedence. Instructions whose waits are all scheduled
        are in a heap. Each other instruction is listed under one of its waits.
        """
        issues, over, start = self.issues, self.over, self.start
        blame, why, sequence = self.blame, self.why, self.sequence
        waits, wait_kinds = self._waits, self._wait_kinds
        heads: list[tuple[float, int]] = []
        last: Wait
        blocked: dict[int, list[int]] = {}
        coming = list(range(len(queues)))  # queues with another next instruction, or fewer waits
        while True:
            for number in coming:
                queue = queues[number]
                ready, last = 0.0, -1
                for m in waits[queue.items[queue.position]]:
                    time = over[m]
                    if time > ready:
                        ready, last = time, m
                    elif time < 0:
                        m = index(m)
                        blocked.setdefault(m if m >= 0 else ~m, []).append(number)
                        break
                else:
                    queue.ready, queue.waits_for = ready, last
                    heapq.heappush(heads, (ready if ready > queue.free else queue.free, number))
            if not heads:
                break
            earliest, number = heapq.heappop(heads)
            queue = queues[number]
            position = queue.position
            n = queue.items[position]
            sequence.append(n)
            start[n], over[~n], over[n], free, by, reason = queue.place(n, issues[n], earliest)
            if by < 0:
                if queue.ready and queue.ready >= queue.free:
                    m = index(queue.waits_for)
                    by, reason = (m, WRITTEN) if m >= 0 else (~m, READ)
                    if n in wait_kinds:
                        place = waits[n].index(queue.waits_for)
                        reason = kind_at(place, wait_kinds[n]) or reason
                else:
                    by, reason = queue.last, QUEUE if position else LOOP
            blame[n], why[n] = by, reason
            queue.free, queue.last, queue.position = free, n, position + 1
            coming = [number] if position + 1 < len(queue.items) else []
            if n in blocked:
                coming += blocked.pop(n)
        if blocked:
            raise circular()

    def _queues(self, order: Sequence[int], core: Core) -> list[_Queue]:
        queues: dict[str, _Queue] = {}
        for n in order:
            issue = self.issues[n]
            queue = queues.get(issue.queue)
            if queue is None:
                place = core.engines.placer(issue.engine)
                queue = queues[issue.queue] = _Queue(place, core.begin, core.after)
            queue.items.append(n)
        return list(queues.values())


_one_at_a_time = Lock()


class Reading:
    """The instructions of a launch in one order, with all that they wait for.

    Attributes:
        issues: the instructions, those of the second core behind those of the first.
        cores: one or two, with the order of their instructions.
        wait_kinds: of an instruction the kinds of its waits, as in a session.
    """

    def __init__(
        self,
        issues: list[Issue],
        waits: list[list[Wait]],
        cores: list[Core],
        joints: list[Joint],
        wait_kinds: dict[int, list[tuple[int, str]]],
    ) -> None:
        self.issues, self.cores, self.wait_kinds = issues, cores, wait_kinds
        self._joints = joints  # waits that instructions share
        self._lists: list[list[Any]] | None = waits
        self._waits: list[Any] = []
        self._ends_of_waits: list[int] = []

    def place(self, chip: NeuronCore, engines: list[Engines]) -> Placed:
        """Returns when each instruction runs with the costs of ``chip`` and on new engines."""
        issues = self.issues
        if chip is not self.cores[0].chip:
            new: dict[int, Issue] = {}
            for issue in issues:
                if id(issue) not in new:
                    new[id(issue)] = priced(issue, chip)
            issues = [new[id(issue)] for issue in issues]
        waits = self._taken_waits()
        cores = [copy.copy(core) for core in self.cores]
        for core, own in zip(cores, engines, strict=True):
            core.starts_on(own)
        with _one_at_a_time if self._joints else nullcontext():  # joints belong to one placing
            placing = _Placing(issues, waits, self.wait_kinds, self._joints)
            for section in zip(*[core.sections for core in cores], strict=True):
                placing.run_section(cores, section)
        last = max(cores, key=lambda core: core.begin)
        return Placed(
            chip=chip,
            cores=len(cores),
            second_begin=len(cores[0].times),
            issues=issues,
            times=[n for core in cores for n in core.times],
            start=placing.start,
            end=placing.over[: -len(issues) - 1 : -1],
            sequence=placing.sequence,
            blame=placing.blame,
            why=placing.why,
            last=last.after,
            total_ns=last.begin,
            loops=[loop for core in cores for loop in core.loops],
            busy={name: max(own.busy[name] for own in engines) for name in ENGINES},
        )

    def _taken_waits(self) -> list[list[Any]]:
        """Returns the waits of each instruction, and keeps them as one list from then on.

        A list for each instruction would be most of the objects that Python's garbage collector
        goes through.
        """
        if self._lists is not None:
            waits, self._lists = self._lists, None
            self._waits = list(itertools.chain.from_iterable(waits))
            self._ends_of_waits = list(itertools.accumulate(map(len, waits)))
            return waits
        ends = self._ends_of_waits
        return [self._waits[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
