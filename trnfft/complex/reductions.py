"""Operators that reduce many numbers to one: products, variances, norms; and running ones."""

import math
from collections.abc import Callable
from typing import Any

import torch

from trnfft.base.torch_private import DisableTorchFunctionSubclass
from trnfft.complex.arithmetic import product
from trnfft.complex.dispatch import (
    TABLE,
    Argument,
    Parts,
    aten,
    both,
    check_complex,
    implements,
    joined,
    overloads_of,
)
from trnfft.complex.elementary import absolute, complex_exp, complex_log
from trnfft.complex.given_parts import dtype_of_parts
from trnfft.complex.table import FUNCTIONS, Function
from trnfft.complex.tensor import ComplexTensor


@implements(aten.prod.default, aten.prod.dim_int)
def prod(
    self: ComplexTensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> ComplexTensor:
    return joined(*complex_prod(both(self), dim, keepdim, dtype=dtype))


def complex_prod(
    z: Parts, dim: int | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Parts:
    """Returns the product, by products of halves with log2(size) roundings."""
    ndim = z.real.ndim
    if dim is None or not ndim:
        z = _on_both(z, lambda part: part.reshape(-1))
    else:
        z = _on_both(z, lambda part: part.movedim(dim, -1))
    z = _in_dtype(z, dtype)
    if z.real.shape[-1] == 1:
        z = _on_both(z, torch.clone)  # a copy rather than a view, as for more numbers
    while (size := z.real.shape[-1]) > 1:
        half, even = size // 2, size // 2 * 2
        halves = product(_part_of(z, 0, half), _part_of(z, half, even))
        pairs = zip(halves, _part_of(z, even, size), strict=True)
        z = Parts(*(torch.cat(pair, -1) for pair in pairs))
    if z.real.shape[-1]:
        z = _on_both(z, lambda part: part[..., 0])
    else:
        z = Parts(z.real.sum(-1) + 1, z.imag.sum(-1))
    return (
        _on_both(z, lambda part: part.unsqueeze(dim)) if keepdim and dim is not None and ndim else z
    )


@implements(aten.cumprod.default)
def cumprod(self: ComplexTensor, dim: int, *, dtype: torch.dtype | None = None) -> ComplexTensor:
    return joined(*complex_cumprod(both(self), dim, dtype=dtype))


def complex_cumprod(z: Parts, dim: int, *, dtype: torch.dtype | None = None) -> Parts:
    """Returns running products, by doubling of the distance with log2(size) roundings."""
    z = _in_dtype(z, dtype)
    if not z.real.ndim:
        return _on_both(z, torch.clone)
    z = _on_both(z, lambda part: part.movedim(dim, -1))
    distance = 1
    while distance < z.real.shape[-1]:
        size = z.real.shape[-1]
        later = product(_part_of(z, distance, size), _part_of(z, 0, size - distance))
        pairs = zip(_part_of(z, 0, distance), later, strict=True)
        z = Parts(*(torch.cat(pair, -1) for pair in pairs))
        distance *= 2
    return _on_both(z, lambda part: part.movedim(-1, dim).clone())


def vander(x: ComplexTensor, N: int | None = None, increasing: bool = False) -> torch.Tensor:
    """Computes torch.vander, which torch writes into a native tensor."""
    if x.ndim != 1 or (N is not None and N < 0):
        with DisableTorchFunctionSubclass():
            return torch.vander(x, N, increasing)  # whose error says what is allowed
    count = x.shape[0] if N is None else N
    powers = torch.cumprod(x[:, None].expand(-1, max(count - 1, 0)), -1)
    powers = torch.cat([torch.ones_like(x)[:, None], powers], -1)[:, :count]
    return powers if increasing else powers.flip(-1)


FUNCTIONS[torch.vander] = vander


def _on_both(z: Parts, function: Callable[[torch.Tensor], torch.Tensor]) -> Parts:
    return Parts(function(z.real), function(z.imag))


def _part_of(z: Parts, start: int, stop: int) -> Parts:
    return Parts(z.real[..., start:stop], z.imag[..., start:stop])


def _in_dtype(z: Parts, dtype: torch.dtype | None) -> Parts:
    check_complex(dtype)
    return z if dtype is None else _on_both(z, lambda part: part.to(dtype_of_parts(dtype)))


def _of_squares(function: Function) -> Any:
    """Returns an implementation that adds an operator's results for both parts: a variance."""

    def implementation(self: ComplexTensor, *args: object, **kwargs: object) -> torch.Tensor:
        return function(self._real, *args, **kwargs) + function(self._imag, *args, **kwargs)

    return implementation


for _overload in overloads_of("var"):
    TABLE[_overload] = _of_squares(_overload)


@implements(*overloads_of("std"))
def std(self: ComplexTensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return torch.sqrt(self.var(*args, **kwargs))


@implements(*overloads_of("var_mean"))
def var_mean(self: ComplexTensor, *args: Any, **kwargs: Any) -> Any:
    dim = args[0] if args and not isinstance(args[0], bool) else kwargs.get("dim")
    keepdim = kwargs.get("keepdim", args[2] if len(args) > 2 else False)
    mean = self.mean(dim, keepdim)
    return self.var(*args, **kwargs), mean


@implements(*overloads_of("std_mean"))
def std_mean(self: ComplexTensor, *args: object, **kwargs: object) -> Any:
    var, mean = var_mean(self, *args, **kwargs)
    return torch.sqrt(var), mean


def _of_absolute(function: Function) -> Any:
    """Returns an implementation that applies the operator to absolute values.

    dtype: a complex dtype, whose real counterpart the absolute values get.
    """

    def implementation(
        self: ComplexTensor, *args: object, dtype: torch.dtype | None = None, **kwargs: object
    ) -> torch.Tensor:
        x = absolute(self._real, self._imag)
        return function(x if dtype is None else x.to(dtype.to_real()), *args, **kwargs)

    return implementation


for _overload in overloads_of("linalg_vector_norm norm"):
    TABLE[_overload] = _of_absolute(_overload)


@implements(aten.logcumsumexp.default)
def logcumsumexp(self: ComplexTensor, dim: int) -> ComplexTensor:
    # The largest real part is subtracted, so that exp does not overflow, nor underflow everywhere.
    if not self.ndim:
        return joined(self._real.clone(), self._imag.clone())
    a, b = self._real, self._imag
    largest = _finite(torch.amax(a, dim, keepdim=True))
    real, imag = (part.cumsum(dim) for part in complex_exp(a - largest, b))
    real, imag = complex_log(real, imag)
    return joined(real + largest, imag)


@implements(aten.logsumexp.default)
def logsumexp(self: ComplexTensor, dim: list[int], keepdim: bool = False) -> ComplexTensor:
    if not self.numel():
        empty = self._real.sum(dim, keepdim)
        return joined(torch.full_like(empty, -math.inf), torch.zeros_like(empty))
    largest = _finite(torch.amax(self._real, dim, keepdim=True))
    sums = (part.sum(dim, keepdim=True) for part in complex_exp(self._real - largest, self._imag))
    real, imag = complex_log(*sums)
    real = real + largest
    return joined(real, imag) if keepdim else joined(real, imag).squeeze(dim)


def _finite(x: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(~x.isfinite(), 0)


@implements(aten._local_scalar_dense.default)
def item(self: ComplexTensor) -> complex:
    return complex(self._real.item(), self._imag.item())


@implements(aten.is_nonzero.default)
def is_nonzero(self: ComplexTensor) -> bool:
    return bool((self != 0).item()) if self.numel() == 1 else bool(self._real)


@implements(aten._has_same_storage_numel.default)
def has_same_storage_numel(self: Argument, other: Argument) -> bool:
    """Whether a derivative lies in memory as its tensor does: both are split, or both native."""
    if not (isinstance(self, ComplexTensor) and isinstance(other, ComplexTensor)):
        return False
    return aten._has_same_storage_numel.default(self._real, other._real)


@implements(aten.is_same_size.default)
def is_same_size(self: torch.Tensor, other: torch.Tensor) -> bool:
    return self.shape == other.shape
