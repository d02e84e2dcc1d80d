"""Exponential, logarithm, root, sign, trigonometric and hyperbolic functions and their inverses.

Functions named `complex_...` take parts and return parts; the operators use them.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

from trnfft.base.torch_private import OpOverload, decomposition_table
from trnfft.complex.dispatch import Parts, aten, both, implements, joined
from trnfft.complex.tensor import ComplexTensor

Function = Callable[[torch.Tensor, torch.Tensor], Parts]


def _operator(overload: OpOverload) -> Callable[[Function], Function]:
    """Decorates a function of parts as the implementation of an operator of ComplexTensors."""

    def register(function: Function) -> Function:
        implements(overload)(lambda self: joined(*function(self._real, self._imag)))
        return function

    return register


def absolute(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.hypot(a, b)


@implements(aten.abs.default)
def abs(self: ComplexTensor) -> torch.Tensor:
    return absolute(self._real, self._imag)


@implements(aten.angle.default)
def angle(self: ComplexTensor) -> torch.Tensor:
    return torch.atan2(self._imag, self._real)


@_operator(aten.exp.default)
def complex_exp(a: torch.Tensor, b: torch.Tensor) -> Parts:
    magnitude = torch.exp(a)
    b = b.masked_fill(magnitude == 0, 0)  # an infinite b has no cosine
    return Parts(magnitude * torch.cos(b), _times(magnitude, torch.sin(b)))


def _times(large: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    # The product is zero where the factor is zero, even if the other is infinite.
    return torch.where(factor == 0, factor, large * factor)


@_operator(aten.exp2.default)
def complex_exp2(a: torch.Tensor, b: torch.Tensor) -> Parts:
    return complex_exp(a * math.log(2), b * math.log(2))


@_operator(aten.expm1.default)
def complex_expm1(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # e^a cos b - 1 = (e^a - 1) cos b - 2 sin^2(b / 2), without a difference that cancels.
    half = torch.sin(b / 2)
    return Parts(
        torch.expm1(a) * torch.cos(b) - 2 * half * half, _times(torch.exp(a), torch.sin(b))
    )


@_operator(aten.log.default)
def complex_log(a: torch.Tensor, b: torch.Tensor) -> Parts:
    return Parts(_log_of_size(a, b, (a - 1) * (a + 1) + b * b), torch.atan2(b, a))


def _log_of_size(a: torch.Tensor, b: torch.Tensor, excess: torch.Tensor) -> torch.Tensor:
    """Returns log |a + ib|, given |a + ib|^2 - 1 without a difference that cancels."""
    size = absolute(a, b)
    # Near an absolute value of 1, its rounding would cost digits of the logarithm.
    is_near = (size > 0.5).bitwise_and(size < 2)
    near = torch.log1p(excess.masked_fill(~is_near, 0)) / 2
    return torch.where(is_near, near, torch.log(size))


@_operator(aten.log1p.default)
def complex_log1p(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # |1 + z|^2 - 1 = a (2 + a) + b^2
    return Parts(_log_of_size(1 + a, b, a * (2 + a) + b * b), torch.atan2(b, 1 + a))


def _logarithm(base: int) -> Function:
    def logarithm(a: torch.Tensor, b: torch.Tensor) -> Parts:
        real, imag = complex_log(a, b)
        return Parts(real / math.log(base), imag / math.log(base))

    return logarithm


_operator(aten.log2.default)(_logarithm(2))
_operator(aten.log10.default)(_logarithm(10))


@_operator(aten.sqrt.default)
def complex_sqrt(a: torch.Tensor, b: torch.Tensor) -> Parts:
    """Returns the root with a real part >= 0; on the cut, the sign of the zero chooses the side."""
    is_right = a >= 0
    sign = torch.copysign(torch.ones_like(b), b)
    # First the larger part, then the smaller one without a difference that cancels.
    large = torch.sqrt(torch.where(is_right, a, -a) / 2 + absolute(a, b) / 2)
    small = sign * b / (2 * large.masked_fill(large == 0, 1))
    return Parts(torch.where(is_right, large, small), sign * torch.where(is_right, small, large))


@_operator(aten.rsqrt.default)
def complex_rsqrt(a: torch.Tensor, b: torch.Tensor) -> Parts:
    return _reciprocal(*complex_sqrt(a, b))


def divided(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> Parts:
    """Returns (a + ib) / (c + id) = (a + ib)(c - id) / |c + id|^2, scaled against overflow."""
    scale = torch.maximum(c.abs(), d.abs())
    a, b, c, d = a / scale, b / scale, c / scale, d / scale
    square = c * c + d * d
    return Parts((a * c + b * d) / square, (b * c - a * d) / square)


def _reciprocal(a: torch.Tensor, b: torch.Tensor) -> Parts:
    scale = torch.maximum(a.abs(), b.abs())
    a, b = a / scale, b / scale
    square = (a * a + b * b) * scale
    return Parts(a / square, -b / square)


@_operator(aten.sgn.default)
def complex_sgn(a: torch.Tensor, b: torch.Tensor) -> Parts:
    size = absolute(a, b)
    size = size.masked_fill(size == 0, 1)
    return Parts(a / size, b / size)


@_operator(aten.square.default)
def complex_square(a: torch.Tensor, b: torch.Tensor) -> Parts:
    return Parts(a * a - b * b, 2 * a * b)


@_operator(aten.sin.default)
def complex_sin(a: torch.Tensor, b: torch.Tensor) -> Parts:
    return Parts(_times(torch.cosh(b), torch.sin(a)), torch.cos(a) * torch.sinh(b))


@_operator(aten.cos.default)
def complex_cos(a: torch.Tensor, b: torch.Tensor) -> Parts:
    return Parts(torch.cos(a) * torch.cosh(b), _times(torch.sinh(b), -torch.sin(a)))


@_operator(aten.tan.default)
def complex_tan(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # tan z = -i tanh(i z)
    return _turned_back(*complex_tanh(-b, a))


@_operator(aten.sinc.default)
def complex_sinc(a: torch.Tensor, b: torch.Tensor) -> Parts:
    """Returns sin(pi z) / (pi z), and 1 at zero."""
    is_zero = (a == 0).bitwise_and(b == 0)
    a, b = math.pi * a.masked_fill(is_zero, 1), math.pi * b
    real, imag = divided(*complex_sin(a, b), a, b)
    return Parts(real.masked_fill(is_zero, 1), imag.masked_fill(is_zero, 0))


@_operator(aten.sinh.default)
def complex_sinh(a: torch.Tensor, b: torch.Tensor) -> Parts:
    return Parts(torch.sinh(a) * torch.cos(b), _times(torch.cosh(a), torch.sin(b)))


@_operator(aten.cosh.default)
def complex_cosh(a: torch.Tensor, b: torch.Tensor) -> Parts:
    return Parts(torch.cosh(a) * torch.cos(b), _times(torch.sinh(a), torch.sin(b)))


@_operator(aten.tanh.default)
def complex_tanh(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # This is the addition theorem; unlike sinh / cosh, it does not overflow.
    t, s = torch.tanh(a), torch.tan(b)
    square = 1 + (t * s) ** 2
    return Parts(t * (1 + s * s) / square, s * (1 - t * t) / square)


@_operator(aten.sigmoid.default)
def complex_sigmoid(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # With t = e^-|a|: 1 / (1 + e^-z) has |1 + t e^ib|^2 = (1 - t)^2 + 4 t cos^2(b / 2) below it.
    is_left = a < 0
    size = torch.where(is_left, a, -a)  # -|a|, whose derivative at 0 is that of one side
    t, rest = torch.exp(size), -torch.expm1(size)
    half = _times(torch.cos(b / 2) ** 2, t)
    square = rest * rest + 4 * half
    real = torch.where(is_left, 2 * half - t * rest, rest + 2 * half)
    return Parts(real / square, _times(torch.sin(b), t) / square)


@_operator(aten.asin.default)
def complex_asin(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # asin z = -i asinh(i z)
    return _turned_back(*complex_asinh(-b, a))


@_operator(aten.acos.default)
def complex_acos(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # Kahan: acos z = 2 atan(Re p / Re r) + i asinh(Im(conj(r) p)), p = sqrt(1 - z), r = sqrt(1 + z)
    p, q = complex_sqrt(1 - a, -b)
    r, s = complex_sqrt(1 + a, b)
    return Parts(2 * torch.atan2(p, r), torch.asinh(r * q - s * p))


@_operator(aten.asinh.default)
def complex_asinh(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # Kahan: asinh(Im(p conj(r))) + i atan(b / Re(p r)), p = sqrt(1 - i z), r = sqrt(1 + i z)
    p, q = complex_sqrt(1 + b, -a)
    r, s = complex_sqrt(1 - b, a)
    return Parts(torch.asinh(p * s - q * r), torch.atan2(b, p * r - q * s))


@_operator(aten.acosh.default)
def complex_acosh(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # Kahan: asinh(Re(conj(p) r)) + 2 i atan(Im p / Re r), p = sqrt(z - 1), r = sqrt(z + 1)
    p, q = complex_sqrt(a - 1, b)
    r, s = complex_sqrt(a + 1, b)
    return Parts(torch.asinh(p * r + q * s), 2 * torch.atan2(q, r))


@_operator(aten.atan.default)
def complex_atan(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # atan z = -i atanh(i z)
    return _turned_back(*complex_atanh(-b, a))


@_operator(aten.atanh.default)
def complex_atanh(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # Re = log1p(4 a / ((1 - a)^2 + b^2)) / 4, Im = atan2(2 b, (1 - a)(1 + a) - b^2) / 2. Re is odd
    # in a, and its argument for a < 0 would cancel 1.
    sign = torch.where(a < 0, -1.0, 1.0).to(a.dtype)
    size = sign * a
    real = sign * torch.log1p(4 * size / ((1 - size) ** 2 + b * b)) / 4
    return Parts(real, torch.atan2(2 * b, (1 - a) * (1 + a) - b * b) / 2)


def _turned_back(a: torch.Tensor, b: torch.Tensor) -> Parts:
    # -i (a + ib)
    return Parts(b, -a)


@implements(aten.logaddexp.default)
def logaddexp(self: torch.Tensor, other: torch.Tensor) -> Any:
    # torch would make a real operand a native complex tensor, which the device may not store.
    whole = (joined(*both(x)) for x in (self, other))
    return decomposition_table()[aten.logaddexp.default](*whole)
