"""SBUF and PSUM while instructions are brought into another order.

A tile is allocated when its first instruction starts, and its memory is free again when its last
user has ended. An instruction that runs earlier than in program order makes the lives of its new
tiles longer: from the first instruction that has not run, the head of program order, to their own
first use. It gets memory only if each instruction in between, in program order, still finds room
for its own tiles. So the head can always run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nki_sim.rules.accesses import Wait

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

    The argument ``loops`` has the first instruction and the end of each loop that holds the tile.
    """

    __slots__ = ("memory", "size", "users", "left", "first", "last", "is_allocated", "kept_until")

    def __init__(
        self, size: int, users: list[int], places: Sequence[int], loops: list[tuple[int, int]]
    ) -> None:
        self.memory: Memory
        self.size = size
        self.users = users
        self.left = len(users)
        used = [places[n] for n in users]
        self.first = min([*used, *[first for first, _ in loops]])
        self.last = max([*used, *[end - 1 for _, end in loops]])
        self.is_allocated = False
        self.kept_until = max([end for _, end in loops], default=0)


class Memory:
    """A memory: its free bytes, and what it holds at each place in program order.

    Attributes:
        is_ample: whether all tiles fit at once, so that no tile waits for another.
        parked: instructions that wait for room, as a heap of (place, instruction).
        full_until: the last place at which the first of them found no room.
    """

    def __init__(self, tiles: list[Tile], count: int, capacity: int) -> None:
        change = np.zeros(count + 1, dtype=np.int64)
        for tile in tiles:
            tile.memory = self
            change[tile.first] += tile.size
            change[tile.last + 1] -= tile.size
        self._held = np.cumsum(change)
        self._capacity = capacity
        self._free = FreeMemory(capacity)
        self.is_ample = sum([tile.size for tile in tiles]) <= capacity
        self.parked: list[tuple[int, int]] = []
        self.full_until = -1

    def has_room(self, size: int, head: int, first: int) -> bool:
        """Returns whether ``size`` bytes of tiles first used at ``first`` fit from ``head`` on."""
        if first <= head:
            return True
        held = self._held[head:first]
        if int(held.max()) + size <= self._capacity:
            return True
        self.full_until = head + int(np.flatnonzero(held + size > self._capacity)[-1])
        return False

    def take(self, tile: Tile, head: int) -> list[Any]:
        """Allocates a tile, and returns waits for the last users of its memory."""
        if tile.first > head:
            self._held[head : tile.first] += tile.size
        return self._free.take(tile.size)

    def release(self, tile: Tile, waits: list[Wait]) -> None:
        """Frees a tile, whose memory waits for the ends of its users."""
        self._free.release(tile.size, waits)
