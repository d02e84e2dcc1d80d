"""What the DMA engines move over a launch.

Each of the 16 engines of a core takes one transfer at a time; a transfer's bytes are spread evenly
over the time that its engines have it, together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .issue import Issue
    from .schedule import Schedule


class Moved(NamedTuple):
    """What some of a transfer's engines do at one time, in nanoseconds and bytes a nanosecond."""

    core: int
    start_ns: float
    end_ns: float
    rate: float  # of all bytes
    hbm_rate: float  # of those read and written in HBM


def moved(schedule: Schedule) -> list[Moved]:
    """All of a launch: its transfers in the order in which they got the engines."""
    engines = [_Engines(schedule) for _ in range(schedule.cores)]
    found: list[Moved] = []
    for n in schedule.placed:
        issue = schedule.trace[n][0]
        if issue.engine == "dma" and sum(issue.dma_ns) > 0:
            core = int(n >= schedule.split)
            found += engines[core].run(n, issue, core)
    return found


class _Engines:
    """The DMA engines of a core, as `engines` has them."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._free = [0.0] * schedule.chip.dma_engines
        self._shared = 0.0

    def run(self, n: int, issue: Issue, core: int) -> Iterator[Moved]:
        """One transfer."""
        schedule = self._schedule
        first = schedule.start[n] + issue.trigger_ns + schedule.chip.dma_start_ns
        begins = [max(free, first) for free in self._free]
        ends = [begin + cost for begin, cost in zip(begins, issue.dma_ns, strict=True)]
        self._shared = max(first, self._shared) + issue.dma_shared_ns
        used = [engine for engine, cost in enumerate(issue.dma_ns) if cost]
        # Two cores that share a stack of HBM make a transfer later than its engines do.
        late = schedule.end[n] - max(self._shared, *[ends[engine] for engine in used])
        late = late if late > 1e-6 * schedule.end[n] else 0.0
        self._shared += late
        spans: Counter[tuple[float, float]] = Counter()
        for engine in used:
            self._free[engine] = ends[engine] + late
            spans[begins[engine], ends[engine] + late] += 1
        total = sum([count * (end - begin) for (begin, end), count in spans.items()])
        for (begin, end), count in spans.items():
            share = count / total
            yield Moved(core, begin, end, share * issue.dma_bytes, share * issue.hbm_bytes)
