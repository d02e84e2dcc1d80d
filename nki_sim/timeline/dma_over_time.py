"""The bytes that the DMA engines move over the time of a launch.

Each of the 16 engines of a core runs one transfer at a time. The bytes of a transfer are spread
evenly over the time for which its engines are busy with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from nki_sim.instructions.issue import Issue

from .placed import Placed


class Moved(NamedTuple):
    """A span in which some engines run a transfer, in nanoseconds and bytes a nanosecond."""

    core: int
    start_ns: float
    end_ns: float
    rate: float  # all bytes
    hbm_rate: float  # bytes read and written in HBM


def moved(placed: Placed) -> list[Moved]:
    """Returns the spans of all transfers of a launch, in the order in which engines ran them."""
    engines = [_Engines(placed) for _ in range(placed.cores)]
    found: list[Moved] = []
    for n in placed.sequence:
        issue = placed.issues[n]
        if issue.engine == "dma" and sum(issue.dma_ns) > 0:
            core = int(n >= placed.second_begin)
            found += engines[core].run(n, issue, core)
    return found


class _Engines:
    """The DMA engines of a core, with the same model as `engines`."""

    def __init__(self, placed: Placed) -> None:
        self._placed = placed
        self._free = [0.0] * placed.chip.dma_engines
        self._prepared = [0.0] * placed.chip.dma_engines
        self._shared = 0.0

    def run(self, n: int, issue: Issue, core: int) -> Iterator[Moved]:
        """Yields the spans of one transfer."""
        placed = self._placed
        first = placed.start[n] + issue.trigger_ns + placed.chip.dma_start_ns
        begins = [max(*at, first) for at in zip(self._free, self._prepared, strict=True)]
        ends = [begin + cost for begin, cost in zip(begins, issue.dma_ns, strict=True)]
        self._shared = max(first, self._shared) + issue.dma_shared_ns
        used = [engine for engine, cost in enumerate(issue.dma_ns) if cost]
        # If two cores share an HBM stack, a transfer can end later than its engines alone would.
        late = placed.end[n] - max(self._shared, *[ends[engine] for engine in used])
        late = late if late > 1e-6 * placed.end[n] else 0.0
        self._shared += late
        spans: Counter[tuple[float, float]] = Counter()
        interval = issue.prepared_ns
        for engine in used:
            self._free[engine] = ends[engine] + late
            self._prepared[engine] = max(first, self._prepared[engine]) + interval
            spans[begins[engine], ends[engine] + late] += 1
        total = sum([count * (end - begin) for (begin, end), count in spans.items()])
        for (begin, end), count in spans.items():
            share = count / total
            yield Moved(core, begin, end, share * issue.dma_bytes, share * issue.hbm_bytes)
