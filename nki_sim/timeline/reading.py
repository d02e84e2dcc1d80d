"""The times of a launch's instructions in a given order: one reading of a kernel.

Each queue runs its instructions in that order. An instruction starts when its queue has reached it,
the results that it depends on are visible, and its engine is free (`engines`). All engines wait for
each other before and after each iteration of a loop on the device (`device_loops`).
"""

from __future__ import annotations

import bisect
import copy
import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nki_sim.hardware import NeuronCore
from nki_sim.instructions.device_loops import DeviceLoop
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState

from .causes import Causes, Stream
from .compiler_order import CompilerOrder
from .engines import ENGINES, Engines, Place, Times, is_alone
from .joints import Joints, JointTimes
from .memory_reuse import add_memory_waits
from .placed import LoopRun, Placed
from .prices import prices
from .waits import circular


@dataclass
class Ordered:
    """The instructions of one core in one order; of an instruction the waits, and their kinds."""

    issues: list[Issue]
    waits: list[list[int]]
    order: Sequence[int]
    joints: list[list[int]]
    wait_kinds: dict[int, list[tuple[int, str]]]
    end_ns: float = 0.0  # when it would end on one core, as far as it is known

    @classmethod
    def as_compiled(cls, session: LaunchState) -> Ordered:
        """Returns the instructions of a session in the order that the compiler may choose."""
        order = CompilerOrder(session)
        found = order.found
        joints = found.joints.waits
        return cls(order.issues, found.waits, order.order, joints, found.kinds, order.end_ns)

    @classmethod
    def as_written(cls, session: LaunchState) -> Ordered:
        """Returns the instructions of a session in program order."""
        joints = Joints(session)
        issues = [issue for issue, _, _ in session.recorded()]
        waits = joints.numbered([found for _, found, _ in session.recorded()])
        kinds = dict(session.wait_kinds)
        add_memory_waits(session, waits, kinds)
        return cls(issues, waits, session.order or range(len(issues)), joints.waits, kinds)

    def reading(self, session: LaunchState) -> Reading:
        """Returns the reading of a launch on one core."""
        core = Core(session, 0, self.order)
        return Reading(self.issues, self.waits, [core], self.joints, self.wait_kinds)


class Section:
    """Instructions of one core between begins and ends of loops on the device.

    Attributes:
        items: the instructions, in order.
        queues: for each queue its engine, its instructions and their waits, one after another.
            Behind the waits of an instruction is ``marks[1]``. Before that is ``marks[0]`` if it
            takes a resource that other queues may want at the same time.
    """

    def __init__(
        self,
        items: Sequence[int],
        issues: Sequence[Issue],
        waits: Sequence[Iterable[int]],
        marks: tuple[int, int],
        alone: set[Issue],
    ) -> None:
        self.items, self.marks = items, marks
        queues: dict[str, tuple[str, list[int], list[int]]] = {}
        for n in items:
            issue = issues[n]
            queue = queues.get(issue.queue)
            if queue is None:
                queue = queues[issue.queue] = issue.engine, [], []
            _, own, stream = queue
            own.append(n)
            stream += waits[n]
            if issue in alone:
                stream.append(marks[1])
            else:
                stream += marks
        self.queues = list(queues.values())

    def waits(self) -> Iterator[tuple[int, list[int]]]:
        """Yields the instructions with their waits."""
        for _, items, stream in self.queues:
            own = iter(items)
            found: list[int] = []
            for m in stream:
                if m == self.marks[1]:
                    yield next(own), found
                    found = []
                elif m != self.marks[0]:
                    found.append(m)


