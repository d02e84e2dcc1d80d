"""The order of a kernel's instructions as the compiler may choose it.

Without ``nl.no_reorder`` the compiler's scheduler "may reorder independent operations for better
performance" (nki/api/nki/language/__init__.py, no_reorder). A list scheduler stands for it. It
always runs the instruction that can start first, and of those that a free queue can start at once
the first one in program order. It keeps all dependencies (`order_waits`), also the order of a
``no_reorder`` block, and never needs more memory than SBUF and PSUM have (`order_memory`).

Where a kernel names no engine for a copy, or for a product or sum with numbers, VectorE or ScalarE
runs the instruction, whichever ends it first.
"""

from __future__ import annotations

import bisect
import heapq
import math
from dataclasses import dataclass, field

from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState

from .engines import Engines, Place, Times
from .joints import JointTimes
from .order_memory import OrderMemory, Tile
from .order_waits import OrderWaits
from .waits import REUSED, circular


@dataclass(slots=True, eq=False)
class _Queue:
    """The instructions of a queue whose waits have all been placed.

    ``ready`` has the places of those that can start when the queue is free, and ``later`` those of
    the others, as (time, place).
    """

    number: int
    place: Place  # runs an instruction on the queue's engine
    free: float
    ready: list[int] = field(default_factory=list)
    later: list[tuple[float, int]] = field(default_factory=list)

    def next_start(self) -> float:
        """Returns when the queue can start its next instruction."""
        if self.ready:
            return self.free
        if not self.later:
            return math.inf
        time = self.later[0][0]
        return time if time > self.free else self.free

    def take(self, start: float) -> int:
        """Takes the first place of those that the queue can start at a time."""
        ready, later = self.ready, self.later
        if not ready:
            place = heapq.heappop(later)[1]
            if not later or later[0][0] > start:
                return place
            ready.append(place)
        while later and later[0][0] <= start:
            heapq.heappush(ready, heapq.heappop(later)[1])
        return heapq.heappop(ready)


