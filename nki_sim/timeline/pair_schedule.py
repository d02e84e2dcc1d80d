"""Start and end of every instruction of a launch on two NeuronCores with one HBM stack.

Each core has its own engines, including its own 16 DMA engines. An instruction at which the
programs meet starts when both cores have reached it, and ends when it has ended on both. The two
cores share the bandwidth of one HBM stack.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence

from nki_sim.hardware import NeuronCore
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState

from .engines import Engines
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

    Instruction n of the second core has the number of the first core's instructions + n. Both
    instructions of a meeting wait for the waits of either, others for both.
    """
    split, later = [len(one.issues) for one in ordered]
    joints_behind = later, split + len(ordered[0].joints)
    waits: list[Iterable[int]] = []
    joints: list[list[int]] = []
    wait_kinds: dict[int, list[tuple[int, str]]] = {}
    before: dict[int, int] = {}
    for core, one in enumerate(ordered):
        behind = core * split
        moved = _moved(one, behind, joints_behind[core]).__getitem__
        partners = {pair[core]: pair[1 - core] + (split - behind) for pair in meetings}
        waits += _joined(one, partners, moved if core or one.joints else None)
        joints += [[*map(moved, found)] for found in one.joints]
        wait_kinds |= {behind + n: kinds for n, kinds in one.wait_kinds.items()}
        before |= {behind + n: moved(m) for n, m in _queued_before(one, partners)}
    for a, b in meetings:
        both = a, split + b
        found = [m for n in both for m in waits[n]] + [before[n] for n in both if n in before]
        for n in both:
            waits[n], wait_kinds[n] = found, []
    issues = ordered[0].issues + ordered[1].issues
    cores = [Core(one, n * split, ordered[n].order) for n, one in enumerate(sessions)]
    return Reading(issues, waits, cores, joints, wait_kinds)


def _moved(ordered: Ordered, behind: int, joints_behind: int) -> list[int]:
    """Returns the waits of a launch in the place of those of one core."""
    count = len(ordered.issues)
    joints = range(count + joints_behind, count + joints_behind + len(ordered.joints))
    return [*range(behind, behind + count), *joints, *range(-count - behind, -behind)]


def _joined(
    ordered: Ordered, partners: dict[int, int], moved: Callable[[int], int] | None
) -> Iterator[Iterable[int]]:
    """Yields the waits of one core's instructions, and for waits for meetings the partners.

    Without ``moved`` the numbers of the core are those of the launch.
    """
    met = {n: [m] for n, m in partners.items()} | {~n: [~m] for n, m in partners.items()}
    for joint, waits in enumerate(ordered.joints, len(ordered.issues)):
        if not met.keys().isdisjoint(waits):
            met[joint] = [other for m in waits for other in met.get(m, ())]
    of_others = set(met).isdisjoint
    for waits in ordered.waits:
        own = waits if moved is None else map(moved, waits)
        if met and not of_others(waits):
            yield [*own, *[other for m in waits for other in met.get(m, ())]]
        else:
            yield own


def _queued_before(ordered: Ordered, meetings: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yields (meeting, the instruction before it in its queue, as a wait)."""
    order, issues = ordered.order, ordered.issues
    for place, n in enumerate(order):
        if n in meetings:
            queue = issues[n].queue
            before = (m for m in reversed(order[:place]) if issues[m].queue == queue)
            for m in itertools.islice(before, 1):
                yield n, m if issues[n].engine == "dma" else ~m


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

    def _transfer(self, n: int, issue: Issue, start: float) -> float:
        """Runs a transfer, which HBM may delay. A sendrecv is also a barrier [isa sendrecv]."""
        if issue.meets is not None:
            start += self.chip.core_barrier_ns
        free = super()._transfer(n, issue, start)
        if issue.hbm_bytes:
            finish = self._over[~n]
            alone = max(*issue.dma_ns, issue.dma_shared_ns)
            late = self._hbm.take(finish - alone, finish, issue.hbm_bytes) - finish
            if late > 0:
                self._dma.delay(issue, late)
                self._over[n] += late
                self._over[~n] += late
        return free
