"""What opt_einsum looks for in the package of a tensor's class, with NumPy's names of arguments."""

from typing import Any

import torch

einsum = torch.einsum


def tensordot(x: torch.Tensor, y: torch.Tensor, axes: Any = 2) -> torch.Tensor:
    """torch.tensordot."""
    return torch.tensordot(x, y, dims=axes)


def transpose(x: torch.Tensor, axes: Any) -> torch.Tensor:
    """torch.permute."""
    return torch.permute(x, axes)
