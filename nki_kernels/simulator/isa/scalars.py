"""Scalar instructions of NKI 0.7: an NkiScalar from a tensor, and into one.

nki/api/generated/nki.isa.scalar_load and nki.isa.scalar_store of the Neuron SDK 2.33. A shape other
than (1, 1) is not documented there, and is refused.
"""

from __future__ import annotations

from typing import Any

from ..enums import MemoryRegion
from ..errors import NkiValidationError
from ..scalar import BITS, NkiScalar, scalar
from ..session import active
from ..tensor import NkiTensor
from .registers import load_number, store_number


def scalar_load(src: NkiTensor) -> NkiScalar:
    """The element of a 1x1 tensor of int32 or int64 in SBUF or HBM; its dtype is the scalar's."""
    label = "nisa.scalar_load"
    _check(label, "src", src)
    return scalar(active(), load_number(label, src, "scalar"), src.dtype)


def scalar_store(dst: NkiTensor, value: NkiScalar) -> None:
    """Write ``value`` to a 1x1 tensor of its width in SBUF or HBM."""
    label = "nisa.scalar_store"
    _check(label, "dst", dst)
    if not isinstance(value, NkiScalar):
        rule = "must be an NkiScalar; nisa.memset writes a Python int"
        raise NkiValidationError(label, "value", repr(value), rule)
    if dst.dtype != value.dtype:
        rule = f"must have the width of the scalar, {value.dtype}"
        raise NkiValidationError(label, "dst", dst.dtype, rule)
    store_number(label, dst, value.check_is_alive().value, value.recorded)


def _check(label: str, operand: str, t: Any) -> None:
    if not isinstance(t, NkiTensor) or t.shape != (1, 1):
        value = f"shape {t.shape}" if isinstance(t, NkiTensor) else repr(t)
        raise NkiValidationError(label, operand, value, "must be a tensor of shape (1, 1)")
    if t.buffer is MemoryRegion.psum:
        raise NkiValidationError(label, operand, "PSUM tensor", "must be in HBM or SBUF")
    if t.dtype not in BITS:
        raise NkiValidationError(label, operand, t.dtype, "must be int32 or int64")
