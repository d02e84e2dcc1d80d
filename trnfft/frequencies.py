"""Sample frequencies and their order: torch.fft's own functions, for ComplexTensor too."""

from collections.abc import Iterable
from typing import TypeVar

import torch

from trnfft.complex.tensor import ComplexTensor

fftfreq = torch.fft.fftfreq
rfftfreq = torch.fft.rfftfreq

Shifted = TypeVar("Shifted", torch.Tensor, ComplexTensor)


def fftshift(input: Shifted, dim: int | Iterable[int] | None = None) -> Shifted:
    """Bring the zero frequency to the middle.

    Args:
        input: tensor of any dtype and shape.
        dim: the dimensions to reorder. Default: all.

    Raises:
        IndexError: a dimension is out of range.
    """
    if isinstance(input, ComplexTensor):
        return ComplexTensor(fftshift(input.real, dim), fftshift(input.imag, dim))
    return torch.fft.fftshift(input, dim)


def ifftshift(input: Shifted, dim: int | Iterable[int] | None = None) -> Shifted:
    """Undo `fftshift`, also for odd sizes; arguments as there."""
    if isinstance(input, ComplexTensor):
        return ComplexTensor(ifftshift(input.real, dim), ifftshift(input.imag, dim))
    return torch.fft.ifftshift(input, dim)
