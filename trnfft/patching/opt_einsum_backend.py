"""Functions that opt_einsum calls for a ComplexTensor, as in neuraloperator through tensorly.

opt_einsum looks functions up in the package of the first operand's class. It therefore calls
`trnfft.einsum`, `trnfft.tensordot` and `trnfft.transpose`, with NumPy's arguments.
"""

from collections.abc import Sequence

import torch

einsum = torch.einsum


def tensordot(a: torch.Tensor, b: torch.Tensor, axes: object = 2) -> torch.Tensor:
    """Returns the sum over pairs of axes, as numpy.tensordot."""
    return torch.tensordot(a, b, dims=axes)


def transpose(a: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """Returns the tensor with its axes in another order, as numpy.transpose."""
    return a.permute(*axes)
