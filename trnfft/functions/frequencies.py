"""Sample frequencies and their order: torch.fft's own functions, also for ComplexTensors."""

from collections.abc import Callable, Iterable

import torch

from trnfft.complex.parts import Numbers, described, is_sharded
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.arguments import check_tensor, dimension, integers
from trnfft.ops.many_devices import of_shards

fftfreq = torch.fft.fftfreq
rfftfreq = torch.fft.rfftfreq


def fftshift(input: Numbers, dim: int | Iterable[int] | None = None) -> Numbers:
    """Returns the tensor with the zero frequency moved to the middle.

    The counterpart in torch is `torch.fft.fftshift`.

    Args:
        input: a tensor of any dtype and shape, or a ComplexTensor.
        dim: the dimensions to reorder. Default: all.

    Returns:
        A tensor with the shape, dtype and kind of `input`.

    Raises:
        TypeError: an argument has the wrong type.
        IndexError: a dimension is out of range.
        RuntimeError: no dimensions are given, or `input` has none.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.fftshift(trnfft.fftfreq(4, d=0.25))
        tensor([-2., -1.,  0.,  1.])
    """
    return _shifted(torch.fft.fftshift, input, dim)


def ifftshift(input: Numbers, dim: int | Iterable[int] | None = None) -> Numbers:
    """Returns the tensor with the zero frequency moved from the middle to the front.

    It is the inverse of `fftshift`, also for odd sizes. The counterpart in torch is
    `torch.fft.ifftshift`.

    Args:
        input, dim: as for `fftshift`.

    Examples:
        >>> import torch, trnfft
        >>> trnfft.ifftshift(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([ 0.,  1., -1.])
    """
    return _shifted(torch.fft.ifftshift, input, dim)


def _shifted(
    shift: Callable[..., Numbers], input: Numbers, dim: int | Iterable[int] | None
) -> Numbers:
    check_tensor("input", described(input) if isinstance(input, ComplexTensor) else input)
    chosen = range(input.ndim) if dim is None else integers("dim", dim)
    dims = [dimension("dim", each, input.ndim) for each in chosen]
    if not dims:
        raise RuntimeError(
            f"argument 'dim' is {dim} for argument 'input' of {input.ndim} dimensions, allowed are "
            f"one or more dimensions of 'input'"
        )
    if is_sharded(input):
        for each in dims:  # one at a time, so that other dimensions can be split meanwhile
            input = of_shards(shift, input, [each], [each])
        return input
    return shift(input, dims)
