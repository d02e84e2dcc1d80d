"""How much of SBUF and PSUM is in use over the time of a launch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nki_sim.enums import ON_CHIP, MemoryRegion

from .placed import Placed

if TYPE_CHECKING:
    from nki_sim.views.tensor import Storage


Steps = list[tuple[float, float]]  # (nanoseconds, the value from then on)


# The memory of tiles, by memory: lists of bytes a partition, and of the times of the first use and
# of the end of the last use. An object for each tile would be a burden.
Held = dict[MemoryRegion, tuple[list[int], list[float], list[float]]]


def held_memory(session: Any, placed: Placed, first: int = 0) -> Held:
    """Returns the memory of the tiles of a session, whose instructions begin at ``first``.

    A tile that the body of a loop allocates is held in the first iteration. A tile from outside of
    the loop that the body uses is held until the loop ends.
    """
    found: Held = {memory: ([], [], []) for memory in ON_CHIP}
    start, end = placed.start, placed.end
    until = _ends_of_loops(session, placed, first)
    for storage in session.storages:
        users = storage.last_users
        if users and storage.buffer in ON_CHIP:
            last = max([end[first + n] for n in users.values()])
            if until:
                last = max(last, until.get(storage, 0.0))
            sizes, begins, ends = found[storage.buffer]
            sizes.append(storage.held_bytes)
            begins.append(start[first + storage.first_use])
            ends.append(last)
    return found


def _ends_of_loops(session: Any, placed: Placed, first: int) -> dict[Storage, float]:
    """Returns for each tile the end of the last loop that uses it from outside."""
    found: dict[Storage, float] = {}
    # Of nested loops with the same instructions the outer one remains.
    ends = {(run.first, run.end): run.end_ns for run in placed.loops}
    for loop in {loop for _, loop in session.loop_marks}:
        end = ends[first + loop.first, first + loop.end]
        for storage in loop.held:
            found[storage] = max(end, found.get(storage, 0.0))
    return found


def steps(spans: Iterable[tuple[float, float, float]]) -> Steps:
    """Returns the sum over time of spans (start, end, value), with a step where it changes."""
    changes: dict[float, list[tuple[int, float]]] = {}
    for start, end, value in spans:
        if end > start:
            changes.setdefault(start, []).append((1, value))
            changes.setdefault(end, []).append((-1, -value))
    found: Steps = []
    count, total = 0, 0.0
    for time in sorted(changes):
        count += sum([change for change, _ in changes[time]])
        # Exactly zero where there are no spans, whatever the rounding of the sums before.
        total = total + sum([value for _, value in changes[time]]) if count else 0.0
        if not found or found[-1][1] != total:
            found.append((time, total))
    return found
