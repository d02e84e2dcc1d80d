"""Traces of torch.jit.trace, which keep numbers of the input that they were made with.

A trace of a transform holds for any batch and lengths, but keeps the number of dimensions, one of a
convolution also the sizes that it convolves along. For others both would compute something else.
"""

from collections.abc import Iterable
from typing import TypeVar

import torch

from trnfft.complex.tensor import ComplexTensor

Numbers = TypeVar("Numbers", torch.Tensor, ComplexTensor, torch.Tensor | ComplexTensor)


def is_traced() -> bool:
    """Whether what is computed now is recorded, to be computed again for other numbers."""
    return (
        torch.compiler.is_compiling()
        or torch.compiler.is_exporting()
        or torch._C._len_torch_dispatch_stack() > 0  # make_fx, fake tensors
        or torch._C._is_tracing()  # type: ignore[attr-defined]  # as torch.jit.is_tracing, in half
    )


def held(x: Numbers, dims: Iterable[int] = ()) -> Numbers:
    """`x`; its trace raises a RuntimeError for another number of dimensions, or sizes of `dims`."""
    if torch.jit.is_tracing():
        x = x.permute(*range(x.ndim))  # type: ignore[assignment]  # views of the same shape, which need this one
        for dim in dims:
            x = x.unflatten(dim, (int(x.shape[dim]),))
    return x
