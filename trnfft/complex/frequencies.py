"""Sample frequencies and their order: torch.fft's own functions, for ComplexTensor too."""

from collections.abc import Iterable
from typing import Any

import torch

from trnfft.arguments import check_tensor, dimension, integers
from trnfft.complex.parts import Numbers
from trnfft.complex.tensor import ComplexTensor, described
from trnfft.ops.sharded import is_sharded, of_shards

fftfreq = torch.fft.fftfreq
rfftfreq = torch.fft.rfftfreq


def fftshift(input: Numbers, dim: int | Iterable[int] | None = None) -> Numbers:
    """Bring the zero frequency to the middle.

    Args:
        input: tensor of any dtype and shape.
        dim: the dimensions to reorder. Default: all.

    Raises:
        TypeError: an argument is of the wrong type.
        IndexError: a dimension is out of range.
        RuntimeError: there are no dimensions.
    """
    return _shifted(torch.fft.fftshift, input, dim)


def ifftshift(input: Numbers, dim: int | Iterable[int] | None = None) -> Numbers:
    """Undo `fftshift`, also for odd sizes; arguments as there."""
    return _shifted(torch.fft.ifftshift, input, dim)


def _shifted(shift: Any, input: Numbers, dim: int | Iterable[int] | None) -> Numbers:
    check_tensor("input", described(input) if isinstance(input, ComplexTensor) else input)
    chosen = range(input.ndim) if dim is None else integers("dim", dim)
    dims = [dimension("dim", each, input.ndim) for each in chosen]
    if not dims:
        raise RuntimeError(
            f"argument 'dim' is {dim} for argument 'input' of {input.ndim} dimensions, allowed are "
            f"one or more of them; there is nothing to shift"
        )
    if is_sharded(input):
        for each in dims:  # as one at a time leaves others to split meanwhile
            input = of_shards(shift, input, [each], [each])
        return input
    return shift(input, dims)  # type: ignore[no-any-return]
