"""The waits of tiles that reuse the memory of earlier tiles.

The memory that was freed first is used first, as by a compiler that rotates buffers. Tiles are
assigned memory in program order. A tile waits until the tiles whose memory it reuses are
finished. Where a kernel gives tiles their addresses, they also wait for earlier tiles at these
addresses, in whatever order the instructions run.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from nki_sim.instructions.launch_state import LaunchState
from nki_sim.rules.accesses import FEW, Joint

from .waits import REUSED


class FreeMemory:
    """Pieces of free memory, each with waits for the last users of what was there before."""

    def __init__(self, size: int) -> None:
        self._pieces: deque[tuple[int, list[int]]] = deque([(size, [])])

    def take(self, size: int) -> list[int]:
        """Takes bytes, and returns waits for their last users."""
        waits: list[int] = []
        while size > 0 and self._pieces:
            available, users = self._pieces.popleft()
            waits += users
            if available > size:
                self._pieces.appendleft((available - size, users))
            size -= available
        return waits

    def release(self, size: int, waits: list[int]) -> None:
        """Frees bytes, which the next user may overwrite when the waits are over."""
        self._pieces.append((size, waits))


def add_memory_waits(
    session: LaunchState, waits: list[list[int]], kinds: dict[int, list[tuple[int, str]]]
) -> None:
    """Makes the first instruction on a tile wait for the tiles whose memory the tile reuses.

    The lists of an instruction's waits and of their kinds stay as they are: others replace them.
    """
    sizes = session.partition_bytes
    memories = {memory: FreeMemory(size) for memory, size in sizes.items()}
    for n, change, storage in session.lifetimes:
        if not storage.last_users:  # used in later iterations of a loop only
            continue
        memory, size = memories[storage.buffer], storage.held_bytes
        if change == 2:
            memory.release(size, [~m for m in storage.last_users.values()])
        elif found := memory.take(size):
            kinds[n] = [*kinds.get(n, ()), (len(waits[n]), REUSED)]
            waits[n] = [*waits[n], *found]


def add_address_waits(session: LaunchState) -> None:
    """Makes users of a tile wait for all users of earlier tiles that lie at its addresses."""
    trace = session.recorded()
    placed = [one for one in session.storages if one.address is not None and one.accesses]
    placed.sort(key=lambda one: one.first_use)
    for i, tile in enumerate(placed):
        ends: list[Any] = [~n for n in tile.users()]
        if len(ends) > FEW:
            ends = [Joint(None, ends)]
            tile.joints.extend(ends)
        for other in placed[i + 1 :]:
            if tile.shares_memory(other):
                for n in other.users():
                    session.note_waits(n, trace[n][1], REUSED)
                    trace[n][1].extend(ends)
