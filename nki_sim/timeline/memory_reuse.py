"""The waits of tiles that reuse the memory of earlier tiles.

Tiles are assigned memory in program order. A tile waits until the tiles whose memory it reuses are
finished. The memory that was freed first is reused first, as by a compiler that rotates buffers.
Where a kernel gives tiles their addresses, they also wait for earlier tiles at these addresses.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from nki_sim.enums import MemoryRegion
from nki_sim.hardware import NeuronCore

from .order_waits import share_memory
from .waits import REUSED


def add_memory_waits(session: Any) -> None:
    """Makes the first instruction on a tile wait for the tiles whose memory the tile reuses."""
    chip: NeuronCore = session.chip
    memories = {
        MemoryRegion.sbuf: _Memory(chip.sbuf_partition_bytes),
        MemoryRegion.psum: _Memory(chip.psum_partition_bytes),
    }
    trace = session.trace
    for n, change, storage in session.lifetimes:
        if not storage.last_users:  # used in later iterations of a loop only
            continue
        memory, size = memories[storage.buffer], storage.held_bytes
        if change == 2:
            memory.release(size, [~m for m in storage.last_users.values()])
        elif found := memory.take(size):
            session.note_waits(n, trace[n][1], REUSED)
            trace[n][1].extend(found)
    _add_waits_at_addresses(session)


def _add_waits_at_addresses(session: Any) -> None:
    """Makes users of a tile wait for earlier tiles that the kernel has put at its addresses."""
    placed = [one for one in session.storages if one.address is not None and one.last_users]
    placed.sort(key=lambda one: one.first_use)
    for i, tile in enumerate(placed):
        ends = [~n for n in tile.last_users.values()]
        for other in placed[i + 1 :]:
            if share_memory(tile, other):
                for n in {n if n >= 0 else ~n for n in other.accesses}:
                    waits = session.trace[n][1]
                    session.note_waits(n, waits, REUSED)
                    waits.extend(ends)


class _Memory:
    """The free memory of a partition in the order of release: (bytes, waits for its last users)."""

    def __init__(self, size: int) -> None:
        self.free: deque[tuple[int, list[int]]] = deque([(size, [])])

    def take(self, size: int) -> list[int]:
        waits: list[int] = []
        while size > 0 and self.free:
            available, users = self.free.popleft()
            waits += users
            if available > size:
                self.free.appendleft((available - size, users))
            size -= available
        return waits

    def release(self, size: int, users: list[int]) -> None:
        self.free.append((size, users))
