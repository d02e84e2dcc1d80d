"""DTensors as shards of this device and back, with derivatives of every order.

In some versions torch's own `to_local` and `from_local` have only first derivatives. This module
loads DTensor, and is imported only where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeGuard

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate
from torch.distributed.tensor.placement_types import Placement

from trnfft.base.autograd_types import Context


class Kind(NamedTuple):
    """The properties of a DTensor other than its numbers."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: torch.Size
    stride: tuple[int, ...]

    @staticmethod
    def in_rows(mesh: DeviceMesh, placements: Iterable[Placement], shape: Sequence[int]) -> Kind:
        """Returns the kind of a contiguous tensor."""
        return Kind(mesh, tuple(placements), torch.Size(shape), contiguous_strides(shape))


def local_of(x: torch.Tensor) -> torch.Tensor:
    """Returns the shard of a DTensor. Differentiable."""
    if torch.compiler.is_compiling():
        return x.to_local()  # type: ignore[attr-defined]
    return _ToLocal.apply(x)


def distributed(local: torch.Tensor, kind: Kind) -> DTensor:
    """Returns the DTensor of which this device has the given shard. Differentiable."""
    if torch.compiler.is_compiling():
        return _made(local, kind)
    return _FromLocal.apply(local, kind)


def dtensors_of_parts(
    x: Any, parts_of: Callable[[torch.Tensor], tuple[torch.Tensor, ...]]
) -> list[DTensor]:
    """Returns the DTensors of the parts that `parts_of` returns for a shard. Differentiable.

    x.real would bring all numbers of uneven shards to all devices.
    """
    kind = Kind.in_rows(x.device_mesh, x.placements, x.shape)
    return [distributed(part, kind) for part in parts_of(local_of(x))]


def replicated(x: torch.Tensor, mesh: DeviceMesh) -> DTensor:
    """Returns a real tensor that all devices have as a DTensor."""
    kind = Kind.in_rows(mesh, (Replicate(),) * mesh.ndim, x.shape)
    return distributed(x.contiguous(), kind)


def summed_placements(x: DTensor) -> tuple[Placement, ...]:
    """Returns the placements of a DTensor after its pending sums are carried out."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in x.placements)


def is_pending(x: object) -> TypeGuard[DTensor]:
    """Returns whether x is a DTensor with pending sums."""
    return isinstance(x, DTensor) and any(isinstance(p, Partial) for p in x.placements)


def without_partial(x: DTensor) -> DTensor:
    """Returns the DTensor, or where sums are pending, the DTensor with the sums carried out."""
    return x.redistribute(placements=summed_placements(x)) if is_pending(x) else x


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of a contiguous tensor of this shape."""
    strides, stride = [], 1
    for size in reversed(shape):
        strides.append(stride)
        stride *= max(size, 1)
    return tuple(reversed(strides))


def _made(local: torch.Tensor, kind: Kind) -> DTensor:
    return DTensor.from_local(
        local, kind.mesh, kind.placements, run_check=False, shape=kind.shape, stride=kind.stride
    )


class _ToLocal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, x: DTensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)  # materialized gradients would not be DTensors
        ctx.kind = Kind(x.device_mesh, tuple(x.placements), x.shape, x.stride())
        local = x.to_local()
        # a view, because autograd must not note anything at the tensor of x
        return local.view_as(local)

    @staticmethod
    def backward(ctx: Context, grad: torch.Tensor | None) -> Any:
        return None if grad is None else _FromLocal.apply(grad, ctx.kind)


class _FromLocal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, local: torch.Tensor, kind: Kind) -> DTensor:
        ctx.set_materialize_grads(False)
        ctx.kind = kind
        return _made(local.detach(), kind)

    @staticmethod
    def backward(ctx: Context, grad: DTensor | None) -> Any:
        if grad is None:
            return None, None
        if tuple(grad.placements) != ctx.kind.placements:
            grad = grad.redistribute(ctx.kind.mesh, ctx.kind.placements)
        return _ToLocal.apply(grad), None
