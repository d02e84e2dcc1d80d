"""Functions whose derivatives, or whose composition, torch writes in native complex tensors.

Here they are real functions of the parts, above autograd, so that the derivative is that of the
parts. The operators of the table below autograd use the same functions of parts.
"""

import functools
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from trnfft.base.torch_private import DisableTorchFunctionSubclass
from trnfft.complex import selection
from trnfft.complex.arithmetic import complex_pow
from trnfft.complex.dispatch import Argument, Parts, both, exported
from trnfft.complex.elementary import complex_sinc
from trnfft.complex.parts import join, parts_of
from trnfft.complex.products import bilinear_parts
from trnfft.complex.reductions import complex_cumprod, complex_prod
from trnfft.complex.refusals import refusing
from trnfft.complex.table import FUNCTIONS, Function
from trnfft.complex.tensor import ComplexTensor


def _composite(names: str, *owners: object) -> Callable[[Function], Function]:
    """Decorates a function as the implementation of torch's functions and methods of these names.

    Calls with an argument `out` are left to torch.
    """

    def register(function: Function) -> Function:
        for name in names.split():
            for owner in owners or (torch, torch.Tensor):
                original = getattr(owner, name, None)
                if original is not None:
                    FUNCTIONS[original] = _unless_written(function, original)
        return function

    return register


def _unless_written(function: Function, original: Function) -> Function:
    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> Any:
        return (
            function(*args, **kwargs)
            if kwargs.get("out") is None
            else as_torch(original, *args, **kwargs)
        )

    return call


def as_torch(function: Function, *args: object, **kwargs: object) -> Any:
    """Calls torch's own function, whose operators come to the table."""
    with DisableTorchFunctionSubclass():
        if torch.compiler.is_exporting():
            return exported(function, args, kwargs)
        return function(*args, **kwargs)


def opened(value: object) -> Any:
    """Returns the parts of a ComplexTensor, with derivatives; other values as they are."""
    if isinstance(value, numbers.Complex) and not isinstance(value, (int, float)):
        return complex(value)
    return Parts(*parts_of(value)) if isinstance(value, ComplexTensor) else value


def _on_each_part(
    function: Function, values: Iterable[object], *args: object, **kwargs: object
) -> ComplexTensor:
    reals, imags = zip(*(both(opened(x)) for x in values), strict=True)
    return join(function(*reals, *args, **kwargs), function(*imags, *args, **kwargs))


@_composite("abs absolute __abs__")
def abs(input: ComplexTensor) -> torch.Tensor:
    a, b = opened(input)
    # The derivative of hypot at zero is 0 / 0, so hypot is computed elsewhere, and the zero is
    # written.
    zero = (a == 0).bitwise_and(b == 0)
    return torch.hypot(a.masked_fill(zero, 1), b).masked_fill(zero, 0)


for _name in ("mse_loss", "smooth_l1_loss", "huber_loss"):
    FUNCTIONS[getattr(torch.nn.functional, _name)] = refusing(
        NotImplementedError,
        f"{_name} of complex numbers is not defined, as in torch; use it for real numbers, or "
        f"write for example (input - target).abs().square().mean()",
    )


# Choosing numbers


@_composite("where", torch)
def where(condition: torch.Tensor, *branches: Argument, **named: Argument) -> Any:
    if not branches and not named:
        return as_torch(torch.where, condition)
    return _chosen(condition, *branches, **named)


@_composite("where", torch.Tensor)
def _where(self: Argument, condition: torch.Tensor, other: Argument) -> Any:
    return _chosen(condition, self, other)


def _chosen(condition: torch.Tensor, input: Argument, other: Argument) -> ComplexTensor:
    return join(*selection.chosen(condition, opened(input), opened(other)))


@_composite("masked_fill")
def masked_fill(input: Argument, mask: torch.Tensor, value: Argument) -> ComplexTensor:
    return join(*selection.filled(opened(input), mask, opened(value)))


