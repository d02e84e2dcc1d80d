"""Register instructions: scalar values of the engines' sequencers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..enums import MemoryRegion
from ..errors import NkiValidationError
from ..issue import Issue
from ..register import BITS, VirtualRegister, fits
from ..session import active
from ..tensor import NkiTensor


def register_alloc(x: int | None = None) -> VirtualRegister:
    """A register, uninitialised or holding the integer ``x``."""
    if x is not None and (isinstance(x, bool) or not isinstance(x, int)):
        rule = "must be an int or None; load tensors with nisa.register_load"
        raise NkiValidationError("nisa.register_alloc", "x", repr(x), rule)
    return VirtualRegister(x if x is None else fits(x, "nisa.register_alloc", "x"))


def register_move(dst: VirtualRegister, src: Any) -> None:
    """Copy an integer or another register into ``dst``."""
    _register("nisa.register_move", "dst", dst)
    if not isinstance(src, (int, VirtualRegister)) or isinstance(src, bool):
        rule = "must be an int or a VirtualRegister"
        raise NkiValidationError("nisa.register_move", "src", repr(src), rule)
    value = src.value if isinstance(src, VirtualRegister) else src
    dst.set(fits(value, "nisa.register_move", "src"))


def register_load(dst: VirtualRegister, src: NkiTensor) -> None:
    """Read the single element of ``src`` (HBM or SBUF) into ``dst``."""
    label = "nisa.register_load"
    _register(label, "dst", dst)
    _single(label, "src", src)
    dst.set(load_number(label, src, "register"))


def register_store(dst: NkiTensor, src: VirtualRegister) -> None:
    """Write ``src`` to the single element of ``dst`` (HBM or SBUF)."""
    label = "nisa.register_store"
    _register(label, "src", src)
    _single(label, "dst", dst)
    store_number(label, dst, _stored(dst, src.value))


def _stored(dst: NkiTensor, number: int) -> int:
    """``number`` as ``dst`` holds it: 32-bit integers take the register's bits as they are."""
    if dst.dtype not in dtypes.INTEGERS or dst.dtype == "bool":
        return number
    limits = np.iinfo(dst._layout.np_type)
    if limits.bits == BITS:
        return (number - limits.min) % (1 << BITS) + limits.min
    if not limits.min <= number <= limits.max:
        rule = f"does not fit dtype {dst.dtype}"
        raise NkiValidationError("nisa.register_store", "src", number, rule)
    return number


def load_number(label: str, src: NkiTensor, what: str) -> int:
    """The single element of ``src``, which the sequencers read into a register or a scalar."""
    session = active()
    value: list[int] = []

    def run(outs: list[Any], ins: list[Any]) -> None:
        value.append(int(ins[0].reshape(-1)[0]))

    issue = _sequencer_issue(label, run, (), ("src",))
    issue.is_dynamic = src.is_indirect()
    session.issue(issue, [], [src], None)
    if session.dry:
        rule = f"dry_run has no data: a loaded {what} is unknown"
        raise NkiValidationError(label, "src", src.storage.describe(), rule)
    return value[0]


def store_number(label: str, dst: NkiTensor, number: int, recorded: Any = None) -> None:
    """Write ``number``, which the sequencers computed as ``recorded`` tells, to ``dst``."""

    def run(outs: list[Any], ins: list[Any]) -> None:
        outs[0][...] = number

    issue = _sequencer_issue(label, run, ("dst",), ())
    issue.recorded = recorded
    issue.is_dynamic = dst.is_indirect()
    active().issue(issue, [dst], [], None)


def _sequencer_issue(
    label: str, run: Any, writes: tuple[str, ...], reads: tuple[str, ...]
) -> Issue:
    """An instruction that moves one number between a tensor and the sequencers."""
    # A sequencer access, about one tensor access long; SyncE runs it, shown as gpsimd's clock.
    chip = active().chip
    issue = Issue(label, "gpsimd", chip.tensor_access_cycles / chip.gpsimd_ghz, run, writes, reads)
    issue.queue = issue.stream = "sync"
    return issue


def _register(label: str, operand: str, value: Any) -> None:
    if not isinstance(value, VirtualRegister):
        raise NkiValidationError(label, operand, repr(value), "must be a VirtualRegister")


def _single(label: str, operand: str, t: Any) -> None:
    if not isinstance(t, NkiTensor) or t.size != 1:
        value = f"shape {t.shape}" if isinstance(t, NkiTensor) else repr(t)
        raise NkiValidationError(label, operand, value, "must be a tensor with one element")
    if t.buffer is MemoryRegion.psum:
        raise NkiValidationError(label, operand, "PSUM tensor", "must be in HBM or SBUF")
    if dtypes.itemsize(t.dtype) > 4:
        raise NkiValidationError(label, operand, t.dtype, "at most 32 bits")
