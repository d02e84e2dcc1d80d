"""The real part of the transform of real planes in one launch, as FNet mixes tokens.

    Y = Re F x F,  x real [..., S, H],  F the DFT matrices of both axes

Y is linear in x, by a symmetric matrix, so that its derivative is the same operator. On backends
with NKI kernels, where the planner says so, one kernel reads x and writes Y, without imaginary
parts. Everywhere else Y is the real part of a complex transform. The operator is
`trnfft::real_fft2` of torch.library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from trnfft.backends.backend import Call
from trnfft.backends.choice import named
from trnfft.base.autograd_types import Context
from trnfft.ops import autocast
from trnfft.ops.operand import Operand, operand_of
from trnfft.ops.operators import batched, recipe_for
from trnfft.ops.reference import reference_of
from trnfft.ops.transforms import owned, transformed_parts
from trnfft.planner import kinds

if TYPE_CHECKING:
    from trnfft.planner.plan import Recipe


def takes(x: Operand) -> bool:
    """Returns whether a kernel may compute `real_fft2`, or compiled code may ask.

    float16 and bfloat16 have to be converted to float32 for it.
    """
    if x.mode == "traced" or x.is_sharded or len(x.parts) == 2:
        return False
    if x.is_in_graph and x.like.device.type == "neuron":  # whose compiler accepts only launches
        return False  # that trnfft names
    if x.like.dtype not in (torch.float16, torch.bfloat16, torch.float32) or x.like.numel() == 0:
        return False
    return x.is_in_graph or bool(_kernel_backend(x))


def real_fft2(x: Operand) -> torch.Tensor:
    """Computes the real part of `fft2` along the last two axes. Differentiable, also twice.

    Args:
        x: float32, [..., S, H].

    Returns:
        A contiguous tensor of the same shape.
    """
    if not takes(x):
        return by_transform(x)
    if x.is_in_graph:
        return _real_fft2(x.like, "")
    return _Mixed.apply(x.like, _kernel_backend(x))


def by_transform(x: Operand) -> torch.Tensor:
    """Computes `real_fft2` by a transform, and frees the imaginary part."""
    ndim, sizes = x.like.ndim, tuple(x.like.shape[-2:])
    real, _ = transformed_parts(x, Call("c2c", False, sizes, (ndim - 2, ndim - 1)))
    return real.clone(memory_format=torch.contiguous_format)


def _kernel_backend(x: Operand) -> str:
    """Returns the backend whose kernel computes the planes, or "" where a transform does."""
    name = x.kernel_backend()
    return name if name and _recipe(x) is not None else ""


def _recipe(x: Operand) -> Any:
    """Returns the recipe of the kernel, or None where a transform is cheaper."""
    rows, columns = x.like.shape[-2:]
    planes = kinds.RealPlanes(rows, columns)
    return recipe_for(planes, x.like.numel() // (rows * columns), execution=x.execution)


@reference_of(kinds.RealPlanes)
def reference(
    recipe: Recipe, x: Sequence[torch.Tensor], inverse: bool, scale: float
) -> list[torch.Tensor]:
    """Returns what the kernel of a recipe returns, by torch.fft: see `trnfft.ops.reference`."""
    return [scale * torch.fft.fft2(x[0]).real]


@torch.library.custom_op("trnfft::real_fft2", mutates_args=())
def _real_fft2(x: torch.Tensor, backend: str) -> torch.Tensor:
    """Computes `real_fft2` for a backend, or for "" by the choice of this call."""
    given = operand_of(x)
    backend = backend or _kernel_backend(given)
    recipe = _recipe(given) if backend else None
    if recipe is None:
        with autocast.switched_off(x.device):
            return owned(by_transform(given))
    (y,) = named(backend).run(recipe, (x.reshape(-1, *x.shape[-2:]),))
    return owned(y.reshape(x.shape))


@_real_fft2.register_fake
def _(x: torch.Tensor, backend: str) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _setup(ctx: Context, inputs: object, output: object) -> None:
    """Keeps nothing, because the derivative does not depend on the input."""


def _backward(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
    return real_fft2(operand_of(grad)), None


_real_fft2.register_autograd(_backward, setup_context=_setup)


class _Mixed(torch.autograd.Function):
    """`_real_fft2` in eager mode."""

    generate_vmap_rule = True
    setup_context = staticmethod(_setup)
    backward = staticmethod(_backward)

    @staticmethod
    def forward(x: torch.Tensor, backend: str) -> torch.Tensor:
        return _real_fft2(x, backend)

    @staticmethod
    def jvp(ctx: Context, tangent: torch.Tensor, backend: None) -> torch.Tensor:
        return real_fft2(operand_of(tangent))


_real_fft2.register_vmap(batched(_real_fft2))
