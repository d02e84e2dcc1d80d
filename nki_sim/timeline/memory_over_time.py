"""How much of SBUF and PSUM is in use over the time of a launch."""

from __future__ import annotations

from collections.abc import Iterable

from nki_sim.base.enums import ON_CHIP, MemoryRegion
from nki_sim.instructions.device_loops import loops_of_tiles
from nki_sim.instructions.launch_state import LaunchState

from .placed import Placed

OverTime = list[tuple[float, float]]  # (nanoseconds, the value from then on)


# The memory of tiles, by memory: lists of bytes a partition, and of the times of the first use and
# of the end of the last use. An object for each tile would be a burden.
Held = dict[MemoryRegion, tuple[list[int], list[float], list[float]]]


class TileUses:
    """Which instructions use the tiles of a session, and the loops that hold these tiles."""

    def __init__(self, session: LaunchState) -> None:
        holders = loops_of_tiles(session)
        self._tiles: list[tuple[MemoryRegion, int, list[int], list[tuple[int, int]]]] = [
            (storage.buffer, storage.held_bytes, storage.accesses, holders.get(storage, []))
            for storage in session.storages
            if storage.buffer in ON_CHIP and storage.accesses
        ]

    def held(self, placed: Placed, first: int = 0) -> Held:
        """Returns the memory of the tiles; instructions of the session begin at ``first``.

        A tile that the body of a loop allocates is held in the first iteration. A tile from outside
        of the loop that the body uses is held until the loop ends.
        """
        found: Held = {memory: ([], [], []) for memory in ON_CHIP}
        start, end = placed.start, placed.end
        # Of nested loops with the same instructions the outer one remains.
        ends = {(run.first - first, run.end - first): run.end_ns for run in placed.loops}
        for memory, size, accesses, loops in self._tiles:
            users = [first + (n if n >= 0 else ~n) for n in accesses]
            sizes, begins, lasts = found[memory]
            sizes.append(size)
            begins.append(min([start[n] for n in users]))
            lasts.append(max([*[end[n] for n in users], *[ends[loop] for loop in loops]]))
        return found


def summed(spans: Iterable[tuple[float, float, float]]) -> OverTime:
    """Returns the sum over time of spans (start, end, value), with a step where it changes."""
    changes: dict[float, list[tuple[int, float]]] = {}
    for start, end, value in spans:
        if end > start:
            changes.setdefault(start, []).append((1, value))
            changes.setdefault(end, []).append((-1, -value))
    found: OverTime = []
    count, total = 0, 0.0
    for time in sorted(changes):
        count += sum([change for change, _ in changes[time]])
        # Exactly zero where there are no spans, whatever the rounding of the sums before.
        total = total + sum([value for _, value in changes[time]]) if count else 0.0
        if not found or found[-1][1] != total:
            found.append((time, total))
    return found
