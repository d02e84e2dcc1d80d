"""Exponential, logarithm, root, sign, trigonometric and hyperbolic functions, named as in torch."""

import torch

from trnfft.complex.selection import masked_fill
from trnfft.complex.tensor import ComplexTensor


def exp(input: ComplexTensor) -> ComplexTensor:
    return ComplexTensor.from_polar(torch.exp(input.real), input.imag)


def log(input: ComplexTensor) -> ComplexTensor:
    a, b, absolute = input.real, input.imag, input.abs()
    # Near z = 1, rounding the absolute value would cost the digits of its logarithm.
    is_near = (absolute > 0.5) & (absolute < 2)
    excess = ((a - 1) * (a + 1) + b * b).masked_fill(~is_near, 0)
    real = torch.where(is_near, torch.log1p(excess) / 2, torch.log(absolute))
    return ComplexTensor(real, input.angle())


def sqrt(input: ComplexTensor) -> ComplexTensor:
    """The root with a real part >= 0; on the cut, the sign of the zero chooses the side."""
    real, imag = input.real, input.imag
    is_right = real >= 0
    sign = torch.copysign(torch.ones_like(imag), imag.detach())
    # The larger of the parts, then the smaller one without a difference that cancels.
    large = torch.sqrt(torch.where(is_right, real, -real) / 2 + input.abs() / 2)
    small = sign * imag / (2 * large.masked_fill(large == 0, 1))
    return ComplexTensor(
        torch.where(is_right, large, small), sign * torch.where(is_right, small, large)
    )


def sgn(input: ComplexTensor) -> ComplexTensor:
    absolute = input.abs()
    is_zero = absolute == 0
    return masked_fill(input / absolute.masked_fill(is_zero, 1), is_zero, 0)


def sin(input: ComplexTensor) -> ComplexTensor:
    a, b = input.real, input.imag
    return ComplexTensor(torch.sin(a) * torch.cosh(b), torch.cos(a) * torch.sinh(b))


def cos(input: ComplexTensor) -> ComplexTensor:
    a, b = input.real, input.imag
    return ComplexTensor(torch.cos(a) * torch.cosh(b), -torch.sin(a) * torch.sinh(b))


def sinh(input: ComplexTensor) -> ComplexTensor:
    a, b = input.real, input.imag
    return ComplexTensor(torch.sinh(a) * torch.cos(b), torch.cosh(a) * torch.sin(b))


def cosh(input: ComplexTensor) -> ComplexTensor:
    a, b = input.real, input.imag
    return ComplexTensor(torch.cosh(a) * torch.cos(b), torch.sinh(a) * torch.sin(b))


def tanh(input: ComplexTensor) -> ComplexTensor:
    # The addition theorem: unlike sinh / cosh, it does not overflow.
    a, b = torch.tanh(input.real), torch.tan(input.imag)
    return ComplexTensor(a, b) / ComplexTensor(torch.ones_like(a), a * b)
