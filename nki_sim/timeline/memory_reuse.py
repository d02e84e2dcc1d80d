"""The waits of tiles that reuse the memory of earlier tiles.

Tiles are assigned memory in program order. A tile waits until the tiles whose memory it reuses are
finished. Where a kernel gives tiles their addresses, they also wait for earlier tiles at these
addresses, in whatever order the instructions run.
"""

from __future__ import annotations

from typing import Any

from nki_sim.instructions.launch_state import LaunchState
from nki_sim.rules.accesses import FEW, Joint

from .free_memory import FreeMemory
from .waits import REUSED


def add_memory_waits(session: LaunchState) -> None:
    """Makes the first instruction on a tile wait for the tiles whose memory the tile reuses."""
    sizes = session.partition_bytes
    memories = {memory: FreeMemory(size) for memory, size in sizes.items()}
    trace = session.recorded()
    for n, change, storage in session.lifetimes:
        if not storage.last_users:  # used in later iterations of a loop only
            continue
        memory, size = memories[storage.buffer], storage.held_bytes
        if change == 2:
            memory.release(size, [~m for m in storage.last_users.values()])
        elif found := memory.take(size):
            session.note_waits(n, trace[n][1], REUSED)
            trace[n][1].extend(found)


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
