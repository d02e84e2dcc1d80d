"""Placements of DTensors, and of ComplexTensors whose parts are DTensors."""

from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from trnfft.complex.parts import is_sharded, join, parts_of, real_tensors_of
from trnfft.complex.tensor import ComplexTensor


def placement_of(x: torch.Tensor | ComplexTensor) -> Any:
    """Returns a DTensor's mesh and its placements on the mesh, or None for other tensors."""
    if not is_sharded(x):
        return None
    part: Any = parts_of(x)[0] if isinstance(x, ComplexTensor) else x
    return part.device_mesh, tuple(part.placements)


def is_split_over_devices(x: torch.Tensor | ComplexTensor, dim: int) -> bool:
    """Returns whether a dimension of a DTensor is split."""
    placed = placement_of(x)
    return placed is not None and any(
        getattr(placement, "dim", None) == dim % x.ndim for placement in placed[1]
    )


def summed(x: torch.Tensor) -> torch.Tensor:
    """Returns the tensor; for a DTensor, with its pending sums carried out."""
    if not is_sharded(x):
        return x
    from trnfft.complex import dtensor  # here, as it loads DTensor

    return dtensor.without_partial(x) if dtensor.is_pending(x) else x


def like_copies(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Returns a tensor that can be written into `like`, of which every device has a copy.

    The result is a DTensor if `like` is one.
    """
    if not is_sharded(x):
        return x
    placed: Any = x
    placement = placement_of(like)
    return placed.full_tensor() if placement is None else placed.redistribute(*placement)


def replicated(x: torch.Tensor, like: torch.Tensor | ComplexTensor) -> Any:
    """Returns a tensor that all devices have as a DTensor if `like` is one, else the tensor."""
    if not is_sharded(like) or is_sharded(x):
        return x
    mesh, _ = placement_of(like)
    return replicated_on(mesh, x)


def replicated_on(mesh: DeviceMesh, x: torch.Tensor) -> Any:
    """Returns a tensor that all devices have as a DTensor, complex numbers as two parts."""
    from trnfft.complex import dtensor  # here, as it loads DTensor

    made = [dtensor.replicated(part, mesh) for part in real_tensors_of(x)]
    return join(*made) if len(made) == 2 else made[0]
