"""Operators that move numbers without computing: the same operator on each part."""

from collections.abc import Sequence
from typing import Any

import torch

from trnfft.complex.dispatch import (
    TABLE,
    aten,
    both,
    implements,
    joined,
    on_both_parts,
    overloads_of,
)
from trnfft.complex.parts import with_conjugation
from trnfft.complex.tensor import ComplexTensor

_ON_EACH_PART = """
    _chunk_cat _neg_view _reshape_alias _reshape_copy _unsafe_view _unsafe_index alias alias_copy
    as_strided as_strided_copy as_strided_scatter cat channel_shuffle clone detach
    detach_copy diag_embed diagonal diagonal_backward diagonal_copy diagonal_scatter expand
    expand_copy flip gather index index_copy index_select lift lift_fresh lift_fresh_copy
    masked_scatter masked_scatter_backward masked_select neg permute permute_copy pixel_shuffle
    pixel_unshuffle put reflection_pad1d reflection_pad1d_backward reflection_pad2d
    reflection_pad2d_backward reflection_pad3d reflection_pad3d_backward repeat
    replication_pad1d replication_pad1d_backward replication_pad2d replication_pad2d_backward
    replication_pad3d replication_pad3d_backward roll rot90 scatter_add select
    select_backward select_copy select_scatter slice slice_backward slice_copy slice_scatter split
    split_copy split_with_sizes split_with_sizes_copy squeeze squeeze_copy stack sum t t_copy take
    trace transpose transpose_copy tril triu unbind unbind_copy unfold unfold_backward unfold_copy
    unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_copy view_copy im2col col2im
    cumsum mean
"""

for _overload in overloads_of(_ON_EACH_PART):
    TABLE[_overload] = on_both_parts(_overload)
TABLE[aten.view.default] = on_both_parts(aten.view.default)


@implements(aten.as_strided.default)
def as_strided(
    self: ComplexTensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Any:
    """Returns a strided view of both parts.

    Offsets are those of the real part, which are those of the whole; the imaginary part may lie
    elsewhere.
    """
    if storage_offset is None:
        return joined(*(aten.as_strided(part, size, stride) for part in (self._real, self._imag)))
    elsewhere = self._imag.storage_offset() - self._real.storage_offset()
    real = aten.as_strided(self._real, size, stride, storage_offset)
    return joined(real, aten.as_strided(self._imag, size, stride, storage_offset + elsewhere))


@implements(aten.constant_pad_nd.default)
def constant_pad_nd(self: ComplexTensor, pad: object, value: object = 0) -> Any:
    parts = zip((self._real, self._imag), both(value), strict=True)
    return joined(*(aten.constant_pad_nd(part, pad, number) for part, number in parts))


@implements(aten.index_add.default)
def index_add(
    self: object, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: complex = 1
) -> Any:
    parts = zip(both(self), both(source if alpha == 1 else source * alpha), strict=True)
    return joined(*(aten.index_add(part, dim, index, added) for part, added in parts))


@implements(aten.view.dtype)
def view_dtype(self: ComplexTensor, dtype: torch.dtype) -> Any:
    if dtype == self.dtype:
        return joined(self._real, self._imag)
    raise TypeError(
        f"argument 'dtype' is {dtype}, allowed is a shape only; convert with x.to(dtype), "
        f"or take both parts with torch.view_as_real(x)"
    )


@implements(aten.conj_physical.default, aten._conj_physical.default)
def conj(self: ComplexTensor) -> Any:
    return joined(self._real.clone(), -self._imag)


@implements(aten._conj.default)
def lazily_conj(self: ComplexTensor) -> Any:
    if torch.compiler.is_exporting():  # exported programs know only the parts
        return conj(self)
    return with_conjugation(joined(self._real, self._imag), True)


@implements(aten.view_as_real_copy.default)
def view_as_real_copy(self: ComplexTensor) -> torch.Tensor:
    return torch.stack([self._real, self._imag], -1)
