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
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nki_sim.base.enums import MemoryRegion
from nki_sim.instructions.device_loops import loops_of_tiles
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState

from .engines import Engines, Place, Times
from .joints import JointTimes
from .order_memory import Memory, Tile
from .order_waits import OrderWaits
from .waits import REUSED, circular

_UNKNOWN = -1.0


@dataclass(slots=True, eq=False)
class _Queue:
    """The instructions of a queue whose waits have all been placed.

    ``ready`` has those that can start when the queue is free, as (place, instruction), and
    ``later`` the others, as (time, place, instruction).
    """

    place: Place  # runs an instruction on the queue's engine
    free: float
    ready: list[tuple[int, int]] = field(default_factory=list)
    later: list[tuple[float, int, int]] = field(default_factory=list)


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
        self._by_place: Sequence[int] = range(count)
        self._places: Sequence[int] = range(count)
        if session.order is not None:
            ends = sorted(n for n, _ in session.loop_marks)
            self._by_place = sorted(session.order, key=lambda n: bisect.bisect_right(ends, n))
            self._places = sorted(range(count), key=self._by_place.__getitem__)
        self.found = OrderWaits(session, self._places)
        joints = self.found.joints
        times = Times(count, len(joints.waits))
        self._over = times.over
        self._joints = JointTimes(count, joints.waits, times.over)
        self._blocked = self._joints.blocked
        self._add_tiles(session)
        self._engines = Engines(session.chip, session.banks)
        self._engines.prepare(set(self.issues), times)
        self._head = 0  # the place in program order of the first instruction that has not run
        self._choices: dict[int, float] = {}  # instructions of two engines: when they can start
        self._taken: dict[int, _Queue] = {}  # the queue that runs one of them
        begin, first = 0.0, 0
        for end in (*[n for n, _ in session.loop_marks], count):
            if end > first:
                begin, first = self._run(first, end, begin), end
            self._end_loop(end)
        self.end_ns = begin
        if self._choices:
            self._wait_across_engines()

    def _add_tiles(self, session: LaunchState) -> None:
        """Notes the tiles of each instruction, where a memory is too small for all tiles."""
        sizes = session.partition_bytes
        holders = loops_of_tiles(session)
        held: dict[MemoryRegion, list[Tile]] = {memory: [] for memory in sizes}
        for storage in session.storages:
            if storage.buffer in held and storage.accesses:
                loops = holders.get(storage, [])
                tile = Tile(storage.held_bytes, storage.users(), self._places, loops)
                held[storage.buffer].append(tile)
        self._memories: list[Memory] = []
        self._kept: list[Tile] = []  # tiles without users that a loop on the device holds
        self._tiles: list[tuple[Tile, ...]] = [()] * len(self.issues)
        for buffer, tiles in held.items():
            memory = Memory(tiles, len(self.issues), sizes[buffer])
            if not memory.is_ample:
                self._memories.append(memory)
                for tile in tiles:
                    for n in tile.users:
                        self._tiles[n] = (*self._tiles[n], tile)

    def _run(self, first: int, end: int, begin: float) -> float:
        """Orders the instructions from ``first`` to ``end``, and returns when the last one ends."""
        self._begin = first
        queues = self._new_queues(first, end, begin)
        for n in range(first, end):
            self._consider(n)
        over, issues, choices, blocked = self._over, self.issues, self._choices, self._blocked
        latest, left = begin, end - first
        while left:
            start, queue = _earliest(queues)
            if not queue.ready:
                raise circular()
            _, n = heapq.heappop(queue.ready)
            queue.free = start  # nothing can start there before
            if n in choices:
                if over[n] >= 0:  # the other queue has run it
                    continue
                queue, start = self._choose(n)
            tiles = self._tiles[n]
            new = [tile for tile in tiles if not tile.is_allocated]
            if new and not self._allocate(n, new, start, queue):
                continue
            queue.free = queue.place(n, issues[n], start)
            if over[n] > latest:
                latest = over[n]
            self.order.append(n)
            left -= 1
            if n in blocked:
                self._go_on(blocked.pop(n))
            if self._memories:
                self._leave(tiles)
        return latest

    def _new_queues(self, first: int, end: int, begin: float) -> list[_Queue]:
        """Returns the queues of instructions, which are free at ``begin``."""
        self._queue_of: dict[str, _Queue] = {}
        for issue in self.issues[first:end]:
            for one in (issue, issue.on_scalar):
                if one is not None and one.queue not in self._queue_of:
                    place = self._engines.placer(one.engine)
                    self._queue_of[one.queue] = _Queue(place, begin)
        return list(self._queue_of.values())

    def _consider(self, n: int) -> None:
        """Gives an instruction to its queue if all that it waits for has run."""
        ready = self._over_at(n, self.found.waits[n])
        if ready < 0:
            return
        issue = self.issues[n]
        if n in self.found.follows:
            free = self._over_at(n, self.found.follows[n])
            if free < 0:
                return
            if issue.engine != "tensor":  # which loads the next operand while a pass runs
                ready = max(ready, free)
        if issue.on_scalar is not None:
            self._choices[n] = ready
            self._give(n, self._queue_of[issue.on_scalar.queue], ready)
        self._give(n, self._queue_of[issue.queue], ready)

    def _over_at(self, n: int, waits: list[int]) -> float:
        """Returns when waits of an instruction are over, or -1 if it is blocked until one runs."""
        over, ready = self._over, 0.0
        for m in reversed(waits):  # most often the last one is over last
            time = over[m]
            if time < 0:
                self._go_on(self._joints.block(n, m))
                return _UNKNOWN
            if time > ready:
                ready = time
        return ready

    def _go_on(self, ones: list[int]) -> None:
        """Considers instructions, and looks at joints."""
        while ones:
            one = ones.pop()
            if one >= 0:
                self._consider(one)
            else:
                ones += self._joints.look(~one)

    def _give(self, n: int, queue: _Queue, ready: float) -> None:
        """Adds an instruction to a queue, which can start it at ``ready``."""
        if ready <= queue.free:
            heapq.heappush(queue.ready, (self._places[n], n))
        else:
            heapq.heappush(queue.later, (ready, self._places[n], n))

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

    def _allocate(self, n: int, new: list[Tile], start: float, queue: _Queue) -> bool:
        """Allocates new tiles of an instruction, and returns whether it can run at ``start``.

        Otherwise the instruction waits for room, or until the last users of its memory have ended.
        """
        head, place = self._head, self._places[n]
        for memory in self._memories:
            tiles = [tile for tile in new if tile.memory is memory]
            if not tiles:
                continue
            is_behind = memory.parked and memory.parked[0][0] < place
            size, first = sum([tile.size for tile in tiles]), max([tile.first for tile in tiles])
            if is_behind or not memory.has_room(size, head, first):
                heapq.heappush(memory.parked, (place, n))
                return False
        users: list[Any] = []
        for tile in new:
            tile.is_allocated = True
            users += tile.memory.take(tile, head)
        if not users:
            return True
        self.found.add(n, users, REUSED)
        ready = max([self._over[m] for m in users])
        if ready <= start:
            return True
        if n in self._choices:
            self._choices[n] = max(self._choices[n], ready)
        heapq.heappush(queue.later, (ready, place, n))
        return False

    def _leave(self, tiles: tuple[Tile, ...]) -> None:
        """Frees tiles whose last user has run, and tries again what waits for memory."""
        for tile in tiles:
            tile.left -= 1
            if not tile.left:
                if tile.kept_until > self._begin:
                    self._kept.append(tile)
                else:
                    tile.memory.release(tile, self._ends(tile))
        over, by_place, head = self._over, self._by_place, self._head
        while head < len(by_place) and over[by_place[head]] >= 0:
            head += 1
        self._head = head
        for memory in self._memories:
            while memory.parked and head > memory.full_until:
                place, n = heapq.heappop(memory.parked)
                if over[n] < 0:  # else its other queue has run it
                    queue = self._taken.get(n) or self._queue_of[self.issues[n].queue]
                    heapq.heappush(queue.ready, (place, n))
                    break

    def _end_loop(self, end: int) -> None:
        for tile in [tile for tile in self._kept if tile.last < end]:
            self._kept.remove(tile)
            tile.memory.release(tile, self._ends(tile))

    def _ends(self, tile: Tile) -> list[Any]:
        """Returns waits for the ends of a tile's users: of in-order streams the last one each."""
        last: dict[Any, int] = {}
        for n in sorted(tile.users, key=self._over.__getitem__):
            issue = self.issues[n]
            last[n if issue.engine == "dma" or issue.may_overtake else issue.queue] = n
        waits = [~n for n in last.values()]
        found = self.found.joints.joined(waits)
        if found is not waits:
            self._over.insert(found[0], max([self._over[m] for m in waits]))
        return found

    def _wait_across_engines(self) -> None:
        """Adds waits where an instruction has left the stream that it had to follow."""
        for n, follows in self.found.follows.items():
            queue = self.issues[n].queue
            found = [
                m for m in self.found.joints.separate(follows) if self.issues[~m].queue != queue
            ]
            if found:
                self.found.add(n, found)


def _earliest(queues: list[_Queue]) -> tuple[float, _Queue]:
    """Returns the queue that starts its next instruction first, and the time of that start.

    The instructions that the queue can start then are ready.
    """
    start, found = math.inf, queues[0]
    for queue in queues:
        if queue.ready:
            time = queue.free
        elif queue.later:
            time = queue.later[0][0]
            if queue.free > time:
                time = queue.free
        else:
            continue
        if time < start:
            start, found = time, queue
    later = found.later
    while later and later[0][0] <= start:
        _, place, n = heapq.heappop(later)
        heapq.heappush(found.ready, (place, n))
    return start, found
