"""Operators that make tensors of another tensor's shape; with a real dtype the result is real."""

import math
from typing import Any

import torch

from trnfft.complex.dispatch import aten, both, implements, joined
from trnfft.complex.given_parts import dtype_of_parts
from trnfft.complex.table import Function
from trnfft.complex.tensor import ComplexTensor


def _like_parts(function: Function) -> Any:
    """Returns an implementation that calls the operator for each part, or once for a real dtype."""

    def implementation(
        self: ComplexTensor, *args: object, dtype: torch.dtype | None = None, **kwargs: object
    ) -> Any:
        kwargs["dtype"] = dtype_of_parts(dtype) if dtype else self._real.dtype
        real = function(self._real, *args, **kwargs)
        if dtype is not None and not dtype.is_complex:
            return real
        return joined(real, function(self._imag, *args, **kwargs))

    return implementation


for _operator in (
    aten.empty_like.default,
    aten.zeros_like.default,
    aten.rand_like.default,
    aten.new_empty.default,
    aten.new_zeros.default,
    aten.new_empty_strided.default,
):
    implements(_operator)(_like_parts(_operator))


@implements(aten._new_zeros_with_same_feature_meta.default)
def new_zeros_as(
    self: torch.Tensor, other: torch.Tensor, *, self_num_batch_dims: int = 0
) -> torch.Tensor:
    """Returns zeros for the derivative of `other`, native if `other` is."""
    function = aten._new_zeros_with_same_feature_meta.default
    if not isinstance(other, ComplexTensor):
        like = both(self).real.to(other.dtype)  # batched if the derivative is
        return function(like, other, self_num_batch_dims=self_num_batch_dims)
    pairs = zip(both(self), both(other), strict=True)
    return joined(*(function(*pair, self_num_batch_dims=self_num_batch_dims) for pair in pairs))


def _filled(function: Function, count: int, ones: bool) -> Any:
    """Returns an implementation that writes a number into each part, or once for a real dtype.

    count: how many arguments, which are sizes, come before the number. ones: whether the number is
    1, and no argument.
    """

    def implementation(
        self: ComplexTensor, *args: object, dtype: torch.dtype | None = None, **kwargs: object
    ) -> Any:
        sizes, value = args[:count], 1 if ones else args[count]
        if dtype is not None and not dtype.is_complex:
            return function(self._real, *sizes, value, dtype=dtype, **kwargs)
        kwargs["dtype"] = dtype_of_parts(dtype) if dtype else self._real.dtype
        parts = zip((self._real, self._imag), both(value), strict=True)
        return joined(*(function(part, *sizes, number, **kwargs) for part, number in parts))

    return implementation


for _operator, _function, _count, _ones in (
    (aten.full_like.default, aten.full_like.default, 0, False),
    (aten.ones_like.default, aten.full_like.default, 0, True),
    (aten.new_full.default, aten.new_full.default, 1, False),
    (aten.new_ones.default, aten.new_full.default, 1, True),
):
    implements(_operator)(_filled(_function, _count, _ones))


@implements(aten.randn_like.default)
def randn_like(self: ComplexTensor, **kwargs: object) -> Any:
    # A complex number has the variance 1, so each part has the variance 1/2.
    drawn = _like_parts(aten.randn_like.default)(self, **kwargs)
    if not isinstance(drawn, ComplexTensor):
        return drawn
    return joined(drawn._real * math.sqrt(0.5), drawn._imag * math.sqrt(0.5))


@implements(aten._to_copy.default)
def to_copy(self: ComplexTensor, *, dtype: torch.dtype | None = None, **kwargs: object) -> Any:
    """Returns a copy. A real dtype gives the real part; bool gives whether numbers are not zero."""
    if dtype == torch.bool:
        return (self._real != 0).bitwise_or(self._imag != 0)
    kwargs["dtype"] = dtype_of_parts(dtype)
    real = aten._to_copy.default(self._real, **kwargs)
    if dtype is not None and not dtype.is_complex:
        return real
    return joined(real, aten._to_copy.default(self._imag, **kwargs))


@implements(aten.bernoulli_.float)
def bernoulli_(
    self: ComplexTensor, p: float = 0.5, *, generator: torch.Generator | None = None
) -> ComplexTensor:
    self._real.bernoulli_(p, generator=generator)
    self._imag.zero_()
    return self


@implements(aten.uniform_.default)
def uniform_(
    self: ComplexTensor,
    low: float = 0,
    high: float = 1,
    *,
    generator: torch.Generator | None = None,
) -> ComplexTensor:
    for part in (self._real, self._imag):
        part.uniform_(low, high, generator=generator)
    return self


@implements(aten.normal_.default)
def normal_(
    self: ComplexTensor,
    mean: float = 0,
    std: float = 1,
    *,
    generator: torch.Generator | None = None,
) -> ComplexTensor:
    for part, its_mean in zip((self._real, self._imag), both(mean), strict=True):
        part.normal_(its_mean, std * math.sqrt(0.5), generator=generator)
    return self
