"""Hazards between the two programs of a launch: unordered accesses to a shared tensor.

A core_barrier waits for earlier accesses to its data, and later accesses to its data wait for the
barrier ("other engines will not be blocked": nki/api/nki/isa/__init__.py). So an access of one
program comes before an access of the other one if a chain of dependencies leads through a
core_barrier or sendrecv. If both access an element, one access is a write, and neither comes first,
the result is undefined. There is an exception: two writes of the same bytes to the same place have
the same result in any order, and a program that has written these bytes reads them in any case.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.errors import NkiValidationError
from nki_sim.instructions.instruction_notes import noted_line
from nki_sim.instructions.launch_state import LaunchState
from nki_sim.views.layout import extent
from nki_sim.views.storage import Storage
from nki_sim.views.tensor import NkiTensor

from .accesses import Joint, Wait, region
from .hazards import overlaps

_COMPARED_BYTES = 64 << 20  # views that span more are compared by their bounds and strides only
_MANY_PAIRS = 10_000  # pairs of accesses, from which on all views are compared at once first


@dataclass(frozen=True, slots=True)
class Access:
    """An instruction of one program that reads or writes a view of a shared tensor.

    ``iteration`` is the first instruction of the device loop around it, and the number of the
    iteration. ``written`` is a digest of the written bytes, if these are known and the same in
    every iteration.
    """

    number: int
    instruction: str
    view: NkiTensor
    is_write: bool
    iteration: tuple[int, int] = (-1, 0)
    written: bytes | None = None

    def __str__(self) -> str:
        return f"{'writes' if self.is_write else 'reads'} it by {self.instruction}"


class CoreState(LaunchState):
    """The state of one of two programs, with its accesses to each shared tensor, by number."""

    accesses: dict[int, list[Access]]


def check_hazards(
    sessions: Sequence[CoreState],
    meetings: list[tuple[int, int]],
    tensors: list[list[Storage | None]],
) -> None:
    """Raises NkiValidationError for the first two conflicting accesses that nothing orders."""
    order = functools.cache(lambda: _Order(sessions, meetings))
    for number, (storage, _) in enumerate(tensors):
        first, second = [session.accesses.get(number, []) for session in sessions]
        if not _is_shared(first, second):
            continue
        for a, b in _touching(first, second, order):
            if _share_bytes([a.view], [b.view]):
                assert storage is not None
                raise _hazard(sessions, storage, a, b)


def _is_shared(first: list[Access], second: list[Access]) -> bool:
    """Returns whether one program may write what the other program accesses."""
    writes = [[a.view for a in found if a.is_write] for found in (first, second)]
    if len(first) * len(second) < _MANY_PAIRS:
        return bool((writes[0] and second) or (writes[1] and first))
    everything = [[a.view for a in found] for found in (first, second)]
    return _share_bytes(writes[0], everything[1]) or _share_bytes(writes[1], everything[0])


def _hazard(
    sessions: Sequence[CoreState], storage: Storage, a: Access, b: Access
) -> NkiValidationError:
    lines = [noted_line(s.notes, one.number) for s, one in zip(sessions, (a, b), strict=True)]
    places = [f" ({Path(line.file).name}:{line.line})" if line else "" for line in lines]
    value = (
        f"{storage.describe()}, instruction {a.number} of program 0 {a}{places[0]}, "
        f"and instruction {b.number} of program 1 {b}{places[1]}"
    )
    rule = (
        "no nisa.core_barrier orders these accesses to the same elements of shared HBM: make each "
        "program work on its own share, by nl.program_id(0), or add a barrier"
    )
    error = NkiValidationError((a if a.is_write else b).instruction, "the tensor", value, rule)
    error.source = lines[0] if a.is_write else lines[1]
    return error


def _touching(
    first: list[Access], second: list[Access], order: Callable[[], _Order]
) -> Iterator[tuple[Access, Access]]:
    """Yields unordered accesses of both programs to overlapping regions, one of them a write."""
    live: tuple[list[Access], list[Access]] = ([], [])
    same = _EqualWrites(first, second)
    everything = [(region(a.view)[0], 0, a) for a in first]
    everything += [(region(b.view)[0], 1, b) for b in second]
    for low, side, access in sorted(everything, key=lambda entry: entry[:2]):
        others = live[1 - side]
        others[:] = [other for other in others if region(other.view)[1] > low]
        for other in others:
            a, b = (access, other) if side == 0 else (other, access)
            # The order is expensive, and most programs work on their own shares.
            is_touching = (a.is_write or b.is_write) and overlaps(a.view, b.view)
            if is_touching and not order().is_ordered(a, b) and not same.is_harmless(a, b):
                yield a, b
        live[side].append(access)


class _EqualWrites:
    """The writes of both programs by place and bytes, as far as the bytes are known."""

    def __init__(self, first: list[Access], second: list[Access]) -> None:
        self._firsts: tuple[dict[Any, int], ...] = ({}, {})
        for found, accesses in zip(self._firsts, (first, second), strict=True):
            for access in accesses:
                if access.is_write and access.written is not None:
                    found.setdefault(_place(access), access.number)

    def is_harmless(self, a: Access, b: Access) -> bool:
        """Returns whether the order of an access of program 0 and one of program 1 is irrelevant.

        It is if both write the same bytes, or if the reading program has written before what the
        other program writes.
        """
        if a.is_write and b.is_write:
            return a.written is not None and _place(a) == _place(b)
        write, read, reader = (a, b, 1) if a.is_write else (b, a, 0)
        if write.written is None:
            return False
        return self._firsts[reader].get(_place(write), read.number) < read.number


def _place(access: Access) -> tuple[Any, ...]:
    t = access.view
    return t.shape, t.strides, t.offset, t.dtype, access.written


def _share_bytes(some: list[NkiTensor], others: list[NkiTensor]) -> bool:
    """Returns whether some views of a storage in HBM share a byte with other views."""
    if not some or not others:
        return False
    sizes = [(t, dtypes.itemsize(t.dtype)) for t in some + others]
    low = min([t.offset * size for t, size in sizes])
    high = max([(t.offset + extent(t.shape, t.strides)) * size for t, size in sizes])
    if high - low > _COMPARED_BYTES:
        return True
    flags = np.zeros(high - low, np.bool_)
    for t in some:
        _bytes_of(t, flags, low)[...] = True
    return any([_bytes_of(t, flags, low).any() for t in others])


def _bytes_of(t: NkiTensor, flags: Array, low: int) -> Any:
    # The first flag is for byte ``low``.
    size = dtypes.itemsize(t.dtype)
    strides = (*[s * size for s in t.strides], 1)
    return np.ndarray((*t.shape, size), np.bool_, flags, t.offset * size - low, strides)


class _Order:
    """The meetings before and after each instruction of both programs, as sets of bits."""

    def __init__(self, sessions: Sequence[CoreState], meetings: list[tuple[int, int]]) -> None:
        self._nodes = [_Nodes(session) for session in sessions]
        self._before = [[0] * len(nodes.waits) for nodes in self._nodes]
        self._after = [[0] * len(nodes.waits) for nodes in self._nodes]
        self._loops = _meetings_of_loops(sessions, meetings)
        start = [0, 0]
        for k, meeting in enumerate(meetings):
            places = [self._place(program, meeting[program]) for program in range(2)]
            for program in range(2):
                self._follow(program, start[program], places[program] + 1)
            both = 1 << k
            for program in range(2):
                both |= self._before[program][places[program]]
            for program in range(2):
                self._before[program][places[program]] = both
                self._after[program][places[program]] = 1 << k
            start = [place + 1 for place in places]
        for program in range(2):
            self._follow(program, start[program], len(self._before[program]))
            self._lead(program)

    def _place(self, program: int, n: int) -> int:
        return self._nodes[program].of_instructions[n]

    def _follow(self, program: int, start: int, stop: int) -> None:
        before, waits = self._before[program], self._nodes[program].waits
        for n in range(start, stop):
            for m in waits[n]:
                before[n] |= before[m]

    def _lead(self, program: int) -> None:
        after, waits = self._after[program], self._nodes[program].waits
        for n in range(len(waits) - 1, -1, -1):
            if after[n]:
                for m in waits[n]:
                    after[m] |= after[n]

    def is_ordered(self, a: Access, b: Access) -> bool:
        """Returns whether an access of program 0 and an access of program 1 are ordered."""
        mine, other = self._place(0, a.number), self._place(1, b.number)
        if a.iteration != b.iteration and (a.iteration[0], b.iteration[0]) in self._loops:
            # A core begins an iteration when it has ended the iteration before. So it is enough
            # that the earlier access comes before a meeting in the loop, or the later one after it.
            inside = self._loops[a.iteration[0], b.iteration[0]]
            if a.iteration[1] < b.iteration[1]:
                return bool((self._after[0][mine] | self._before[1][other]) & inside)
            return bool((self._after[1][other] | self._before[0][mine]) & inside)
        return bool(
            self._after[0][mine] & self._before[1][other]
            or self._after[1][other] & self._before[0][mine]
        )


def _meetings_of_loops(
    sessions: Sequence[CoreState], meetings: list[tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """Returns the meetings in each loop as a set of bits.

    The key is the number of the loop's first instruction in program 0 and in program 1.
    """
    found = {}
    loops = [dict.fromkeys(loop for _, loop in session.loop_marks) for session in sessions]
    for pair in zip(*loops, strict=False):
        inside = 0
        for k, meeting in enumerate(meetings):
            if all(loop.first <= n < loop.end for loop, n in zip(pair, meeting, strict=True)):
                inside |= 1 << k
        found[pair[0].first, pair[1].first] = inside
    return found


class _Nodes:
    """The instructions of a program, and before each one the joints that it is the first to need.

    Attributes:
        waits: the nodes for which each node waits: for data, for edges, and for its engine.
        of_instructions: the node of each instruction.
    """

    def __init__(self, session: LaunchState) -> None:
        self.waits: list[list[int]] = []
        self.of_instructions: list[int] = []
        self._of_joints: dict[Joint, int] = {}
        last: dict[str, int] = {}
        for issue, waits, _ in session.recorded():
            own = self._found(waits)
            if issue.engine != "dma":
                if issue.queue in last:
                    own.append(last[issue.queue])
                last[issue.queue] = len(self.waits)
            self.of_instructions.append(len(self.waits))
            self.waits.append(own)
        for n, m in session.extra_edges:
            if m < n:
                self.waits[self.of_instructions[n]].append(self.of_instructions[m])

    def _found(self, waits: Sequence[Wait]) -> list[int]:
        nodes = self.of_instructions
        return [
            self._joint(m) if isinstance(m, Joint) else nodes[m if m >= 0 else ~m] for m in waits
        ]

    def _joint(self, joint: Joint) -> int:
        """Returns the node of a joint, behind those of the joints before it."""
        new: list[Joint] = []
        before: Joint | None = joint
        while before is not None and before not in self._of_joints:
            new.append(before)
            before = before.before
        for one in reversed(new):
            found = self._found(one.waits)
            if one.before is not None:
                found.append(self._of_joints[one.before])
            self._of_joints[one] = len(self.waits)
            self.waits.append(found)
        return self._of_joints[joint]
