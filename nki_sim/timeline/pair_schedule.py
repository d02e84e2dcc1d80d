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

    Instruction n of the second core has the number of the first core's instructions + n.
    """
    one, other = ordered
    split = len(one.issues)
    issues = one.issues + other.issues
    behind = len(other.issues)  # by how much numbers of joints of the first core grow
    joints = _moved(one.joints, split, 0, behind)
    later = split + len(joints)
    joints += _moved(other.joints, behind, split, later)
    waits = _moved(one.waits, split, 0, behind) if one.joints else list(one.waits)
    waits += _moved(other.waits, behind, split, later)
    wait_kinds = one.wait_kinds | {split + n: kinds for n, kinds in other.wait_kinds.items()}
    orders: list[Sequence[int]] = [one.order, [split + n for n in other.order]]
    _join([(a, split + b) for a, b in meetings], orders, issues, waits, joints, wait_kinds)
    first, second = sessions
    cores = [Core(first, 0, one.order), Core(second, split, other.order)]
    return Reading(issues, waits, cores, joints, wait_kinds)


def _moved(waits: list[list[int]], count: int, behind: int, joints_behind: int) -> list[list[int]]:
    """Returns waits of one core with the numbers of a launch.

    The core has ``count`` instructions, whose numbers grow, and joints with higher numbers.
    """
    if joints_behind == behind:
        return [[m + behind if m >= 0 else m - behind for m in found] for found in waits]
    return [
        [m - behind if m < 0 else m + (behind if m < count else joints_behind) for m in found]
        for found in waits
    ]


def _join(
    meetings: Meetings,
    orders: list[Sequence[int]],
    issues: list[Issue],
    waits: list[list[int]],
    joints: list[list[int]],
    wait_kinds: dict[int, list[tuple[int, str]]],
) -> None:
    """Makes both instructions of a meeting wait for the waits of either, others for both."""
    if not meetings:
        return
    partner = {n: m for a, b in meetings for n, m in ((a, b), (b, a))}
    others = {n: [m] for n, m in partner.items()} | {~n: [~m] for n, m in partner.items()}
    for joint, found in enumerate(joints, len(issues)):
        if not others.keys().isdisjoint(found):
            others[joint] = [other for m in found for other in others.get(m, ())]
    for n, found in enumerate(waits):
        if not others.keys().isdisjoint(found):
            waits[n] = [*found, *[other for m in found for other in others.get(m, ())]]
    before = {n: m for order in orders for n, m in _queued_before(order, partner, issues)}
    for a, b in meetings:
        waits[a] = waits[b] = waits[a] + waits[b] + [before[n] for n in (a, b) if n in before]
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
