"""Copies of tensors that all devices have, and checks of the shards of DTensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate

from trnfft.base.autograd_types import Context
from trnfft.base.torch_private import functional_collectives
from trnfft.complex.dtensor import local_of, replicated, summed_placements, without_partial
from trnfft.complex.parts import join, parts_of
from trnfft.distributed.run import exclusive_exchanges

collectives = functional_collectives()


def local_copy_of(x: torch.Tensor, mesh: DeviceMesh, split: tuple[int, ...]) -> torch.Tensor:
    """Returns this device's copy of a tensor that all devices have. Differentiable.

    Args:
        x: a DTensor of copies, or this device's tensor.
        mesh: the devices.
        split: the dimensions of the mesh along which devices do different parts of the work. The
            gradient is the sum along these dimensions.
    """
    if x.is_complex():
        own = parts_of(x)
        parts = [local_copy_of(part, mesh, split) for part in own]
        return x if parts[0] is own[0] else join(*parts)
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
    """Checks the result of `misfit`."""
    if wrong:
        raise RuntimeError(f"argument 'input' has {wrong}")


class _Copy(torch.autograd.Function):
    """The tensor itself, whose gradient is the sum along dimensions of the mesh."""

    @staticmethod
    def forward(ctx: Context, x: torch.Tensor, mesh: DeviceMesh, split: tuple[int, ...]) -> Any:
        ctx.mesh, ctx.split = mesh, split
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Context, grad: torch.Tensor) -> Any:
        return _Sum.apply(grad, ctx.mesh, ctx.split), None, None


class _Sum(torch.autograd.Function):
    """The derivative of `_Copy`, which is the derivative of `_Sum` in turn."""

    @staticmethod
    def forward(ctx: Context, x: torch.Tensor, mesh: DeviceMesh, split: tuple[int, ...]) -> Any:
        ctx.mesh, ctx.split = mesh, split
        for along in split:
            group = mesh.get_group(along)
            exclusive_exchanges.start(group)
            with exclusive_exchanges.interrupted(group):
                x = collectives.wait_tensor(collectives.all_reduce(x.contiguous(), "sum", group))
            exclusive_exchanges.arrive(group)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Context, grad: torch.Tensor) -> Any:
        return _Copy.apply(grad, ctx.mesh, ctx.split), None, None
