"""The share of each event of the critical path in the time of a launch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from . import waits
from .placed import LoopRun
from .recording import Event, Recording


@dataclass(frozen=True)
class Share:
    """An event of the critical path, and its share of the total time in modelled nanoseconds.

    The share ends where the next event of the path begins, or begins to use the DMA engines. The
    share of an event in the body of a loop includes all iterations. The last event of the body also
    has the time of the branches. ``once_ns`` is the part of ``ns`` that passes before the loop, or
    between this loop and the next, where ScalarE loads its tables.
    """

    event: Event
    ns: float
    once_ns: float = 0.0


def critical_shares(timeline: Recording) -> list[Share]:
    """Returns the critical path from first to last; the shares add up to ``timeline.total_ns``.

    For nested loops on the device, the branches of the outer loop may be missing.
    """
    found = []
    loops = timeline.loops
    path = timeline.critical_path
    begin, launch = 0.0, -1
    for n, event in enumerate(path):
        following = path[n + 1] if n + 1 < len(path) else None
        if event.launch != launch:
            launch = event.launch
            begin = timeline.span_of_launch(launch)[0]
        if following is None or following.launch != launch:
            end = timeline.span_of_launch(launch)[1]
        else:
            end = _begin_of(following, event)
        left = [loop for loop in loops if is_left(loop, event, following)]
        first = [loop.start_ns for loop in loops if event.index in range(loop.first, loop.end)]
        entered = max(begin, min(first, default=begin))
        before, after = entered - begin, 0.0
        if left and following is not None:
            outer = event.times / math.prod(loop.trips for loop in left)
            after = outer * max(0.0, end - max(loop.end_ns for loop in left))
        body = max(0.0, min([end, *(loop.iteration_end_ns for loop in left)]) - entered)
        found.append(Share(event, before + body * event.times + after, before + after))
        begin = max(begin, end)
    return found


def _begin_of(event: Event, before: Event) -> float:
    """Returns the time at which the share of ``before`` ends and that of ``event`` begins."""
    if event.wait in (waits.DMA_ENGINES, waits.HBM):
        return min(max(event.start_ns, before.end_ns), event.end_ns)
    if event.wait == waits.DMA_COPIES:
        return event.end_ns - event.moves_ns
    return event.start_ns


def is_left(loop: LoopRun, event: Event, following: Event | None) -> bool:
    """Returns whether a loop ends between an event and the next one of the path."""
    inside = range(loop.first, loop.end)
    return event.index in inside and (following is None or following.index not in inside)
