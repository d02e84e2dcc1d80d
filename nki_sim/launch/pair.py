"""A launch on two NeuronCores: two programs of one kernel that share HBM (LNC = 2).

Each program has its own session, with SBUF, PSUM, private HBM, instructions and checks of capacity.
The programs share the kernel's arguments and the tensors that both allocate in nl.shared_hbm. They
take turns in running up to the next core_barrier or sendrecv. Sources:
nki/get-started/about/lnc.rst, and core_barrier and sendrecv in nki/api/nki/isa/__init__.py.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import ON_CHIP, MemoryRegion
from nki_sim.base.running import running
from nki_sim.errors import NkiValidationError
from nki_sim.instructions import indirect
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.issue_cache import shared_cache
from nki_sim.instructions.launch_state import Operands
from nki_sim.isa.cores import PROGRAMS, Sendrecv
from nki_sim.rules.core_hazards import Access, CoreState, check_hazards
from nki_sim.views import shadow
from nki_sim.views.storage import Storage
from nki_sim.views.tensor import NkiTensor

from .alternation import Alternation
from .launch_arguments import Args, Kwargs
from .session import Session

_SHARED = MemoryRegion.shared_hbm
_SAME_LOOPS = (
    "both programs must run the same loops on the device with the same numbers of iterations "
    "(NCC_IXGM002; nki/get-started/about/lnc.rst)"
)


@dataclass
class _Arrival:
    """A program at a core_barrier or sendrecv, with the tile that it sends."""

    number: int
    issue: Issue
    dst: NkiTensor
    sent: Any = None


class CoreSession(Session, CoreState):
    """The session of one of two programs."""

    def __init__(self, pair: Pair, program: int, dry: bool, kernel: Any) -> None:
        super().__init__(dry, record=True, kernel=kernel)
        self.pair = pair
        self.program, self.programs = program, PROGRAMS
        # Whether core_barrier is legal depends on the number of programs.
        self.issues = shared_cache(self.chip, dtypes.is_precise(), PROGRAMS)
        self.shared: dict[Storage, int] = {}  # numbers of the tensors that both programs share
        self.named: dict[str, int] = {}  # how many shared tensors were allocated, by name
        self.accesses: dict[int, list[Access]] = {}
        self.loops: list[tuple[str, int, int]] = []  # kind, trips, depth
        self.unwritten: list[tuple[str, Storage, str, str]] = []
        self.is_running = True

    def _back(self, storage: Storage, np_type: np.dtype[Any]) -> None:
        if storage.buffer is not _SHARED or self.pair.share(self, storage):
            super()._back(storage, np_type)

    def hold_constant(self, tensor: NkiTensor, array: Array) -> None:
        """Fills a tensor; raises NkiValidationError if the other program has other values."""
        others = self.pair.tensors[self.shared[tensor.storage]][1 - self.program]
        if others is not None and not self.dry:
            held = tensor.array()
            if held.tobytes() != np.ascontiguousarray(array, held.dtype).tobytes():
                rule = "both cores share it, so its values must be the same in both programs"
                value = tensor.storage.describe()
                raise NkiValidationError("nl.shared_constant", "constant", value, rule)
        super().hold_constant(tensor, array)

    def enters_loop(self, kind: str, trips: int) -> None:
        """Notes a loop, for a comparison with the loops of the other program."""
        depth, loop = 0, self.device_loop
        while loop is not None:
            depth, loop = depth + 1, loop.outer
        self.loops.append((kind, trips, depth))

    def run(self, issue: Issue, writes: Operands, reads: Operands) -> None:
        """Computes, except for instructions at which the two programs meet."""
        if issue.meets is None:
            super().run(issue, writes, reads)

    def _record(self, n: int, issue: Issue, writes: Operands, reads: Operands, name: str) -> None:
        super()._record(n, issue, writes, reads, name)
        self._repeat(n, issue, writes, reads)

    def _repeat(self, n: int, issue: Issue, writes: Operands, reads: Operands) -> None:
        """Handles what concerns the other program, in every iteration of a loop."""
        if issue.meets is not None:
            self.pair.meet(self, n, issue, writes[0], reads)
            return
        for t in reads:
            if t.buffer is _SHARED:
                self._note_access(n, issue, t, is_write=False)
        for t in writes:
            if t.buffer is _SHARED:
                self._note_access(n, issue, t, is_write=True)

    def _note_access(self, n: int, issue: Issue, t: NkiTensor, is_write: bool) -> None:
        found = self.accesses.setdefault(self.shared[t.storage], [])
        loop = None if self.device_loop is None else self.device_loop.outermost
        iteration = (-1, 0) if loop is None else (loop.first, loop.trips)
        if t._dynamic is None:
            # Two iterations of a loop stand for any two iterations.
            if loop is None or self.device_loop.run <= 2:
                written = None
                if is_write and loop is None and not self.dry:
                    written = hashlib.blake2b(t.array().tobytes(), digest_size=16).digest()
                found.append(Access(n, issue.instruction, t, is_write, iteration, written))
        elif not self.dry:  # a dry run has no indices
            for view in indirect.places(t, issue):
                found.append(Access(n, issue.instruction, view, is_write, iteration))

    def tell_unwritten(self, instruction: str, storage: Storage, value: str, rule: str) -> None:
        """Warns of a shared tensor only at the end, after the check of hazards that explain it."""
        if self.is_running and storage in self.shared:
            self.unwritten.append((instruction, storage, value, rule))
        else:
            super().tell_unwritten(instruction, storage, value, rule)

    def _tell(self, text: str) -> None:
        if text not in self.pair.warned:
            self.pair.warned.add(text)
            super()._tell(text)


class Pair:
    """The two programs of a launch, and where they met.

    Attributes:
        sessions: the sessions of the two programs.
        tensors: for each shared tensor, its storages in both programs.
        meetings: for every core_barrier and sendrecv, the numbers of the two instructions.
    """

    def __init__(self, func: Any, dry: bool) -> None:
        self.warned: set[str] = set()
        self.tensors: list[list[Storage | None]] = []
        self.meetings: list[tuple[int, int]] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._open: list[_Arrival | None] = []
        self._alternation = Alternation()
        self.func = func
        self.sessions = [CoreSession(self, n, dry, func) for n in range(PROGRAMS)]
        self.sessions[1].waived = self.sessions[0].waived

    def run(self, args: Args, kwargs: Kwargs) -> list[Any]:
        """Runs both programs, and returns their results. ``args`` are tensors of the first one."""
        others = self._twin(args), self._twin(kwargs)
        return self._alternation.run(
            (lambda: self._program(0, args, kwargs), lambda: self._program(1, *others))
        )

    def check(self, results: list[object]) -> None:
        """Checks the rules that concern both programs."""
        self._check_loops()
        for both in self.tensors:
            for program, storage in enumerate(both):
                if storage is None:
                    other = both[1 - program]
                    assert other is not None
                    raise _not_shared(f"{other.describe()} in program {1 - program} only")
        if not _is_same(self.sessions, *results):
            value = f"{_text(results[0])} in program 0, {_text(results[1])} in program 1"
            rule = "both programs must return the same views of the same tensors in shared HBM"
            raise NkiValidationError("return", "the result", value, rule)
        self._share_marks()
        check_hazards(self.sessions, self.meetings, self.tensors)
        for session in self.sessions:
            session.is_running = False
            for found in session.unwritten:
                session.tell_unwritten(*found)

    def _program(self, number: int, args: Args, kwargs: Kwargs) -> Any:
        with running(self.sessions[number]):
            return self.func(*args, **kwargs)

    def finish(self, outputs: list[list[NkiTensor]]) -> dict[str, int]:
        """Runs the final checks of both sessions, and returns the peaks of the launch."""
        first, second = [
            session.finish(tensors) for session, tensors in zip(self.sessions, outputs, strict=True)
        ]
        peaks = {name: max(size, second[name]) for name, size in first.items()}
        private = sum(
            s.free_bytes
            for s in self.sessions[1].storages
            if s.buffer not in ON_CHIP and s.buffer is not _SHARED
        )
        peaks["hbm_scratch_bytes"] = first["hbm_scratch_bytes"] + private
        return peaks

    def release(self) -> None:
        """Releases both sessions, like `Session.release`."""
        for session in self.sessions:
            session.accesses = {}
            session.release()
        self.sessions = []  # because the sessions refer to this object

    # Shared tensors.

    def _twin(self, value: Any) -> Any:
        """Returns the second program's view of an argument, on the data of the first program."""
        if isinstance(value, dict):
            return {name: self._twin(item) for name, item in value.items()}
        if isinstance(value, tuple) and not isinstance(value, NkiTensor):
            return tuple([self._twin(item) for item in value])
        if not isinstance(value, NkiTensor):
            return value
        first, second = self.sessions
        second.holds_int64 = first.holds_int64
        storage = Storage(value.shape, value.dtype, _SHARED, "")
        storage.is_argument = storage.written = True
        storage.data = value.storage.data
        second.storages.append(storage)
        first.shared[value.storage] = second.shared[storage] = len(self.tensors)
        self.tensors.append([value.storage, storage])
        return NkiTensor(value.shape, value.dtype, storage, _SHARED)

    def share(self, session: CoreSession, storage: Storage) -> bool:
        """Joins the tensors that both programs allocate in shared HBM.

        Tensors with the same name, or without a name, are joined in the order of allocation.
        Returns True for the first program that allocates the tensor.
        """
        count = session.named[storage.name] = session.named.get(storage.name, 0) + 1
        number = self._numbers.setdefault((storage.name, count), len(self.tensors))
        session.shared[storage] = number
        if number == len(self.tensors):
            self.tensors.append([None, None])
        both = self.tensors[number]
        both[session.program] = storage
        other = both[1 - session.program]
        if other is None:
            return True
        if (other.shape, other.dtype) != (storage.shape, storage.dtype):
            value = f"{storage.describe()} in program {session.program}, {other.describe()} in "
            raise _not_shared(f"{value}program {1 - session.program}")
        storage.data = other.data
        return False

    def _share_marks(self) -> None:
        for a, b in self.tensors:
            if a is not None and b is not None and a.written is not b.written:
                a.written = b.written = shadow.union(a.written, b.written)

    # Where the programs meet.

    def meet(
        self, session: CoreSession, n: int, issue: Issue, dst: NkiTensor, reads: Operands
    ) -> None:
        """Waits until the other program reaches the same core_barrier or sendrecv; exchanges."""
        program = session.program
        arrival = _Arrival(n, issue, dst)
        if reads and not session.dry:
            arrival.sent = reads[0].array().copy()
        if self._open:
            meeting, self._open = self._open, []
            meeting[program] = arrival
            self._check_meeting(meeting)
            first, second = [a.number for a in meeting if a]
            if (first, second) not in self.meetings:  # not noted in an earlier iteration of a loop
                self.meetings.append((first, second))
            self._share_marks()
        else:
            meeting = self._open = [None, None]
            meeting[program] = arrival
            self._alternation.wait(program)
        if meeting[1 - program] is None:
            self._check_loops(is_over=False)
            rule = (
                f"program {1 - program} has ended without this instruction, so that the launch "
                "waits forever: both programs must issue the same core_barrier and sendrecv, in "
                "loops with the same numbers of iterations (NCC_IXGM002)"
            )
            raise NkiValidationError(issue.instruction, "the waiting program", program, rule)
        if reads:
            if not session.dry:
                sender = meeting[issue.meets.recv_from_rank]
                assert sender is not None
                dst.array()[...] = sender.sent
            dst.storage.written = shadow.marked(dst.storage.written, dst)

    def _check_meeting(self, meeting: list[_Arrival | None]) -> None:
        """Checks that the two instructions match. Otherwise the chip would wait forever."""
        a, b = meeting
        assert a is not None and b is not None
        first, second = self.sessions
        is_barrier = not isinstance(a.issue.meets, Sendrecv)
        if a.issue.instruction != b.issue.instruction:
            wrong = a.issue.instruction, b.issue.instruction, "both wait at the same instruction"
        elif is_barrier:
            if first.shared[a.dst.storage] == second.shared[b.dst.storage]:
                return
            wrong = a.dst.storage.describe(), b.dst.storage.describe(), "data is the same tensor"
        else:
            found = _disagreement(a, b)
            if found is None:
                return
            wrong = found
        self._check_loops(is_over=False)
        value = f"{wrong[0]} in program 0, {wrong[1]} in program 1"
        rule = f"the two programs wait forever or exchange wrong data unless {wrong[2]}"
        where = f"what instructions {a.number} and {b.number} exchange"
        raise NkiValidationError(a.issue.instruction, where, value, rule)

    # Both programs have one control flow.

    def _check_loops(self, is_over: bool = True) -> None:
        """Checks that both programs run the same loops on the device.

        Code outside of loops may differ, as core_barrier's example shows. While the programs run,
        loops that one of them has not reached yet are no error.
        """
        first, second = [session.loops for session in self.sessions]
        for a, b in zip(first, second, strict=False):
            if a != b:
                value = (
                    f"{a[0]} of {a[1]} iterations in program 0, {b[0]} of {b[1]} iterations in "
                    f"program 1"
                )
                raise NkiValidationError("kernel", "a loop on the device", value, _SAME_LOOPS)
        if is_over and len(first) != len(second):
            value = f"{len(first)} in program 0, {len(second)} in program 1"
            operand = "the number of loops on the device"
            raise NkiValidationError("kernel", operand, value, _SAME_LOOPS)


