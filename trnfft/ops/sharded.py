"""DTensors of torch.distributed, which `trnfft.distributed` transforms."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch

from trnfft.complex.tensor import ComplexTensor, join, parts_of


def is_sharded(x: torch.Tensor | ComplexTensor) -> bool:
    """Whether a tensor is a DTensor, or a ComplexTensor made of such."""
    # Who has one has imported that whole; another thread may be about to.
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    if kind is None:
        return False
    if not isinstance(x, ComplexTensor):
        return isinstance(x, kind)
    part = parts_of(x)[0] if torch.compiler.is_compiling() else x._real
    return isinstance(part, kind)


def placement_of(x: torch.Tensor | ComplexTensor) -> Any:
    """The mesh of a DTensor and its placements on that; None for other tensors."""
    if not is_sharded(x):
        return None
    part: Any = parts_of(x)[0] if isinstance(x, ComplexTensor) else x
    return part.device_mesh, tuple(part.placements)


def is_split(x: torch.Tensor | ComplexTensor, dim: int) -> bool:
    """Whether a dimension of a DTensor is split."""
    placed = placement_of(x)
    return placed is not None and any(
        getattr(placement, "dim", None) == dim % x.ndim for placement in placed[1]
    )


def summed(x: Any) -> Any:
    """The tensor, of a DTensor with the sums done that are pending."""
    if not is_sharded(x):
        return x
    from trnfft.distributed import dtensor  # here, as it loads DTensor

    return dtensor.without_partial(x)


def copied(x: torch.Tensor) -> torch.Tensor:
    """A copy; of a DTensor with pending sums itself, which a copy would do or place anew."""
    if is_sharded(x):
        from trnfft.distributed import dtensor  # here, as it loads DTensor

        placed: Any = x
        return x if dtensor.is_pending(placed) else x.clone()
    return x.clone()


def split(z: torch.Tensor) -> ComplexTensor:
    """A native complex tensor, DTensor or not, as a ComplexTensor. Differentiable."""
    if not is_sharded(z):
        return join(*parts_of(z))
    from trnfft.distributed import dtensor  # here, as it loads DTensor

    placed: Any = z
    return dtensor.split(placed)


def like_copies(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """What can be written into `like`, of which every device has a copy, as a DTensor or not."""
    if not is_sharded(x):
        return x
    placed: Any = x
    if not is_sharded(like):
        return placed.full_tensor()  # type: ignore[no-any-return]
    return placed.redistribute(like.device_mesh, like.placements)  # type: ignore[attr-defined, no-any-return]


def replicated(x: torch.Tensor, like: torch.Tensor | ComplexTensor) -> Any:
    """A tensor that all devices have as a DTensor, where `like` is one; else itself."""
    if not is_sharded(like) or is_sharded(x):
        return x
    from trnfft.distributed import dtensor  # here, as it loads DTensor

    mesh, _ = placement_of(like)
    return dtensor.replicated(x, mesh)


def takes_shards(layer: torch.nn.Module, x: torch.Tensor | ComplexTensor) -> bool:
    """Whether a layer is to compute each shard of a DTensor: not where its parameters are split.

    With these it computes DTensors, by the rules that torch has for operators.
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
    """As `trnfft.distributed.shards.apply`: a function that works along `dims` of a DTensor."""
    from trnfft.distributed import shards  # here, as it loads DTensor

    return shards.apply(function, x, dims, *arguments, **named)
