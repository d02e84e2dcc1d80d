"""Real and imaginary parts of whatever has such: ComplexTensors, tensors and numbers."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from trnfft.complex.tensor import ComplexTensor

Numbers = TypeVar("Numbers", bound=torch.Tensor | ComplexTensor)


def each_part(function: Callable[[torch.Tensor], torch.Tensor], x: Numbers) -> Numbers:
    """The function of a real tensor, or of both parts of a ComplexTensor."""
    if isinstance(x, ComplexTensor):
        return ComplexTensor(function(x.real), function(x.imag))  # type: ignore[return-value]
    return function(x)  # type: ignore[return-value, arg-type]


def is_inexact(value: Any) -> bool:
    """Whether it is a tensor of floating point numbers, real or complex."""
    is_tensor = isinstance(value, (ComplexTensor, torch.Tensor))
    return is_tensor and (value.is_floating_point() or value.is_complex())


def parts_of(value: Any) -> tuple[Any, ...]:
    """Real and imaginary part of a tensor or number, but only the former of a real tensor."""
    if isinstance(value, torch.Tensor) and not value.is_complex():
        return (value,)
    return value.real, value.imag


def both_parts_of(value: Any) -> tuple[Any, Any]:
    """Real and imaginary part of a tensor or number; zeros for that of a real tensor."""
    real, *imag = parts_of(value)
    return real, imag[0] if imag else torch.zeros_like(real)
