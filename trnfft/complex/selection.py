"""Operators that choose between numbers, write some of them, or find them."""

from collections.abc import Sequence
from typing import Any

import torch

from trnfft.complex.dispatch import (
    TABLE,
    Argument,
    Parts,
    aten,
    both,
    implements,
    joined,
    on_both_parts,
    overloads_of,
)
from trnfft.complex.on_the_host import below_autograd
from trnfft.complex.refusals import refusal
from trnfft.complex.table import Function
from trnfft.complex.tensor import ComplexTensor


@implements(*overloads_of("where"))
def where(
    condition: torch.Tensor, self: Argument | None = None, other: Argument | None = None
) -> Any:
    if self is None or other is None:
        return list(torch.nonzero(is_nonzero(condition), as_tuple=True))
    return joined(*chosen(condition, self, other))


def chosen(condition: torch.Tensor, self: Argument, other: Argument) -> Parts:
    _check_mask("condition", condition)
    pairs = zip(both(self), both(other), strict=True)
    return Parts(*(torch.where(condition, part, its_other) for part, its_other in pairs))


@implements(*overloads_of("masked_fill"))
def masked_fill(self: ComplexTensor, mask: torch.Tensor, value: Argument) -> ComplexTensor:
    return joined(*filled(self, mask, value))


def filled(self: Argument, mask: torch.Tensor, value: Argument) -> Parts:
    _check_mask("mask", mask)
    pairs = zip(both(self), both(value), strict=True)
    return Parts(*(part.masked_fill(mask, number) for part, number in pairs))


def _check_mask(name: str, mask: torch.Tensor) -> None:
    if isinstance(mask, ComplexTensor):
        raise TypeError(
            f"argument '{name}' has dtype {mask.dtype}, allowed is torch.bool; "
            f"compare first, for example x != 0"
        )


@implements(aten.fill.Scalar, aten.fill.Tensor)
def fill(self: ComplexTensor, value: Argument) -> ComplexTensor:
    parts = zip(both(self), both(value), strict=True)
    return joined(*(part.clone().fill_(number) for part, number in parts))


def _with_value(function: Function) -> Any:
    """Returns an implementation by an operator that writes a number at an index of each part."""

    def implementation(self: ComplexTensor, dim: int, index: torch.Tensor, value: Argument) -> Any:
        (a_real, a_imag), (real, imag) = both(self), both(value)
        return joined(function(a_real, dim, index, real), function(a_imag, dim, index, imag))

    return implementation


for _operator in (*overloads_of("index_fill"), aten.scatter.value, aten.scatter.src):
    TABLE[_operator] = _with_value(_operator)


@implements(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_reduced(
    self: Argument, dim: int, index: torch.Tensor, value: Argument, *, reduce: str
) -> ComplexTensor:
    function = aten.scatter.reduce if isinstance(value, torch.Tensor) else aten.scatter.value_reduce
    if reduce != "add":  # products of as many numbers as there are equal indices
        on_the_host: ComplexTensor = below_autograd(function, "torch.scatter with 'multiply'")(
            self, dim, index, value, reduce=reduce
        )
        return on_the_host
    pairs = zip(both(self), both(value), strict=True)
    return joined(*(function(part, dim, index, x, reduce="add") for part, x in pairs))


@implements(aten.scatter_reduce.two)
def scatter_reduce(
    self: Argument,
    dim: int,
    index: torch.Tensor,
    src: Argument,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    arguments = (self, dim, index, src, reduce)
    if reduce == "prod":
        function = below_autograd(aten.scatter_reduce.two, "torch.scatter_reduce with 'prod'")
    elif reduce in ("sum", "mean"):
        function = on_both_parts(aten.scatter_reduce.two)
    else:
        raise refusal(aten.scatter_reduce.two, arguments, {"include_self": include_self})
    return function(*arguments, include_self=include_self)


TABLE[aten.index_reduce.default] = below_autograd(aten.index_reduce.default, "torch.index_reduce")


@implements(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(
    self: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    values: object,
    accumulate: bool = False,
) -> ComplexTensor:
    parts = zip(both(self), both(values), strict=True)
    return joined(*(aten.index_put(part, indices, value, accumulate) for part, value in parts))


@implements(aten.index_put_.default, aten._index_put_impl_.default)
def index_put_(
    self: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, *options: bool
) -> torch.Tensor:
    if not isinstance(self, ComplexTensor):
        if self.is_complex() and isinstance(values, ComplexTensor):
            values = values.to_complex()
        return aten._index_put_impl_(self, indices, values, *options)
    for part, value in zip((self._real, self._imag), both(values), strict=True):
        aten._index_put_impl_(part, indices, value, *options)
    return self


@implements(aten.native_dropout.default)
def native_dropout(
    input: ComplexTensor, p: float, train: bool | None
) -> tuple[ComplexTensor, torch.Tensor]:
    factor, mask = aten.native_dropout(torch.ones_like(input._real), p, train)
    return joined(input._real * factor, input._imag * factor), mask


def is_nonzero(x: object) -> Any:
    """Returns which numbers are not zero."""
    if not isinstance(x, ComplexTensor):
        return x != 0
    return (x._real != 0).bitwise_or(x._imag != 0)


def _of_nonzero(function: Function, count: int) -> Any:
    """Returns an implementation that applies the operator to whether numbers are not zero.

    count: how many arguments are numbers.
    """

    def implementation(*args: object, **kwargs: object) -> Any:
        return function(*map(is_nonzero, args[:count]), *args[count:], **kwargs)

    return implementation


for _operator in overloads_of("all any argwhere count_nonzero logical_not nonzero nonzero_static"):
    TABLE[_operator] = _of_nonzero(_operator, 1)
for _operator in overloads_of("logical_and logical_or logical_xor"):
    TABLE[_operator] = _of_nonzero(_operator, 2)
for _operator in overloads_of("isnan isinf"):
    TABLE[_operator] = lambda self, _of=_operator: _of(self._real).bitwise_or(_of(self._imag))


def is_finite(real: torch.Tensor, imag: torch.Tensor) -> torch.Tensor:
    """Returns where both parts are finite.

    It uses operators for which DTensor has rules below autograd. There `&` is an operator of its
    own, for which DTensor gathers the tensor, as for isfinite.
    """
    return (real.abs() < torch.inf).bitwise_and(imag.abs() < torch.inf)


TABLE[aten.isfinite.default] = lambda self: is_finite(self._real, self._imag)
