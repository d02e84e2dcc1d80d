"""Scalar instructions of NKI 0.7, which load an NkiScalar from a tensor and store it to one.

Sources: nki/api/generated/nki.isa.scalar_load and nki.isa.scalar_store of the Neuron SDK 2.33. They
document no shape other than (1, 1), so all others are refused.
"""

from __future__ import annotations

from nki_sim.base.enums import MemoryRegion
from nki_sim.errors import NkiValidationError
from nki_sim.instructions.launch_state import active
from nki_sim.rules.register_lives import note_use
from nki_sim.views.scalar import BITS, NkiScalar, scalar
from nki_sim.views.tensor import NkiTensor

from .registers import load_number, store_number


def scalar_load(src: NkiTensor) -> NkiScalar:
    """Loads the element of a 1x1 tensor of int32 or int64 in SBUF or HBM as an NkiScalar."""
    label = "nisa.scalar_load"
    _check(label, "src", src)
    return scalar(active(), load_number(label, src, "scalar"), src.dtype)


def scalar_store(dst: NkiTensor, value: NkiScalar) -> None:
    """Writes ``value`` to a 1x1 tensor of the same dtype in SBUF or HBM."""
    label = "nisa.scalar_store"
    _check(label, "dst", dst)
    if not isinstance(value, NkiScalar):
        rule = "must be an NkiScalar: write a Python int by nisa.memset"
        raise NkiValidationError(label, "value", repr(value), rule)
    if dst.dtype != value.dtype:
        rule = f"must be {value.dtype}, the dtype of the scalar"
        raise NkiValidationError(label, "dst.dtype", dst.dtype, rule)
    number = value.check_is_alive().value
    note_use(active(), value.life, "sync", active().count)
    store_number(label, dst, number, value.recorded)


def _check(label: str, operand: str, t: object) -> None:
    if not isinstance(t, NkiTensor) or t.shape != (1, 1):
        value = f"a tensor of shape {t.shape}" if isinstance(t, NkiTensor) else repr(t)
        raise NkiValidationError(label, operand, value, "must be a tensor of shape (1, 1)")
    if t.buffer is MemoryRegion.psum:
        raise NkiValidationError(label, operand, "a tensor in PSUM", "must be in HBM or SBUF")
    if t.dtype not in BITS:
        raise NkiValidationError(label, f"{operand}.dtype", t.dtype, "must be int32 or int64")
