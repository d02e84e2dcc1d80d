"""Traces of torch.jit.trace, which keep some numbers of the input with which they were made.

The trace of a transform is valid for any batch and any lengths, but keeps the number of dimensions.
The trace of a convolution also keeps the sizes of the dimensions along which it convolves. For
other numbers, both traces would compute a wrong result.
"""

from collections.abc import Iterable
from typing import TypeVar

import torch

from trnfft.complex.tensor import ComplexTensor
from trnfft.ops.operand import mode_now

Numbers = TypeVar("Numbers", torch.Tensor, ComplexTensor, torch.Tensor | ComplexTensor)


def held(x: Numbers, dims: Iterable[int] = ()) -> Numbers:
    """Returns `x`; a trace then raises RuntimeError for another number of dimensions.

    dims: dimensions whose sizes may not change either.
    """
    if mode_now() == "traced":
        x = x.permute(*range(x.ndim))  # views of the same shape, which need this one
        for dim in dims:
            x = x.unflatten(dim, (int(x.shape[dim]),))
    return x
