"""The order of a kernel's instructions as the compiler may choose it.

Without ``nl.no_reorder`` the compiler's scheduler may reorder independent operations
(nki/api/nki/language: no_reorder). A list scheduler stands for it. Whenever a queue is free, it
runs the instruction that can start first; at equal times it keeps program order. An instruction
starts after all instructions that it depends on:

- reads and writes of one tile, as `hazards` tracks them, also within an engine's stream;
- edges of depends_on and with_schedule, and neighbours in a ``no_reorder`` block;
- on one queue, instructions that use the engine's state, and those that meet the other core.

A tile is allocated when its first instruction starts. An instruction that needs memory earlier than
in program order gets it only if all later instructions, in program order, would still find memory.
So the compiler never needs to spill, and the order never ends in a deadlock.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from nki_sim.enums import ON_CHIP, MemoryRegion
from nki_sim.hardware import DMA_WRITTEN_BYTES
from nki_sim.rules.accesses import FEW, Joint, separate

from .engines import Engines
from .waits import REUSED

DMA_WRITTEN = "written by DMA"  # the part of SBUF that DMA fills, which has a limit of its own
_UNKNOWN = -1.0


class _Tile:
    """A tile: its users, the memories that it needs, and its life in program order."""

    __slots__ = ("sizes", "users", "left", "first", "last", "is_allocated", "is_kept")

    def __init__(self, storage: Any, users: list[int], rank: Sequence[int] | None) -> None:
        self.users = users
        self.left = len(users)  # users that have not run
        self.sizes: dict[Any, int] = {storage.buffer: storage.held_bytes}
        if storage.is_dma_written and storage.buffer is MemoryRegion.sbuf:
            self.sizes[DMA_WRITTEN] = storage.free_bytes
        places = users if rank is None else [rank[n] for n in users]
        self.first = min(storage.first_use, places[0]) if rank is None else min(places)
        self.last = max(storage.last_use, places[-1]) if rank is None else max(places)
        self.is_allocated = False
        self.is_kept = rank is None and self.last > users[-1]  # by a loop on the device


class _Memory:
    """The free bytes of a memory, and what it would hold at each instruction in program order."""

    def __init__(self, tiles: list[_Tile], kind: Any, count: int, capacity: int) -> None:
        change = np.zeros(count + 1, dtype=np.int64)
        for tile in tiles:
            if kind in tile.sizes:
                change[tile.first] += tile.sizes[kind]
                change[tile.last + 1] -= tile.sizes[kind]
        self.held = np.cumsum(change)
        self.capacity = max(capacity, int(self.held.max()))
        self.free: deque[tuple[int, list[int]]] = deque([(self.capacity, [])])
        self.parked: list[tuple[int, int]] = []  # (rank, instruction) that wait for memory
        self.full_until = -1
        # Whether all tiles fit at once, so that there is nothing to keep account of.
        self.is_ample = sum([tile.sizes.get(kind, 0) for tile in tiles]) <= self.capacity

    def has_room(self, size: int, head: int, first: int) -> bool:
        """Returns whether a tile of program position ``first`` can be allocated at ``head``.

        If not, ``full_until`` is the last position at which there is no room for the tile.
        """
        if first <= head:
            return True
        held = self.held[head:first]
        if int(held.max()) + size <= self.capacity:
            return True
        self.full_until = head + int(np.flatnonzero(held + size > self.capacity)[-1])
        return False

    def take(self, size: int, head: int, first: int) -> list[int]:
        """Allocates a tile, and returns waits for the last users of its memory."""
        if first > head:
            self.held[head:first] += size
        waits: list[int] = []
        while size > 0 and self.free:
            available, users = self.free.popleft()
            waits += users
            if available > size:
                self.free.appendleft((available - size, users))
            size -= available
        return waits


class _Queue:
    """An engine's or a DMA queue's instructions: those that can start, and those that can later."""

    __slots__ = ("place", "free", "ready", "later")

    def __init__(self, place: Any, free: float) -> None:
        self.place = place
        self.free = free
        self.ready: list[tuple[int, int]] = []  # (rank, instruction)
        self.later: list[tuple[float, int, int]] = []  # (time, rank, instruction)

    def next_start(self) -> float:
        """Returns when the queue can start its next instruction."""
        if self.ready:
            return self.free
        return max(self.free, self.later[0][0]) if self.later else np.inf


class CompilerOrder:
    """An order of a session's instructions as the compiler may choose it.

    Attributes:
        order: the numbers of the instructions, first to last.
        waits: for each instruction what it waits for: data, edges, its own stream, and memory.
        wait_kinds: of an instruction the kinds of its waits, as in a session.
        joints: the waits that instructions share.
    """

    def __init__(self, session: Any) -> None:
        trace = session.trace
        count = len(trace)
        self.issues = [issue for issue, _, _ in trace]
        self.waits = [list(waits) for _, waits, _ in trace]
        self.wait_kinds = {n: [*kinds] for n, kinds in session.wait_kinds.items()}
        self.order: list[int] = []
        self._follows: dict[int, list[Any]] = {}  # what an instruction has to follow in its queue
        self._rank = None
        if session.order is not None:
            self._rank = [0] * count
            for place, n in enumerate(session.order):
                self._rank[n] = place
        self._over = [_UNKNOWN] * (2 * count)
        self.joints: list[Joint] = [j for storage in session.storages for j in storage.joints]
        tiles = self._add_own_waits(session)
        for joint in self.joints:
            joint.begin(self._over)
        self._memories = {
            MemoryRegion.sbuf: session.chip.sbuf_partition_bytes,
            MemoryRegion.psum: session.chip.psum_partition_bytes,
            DMA_WRITTEN: DMA_WRITTEN_BYTES,
        }
        self._memories = {
            kind: _Memory(tiles, kind, count, size) for kind, size in self._memories.items()
        }
        self._limited = [one for one in self._memories.values() if not one.is_ample]
        self._tiles: list[Sequence[_Tile]] = [()] * count
        if self._limited:
            for tile in tiles:
                for n in tile.users:
                    self._tiles[n] = (*self._tiles[n], tile)
        self._engines = Engines(session.chip, session.banks)
        self._by_rank = list(session.order or range(count))
        self._next = self._by_rank[0] if count else -1
        self._head = 0  # place in program order of the first instruction that has not run
        self._choices: dict[int, float] = {}  # instructions of two engines: when they can start
        self._taken: dict[int, _Queue] = {}  # the queue that has one of them
        self._kept: list[_Tile] = []  # that a loop on the device holds until it ends
        self._blocked: dict[int, list[int]] = {}
        begin = 0.0
        position = 0
        for end in [*[n for n, _ in session.loop_marks], count]:
            if end > position:
                begin = self._run(position, end, begin)
                position = end
            for tile in [tile for tile in self._kept if tile.last < end]:
                self._kept.remove(tile)
                self._free(tile)
        if self._choices:
            self._wait_across_engines()

    def _add_own_waits(self, session: Any) -> list[_Tile]:
        """Adds waits within streams, which program order satisfies, and returns the tiles."""
        tiles = []
        for storage in session.storages:
            if storage.buffer not in ON_CHIP or not storage.accesses:
                continue
            users = list(dict.fromkeys([n if n >= 0 else ~n for n in storage.accesses]))
            tiles.append(_Tile(storage, users, self._rank))
            self._add_waits_of(storage.accesses)
        last: dict[str, int] = {}
        for n in session.order or range(len(self.issues)):
            issue = self.issues[n]
            if issue.meets is not None or issue.in_turn:
                if issue.queue in last:
                    self._follow(n, ~last[issue.queue])
                last[issue.queue] = n
        return tiles

    def _add_waits_of(self, accesses: list[int]) -> None:
        """Makes writes of a tile wait for the reads before them, and for writes of their stream."""
        readers: list[int] = []
        before: dict[str, list[Any]] = {}
        written: dict[str, int] = {}
        for access in accesses:
            if access >= 0:
                readers.append(access)
                continue
            n = ~access
            if readers:
                before = self._grouped([m for m in readers if m != n])
                readers, written = [], {}
            issue = self.issues[n]
            stream = "" if issue.engine == "dma" else issue.stream
            for other, found in before.items():
                if other == stream:
                    self._follow(n, *found)
                else:
                    self._wait_for(n, *found)
            if stream:
                if stream in written and written[stream] != n:
                    self._follow(n, ~written[stream])
                written[stream] = n

    def _grouped(self, readers: list[int]) -> dict[str, list[Any]]:
        """Returns waits for instructions by their in-order stream, which is "" for DMA."""
        found: dict[str, list[Any]] = {}
        for m in readers:
            issue = self.issues[m]
            found.setdefault("" if issue.engine == "dma" else issue.stream, []).append(~m)
        for stream, waits in found.items():
            if len(waits) > FEW:
                joint = Joint(None, waits)
                self.joints.append(joint)
                found[stream] = [joint]
        return found

    def _follow(self, n: int, *waits: Any) -> None:
        """Makes instruction ``n`` come after others of its own stream, which then is in order."""
        self._follows.setdefault(n, []).extend(waits)

    def _wait_for(self, n: int, *waits: Any) -> None:
        """Makes instruction ``n`` wait for data."""
        if n in self.wait_kinds:
            self._note_kind(n, "")
        self.waits[n] += waits

    def _note_kind(self, n: int, kind: str) -> None:
        """Gives a kind to what is appended to the waits of instruction ``n`` from now on."""
        self.wait_kinds.setdefault(n, []).append((len(self.waits[n]), kind))

    def _run(self, first: int, end: int, begin: float) -> float:
        """Orders the instructions from ``first`` to ``end``, and returns when the last one ends."""
        queues: dict[str, _Queue] = {}
        for n in range(first, end):
            issue = self.issues[n]
            for one in (issue, issue.on_scalar):
                if one is not None and one.queue not in queues:
                    queues[one.queue] = _Queue(self._engines.placer(one.engine), begin)
        self._queues = queues
        for n in range(first, end):
            self._consider(n)
        over, order, tiles = self._over, self.order, self._tiles
        issues, blocked, choices = self.issues, self._blocked, self._choices
        latest = begin
        all_queues = list(queues.values())
        left = end - first
        while left:
            start, queue = np.inf, None
            for one in all_queues:
                if one.ready:
                    time = one.free
                elif one.later:
                    time = one.later[0][0]
                    if one.free > time:
                        time = one.free
                else:
                    continue
                if time < start:
                    start, queue = time, one
            assert queue is not None, "the program order always has an instruction that can run"
            later = queue.later
            while later and later[0][0] <= start:
                _, rank, n = heapq.heappop(later)
                heapq.heappush(queue.ready, (rank, n))
            rank, n = heapq.heappop(queue.ready)
            if n in choices:
                queue, start = self._choose(n, queue, start)
                if queue is None:
                    continue
            held = tiles[n]
            for tile in held:
                if not tile.is_allocated:
                    break
            else:
                tile = None
            if tile is not None and not self._allocate(n, rank, start, queue):
                continue
            _, ended, seen, queue.free, _, _ = queue.place(n, issues[n], start)
            over[~n], over[n] = ended, seen
            if seen > latest:
                latest = seen
            order.append(n)
            left -= 1
            if n in blocked:
                for m in blocked.pop(n):
                    self._consider(m)
            has_ended = False
            for tile in held:
                tile.left -= 1
                if not tile.left:
                    has_ended = True
                    self._end(tile)
            if n == self._next or has_ended:
                self._go_on()
        return latest

    def _consider(self, n: int) -> None:
        """Gives an instruction to its queue if all that it waits for has run."""
        over, ready = self._over, 0.0
        for m in reversed(self.waits[n]):  # the latest is over last, most often
            time = over[m]
            if time > ready:
                ready = time
            elif time < 0:
                m = index(m)
                self._blocked.setdefault(m if m >= 0 else ~m, []).append(n)
                return
        for m in self._follows.get(n, ()):
            time = over[m]
            if time < 0:
                m = index(m)
                self._blocked.setdefault(m if m >= 0 else ~m, []).append(n)
                return
            if time > ready and self.issues[n].engine != "tensor":
                ready = time
        rank = n if self._rank is None else self._rank[n]
        issue = self.issues[n]
        queue = self._queues[issue.queue]
        if ready <= queue.free:
            heapq.heappush(queue.ready, (rank, n))
        else:
            heapq.heappush(queue.later, (ready, rank, n))
        if issue.on_scalar is not None:
            heapq.heappush(self._queues[issue.on_scalar.queue].later, (ready, rank, n))
            self._choices[n] = ready

    def _choose(self, n: int, queue: _Queue, start: float) -> tuple[_Queue | None, float]:
        """Returns the queue that ends an instruction of two engines first, and when it starts there.

        The queue is None if the other queue has taken the instruction.
        """
        if self._over[n] >= 0:
            return None, start
        if n in self._taken:
            return (queue, start) if self._taken[n] is queue else (None, start)
        issue = self.issues[n]
        vector, scalar = self._queues[issue.queue], self._queues[issue.on_scalar.queue]
        ready = self._choices[n]
        starts = max(vector.free, ready), max(scalar.free, ready)
        if starts[1] + issue.on_scalar.cost_ns < starts[0] + issue.cost_ns:
            self.issues[n], self._taken[n] = issue.on_scalar, scalar
            return scalar, starts[1]
        self._taken[n] = vector
        return vector, starts[0]

    def _wait_across_engines(self) -> None:
        """Adds waits where an instruction has left the stream that it had to follow."""
        for n, found in self._follows.items():
            queue = self.issues[n].queue
            for m in separate(found):
                if self.issues[~m].queue != queue:
                    self._wait_for(n, m)

    def _allocate(self, n: int, rank: int, start: float, queue: _Queue) -> bool:
        """Allocates the tiles of an instruction, and returns whether it can run at ``start``.

        Otherwise the instruction waits for memory, or until the memory's last users have ended.
        """
        new = [tile for tile in self._tiles[n] if not tile.is_allocated]
        head = self._head
        wanted: dict[Any, tuple[int, int]] = {}
        for tile in new:
            for kind, size in tile.sizes.items():
                if not self._memories[kind].is_ample:
                    total, first = wanted.get(kind, (0, 0))
                    wanted[kind] = total + size, max(first, tile.first)
        for kind, (size, first) in wanted.items():
            memory = self._memories[kind]
            is_late = memory.parked and memory.parked[0][0] < rank
            if is_late or not memory.has_room(size, head, first):
                heapq.heappush(memory.parked, (rank, n))
                return False
        found: list[int] = []
        for tile in new:
            tile.is_allocated = True
            for kind, size in tile.sizes.items():
                memory = self._memories[kind]
                if not memory.is_ample:
                    found += memory.take(size, head, tile.first)
        if not found:
            return True
        self._note_kind(n, REUSED)
        self.waits[n] += found
        ready = max([self._over[m] for m in found])
        if ready <= start:
            return True
        heapq.heappush(queue.later, (ready, rank, n))
        return False

    def _end(self, tile: _Tile) -> None:
        """Frees a tile whose last user has run, unless a loop on the device holds the tile."""
        if tile.is_kept:
            self._kept.append(tile)
        else:
            self._free(tile)

    def _go_on(self) -> None:
        """Moves the head of program order, and tries again what waits for memory."""
        head, over, by_rank = self._head, self._over, self._by_rank
        while head < len(by_rank) and over[by_rank[head]] >= 0:
            head += 1
        self._head = head
        self._next = by_rank[head] if head < len(by_rank) else -1
        for memory in self._limited:
            if memory.parked and head > memory.full_until:
                rank, m = heapq.heappop(memory.parked)
                heapq.heappush(self._queues[self.issues[m].queue].ready, (rank, m))

    def _free(self, tile: _Tile) -> None:
        for kind, size in tile.sizes.items():
            self._memories[kind].free.append((size, [~m for m in tile.users]))
