"""New tensors of the shape of another, named as in torch; of a real dtype they are real."""

import math
from typing import Any

import torch

from trnfft.complex.lifting import Function
from trnfft.complex.parts import both_parts_of
from trnfft.complex.tensor import ComplexTensor, dtype_of_parts


def like_each_part(function: Function) -> Function:
    """The function that makes real tensors, once for each part."""

    def implementation(
        input: ComplexTensor, *args: Any, dtype: torch.dtype | None = None, **kwargs: Any
    ) -> Any:
        real, imag = (
            function(part, *args, dtype=dtype_of_parts(dtype), **kwargs)
            for part in (input.real, input.imag)
        )
        return ComplexTensor(real, imag) if dtype is None or dtype.is_complex else real

    return implementation


def full_like(
    input: ComplexTensor, fill_value: Any, *, dtype: torch.dtype | None = None, **kwargs: Any
) -> Any:
    if dtype is not None and not dtype.is_complex:
        return torch.full_like(input.real, fill_value, dtype=dtype, **kwargs)
    kwargs["dtype"] = dtype_of_parts(dtype)
    real, imag = both_parts_of(fill_value)
    return ComplexTensor(
        torch.full_like(input.real, real, **kwargs), torch.full_like(input.imag, imag, **kwargs)
    )


def randn_like(input: ComplexTensor, **kwargs: Any) -> ComplexTensor:
    # The variance of the complex number is one, so that of each part a half.
    return like_each_part(torch.randn_like)(input, **kwargs) * math.sqrt(0.5)
