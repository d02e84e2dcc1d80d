"""Functions of both parts of a ComplexTensor."""

from collections.abc import Callable
from typing import TypeVar

import torch

from trnfft.complex.tensor import ComplexTensor, join, parts_of

Numbers = TypeVar("Numbers", bound=torch.Tensor)


def each_part(function: Callable[[torch.Tensor], torch.Tensor], x: Numbers) -> Numbers:
    """Applies the function to a real tensor, or to both parts of a ComplexTensor."""
    if isinstance(x, ComplexTensor):
        return join(*map(function, parts_of(x)))  # type: ignore[return-value]
    return function(x)  # type: ignore[return-value]
