"""Helpers for DTensors of torch.distributed, which `trnfft.distributed` transforms."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

from trnfft.complex.tensor import ComplexTensor, join, parts_of


def is_sharded(x: torch.Tensor | ComplexTensor) -> bool:
    """Returns whether a tensor is a DTensor, or a ComplexTensor whose parts are DTensors."""
    # A caller that has a DTensor has imported the whole module; another thread may be importing it.
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    if kind is None:
        return False
    if not isinstance(x, ComplexTensor):
        return isinstance(x, kind)
    part = parts_of(x)[0] if torch.compiler.is_compiling() else x._real
    return isinstance(part, kind)


def placement_of(x: torch.Tensor | ComplexTensor) -> Any:
    """Returns a DTensor's mesh and its placements on the mesh, or None for other tensors."""
    if not is_sharded(x):
        return None
    part: Any = parts_of(x)[0] if isinstance(x, ComplexTensor) else x
    return part.device_mesh, tuple(part.placements)


def is_split(x: torch.Tensor | ComplexTensor, dim: int) -> bool:
    """Returns whether a dimension of a DTensor is split."""
    placed = placement_of(x)
    return placed is not None and any(
        getattr(placement, "dim", None) == dim % x.ndim for placement in placed[1]
    )


def summed(x: Any) -> Any:
    """Returns the tensor; for a DTensor, with its pending sums carried out."""
    if not is_sharded(x):
        return x
    from trnfft.distributed import dtensor  # here, as it loads DTensor

    return dtensor.without_partial(x)


def copied(x: torch.Tensor) -> torch.Tensor:
    """Returns a copy; a DTensor with pending sums is returned as it is.

    Copying it would carry out the sums, or place the tensor anew.
    """
    if is_sharded(x):
        from trnfft.distributed import dtensor  # here, as it loads DTensor

        placed: Any = x
        return x if dtensor.is_pending(placed) else x.clone()
    return x.clone()


def split(z: torch.Tensor) -> ComplexTensor:
    """Returns a native complex tensor, DTensor or not, as a ComplexTensor. Differentiable."""
    if not is_sharded(z):
        return join(*parts_of(z))
    from trnfft.distributed import dtensor  # here, as it loads DTensor

    placed: Any = z
    return dtensor.split(placed)


def like_copies(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Returns a tensor that can be written into `like`, of which every device has a copy.

    The result is a DTensor if `like` is one.
    """
    if not is_sharded(x):
        return x
    placed: Any = x
    if not is_sharded(like):
        return placed.full_tensor()  # type: ignore[no-any-return]
    return placed.redistribute(like.device_mesh, like.placements)  # type: ignore[attr-defined, no-any-return]


def replicated(x: torch.Tensor, like: torch.Tensor | ComplexTensor) -> Any:
    """Returns a tensor that all devices have as a DTensor if `like` is one, else the tensor."""
    if not is_sharded(like) or is_sharded(x):
        return x
    from trnfft.distributed import dtensor  # here, as it loads DTensor

    mesh, _ = placement_of(like)
    return dtensor.replicated(x, mesh)


def takes_shards(layer: torch.nn.Module, x: torch.Tensor | ComplexTensor) -> bool:
    """Returns whether a layer can compute each shard of a DTensor, because no parameter is split.

    With split parameters the layer computes DTensors, by torch's rules for operators.
    """
    if not is_sharded(x):
        return False
    placed = [placement_of(value) for value in (*layer.parameters(), *layer.buffers())]
    return all(p.is_replicate() for each in placed if each is not None for p in each[1])


def of_shards(
    function: Callable[..., Any],
    x: torch.Tensor | ComplexTensor,
    dims: Iterable[int],
    *arguments: Any,
    **named: Any,
) -> Any:
    """Calls `trnfft.distributed.shards.apply`, for a function along `dims` of a DTensor."""
    from trnfft.distributed import shards  # here, as it loads DTensor

    return shards.apply(function, x, dims, *arguments, **named)