class Core:
    """One core of a launch, with its engines, its sections and its progress.

    Attributes:
        begin: the time in nanoseconds before which no further instruction starts.
        after: the instruction that ended at that time.
        times: how often each instruction runs.
        loops: the loops that have ended.
    """

    def __init__(self, session: LaunchState, first: int, order: Sequence[int]) -> None:
        self.chip: NeuronCore = session.chip
        self._marks, self._order = session.loop_marks, order
        self._first, self._program = first, session.program
        self._branch_ns = session.chip.loop_iteration_ns
        self._issues = [issue for issue, _, _ in session.recorded()]
        count = len(session.recorded())
        self.times = [1] * count
        for loop in {loop for _, loop in session.loop_marks}:
            for n in range(loop.first, loop.end):
                self.times[n] *= loop.trips

    def sections(self) -> list[Sequence[int] | DeviceLoop]:
        """The instructions, and loops where they begin and end, in order."""
        order, first, position = self._order, self._first, 0
        if any(max(order[:n], default=-1) >= n for n, _ in self._marks):
            ends = sorted(n for n, _ in self._marks)
            order = sorted(order, key=lambda n: bisect.bisect_right(ends, n))
        found: list[Sequence[int] | DeviceLoop] = []
        for n, loop in [*self._marks, (len(order), None)]:
            part = order[position:n]
            found.append([first + m for m in part] if first else part)
            position = n
            if loop is not None:
                found.append(loop)
        return found

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


@dataclass(slots=True, eq=False)
class _Queue:
    """An in-order instruction stream, and its next instruction.

    Attributes:
        place: runs an instruction on the queue's engine.
        free: when the queue continues.
        next: the next instruction.
        behind: the instructions behind it.
        waits: what has not been looked at of the waits of both.
        missing: the wait before these that had no time.
        ready: when the waits of the next instruction before these were over.
    """

    place: Place
    free: float
    next: int
    behind: Iterator[int]
    waits: Iterator[int]
    missing: int | None = None
    ready: float = 0.0


