"""Start and end of every instruction of a launch on two NeuronCores with one HBM stack.

Each core has its own engines, including its own 16 DMA engines. An instruction at which the
programs meet starts when both cores have reached it, and ends when it has ended on both. The two
cores share the bandwidth of one HBM stack.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from nki_sim.hardware import NeuronCore
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState
from nki_sim.rules.accesses import separate

from .engines import Engines, Place
from .reading import Core, Ordered, Reading

Meetings = Sequence[tuple[int, int]]  # the two instructions of each core_barrier and sendrecv
_SLOT_NS = 1000.0  # the bandwidth of a stack is distributed in slots of a microsecond


def pair_engines(chip: NeuronCore, banks: list[dict[int, tuple[Hashable, ...]]]) -> list[Engines]:
    """Returns the engines of both cores, with the PSUM banks that instructions use alone."""
    hbm = SharedHbm(chip.hbm_stack_bytes_per_ns)
    return [_Engines(chip, hbm, one) for one in banks]


def pair_reading(
    sessions: Sequence[LaunchState], meetings: Meetings, ordered: list[Ordered]
) -> Reading:
    """Returns the instructions of both cores as one reading.

    Instruction n of the second core has the number of the first core's instructions + n.
    """
    one, other = ordered
    split = len(one.issues)
    waits, wait_kinds = _separated(one)
    others, later = _separated(other)
    waits += [[m + split if m >= 0 else m - split for m in found] for found in others]
    wait_kinds |= {split + n: kinds for n, kinds in later.items()}
    issues = one.issues + other.issues
    orders: list[Sequence[int]] = [one.order, [split + n for n in other.order]]
    _join([(a, split + b) for a, b in meetings], orders, issues, waits, wait_kinds)
    first, second = sessions
    cores = [Core(first, 0, one.order), Core(second, split, other.order)]
    return Reading(issues, waits, cores, [], wait_kinds)


def _separated(ordered: Ordered) -> tuple[list[Any], dict[int, list[tuple[int, str]]]]:
    """Returns the waits of one core without joints, and the kinds of its waits."""
    separated, wait_kinds = [], dict(ordered.wait_kinds)
    for n, waits in enumerate(ordered.waits):
        found = separate(waits)
        if found is not waits and n in wait_kinds:
            kinds = wait_kinds[n]
            wait_kinds[n] = [(len(separate(waits[:first])), kind) for first, kind in kinds]
        separated.append(list(found))
    return separated, wait_kinds


def _join(
    meetings: Meetings,
    orders: list[Sequence[int]],
    issues: list[Issue],
    waits: list[list[int]],
    wait_kinds: dict[int, list[tuple[int, str]]],
) -> None:
    """Makes both instructions of a meeting wait for the waits of either, others for both."""
    if not meetings:
        return
    partner = {n: m for a, b in meetings for n, m in ((a, b), (b, a))}
    for found in waits:
        for m in list(found):
            other = partner.get(m if m >= 0 else ~m)
            if other is not None:
                found.append(other if m >= 0 else ~other)
    before = {n: m for order in orders for n, m in _queued_before(order, partner, issues)}
    for a, b in meetings:
        both = waits[a] + waits[b] + [before[n] for n in (a, b) if n in before]
        waits[a][:] = waits[b][:] = both
        wait_kinds[a] = wait_kinds[b] = []


def _queued_before(order: Sequence[int], partner: dict[int, int], issues: list[Issue]) -> Any:
    """Yields (meeting, the instruction before it in its queue, as a wait)."""
    last: dict[str, int] = {}
    for n in order:
        issue = issues[n]
        if n in partner and issue.queue in last:
            m = last[issue.queue]
            yield n, m if issue.engine == "dma" else ~m
        last[issue.queue] = n


class SharedHbm:
    """The bytes that one HBM stack can still move in each microsecond."""

    def __init__(self, bytes_per_ns: float) -> None:
        self._slot_bytes = bytes_per_ns * _SLOT_NS
        self._left: dict[int, float] = {}

    def take(self, begin: float, finish: float, size: float) -> float:
        """Returns the end of a transfer that alone would run from ``begin`` to ``finish``."""
        rate = size / (finish - begin)
        slot = int(begin // _SLOT_NS)
        time, is_late = begin, False
        while True:
            end = (slot + 1) * _SLOT_NS
            left = self._left.get(slot, self._slot_bytes)
            wanted = min(size, rate * (end - time))
            given = min(wanted, left)
            self._left[slot] = left - given
            is_late = is_late or given < wanted
            if size - given <= 1e-9 * rate:
                return time + size / rate if is_late else finish
            size -= given
            time, slot = end, slot + 1


class _Engines(Engines):
    """The engines of one of two cores."""

    def __init__(
        self, chip: NeuronCore, hbm: SharedHbm, banks: dict[int, tuple[Hashable, ...]]
    ) -> None:
        super().__init__(chip, banks)
        self._hbm = hbm

    def _transfer(self, n: int, issue: Issue, start: float) -> Place:
        """Runs a transfer, which HBM may delay. A sendrecv is also a barrier [isa sendrecv]."""
        if issue.meets is not None:
            start += self.chip.core_barrier_ns
        start, finish, done, free, held_by, why = super()._transfer(n, issue, start)
        if not issue.hbm_bytes:
            return start, finish, done, free, held_by, why
        alone = max(*issue.dma_ns, issue.dma_shared_ns)
        late = self._hbm.take(finish - alone, finish, issue.hbm_bytes) - finish
        if late > 0:
            self._dma_shared += late
            self._dma_shared_busy += late
            for engine, cost in enumerate(issue.dma_ns):
                if cost:
                    self._dma_free[engine] += late
                    self._dma_busy[engine] += late
        return start, finish + late, done + late, free, held_by, why