class CompilerOrder:
    """An order of a session's instructions as the compiler may choose it.

    Attributes:
        issues: the instructions, on the engines that run them.
        order: the numbers of the instructions, first to last.
        end_ns: when the last one ends, if each loop on the device runs once.
        found: what they wait for, with the reuse of memory.
    """

    def __init__(self, session: LaunchState) -> None:
        self.issues: list[Issue] = [issue for issue, _, _ in session.recorded()]
        self.order: list[int] = []
        count = len(self.issues)
        # The instructions in program order, those between the marks of loops by themselves.
        self._by_place = self._places = list(range(count))
        if session.order is not None:
            ends = sorted(n for n, _ in session.loop_marks)
            self._by_place = sorted(session.order, key=lambda n: bisect.bisect_right(ends, n))
            self._places = sorted(range(count), key=self._by_place.__getitem__)
        self.found = OrderWaits(session, self._places)
        joints = self.found.joints
        times = Times(count, len(joints.waits))
        self._over = times.over
        self._joints = JointTimes(count, joints.waits, times.over)
        self._memory = OrderMemory(session, self._places, self._by_place, times.over)
        self._engines = Engines(session.chip, session.banks)
        self._engines.prepare(self.found.issues, times)
        # The in-order streams, or "" for what may end before an earlier instruction of its stream.
        self._streams = {
            one: "" if one.engine == "dma" or one.may_overtake else one.queue
            for issue in self.found.issues
            for one in (issue, issue.on_scalar)
            if one is not None
        }
        self._choices: dict[int, float] = {}  # instructions of two engines: when they can start
        self._taken: dict[int, _Queue] = {}  # the queue that runs one of them
        begin, first = 0.0, 0
        for end in (*[n for n, _ in session.loop_marks], count):
            if end > first:
                begin, first = self._run(first, end, begin), end
            for tile in self._memory.left_by_loop(end):
                tile.memory.release(tile, self._ends(tile))
        self.end_ns = begin
        if self._choices:
            self._wait_across_engines()

    def _run(self, first: int, end: int, begin: float) -> float:
        """Orders the instructions from ``first`` to ``end``, and returns when the last one ends."""
        self._add_queues(first, end, begin)
        self._memory.begin = first
        self._consider(self._unblocked(first, end))
        soon, over, issues, order = self._soon, self._over, self.issues, self.order
        waiting, by_place, memory = self._joints.waiting, self._by_place, self._memory
        tiles, choices = memory.tiles, self._choices
        while len(order) < end:
            start = min(soon)
            if start == math.inf:
                raise circular()
            number = soon.index(start)
            queue = self._queues[number]
            n = by_place[queue.take(start)]
            queue.free = start  # nothing can start there before
            if n in choices:
                soon[number] = queue.next_start()
                if over[n] >= 0:  # the other queue has run it
                    continue
                queue, start = self._choose(n)
            for tile in tiles[n]:
                if not tile.is_allocated:
                    can_run = self._allocate(n, start, queue)
                    break
            else:
                can_run = True
            if not can_run:
                soon[queue.number] = queue.next_start()
                continue
            queue.free = queue.place(n, issues[n], start)
            order.append(n)
            if waiting[n] >= 0:
                self._consider(self._joints.waited_for(n))
            soon[queue.number] = queue.next_start()
            for tile in tiles[n]:
                tile.left -= 1
                if not tile.left and not memory.is_held(tile):
                    tile.memory.release(tile, self._ends(tile))
            if memory.parked:
                self._try_again()
        return max(begin, max(over[first:end]))

    def _add_queues(self, first: int, end: int, begin: float) -> None:
        """Makes the queues of instructions, which are free at ``begin``."""
        self._queues: list[_Queue] = []
        self._queue_of: dict[str, _Queue] = {}
        for issue in dict.fromkeys(self.issues[first:end]):
            for one in (issue, issue.on_scalar):
                if one is not None and one.queue not in self._queue_of:
                    queue = _Queue(len(self._queues), self._engines.placer(one.engine), begin)
                    self._queue_of[one.queue] = queue
                    self._queues.append(queue)
        self._soon = [math.inf] * len(self._queues)  # when each can start its next instruction

    def _unblocked(self, first: int, end: int) -> list[int]:
        """Lists instructions under a wait. Returns those whose wait has a time, and joints."""
        over, waits, follows = self._over, self.found.waits, self.found.follows
        waiting, before, first_joint = self._joints.waiting, self._joints.before, len(waits)
        found = []
        for n in range(first, end):
            own = follows.get(n) or waits[n]
            if not own or over[own[-1]] >= 0:
                found.append(n)
                continue
            m = own[-1] if own[-1] >= 0 else ~own[-1]
            if m < first_joint:
                before[n], waiting[m] = waiting[m], n
            else:
                found += self._joints.block(n, m)
        return found

    def _consider(self, ones: list[int]) -> None:
        """Gives instructions to their queues if all that they wait for has run.

        The others are listed under a wait without a time. Looks at joints, too.
        """
        over, issues, waits, follows = self._over, self.issues, self.found.waits, self.found.follows
        waiting, before, first_joint = self._joints.waiting, self._joints.before, len(issues)
        queue_of = self._queue_of
        while ones:
            n = ones.pop()
            if n >= first_joint:
                ones += self._joints.look(n)
                continue
            ready, issue = 0.0, issues[n]
            for m in follows.get(n, ()):
                time = over[m]
                if time < 0:
                    break
                if time > ready:
                    ready = time
            else:
                if issue.engine == "tensor":  # it loads the next operand while a pass runs
                    ready = 0.0
                for m in reversed(waits[n]):  # most often the last one is over last
                    time = over[m]
                    if time < 0:
                        break
                    if time > ready:
                        ready = time
                else:
                    if issue.on_scalar is not None:
                        self._choices[n] = ready
                        self._give(n, queue_of[issue.on_scalar.queue], ready)
                    self._give(n, queue_of[issue.queue], ready)
                    continue
            if m < 0:
                m = ~m
            if m < first_joint:
                before[n], waiting[m] = waiting[m], n
            else:
                ones += self._joints.block(n, m)

    def _give(self, n: int, queue: _Queue, ready: float) -> None:
        """Adds an instruction to a queue, which can start it at ``ready``."""
        if ready <= queue.free:
            heapq.heappush(queue.ready, self._places[n])
            self._soon[queue.number] = queue.free
        else:
            heapq.heappush(queue.later, (ready, self._places[n]))
            if ready < self._soon[queue.number]:
                self._soon[queue.number] = ready

    def _choose(self, n: int) -> tuple[_Queue, float]:
        """Returns the queue that ends an instruction of two engines first, and its start there."""
        issue, ready = self.issues[n], self._choices[n]
        if n in self._taken:  # it has waited for memory
            queue = self._taken[n]
            return queue, max(queue.free, ready)
        assert issue.on_scalar is not None
        vector, scalar = self._queue_of[issue.queue], self._queue_of[issue.on_scalar.queue]
        starts = max(vector.free, ready), max(scalar.free, ready)
        if starts[1] + issue.on_scalar.cost_ns < starts[0] + issue.cost_ns:
            self.issues[n], self._taken[n] = issue.on_scalar, scalar
            return scalar, starts[1]
        self._taken[n] = vector
        return vector, starts[0]

    def _allocate(self, n: int, start: float, queue: _Queue) -> bool:
        """Allocates new tiles of an instruction, and returns whether it can run at ``start``.

        Otherwise the instruction waits for room, or until the last users of its memory have ended.
        """
        users = self._memory.allocate(n)
        if users is None:
            return False
        if not users:
            return True
        self.found.add(n, users, REUSED)
        over = self._over
        ready = max([over[m] for m in users])
        if ready <= start:
            return True
        if n in self._choices:
            self._choices[n] = max(self._choices[n], ready)
        heapq.heappush(queue.later, (ready, self._places[n]))
        return False

    def _try_again(self) -> None:
        """Gives instructions to their queues that may get memory now."""
        for place in self._memory.with_room():
            m = self._by_place[place]
            queue = self._taken.get(m) or self._queue_of[self.issues[m].queue]
            heapq.heappush(queue.ready, place)
            self._soon[queue.number] = queue.free

    def _ends(self, tile: Tile) -> list[int]:
        """Returns waits for the ends of a tile's users: of in-order streams the last one each."""
        last: dict[int | str, int] = {}
        over, issues, streams = self._over, self.issues, self._streams
        for n in sorted(tile.users, key=over.__getitem__):
            last[streams[issues[n]] or n] = n
        waits = [~n for n in last.values()]
        found = self.found.joints.joined(waits)
        if found is not waits:
            over.insert(found[0], max([over[m] for m in waits]))
        return found

    def _wait_across_engines(self) -> None:
        """Adds waits where an instruction has left the stream that it had to follow."""
        issues, separate = self.issues, self.found.joints.separate
        for n, follows in self.found.follows.items():
            found = [m for m in separate(follows) if issues[~m].queue != issues[n].queue]
            if found:
                self.found.add(n, found)
