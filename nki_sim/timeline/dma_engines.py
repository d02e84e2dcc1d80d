"""When the DMA engines of one NeuronCore are free.

DMA transfers share 16 engines and a core's bandwidth of HBM. An engine prepares one transfer after
another, while it moves the bytes of earlier ones. Engines for which every transfer of a launch
costs the same are always in the same state, so that one of them stands for all of these.
"""

from __future__ import annotations

from collections.abc import Iterable

from nki_sim.hardware import NeuronCore
from nki_sim.instructions.issue import Issue

from . import waits


class DmaEngines:
    """The DMA engines of one core, which run a transfer as soon as they are free."""

    def __init__(self, chip: NeuronCore, issues: Iterable[Issue]) -> None:
        transfers = [issue for issue in issues if issue.dma_ns]
        self._start_ns = chip.dma_start_ns
        groups = alike([issue.dma_ns for issue in transfers])
        # For each transfer the groups of engines that it uses, with their costs.
        self._costs = {
            issue: [(n, issue.dma_ns[e]) for n, e in enumerate(groups) if issue.dma_ns[e]]
            for issue in transfers
        }
        self._free = [0.0] * len(groups)
        self._prepared = [0.0] * len(groups)  # when an engine can prepare a transfer
        self._user = [-1] * len(groups)
        self.busy = [0.0] * len(groups)
        self._shared = 0.0  # when the core's share of HBM is free
        self._shared_user = -1
        self.shared_busy = 0.0

    def run(self, n: int, issue: Issue, triggered: float) -> tuple[float, int, str]:
        """Runs transfer ``n`` on the engines of its rows, no faster than the core's bandwidth.

        Returns when the last engine ends, and what delayed it: a transfer and one of ``waits``, or
        (-1, "").
        """
        first = triggered + self._start_ns
        shared, by, why = self._shared, -1, ""
        if shared > first:
            finish, by, why = shared + issue.dma_shared_ns, self._shared_user, waits.HBM
        else:
            finish = first + issue.dma_shared_ns
        self._shared, self._shared_user = finish, n
        self.shared_busy += issue.dma_shared_ns
        free, prepared, users, busy = self._free, self._prepared, self._user, self.busy
        interval = issue.prepared_ns
        # An engine prepares the transfer from ``first`` on, or when it has prepared the one before.
        for engine, cost in self._costs.get(issue, ()):
            begin, ready = free[engine], prepared[engine]
            is_idle = begin < first and ready < first
            end = cost + (first if is_idle else begin if begin >= ready else ready)
            if end > finish:
                finish, by, why = end, -1, ""
                if not is_idle:
                    by, why = users[engine], waits.DMA_ENGINES
                    if ready > begin:
                        why = waits.DMA_COPIES
            free[engine] = end
            prepared[engine] = (ready if ready > first else first) + interval
            users[engine] = n
            busy[engine] += cost
        return finish, by, why

    def delay(self, issue: Issue, late: float) -> None:
        """Makes the transfer that ran last end later."""
        self._shared += late
        self.shared_busy += late
        for engine, _ in self._costs.get(issue, ()):
            self._free[engine] += late
            self.busy[engine] += late


def alike(rows: list[tuple[float, ...]]) -> list[int]:
    """Returns the first place of each group of places with the same values in all rows."""
    first: dict[tuple[float, ...], int] = {}
    for place, column in enumerate(zip(*rows, strict=True)):
        first.setdefault(column, place)
    return list(first.values())