def _not_shared(value: str) -> NkiValidationError:
    rule = (
        "both programs must allocate the same tensors in nl.shared_hbm, in the same order or under "
        "the same names: allocate a tensor of one program in nl.private_hbm"
    )
    return NkiValidationError("nl.ndarray", "a tensor in nl.shared_hbm", value, rule)


def _disagreement(a: _Arrival, b: _Arrival) -> tuple[Any, Any, str] | None:
    """Returns the disagreement between the sendrecv of program 0 and of program 1, or None."""
    x, y = a.issue.meets, b.issue.meets
    if x.pipe_id != y.pipe_id:
        return f"pipe_id {x.pipe_id}", f"pipe_id {y.pipe_id}", "both use the same pipe"
    if x.dma_engine != y.dma_engine:
        return x.dma_engine, y.dma_engine, "both name the same dma_engine"
    if any((x, y)[e.send_to_rank].recv_from_rank != rank for rank, e in enumerate((x, y))):
        ranks = [f"to {e.send_to_rank}, from {e.recv_from_rank}" for e in (x, y)]
        return ranks[0], ranks[1], "each receives from the program that sends to it"
    kinds = [f"{t.dst.dtype} {t.dst.shape}" for t in (a, b)]
    if kinds[0] != kinds[1]:
        return kinds[0], kinds[1], "their tiles have the same dtype and shape"
    return None


def _is_same(sessions: list[CoreSession], a: object, b: object) -> bool:
    """Returns whether the results of both programs are the same tensors in the same structure."""
    if isinstance(a, NkiTensor) and isinstance(b, NkiTensor):
        numbers = sessions[0].shared.get(a.storage), sessions[1].shared.get(b.storage)
        views = [(t.shape, t.strides, t.offset, t.dtype, t.buffer) for t in (a, b)]
        return numbers[0] == numbers[1] and views[0] == views[1]
    if type(a) is not type(b):
        return False
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all([_is_same(sessions, a[k], b[k]) for k in a])
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_is_same, [sessions] * len(a), a, b))
    return True


def _text(result: object) -> str:
    if isinstance(result, NkiTensor):
        return f"{result.shape} of {result.storage.describe()}"
    if isinstance(result, (tuple, list)):
        return f"({', '.join(map(_text, result))})"
    if isinstance(result, dict):
        return f"{{{', '.join([f'{k!r}: {_text(v)}' for k, v in result.items()])}}}"
    return f"{result!r}"
