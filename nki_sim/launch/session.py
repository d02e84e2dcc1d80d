"""One simulated launch of a kernel: its memory, its instructions, and checks of the whole kernel.

Every instruction passes through ``Session.issue``, which computes the result and tracks which
memory was written. If a timeline is recorded, it also notes what the instruction must wait for.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from nki_sim import hardware
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import ON_CHIP, MemoryRegion
from nki_sim.base.running import is_strict
from nki_sim.errors import KernelWarning, NkiSimulationWarning, NkiValidationError, SourceLine
from nki_sim.hardware import MOVING_ALIGNMENT
from nki_sim.instructions import indirect
from nki_sim.instructions.instruction_notes import note_of, noted_line, user_line, warn_at_user
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState, Operands
from nki_sim.rules import device_rules, host_memory, register_lives, unwritten
from nki_sim.rules.accesses import region
from nki_sim.rules.full_memory import full_memory
from nki_sim.rules.hazards import NO_REORDER, note_accesses
from nki_sim.views import shadow
from nki_sim.views.scalar import check_int64
from nki_sim.views.shadow import Marks
from nki_sim.views.storage import Storage
from nki_sim.views.tensor import NkiTensor

from .launch_arguments import name_of

_NOTHING: dict[Any, Any] = {}  # accesses of tensors whose launch is over
_PSUM = MemoryRegion.psum
_TOGETHER = 128  # instructions whose accesses are noted together
_ENDED = object()  # the scope of tensors whose launch is over


class Session(LaunchState):
    """One launch, or one of its programs."""

    # Memory.

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: str,
        buffer: MemoryRegion,
        name: str = "",
        address: tuple[int, int] | None = None,
    ) -> NkiTensor:
        """Returns a new tensor. The sizes of memories are checked here and at the kernel's end."""
        storage = Storage(shape, dtype, buffer, name)
        self._check_size(storage)
        if address is not None:
            self._place(storage, address)
        tensor = NkiTensor(shape, dtype, storage, buffer)
        if buffer is _PSUM:
            storage.held_bytes = self._psum_bytes(storage.free_bytes)
        if address is None and buffer in ON_CHIP:
            self.kinds[shape, dtype, buffer] = tensor
        return self._added(tensor)

    def allocate_again(self, kind: tuple[Any, ...], name: str) -> NkiTensor:
        """Returns a new tensor of a shape, dtype and memory of which `allocate` has made one."""
        known = self.kinds[kind]
        shape, dtype, buffer = kind
        storage = Storage(shape, dtype, buffer, name)
        storage.held_bytes = known.storage.held_bytes
        tensor = known._seen(known._layout, 0)
        tensor.storage = storage
        return self._added(tensor)

    def _added(self, tensor: NkiTensor) -> NkiTensor:
        storage, buffer = tensor.storage, tensor.buffer
        storage.scope = self.loop_scope
        self._back(storage, tensor._layout.np_type)
        storage.is_tracked_whole = buffer in ON_CHIP and self.chip.tracks_whole_tensors
        self.storages.append(storage)
        if buffer not in ON_CHIP:
            self.created[storage] = user_line()
        return tensor

    def _back(self, storage: Storage, np_type: np.dtype[Any]) -> None:
        """Gives a new tensor its data."""
        if not self.dry:
            self.unchecked_bytes += storage.size_bytes
            if self.unchecked_bytes > host_memory.STEP_BYTES:
                self.unchecked_bytes = 0
                kernel = name_of(self.kernel)
                host_memory.check(storage.describe(), storage.size_bytes, kernel)
            storage.allocate(np_type)
            if storage.buffer not in ON_CHIP:  # two programs may share it
                storage.fill()

    def hold_constant(self, tensor: NkiTensor, array: Array) -> None:
        """Fills a tensor before the kernel starts."""
        self.constants.add(tensor.storage)
        if not self.dry:
            tensor.array()[...] = array
        tensor.storage.written = True

    def enters_loop(self, kind: str, trips: int) -> None:
        """Notes a loop on the device, a while loop at its end, for a comparison of two programs."""

    def _check_size(self, storage: Storage) -> None:
        what, buffer = "nl.ndarray", storage.buffer
        self.holds_int64 = self.holds_int64 or storage.dtype == "int64"
        if storage.dtype == "int64" and buffer is MemoryRegion.psum:
            rule = "tensors of int64 are documented in SBUF and HBM only: allocate it there"
            raise NkiValidationError(what, "dtype", "int64 in PSUM", rule)
        if buffer in ON_CHIP:
            if storage.shape[0] > hardware.PARTITIONS:
                rule = (
                    f"a tile in SBUF or PSUM has at most {hardware.PARTITIONS} partitions: loop "
                    f"over blocks of {hardware.PARTITIONS} rows"
                )
                raise NkiValidationError(what, "shape[0]", storage.shape[0], rule)
            limit = self.partition_bytes[buffer]
            if storage.free_bytes > limit:
                rule = (
                    f"{buffer.value.upper()} of {self.chip.name} holds {limit} bytes a partition: "
                    f"allocate smaller tiles"
                )
                value = f"{storage.free_bytes} bytes a partition"
                raise NkiValidationError(what, "the tile's size", value, rule)
        elif storage.free_bytes > hardware.HBM_TENSOR_BYTES:
            rule = (
                "a tensor in HBM holds at most 2 GiB, because DMA offsets have 32 bits: split it "
                "into several tensors"
            )
            raise NkiValidationError(what, "the tensor's size", f"{storage.free_bytes} bytes", rule)

    def _place(self, storage: Storage, address: tuple[int, int]) -> None:
        partition, free = address
        if storage.buffer not in ON_CHIP or partition < 0 or free < 0:
            rule = "must be a pair (partition, byte) in SBUF or PSUM, both of them at least 0"
            raise NkiValidationError("nl.ndarray", "address", address, rule)
        limit = self.partition_bytes[storage.buffer]
        if partition + storage.shape[0] > hardware.PARTITIONS or free + storage.free_bytes > limit:
            rule = (
                f"the tile ends outside of {storage.buffer.value.upper()}, which has "
                f"{hardware.PARTITIONS} partitions of {limit} bytes"
            )
            raise NkiValidationError("nl.ndarray", "address", address, rule)
        if storage.buffer is MemoryRegion.psum and free % self.chip.psum_bank_bytes:
            bank = self.chip.psum_bank_bytes
            rule = f"must be the start of a PSUM bank: its byte a multiple of {bank}"
            raise NkiValidationError("nl.ndarray", "address", address, rule)
        storage.start_partition, storage.address = partition, free

    # Instructions.

    def issue(self, issue: Issue, writes: Operands, reads: Operands, name: str | None) -> int:
        """Runs one instruction and returns its number."""
        if self.holds_int64:
            check_int64(issue, writes, reads)
        n = self.count
        self.count = n + 1
        if n >= device_rules.MOST_INSTRUCTIONS:  # now, as such a kernel may never end
            self._check_count()
        dynamic, open_scopes = issue.is_dynamic, self.open_scopes
        operands = reads
        if dynamic:
            reads = (*reads, *indirect.index_tiles(issue, (*writes, *reads)))
            register_lives.note_addresses(self, issue, n, (*writes, *operands))
        for t in (*reads, *writes):
            storage = t.storage
            if storage.first_use < 0:
                storage.first_use = n
            storage.last_use = n
            if storage.scope is not None and storage.scope not in open_scopes:
                self._escaped(issue, t)
        if not self.dry or self.notes is not None:
            for t in () if dynamic else reads:
                if t.storage.written is not True:
                    self.check_written(issue, t)
            if self.dry:
                if issue.meets is None:
                    self._mark_without_data(issue, writes)
            elif dynamic:
                indirect.run(self, issue, writes, operands)
            else:
                self.run(issue, writes, reads)
        if issue.breaks:
            for broken in issue.breaks:
                found = broken(issue, writes, operands) if callable(broken) else broken
                if found is not None:
                    self.broke(issue.instruction, found)
        if issue.after is not None:
            issue.after(self, writes)
        if self.log is not None:
            block = self.no_reorder_depth and self.no_reorder_block
            self.log.append((issue, writes, reads, block))
        if self.trace is not None:
            if self.notes is not None:
                self.notes.append(note_of(issue, writes, reads))
            self._record(n, issue, writes, reads, name or "")
        elif self.device_loop is not None:
            self._repeat(n, issue, writes, reads)
        if name is not None:
            self.names[name] = n
        return n

    def run(self, issue: Issue, writes: Operands, reads: Operands) -> None:
        """Computes on operands with known addresses, and marks what the instruction writes."""
        ins = [t.array() for t in reads]
        where = None if issue.writes_where is None else issue.writes_where(ins)
        outs = [t.array_to_write(where is not None) for t in writes]
        if issue.onto is not None:
            issue.run(outs, ins, writes[0])
        else:
            issue.run(outs, ins)
        for place, t in enumerate(writes):
            storage = t.storage
            storage.fresh = None
            if place in issue.undefined:
                storage.written = shadow.marked(storage.written, t, value=False)
            elif storage.written is not True:
                storage.written = shadow.marked(storage.written, t, where=where)
            if storage.matmul_written is not False and issue.onto is None:
                shadow.note_other(t, where)

    def _mark_without_data(self, issue: Issue, writes: Operands) -> None:
        """Marks what an instruction of a dry run writes, which has no data.

        Writes whose place depends on data count for the whole tensor. So do writes in a loop on
        the device, of which a dry run runs two iterations only.
        """
        is_everywhere = issue.is_dynamic or self.device_loop is not None
        for place, t in enumerate(writes):
            storage = t.storage
            if issue.onto is not None:
                issue.onto(t)
                shadow.note_matmul(t)
            elif storage.matmul_written is not False and issue.writes_where is None:
                shadow.note_other(t)
            if place in issue.undefined:
                storage.written = shadow.marked(storage.written, t, value=False)
            elif storage.written is not True:
                storage.written = is_everywhere or shadow.marked(storage.written, t)

    def _escaped(self, issue: Issue, t: NkiTensor) -> None:
        rule = (
            "the body of a fori_loop or while_loop allocated this tensor, which cannot be used "
            "outside of that body: allocate it before the loop"
        )
        if t.storage.scope is _ENDED:
            rule = (
                "this tensor is from an earlier launch, whose memory is gone: return it from that "
                "launch, and pass it to this one as an argument"
            )
        raise NkiValidationError(issue.instruction, "operand", t.storage.describe(), rule)

    def broke(
        self, instruction: str, broken: device_rules.Break, number: int | None = None
    ) -> None:
        """Raises, warns or does nothing for a broken device rule, by the chip's verdict.

        ``number`` is the instruction that breaks the rule, if that is not the one that runs now.
        """
        name = broken.rule
        rule = device_rules.RULES[name]
        verdict = getattr(self.chip, rule.field)
        if verdict == hardware.FINE or name in self.waived:
            return
        if device_rules.is_allowed(name):
            self.waived.add(name)
            return
        text = f"{rule.says} (rule {name!r}; {rule.source})"
        error = NkiValidationError(instruction, broken.operand, broken.value, text)
        error.name, error.source = name, self._line_of(number)
        is_error = is_strict() and verdict == hardware.CONTESTED
        if verdict == hardware.WRONG or is_error:
            raise error
        self._note_warning(name, str(error), number, error.source)
        self._tell(str(error))

    def _check_count(self) -> None:
        count = self.count
        if count > device_rules.MANY_INSTRUCTIONS:
            is_over = count > device_rules.MOST_INSTRUCTIONS
            name = "instruction-limit" if is_over else "instruction-count"
            broken = device_rules.Break(name, "the number of instructions", f"{count}")
            self.broke("kernel", broken)

    def warn(
        self, instruction: str, operand: str, value: object, rule: str, number: int | None = None
    ) -> None:
        """Warns, or raises NkiValidationError in strict mode; ``number`` as in `broke`."""
        error = NkiValidationError(instruction, operand, value, rule)
        error.source = self._line_of(number)
        self.warn_of(error, number)

    def warn_of(self, error: NkiValidationError, number: int | None = None) -> None:
        """Warns of an error that strict mode raises; ``number`` as in `broke`."""
        if is_strict():
            raise error
        self.warned += 1
        self._note_warning(error.name or error.rule, str(error), number, error.source)
        self._tell(str(error))

    def _line_of(self, number: int | None) -> SourceLine | None:
        return None if number is None else noted_line(self.notes, number)

    def _tell(self, text: str) -> None:
        # At the line of the kernel, or of its caller when the kernel has ended.
        warn_at_user(text, NkiSimulationWarning)

    def _note_warning(
        self, rule: str, message: str, number: int | None, source: SourceLine | None
    ) -> None:
        """Keeps a warning for the timeline, once for each line."""
        if number is None and not self.is_over:
            # The trace's length is the number: later iterations of a loop have no entries there.
            number = None if self.trace is None else len(self.trace)
            source = None if self.notes is None else user_line()
        found = KernelWarning(rule, message, number, source, self.program)
        if (message, source) not in [(known.message, known.source) for known in self.warnings]:
            self.warnings.append(found)

    def check_written(self, issue: Issue, t: NkiTensor) -> None:
        """Warns if ``t`` contains memory that nothing has written."""
        storage = t.storage
        if storage.written is True:
            return
        storage.written = written = shadow.fitting(storage.written, t)
        marks = shadow.marks(written, t)
        if np.all(marks):
            if written.all():
                storage.written = True
        else:
            self.warn_unwritten(issue, storage, shadow.unwritten(t, marks))

    def warn_unwritten(self, issue: Issue, storage: Storage, lost: Marks) -> None:
        """Warns of an operand that holds leftovers of earlier kernels (nki_simulator.rst).

        ``lost`` marks what is read and was not written. A line is warned of once for tiles of the
        same size, whichever of their rows a loop reads.
        """
        key = issue.instruction, storage.describe(), user_line()
        if key not in self.told_unwritten:
            self.told_unwritten.add(key)
            is_return = issue is _RETURN
            found = unwritten.sentence(storage, lost, self.created.get(storage), is_return)
            self.tell_unwritten(issue.instruction, storage, *found)

    def tell_unwritten(self, instruction: str, storage: Storage, value: str, rule: str) -> None:
        """Warns of a read of memory that nothing has written."""
        error = NkiValidationError(instruction, "operand", value, rule)
        if self.is_over:
            error.source = self.created.get(storage)
        self.warn_of(error)

    # The timeline's view of an instruction.

    def _record(self, n: int, issue: Issue, writes: Operands, reads: Operands, name: str) -> None:
        if issue.misaligned is not None and reads[1].offset % reads[1]._free % MOVING_ALIGNMENT:
            issue = issue.misaligned
        waits: list[Any] = []
        self.trace.append((issue, waits, name))  # type: ignore[union-attr]
        self.unnoted.append((waits, n, issue, writes, reads))
        if len(self.unnoted) >= _TOGETHER:
            self.note_accesses()
        if self.no_reorder_depth:
            self.note_accesses()
            self.note_waits(n, waits, NO_REORDER)
            waits.extend(self.order_barrier)
            self.order_barrier = [n]

    def note_accesses(self) -> None:
        """Notes the accesses of the latest instructions, and what these wait for.

        Python does the same work for many instructions in a row in half the time.
        """
        # A launch with a log may get another order.
        note_accesses(self.unnoted, self.log is None)
        for _, n, issue, writes, reads in self.unnoted:
            if issue.takes_banks:
                self.banks[n] = _banks(writes, reads, self.chip.psum_bank_bytes)
        self.unnoted.clear()

    def _repeat(self, n: int, issue: Issue, writes: Operands, reads: Operands) -> None:
        """Does nothing for an instruction of a later iteration of a loop, which has no record."""

    # What only the whole kernel shows.

    def finish(self, outputs: list[NkiTensor]) -> dict[str, int]:
        """Checks outputs and capacity. Returns the peaks of SBUF, PSUM (banks) and HBM scratch."""
        self.is_over = True
        self.note_accesses()
        for t in outputs:
            if t.storage.scope is not None:
                self._escaped(_RETURN, t)
            if t.buffer is not MemoryRegion.shared_hbm:
                rule = "a kernel returns tensors that it has allocated with buffer=nl.shared_hbm"
                raise NkiValidationError("return", "tensor", t.storage.describe(), rule)
            if t._dynamic is not None:
                rule = (
                    "a kernel cannot return a view whose address depends on a register: copy the "
                    "view into a tensor, and return that tensor"
                )
                raise NkiValidationError("return", "tensor", t.storage.describe(), rule)
            is_unused = t.storage.written is False and t.storage.first_use < 0
            if not self.dry or self.notes is not None:
                if t.storage.written is not True and not t.storage.is_argument:
                    self.check_written(_RETURN, t)
            elif self.programs == 1 and is_unused:  # known without marks of what was written
                self.warn_unwritten(_RETURN, t.storage, True)
        changes = self.lifetimes = self._lifetimes()
        in_sbuf = [change for change in changes if change[2].buffer is MemoryRegion.sbuf]
        in_psum = [change for change in changes if change[2].buffer is MemoryRegion.psum]
        sbuf, _ = self._peak(in_sbuf, self.partition_bytes[MemoryRegion.sbuf])
        psum, _ = self._peak(in_psum, self.partition_bytes[MemoryRegion.psum])
        dma, culprit = 0, None
        if sbuf > hardware.DMA_WRITTEN_BYTES:  # else what DMA writes cannot exceed it
            dma, culprit = self._peak([one for one in in_sbuf if one[2].is_dma_written])
        if culprit is not None and dma > hardware.DMA_WRITTEN_BYTES:
            rule = (
                f"it should be at most {hardware.DMA_WRITTEN_BYTES} bytes a partition, because "
                f"more serialises the kernel: load less at a time"
            )
            value = f"{dma} bytes a partition with {culprit.describe()}"
            operand = "SBUF that DMA writes and that is live at once"
            self.warn("nisa.dma_copy", operand, value, rule, culprit.first_use)
        self._check_addresses()
        self._check_count()
        register_lives.check(self)
        returned = [t.storage for t in outputs]
        return {
            "hbm_scratch_bytes": sum(
                s.free_bytes
                for s in self.storages
                if s.buffer not in ON_CHIP and not s.is_argument and s not in returned
            ),
            "sbuf_peak_bytes": sbuf,
            "psum_peak_banks": -(-psum // self.chip.psum_bank_bytes),
        }

    def release(self) -> None:
        """Breaks reference cycles, so that memory is freed without Python's garbage collector.

        Later launches refuse tensors that the kernel has kept in a global variable.
        """
        for _, loop in self.loop_marks:
            loop.session, loop.held = None, []  # a timeline keeps the loop
        self.loop_marks, self.lifetimes, self.log, self.kinds = [], [], None, {}
        for storage in self.storages:
            storage.writes = storage.reads = _NOTHING
            storage.joints = []
            storage.scope = _ENDED

    def _psum_bytes(self, size: int) -> int:
        """Returns the PSUM bytes of a tile, which crosses banks only if it fills whole banks."""
        bank = self.chip.psum_bank_bytes
        if size > bank // 2:
            return -(-size // bank) * bank
        return max(1 << (size - 1).bit_length(), 4)

    def _lifetimes(self) -> list[tuple[int, int, Storage]]:
        """Returns begins and ends of the uses of tiles in order: (instruction, 1 or 2, tile).

        At one instruction, tiles are allocated before others are freed.
        """
        tiles = [s for s in self.storages if s.first_use >= 0 and s.buffer in ON_CHIP]
        found = [(s.first_use, 1, s) for s in tiles] + [(s.last_use, 2, s) for s in tiles]
        found.sort(key=_by_time)
        return found

    def _peak(
        self, changes: list[tuple[int, int, Storage]], limit: int | None = None
    ) -> tuple[int, Storage | None]:
        """Returns the most bytes a partition that tiles hold at one instruction.

        The second value is the tile that was allocated last then. Raises NkiValidationError if the
        sum exceeds ``limit``.
        """
        sizes = [s.held_bytes if change == 1 else -s.held_bytes for _, change, s in changes]
        live = list(itertools.accumulate(sizes))
        peak = max(live, default=0)
        if limit is not None and peak > limit:
            n, _, last = changes[next(i for i, size in enumerate(live) if size > limit)]
            tiles = [s for s in self.storages if s.buffer is last.buffer]
            found = [s for s in tiles if 0 <= s.first_use <= n <= s.last_use]
            raise full_memory(self, [(s, s.held_bytes) for s in found], n, limit, last)
        return peak, changes[live.index(peak)][2] if changes else None

    def _check_addresses(self) -> None:
        placed = [s for s in self.storages if s.address is not None and s.first_use >= 0]
        for i, a in enumerate(placed):
            for b in placed[:i]:
                are_live = a.first_use <= b.last_use and b.first_use <= a.last_use
                if are_live and a.shares_memory(b):
                    value = f"{a.address} for {a.describe()}"
                    rule = f"it overlaps {b.describe()}, which is live at the same time"
                    raise NkiValidationError("nl.ndarray", "address", value, rule)


def _banks(writes: Operands, reads: Operands, bank_bytes: int) -> tuple[Any, ...]:
    """Returns the PSUM banks of the operands, each as (tile, bank in the tile)."""
    found: list[tuple[int, int]] = []
    for t in (*writes, *reads):
        if t.buffer is _PSUM:
            storage = t.storage
            if storage.free_bytes <= bank_bytes:
                found.append((id(storage), 0))
                continue
            low, high, _, _ = t._region or region(t)
            banks = range(low // bank_bytes, -(-high // bank_bytes))
            found += [(id(storage), bank) for bank in banks]
    return tuple(dict.fromkeys(found) if len(found) > 1 else found)


_by_time = operator.itemgetter(0, 1)
_RETURN = Issue("return", "dma", 0.0)
