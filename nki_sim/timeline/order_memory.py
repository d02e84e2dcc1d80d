"""SBUF and PSUM while instructions are brought into another order.

A tile is allocated when its first instruction starts, and its memory is free again when its last
user has ended. An instruction that runs earlier than in program order makes the lives of its new
tiles longer: from the first instruction that has not run, the head of program order, to their own
first use. It gets memory only if each instruction in between, in program order, still finds room
for its own tiles. So the head can always run.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from nki_sim.instructions.device_loops import loops_of_tiles
from nki_sim.instructions.launch_state import LaunchState

from .memory_reuse import FreeMemory


class Tile:
    """A tile with its users.

    Attributes:
        memory: the memory in which it lies.
        size: bytes of a partition.
        users: the instructions that read or write it.
        left: how many of them have not run.
        first, last: its first and its last use, as places in program order.
        is_allocated: whether it has its memory.
        kept_until: the end of the last loop on the device that holds the tile, or 0.

    The argument ``places`` has the places of its users, in any order, and ``loops`` the first
    instruction and the end of each loop that holds the tile.
    """

    __slots__ = ("memory", "size", "users", "left", "first", "last", "is_allocated", "kept_until")

    def __init__(
        self, size: int, users: list[int], places: list[int], loops: list[tuple[int, int]]
    ) -> None:
        self.memory: Memory
        self.size = size
        self.users = users
        self.left = len(users)
        self.first, self.last, self.kept_until = min(places), max(places), 0
        if loops:
            self.first = min(self.first, *[first for first, _ in loops])
            self.kept_until = max([end for _, end in loops])
            self.last = max(self.last, self.kept_until - 1)
        self.is_allocated = False


class Memory:
    """A memory: its free bytes, and what it holds at each place in program order.

    Attributes:
        parked: the places of instructions that wait for room, as a heap.
        full_until: the last place at which the first of them found no room.
    """

    def __init__(self, tiles: list[Tile], count: int, capacity: int) -> None:
        change = [0] * (count + 1)
        for tile in tiles:
            tile.memory = self
            change[tile.first] += tile.size
            change[tile.last + 1] -= tile.size
        self._change = change
        self._held: Any = None  # in program order, and more where a tile is in use before; or None
        self._most = max(itertools.accumulate(change))  # in program order
        self._ahead: list[tuple[int, int]] = []  # a heap of tiles in use before their first place
        self._ahead_bytes = 0
        self._uncounted: list[tuple[int, int, int]] = []  # from, to, bytes that `_held` lacks
        self._capacity = capacity
        self._free = FreeMemory(capacity)
        self.parked: list[int] = []
        self.full_until = -1

    def has_room(self, size: int, head: int, first: int) -> bool:
        """Returns whether ``size`` bytes of tiles first used at ``first`` fit from ``head`` on."""
        if first <= head:
            return True
        while self._ahead and self._ahead[0][0] <= head:
            self._ahead_bytes -= heapq.heappop(self._ahead)[1]
        if self._most + self._ahead_bytes + size <= self._capacity:  # a look at each place is dear
            return True
        if self._held is None:
            self._held = np.cumsum(self._change)
        for begin, end, more in self._uncounted:
            self._held[begin:end] += more
        self._uncounted.clear()
        held = self._held[head:first]
        if int(held.max()) + size <= self._capacity:
            return True
        self.full_until = head + int(np.flatnonzero(held + size > self._capacity)[-1])
        return False

    def take(self, tile: Tile, head: int) -> list[int]:
        """Allocates a tile, and returns waits for the last users of its memory."""
        first, size = tile.first, tile.size
        if first > head:
            heapq.heappush(self._ahead, (first, size))
            self._ahead_bytes += size
            self._uncounted.append((head, first, size))
        return self._free.take(size)

    def release(self, tile: Tile, waits: list[int]) -> None:
        """Frees a tile, whose memory waits for the ends of its users."""
        self._free.release(tile.size, waits)


class OrderMemory:
    """The memories of a session that are too small for all tiles.

    Attributes:
        tiles: those of each instruction.
        limited: these memories.
        parked: how many instructions wait for room.
        begin: the first instruction of those that are brought into order now.
    """

    def __init__(
        self,
        session: LaunchState,
        places: Sequence[int],
        by_place: Sequence[int],
        over: list[float],
    ) -> None:
        self._places, self._by_place, self._over = places, by_place, over
        self._head = 0  # the place in program order of the first instruction that has not run
        self.begin = self.parked = 0
        self.limited: list[Memory] = []
        self._kept: list[Tile] = []  # tiles without users that a loop on the device holds
        self.tiles: list[list[Tile]] = [[] for _ in places]
        holders = loops_of_tiles(session)
        for buffer, capacity in session.partition_bytes.items():
            held = [one for one in session.storages if one.buffer is buffer and one.accesses]
            if sum([storage.held_bytes for storage in held]) > capacity:
                tiles = []
                for storage in held:
                    users = storage.users()
                    used = users if session.order is None else [places[n] for n in users]
                    tile = Tile(storage.held_bytes, users, used, holders.get(storage, []))
                    tiles.append(tile)
                    for n in users:
                        self.tiles[n].append(tile)
                self.limited.append(Memory(tiles, len(places), capacity))

    def allocate(self, n: int) -> list[int] | None:
        """Allocates the new tiles of an instruction, and returns waits for users of their memory.

        Returns None if there is no room; then `with_room` returns the instruction later.
        """
        head, place = self._moved_head(), self._places[n]
        new = [tile for tile in self.tiles[n] if not tile.is_allocated]
        if len(new) == 1:
            wanted = [(new[0].memory, new[0].size, new[0].first)]
        else:
            wanted = _sizes(new, self.limited)
        for memory, size, first in wanted:
            is_behind = memory.parked and memory.parked[0] < place
            if is_behind or not memory.has_room(size, head, first):
                heapq.heappush(memory.parked, place)
                self.parked += 1
                return None
        users: list[int] = []
        for tile in new:
            tile.is_allocated = True
            users += tile.memory.take(tile, head)
        return users

    def is_held(self, tile: Tile) -> bool:
        """Returns whether a tile without further users is held until a loop on the device ends."""
        if tile.kept_until > self.begin:
            self._kept.append(tile)
            return True
        return False

    def _moved_head(self) -> int:
        over, by_place = self._over, self._by_place
        head, end = self._head, len(by_place)
        while head < end and over[by_place[head]] >= 0:
            head += 1
        self._head = head
        return head

    def left_by_loop(self, end: int) -> list[Tile]:
        """Returns the tiles that are free when the loop ends that ends at an instruction."""
        found = [tile for tile in self._kept if tile.last < end]
        self._kept = [tile for tile in self._kept if tile.last >= end]
        return found

    def with_room(self) -> list[int]:
        """Returns the places of instructions for which there may be room now."""
        found, head = [], self._moved_head()
        for memory in self.limited:
            while memory.parked and head > memory.full_until:
                place = heapq.heappop(memory.parked)
                self.parked -= 1
                if self._over[self._by_place[place]] < 0:  # else its other queue has run it
                    found.append(place)
                    break
        return found


def _sizes(tiles: list[Tile], memories: list[Memory]) -> list[tuple[Memory, int, int]]:
    """Returns the memories of tiles with the bytes that they need and the last of their firsts."""
    found = []
    for memory in memories:
        own = [tile for tile in tiles if tile.memory is memory]
        if own:
            size, first = sum([tile.size for tile in own]), max([tile.first for tile in own])
            found.append((memory, size, first))
    return found