class _Placing:
    """The state while instructions are given their times, which `Placed` describes."""

    def __init__(
        self, issues: list[Issue], joints: list[list[int]], marks: tuple[int, int]
    ) -> None:
        count = len(issues)
        self._issues, self._marks = issues, marks
        self.times = Times(count, len(joints))
        self.joints = JointTimes(count, joints, self.times.over)
        self.ready = [0.0] * count
        self.sections: list[list[Stream]] = []

    def run_section(self, cores: list[Core], section: tuple[Any, ...]) -> None:
        """Runs the instructions of all cores of a section, or lets all cores come to a loop."""
        queues, streams = [], []
        for core, part in zip(cores, section, strict=True):
            if isinstance(part, DeviceLoop):
                core.come_to(part)
                continue
            for engine, items, waits in part.queues:
                place, behind = core.engines.placer(engine), iter(items)
                queues.append(_Queue(place, core.begin, next(behind), behind, iter(waits)))
                streams.append((core.after, items))
        self.sections.append(streams)
        self._run(queues)
        over = self.times.over
        for core, part in zip(cores, section, strict=True):
            if not isinstance(part, DeviceLoop) and len(part.items):
                last = max(part.items, key=over.__getitem__)
                if over[last] > core.begin:
                    core.begin, core.after = over[last], last

    def _run(self, queues: list[_Queue]) -> None:
        """Places the instructions of queues.

        Of those that take what other queues may want, always the one that can start first; at equal
        times the first queue takes precedence. The others run as soon as their waits are placed:
        the order of placing does not matter for them. A queue whose next instruction waits for one
        without a time is listed under that one.
        """
        over, issues, began = self.times.over, self._issues, self.ready
        joints, waiting, before = self.joints, self.joints.waiting, self.joints.before
        first_joint = len(issues)
        wanted, complete = self._marks
        heads: list[tuple[float, int]] = []
        coming = list(range(len(queues)))
        while coming or heads:
            number = coming.pop() if coming else heapq.heappop(heads)[1]
            if number >= first_joint:
                coming += joints.look(number)
                continue
            queue = queues[number]
            n, free, ready = queue.next, queue.free, queue.ready
            missing, queue.missing = queue.missing, None
            if missing is not None and over[missing] > ready:
                ready = over[missing]
            for m in queue.waits:
                time = over[m]
                if time > ready:
                    ready = time
                elif time < 0:
                    start = ready if ready > free else free
                    if m == complete:
                        began[n] = start
                        free = queue.place(n, issues[n], start)
                        one = waiting[n]
                        while one >= 0:
                            coming.append(one)
                            one = before[one]
                        n, ready = next(queue.behind, -1), 0.0
                        continue
                    if m == wanted:
                        heapq.heappush(heads, (start, number))
                    else:
                        queue.missing = m
                        if m < 0:
                            m = ~m
                        if m < first_joint:
                            before[number], waiting[m] = waiting[m], number
                        else:
                            coming += joints.block(number, m)
                    queue.next, queue.free, queue.ready = n, free, ready
                    break
        if any(queue.missing is not None for queue in queues):
            raise circular()


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
        waits: Sequence[Iterable[int]],
        cores: list[Core],
        joints: list[list[int]],
        wait_kinds: dict[int, list[tuple[int, str]]],
    ) -> None:
        self.issues, self.cores, self.wait_kinds = issues, cores, wait_kinds
        self._joints = joints  # what the waits wait for that instructions share
        self._lists: Sequence[Iterable[int]] | None = waits
        self._sections: list[tuple[Section | DeviceLoop, ...]] = []

    def place(self, chip: NeuronCore, engines: list[Engines]) -> Placed:
        """Returns when each instruction runs with the costs of ``chip`` and on new engines."""
        sections, issues = self._taken_sections(), self.issues
        distinct: Collection[Issue] = set(issues)
        if chip is not self.cores[0].chip:
            new = prices(distinct, chip)
            issues, distinct = [new[issue] for issue in issues], new.values()
        placing = _Placing(issues, self._joints, self._marks)
        cores = [copy.copy(core) for core in self.cores]
        for core, own in zip(cores, engines, strict=True):
            own.prepare(distinct, placing.times)
            core.starts_on(own)
        for section in sections:
            placing.run_section(cores, section)
        last = max(cores, key=lambda core: core.begin)
        times = placing.times
        return Placed(
            chip=chip,
            cores=len(cores),
            second_begin=len(cores[0].times),
            issues=issues,
            times=[n for core in cores for n in core.times],
            start=times.start,
            end=times.over[: -len(issues) - 1 : -1],
            last=last.after,
            total_ns=last.begin,
            loops=[loop for core in cores for loop in core.loops],
            busy={name: max(own.busy[name] for own in engines) for name in ENGINES},
            causes=Causes(
                placing.sections,
                placing.ready,
                times.over,
                times.delays,
                self._waits,
                self.wait_kinds,
                self._joints,
            ),
        )

    @property
    def _marks(self) -> tuple[int, int]:
        """Numbers that no instruction and no joint has; see `Section`."""
        end = len(self.issues) + len(self._joints)
        return end, end + 1

    def _taken_sections(self) -> list[tuple[Section | DeviceLoop, ...]]:
        """Returns the sections of all cores, and keeps the waits in these from then on.

        A list for each instruction would be most of the objects that Python's garbage collector
        goes through.
        """
        if self._lists is not None:
            waits, self._lists = self._lists, None
            issues, marks = self.issues, self._marks
            alone = {issue for issue in set(issues) if is_alone(issue)}
            for parts in zip(*[core.sections() for core in self.cores], strict=True):
                section = [
                    part
                    if isinstance(part, DeviceLoop)
                    else Section(part, issues, waits, marks, alone)
                    for part in parts
                ]
                self._sections.append(tuple(section))
        return self._sections

    def _waits(self) -> dict[int, list[int]]:
        """Returns the waits of each instruction."""
        parts = itertools.chain.from_iterable(self._sections)
        return dict(pair for part in parts if isinstance(part, Section) for pair in part.waits())
