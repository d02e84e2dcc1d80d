"""Sample frequencies and their order: torch.fft's own functions, for ComplexTensor too."""

from collections.abc import Iterable

import torch

from trnfft.complex.parts import Numbers

fftfreq = torch.fft.fftfreq
rfftfreq = torch.fft.rfftfreq


def fftshift(input: Numbers, dim: int | Iterable[int] | None = None) -> Numbers:
    """Bring the zero frequency to the middle.

    Args:
        input: tensor of any dtype and shape.
        dim: the dimensions to reorder. Default: all.

    Raises:
        IndexError: a dimension is out of range.
    """
    return torch.fft.fftshift(input, dim)


def ifftshift(input: Numbers, dim: int | Iterable[int] | None = None) -> Numbers:
    """Undo `fftshift`, also for odd sizes; arguments as there."""
    return torch.fft.ifftshift(input, dim)
