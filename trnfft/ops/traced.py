"""Traces of torch.jit.trace, which keep some numbers of the input with which they were made.

The trace of a transform is valid for any batch and any lengths, but keeps the number of dimensions.
The trace of a convolution also keeps the sizes of the dimensions along which it convolves. For
other numbers, both traces would compute a wrong result.
"""

from collections.abc import Iterable
from typing import TypeVar

import torch

from trnfft.base.torch_private import is_tracing, len_torch_dispatch_stack
from trnfft.complex.tensor import ComplexTensor

Numbers = TypeVar("Numbers", torch.Tensor, ComplexTensor, torch.Tensor | ComplexTensor)


def is_traced() -> bool:
    """Returns whether operations are recorded now, to be computed again for other numbers."""
    return (
        torch.compiler.is_compiling()
        or torch.compiler.is_exporting()
        or len_torch_dispatch_stack() > 0  # make_fx, fake tensors
        or is_tracing()  # as torch.jit.is_tracing, in half of the time
    )


def held(x: Numbers, dims: Iterable[int] = ()) -> Numbers:
    """Returns `x`; a trace then raises RuntimeError for another number of dimensions.

    dims: dimensions whose sizes may not change either.
    """
    if torch.jit.is_tracing():
        x = x.permute(*range(x.ndim))  # views of the same shape, which need this one
        for dim in dims:
            x = x.unflatten(dim, (int(x.shape[dim]),))
    return x
