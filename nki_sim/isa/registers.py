"""Register instructions, which move scalar values of the engines' sequencers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import MemoryRegion
from nki_sim.errors import NkiValidationError
from nki_sim.instructions.issue import Issue, Run
from nki_sim.instructions.launch_state import active
from nki_sim.rules.register_lives import note_use
from nki_sim.views.register import BITS, VirtualRegister, fits
from nki_sim.views.tensor import NkiTensor


def register_alloc(x: int | None = None) -> VirtualRegister:
    """Returns a register, which holds the integer ``x`` or nothing."""
    if x is not None and (isinstance(x, bool) or not isinstance(x, int)):
        rule = "must be an int or None: load a tensor by nisa.register_load"
        raise NkiValidationError("nisa.register_alloc", "x", repr(x), rule)
    return VirtualRegister(x if x is None else fits(x, "nisa.register_alloc", "x"))


def register_move(dst: VirtualRegister, src: int | VirtualRegister) -> None:
    """Copies an integer or another register into ``dst``."""
    _register("nisa.register_move", "dst", dst)
    if not isinstance(src, (int, VirtualRegister)) or isinstance(src, bool):
        rule = "must be an int or a VirtualRegister"
        raise NkiValidationError("nisa.register_move", "src", repr(src), rule)
    value = src.value if isinstance(src, VirtualRegister) else src
    dst.set(fits(value, "nisa.register_move", "src"))


def register_load(dst: VirtualRegister, src: NkiTensor) -> None:
    """Reads the single element of ``src``, in HBM or SBUF, into ``dst``."""
    label = "nisa.register_load"
    _register(label, "dst", dst)
    _single(label, "src", src)
    dst.set(load_number(label, src, "register"))


def register_store(dst: NkiTensor, src: VirtualRegister) -> None:
    """Writes ``src`` to the single element of ``dst``, in HBM or SBUF."""
    label = "nisa.register_store"
    _register(label, "src", src)
    _single(label, "dst", dst)
    number = _stored(dst, src.value)
    note_use(active(), src.life, "sync", active().count)
    store_number(label, dst, number)


def _stored(dst: NkiTensor, number: int) -> int:
    """Returns ``number`` as ``dst`` holds it. A 32-bit integer holds the register's bits."""
    if dst.dtype not in dtypes.INTEGERS or dst.dtype == "bool":
        return number
    limits = np.iinfo(dst._layout.np_type)
    if limits.bits == BITS:
        return (number - limits.min) % (1 << BITS) + limits.min
    if not limits.min <= number <= limits.max:
        rule = f"must be from {limits.min} to {limits.max} for a dst of {dst.dtype}"
        raise NkiValidationError("nisa.register_store", "src", number, rule)
    return number


def load_number(label: str, src: NkiTensor, what: str) -> int:
    """Returns the element of ``src``, which the sequencers read into a register or a scalar."""
    session = active()
    value: list[int] = []

    def run(outs: list[Array], ins: list[Array]) -> None:
        value.append(int(ins[0].reshape(-1)[0]))

    issue = _sequencer_issue(label, run, (), ("src",))
    issue.is_dynamic = src.is_indirect()
    session.issue(issue, [], [src], None)
    if session.dry:
        rule = (
            f"a dry run has no data, so the value of a loaded {what} is unknown: run the kernel on "
            f"arrays, with nki_sim.record() for a timeline"
        )
        raise NkiValidationError(label, "src", src.storage.describe(), rule)
    return value[0]


def store_number(label: str, dst: NkiTensor, number: int, recorded: Any = None) -> None:
    """Writes ``number`` to ``dst``; ``recorded`` tells how the sequencers computed the number."""

    def run(outs: list[Array], ins: list[Array]) -> None:
        outs[0][...] = number

    issue = _sequencer_issue(label, run, ("dst",), ())
    issue.recorded = recorded
    issue.is_dynamic = dst.is_indirect()
    active().issue(issue, [dst], [], None)


def _sequencer_issue(
    label: str, run: Run, writes: tuple[str, ...], reads: tuple[str, ...]
) -> Issue:
    """Returns an instruction that moves one number between a tensor and the sequencers."""
    # SyncE runs it. It is assumed to take one tensor access, at the clock of GpSimdE.
    chip = active().chip
    issue = Issue(label, "gpsimd", chip.tensor_access_cycles / chip.gpsimd_ghz, run, writes, reads)
    issue.queue = "sync"
    issue.uses_state = True
    return issue


def _register(label: str, operand: str, value: object) -> None:
    if not isinstance(value, VirtualRegister):
        raise NkiValidationError(label, operand, repr(value), "must be a VirtualRegister")


def _single(label: str, operand: str, t: object) -> None:
    if not isinstance(t, NkiTensor) or t.size != 1:
        value = f"a tensor of shape {t.shape}" if isinstance(t, NkiTensor) else repr(t)
        raise NkiValidationError(label, operand, value, "must be a tensor with one element")
    if t.buffer is MemoryRegion.psum:
        raise NkiValidationError(label, operand, "a tensor in PSUM", "must be in HBM or SBUF")
    if dtypes.itemsize(t.dtype) > 4:
        rule = "a register has 32 bits: use a dtype of at most 32 bits"
        raise NkiValidationError(label, f"{operand}.dtype", t.dtype, rule)
