"""Conversions of DTensors to the shards of this device and back, with derivatives of every order.

In some versions torch's own `to_local` and `from_local` have only first derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed._functional_collectives as collectives
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate
from torch.distributed.tensor.placement_types import Placement

from trnfft.complex.tensor import ComplexTensor, join, parts_of
from trnfft.distributed import turns


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


def split(x: DTensor) -> ComplexTensor:
    """Returns a complex DTensor as a ComplexTensor of two real DTensors. Differentiable.

    x.real would bring all numbers of uneven shards to all devices.
    """
    kind = Kind.in_rows(x.device_mesh, x.placements, x.shape)
    return join(*(distributed(part, kind) for part in parts_of(local_of(x))))


def replicated(x: torch.Tensor, mesh: DeviceMesh) -> Any:
    """Returns a tensor that all devices have as a DTensor, complex numbers as two parts."""
    parts = parts_of(x) if x.is_complex() else (x,)
    kind = Kind.in_rows(mesh, (Replicate(),) * mesh.ndim, x.shape)
    made = [distributed(part.contiguous(), kind) for part in parts]
    return join(*made) if len(made) == 2 else made[0]


def local_copy_of(x: torch.Tensor, mesh: DeviceMesh, split: tuple[int, ...]) -> torch.Tensor:
    """Returns this device's copy of a tensor that all devices have. Differentiable.

    Args:
        x: a DTensor of copies, or this device's tensor.
        mesh: the devices.
        split: the dimensions of the mesh along which devices do different parts of the work. The
            gradient is the sum along these dimensions.

    Raises:
        NotImplementedError: x is a DTensor that is split, or on another mesh.
    """
    if x.is_complex():
        parts = [local_copy_of(part, mesh, split) for part in parts_of(x)]
        return x if parts[0] is parts_of(x)[0] else join(*parts)
    if isinstance(x, DTensor):
        x = without_partial(x)
        if x.device_mesh != mesh or not all(isinstance(p, Replicate) for p in x.placements):
            raise NotImplementedError(
                f"an argument or parameter of shape {tuple(x.shape)} has the placements "
                f"{tuple(x.placements)} on {x.device_mesh}, allowed are copies on the mesh of the "
                f"input; use .redistribute(placements=[Replicate()] * mesh.ndim) before"
            )
    if torch.compiler.is_compiling():
        x = x if isinstance(x, DTensor) else replicated(x, mesh)
        return x.to_local(
            grad_placements=[Partial() if i in split else Replicate() for i in range(mesh.ndim)]
        )
    local = local_of(x) if isinstance(x, DTensor) else x
    return _Copy.apply(local, mesh, split) if local.requires_grad else local


def misfit(parts: Sequence[DTensor], wanted: tuple[int, ...]) -> str:
    """Returns what is wrong with this device's shards of this shape, or "" where nothing is.

    DTensor.from_local does not check what it is told.
    """
    if len(parts) > 1 and len({(part.device_mesh, summed_placements(part)) for part in parts}) > 1:
        both = " and ".join(f"{part.placements} on {part.device_mesh}" for part in parts)
        return (
            f"parts with the placements {both}, allowed are equal placements; use "
            f".redistribute(placements=...) of one part before"
        )
    for part in parts:
        shape = tuple(part._local_tensor.shape)
        if shape != wanted:
            return (
                f"a shard of shape {shape} in place of {wanted}, the chunk of torch.chunk that its "
                f"placements mean; give DTensor.from_local such chunks, and the shape of the whole"
            )
    return ""


def check_fits(wrong: str) -> None:
    """Checks the result of `misfit`.

    Raises:
        RuntimeError: something is wrong.
    """
    if wrong:
        raise RuntimeError(f"argument 'input' has {wrong}")


def summed_placements(x: DTensor) -> tuple[Placement, ...]:
    """Returns the placements of a DTensor after its pending sums are carried out."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in x.placements)


def is_pending(x: Any) -> bool:
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


class _Copy(torch.autograd.Function):
    """The tensor itself, whose gradient is the sum along dimensions of the mesh."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, mesh: DeviceMesh, split: tuple[int, ...]) -> Any:
        ctx.mesh, ctx.split = mesh, split
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        return _Sum.apply(grad, ctx.mesh, ctx.split), None, None


class _Sum(torch.autograd.Function):
    """The derivative of `_Copy`, which is the derivative of `_Sum` in turn."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, mesh: DeviceMesh, split: tuple[int, ...]) -> Any:
        ctx.mesh, ctx.split = mesh, split
        for along in split:
            group = mesh.get_group(along)
            turns.start(group)
            with turns.interrupted(group):
                x = collectives.wait_tensor(collectives.all_reduce(x.contiguous(), "sum", group))
            turns.arrive(group)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # type: ignore[override]
        return _Copy.apply(grad, ctx.mesh, ctx.split), None, None


class _ToLocal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: DTensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)  # materialized gradients would not be DTensors
        ctx.kind = Kind(x.device_mesh, tuple(x.placements), x.shape, x.stride())
        local = x.to_local()
        # a view, because autograd must not note anything at the tensor of x
        return local.view_as(local)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None) -> Any:  # type: ignore[override]
        return None if grad is None else _FromLocal.apply(grad, ctx.kind)


class _FromLocal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: torch.Tensor, kind: Kind) -> DTensor:
        ctx.set_materialize_grads(False)
        ctx.kind = kind
        return _made(local.detach(), kind)

    @staticmethod
    def backward(ctx: Any, grad: DTensor | None) -> Any:  # type: ignore[override]
        if grad is None:
            return None, None
        if tuple(grad.placements) != ctx.kind.placements:
            grad = grad.redistribute(ctx.kind.mesh, ctx.kind.placements)
        return _ToLocal.apply(grad), None