# Powers and products


@_composite("pow __pow__")
def pow(input: Argument, exponent: Argument) -> Any:
    if not isinstance(exponent, torch.Tensor):
        return as_torch(torch.pow, input, opened(exponent))
    return join(*complex_pow(opened(input), opened(exponent)))


@_composite("__rpow__")
def _rpow(self: Argument, other: Argument) -> Any:
    return pow(other, self)


@_composite("float_power")
def float_power(input: Argument, exponent: Argument) -> Any:
    return pow(_double(input), _double(exponent))


def _double(value: Argument) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


@_composite("sinc", torch, torch.Tensor, torch.special)
def sinc(input: ComplexTensor) -> ComplexTensor:
    return join(*complex_sinc(*opened(input)))


@_composite("prod")
def prod(
    input: ComplexTensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> ComplexTensor:
    return join(*complex_prod(opened(input), dim, keepdim, dtype=dtype))


@_composite("cumprod")
def cumprod(input: ComplexTensor, dim: int, *, dtype: torch.dtype | None = None) -> ComplexTensor:
    return join(*complex_cumprod(opened(input), dim, dtype=dtype))


# Moving numbers


@_composite("cat concat concatenate")
def cat(tensors: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> ComplexTensor:
    if all(x.numel() for x in tensors):
        return as_torch(torch.cat, tensors, *args, **kwargs)
    return _on_each_part(lambda *parts: torch.cat(parts, *args, **kwargs), tensors)


@_composite("block_diag")
def block_diag(*tensors: torch.Tensor) -> ComplexTensor:
    return _on_each_part(torch.block_diag, tensors)


def _part_by_part(function: Function) -> Function:
    def call(input: ComplexTensor, *args: object, **kwargs: object) -> ComplexTensor:
        return _on_each_part(function, [input], *args, **kwargs)

    return call


for _owner, _names in (
    (torch, "nan_to_num tile trace"),
    (torch.Tensor, "nan_to_num repeat tile trace"),
):
    for _name in _names.split():
        _composite(_name, _owner)(_part_by_part(getattr(_owner, _name)))


@_composite("put")
def put(
    input: object, index: torch.Tensor, source: object, accumulate: bool = False
) -> ComplexTensor:
    return _on_each_part(
        lambda part, written: torch.put(part, index, written, accumulate), [input, source]
    )


@_composite("index_put")
def index_put(
    input: object,
    indices: tuple[torch.Tensor | None, ...] | list[torch.Tensor | None],
    values: object,
    accumulate: bool = False,
) -> ComplexTensor:
    return _on_each_part(
        lambda part, written: torch.index_put(part, indices, written, accumulate), [input, values]
    )


@_composite("__setitem__")
def _set_item(self: Argument, index: object, value: Argument) -> None:
    if isinstance(self, ComplexTensor) and isinstance(value, (int, float, complex)):
        # torch would make a native tensor of the same dtype from a number.
        value = join(*(self._real.new_tensor(part) for part in both(value)))
    if not isinstance(self, ComplexTensor) or not _has_derivative(self, value):
        as_torch(torch.Tensor.__setitem__, self, index, value)
        return
    written = [part.clone() for part in opened(self)]
    for part, number in zip(written, both(opened(value)), strict=True):
        part[index] = number
    self.copy_(join(*written))


@_composite("diagonal_scatter")
def diagonal_scatter(input: object, src: object, *args: object, **kwargs: object) -> ComplexTensor:
    return _on_each_part(torch.diagonal_scatter, [input, src], *args, **kwargs)


def _in_place(function: Function, original: Function) -> Function:
    """Returns the function that writes its result into its first argument."""

    @functools.wraps(original)
    def call(self: Argument, *args: object, **kwargs: object) -> Any:
        if not isinstance(self, ComplexTensor) or not _has_derivative(self, *args):
            return as_torch(original, self, *args, **kwargs)
        # The function gets a copy, because the derivative keeps what it needs of its argument.
        return self.copy_(function(self.clone(), *args, **kwargs))

    return call


def _has_derivative(*values: object) -> bool:
    followed = any(isinstance(x, torch.Tensor) and x.requires_grad for x in values)
    return followed and torch.is_grad_enabled()


for _function in (masked_fill, pow, put, index_put, cumprod):
    _original = getattr(torch.Tensor, _function.__name__ + "_")
    FUNCTIONS[_original] = _in_place(_function, _original)


# Convolutions


def _convolution(function: Function) -> Function:
    """Returns a convolution, which is linear in its input and in its weight."""

    @functools.wraps(function)
    def convolution(
        input: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *args: object,
        **kwargs: object,
    ) -> Any:
        def convolved(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            return function(x, w, None, *args, **kwargs)

        parts = [opened(input), opened(weight)]
        is_complex = any(isinstance(x, Parts) for x in parts)
        sums: Any = bilinear_parts(convolved, *parts) if is_complex else convolved(input, weight)
        sums = join(*sums) if is_complex else sums
        # The channels' dimension is followed by as many dimensions as a kernel has.
        return sums if bias is None else sums + bias.reshape(-1, *[1] * (weight.ndim - 2))

    return convolution


for _name in (
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
):
    _composite(_name, torch)(_convolution(getattr(torch, _name)))


# Statistics


@_composite("cov")
def cov(input: ComplexTensor, **kwargs: object) -> ComplexTensor:
    if input.ndim == 2 and input.shape[0] > 1:
        return as_torch(torch.cov, input, **kwargs)
    # torch makes a native complex number for one variable, so the variable is taken twice.
    return as_torch(torch.cov, torch.stack([input, input]).flatten(0, -2), **kwargs)[0, 0]


@_composite("corrcoef")
def corrcoef(input: ComplexTensor) -> ComplexTensor:
    covariance = cov(input)
    if not covariance.ndim:
        return covariance / covariance
    deviation = covariance.diagonal().real.sqrt()
    coefficients = covariance / deviation[:, None] / deviation
    return join(*(part.clip(-1, 1) for part in parts_of(coefficients)))


# Functions of matrices


@_composite("matrix_power", torch, torch.Tensor, torch.linalg)
def matrix_power(input: ComplexTensor, n: int) -> ComplexTensor:
    if n != 0 or input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        return as_torch(torch.linalg.matrix_power, input, n)
    real = parts_of(input)[0]
    identity = torch.eye(input.shape[-1], dtype=real.dtype, device=real.device).expand_as(real)
    return join(identity.clone(), torch.zeros_like(real))


@_composite("slogdet", torch, torch.Tensor, torch.linalg)
def slogdet(input: ComplexTensor) -> Any:
    factors, pivots, _ = torch.linalg.lu_factor_ex(input)
    diagonal = factors.diagonal(dim1=-2, dim2=-1)
    swaps = pivots != torch.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    sign = prod(torch.sgn(diagonal), -1) * (1 - 2 * (swaps.sum(-1) % 2))
    return torch.return_types.linalg_slogdet(  # type: ignore[attr-defined]
        (sign, torch.log(abs(diagonal)).sum(-1))
    )


@_composite("logdet")
def logdet(input: ComplexTensor) -> ComplexTensor:
    sign, logarithm = slogdet(input)
    return torch.log(sign) + logarithm


@_composite("vander", torch.linalg)
def vander(x: ComplexTensor, *, N: int | None = None) -> torch.Tensor:
    x = torch.atleast_1d(x)
    count = x.shape[-1] if N is None else N
    if N is not None and N < 2:
        return as_torch(torch.linalg.vander, x, N=N)  # whose error says what is allowed
    powers = cumprod(x[..., None].expand(*x.shape, max(count - 1, 0)), -1)
    return torch.cat([torch.ones_like(x)[..., None], powers], dim=-1)
