"""What opt_einsum calls for a ComplexTensor, as neuraloperator does through tensorly.

It takes the functions from the package of the first operand's class: `trnfft.einsum`,
`trnfft.tensordot` and `trnfft.transpose`, with NumPy's arguments.
"""

from collections.abc import Sequence
from typing import Any

import torch

einsum = torch.einsum


def tensordot(a: torch.Tensor, b: torch.Tensor, axes: Any = 2) -> torch.Tensor:
    """The sum over pairs of axes, as numpy.tensordot."""
    return torch.tensordot(a, b, dims=axes)


def transpose(a: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """The axes in another order, as numpy.transpose."""
    return a.permute(*axes)
