"""Sums, products, powers and comparisons, named as in torch.

Either operand may be the ComplexTensor, the other one real or a number.
"""

import numbers
from typing import Any

import torch

from trnfft.complex.creation import full_like
from trnfft.complex.elementary import exp, log, sqrt
from trnfft.complex.lifting import Function
from trnfft.complex.parts import both_parts_of, is_inexact
from trnfft.complex.selection import masked_fill, where
from trnfft.complex.tensor import ComplexTensor


def _operator(name: str, reflected: str) -> Function:
    """The operator's method of the operand that is the ComplexTensor."""

    # Not the operator itself, for which torch.compile would call __torch_function__ again.
    def implementation(input: Any, other: Any) -> Any:
        if isinstance(input, ComplexTensor):
            result = getattr(input, name)(other)
        else:
            result = getattr(other, reflected)(input)
        if result is NotImplemented:
            raise TypeError(
                f"argument 'other' is of type {type(other).__name__}, allowed are ComplexTensor, "
                f"torch.Tensor and numbers; convert it with torch.as_tensor"
            )
        return result

    return implementation


add = _operator("__add__", "__radd__")
sub = _operator("__sub__", "__rsub__")
mul = _operator("__mul__", "__rmul__")
div = _operator("__truediv__", "__rtruediv__")
eq = _operator("__eq__", "__eq__")
ne = _operator("__ne__", "__ne__")


def with_alpha(function: Function) -> Function:
    """The sum or difference with the second operand times an argument `alpha`."""

    def implementation(input: Any, other: Any, *, alpha: Any = 1) -> ComplexTensor:
        if alpha == 1:
            return function(input, other)
        like = input if isinstance(input, ComplexTensor) else other
        return function(input, _promoted(alpha, like) * other)

    return implementation


def pow(input: Any, exponent: Any) -> ComplexTensor:
    if isinstance(exponent, numbers.Real) and float(exponent).is_integer():
        return _integer_power(input, int(float(exponent)))
    if isinstance(exponent, numbers.Real) and exponent == 0.5:
        return sqrt(input)
    z, w = _promoted(input, exponent), _promoted(exponent, input)
    dtype = torch.result_type(z.real, w.real)  # also of what the smaller operand's logarithm is in
    z, w = z.to(dtype), w.to(dtype)
    is_zero = z == 0
    # The logarithm of zero is infinite: compute elsewhere, then write the limit.
    limit = torch.where(w.real > 0, 0.0, torch.nan).to(z.real.dtype).masked_fill(w == 0, 1)
    power = exp(w * log(masked_fill(z, is_zero, 1)))
    return where(is_zero, limit, power)


def _integer_power(base: ComplexTensor, exponent: int) -> ComplexTensor:
    """By squaring: log2(exponent) roundings, and no logarithm."""
    if exponent == 0:
        return full_like(base, 1)
    base = 1 / base if exponent < 0 else base.clone()
    power = base
    for digit in bin(abs(exponent))[3:]:
        power = power * power
        power = power * base if digit == "1" else power
    return power


def _promoted(value: Any, like: Any) -> ComplexTensor:
    """The tensor or number as a ComplexTensor, in the dtype of `like` if it has no parts'."""
    if isinstance(value, ComplexTensor):
        return value
    if is_inexact(value):
        return ComplexTensor.from_complex(value)
    options = {"dtype": like.real.dtype, "device": like.device}
    return ComplexTensor(*(torch.as_tensor(part, **options) for part in both_parts_of(value)))


def equal(input: Any, other: Any) -> bool:
    return input.shape == other.shape and bool(eq(input, other).all())


def isclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> torch.Tensor:
    close = eq(input, other)
    if equal_nan:
        close = close | (torch.isnan(input) & torch.isnan(other))
    error = sub(input, other).abs()
    return close | (error.isfinite() & (error <= atol + rtol * abs(other)))


def allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    return bool(isclose(input, other, rtol, atol, equal_nan).all())
