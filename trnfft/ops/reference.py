"""What a launch returns, computed by torch: one function a kind, beside the operator of the kind.

Checks of models have these references in place of the kernels, graphs know the shapes of results by
them on tensors without data, and tests compare kernels with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from trnfft.backends.backend import Call, Parts
from trnfft.backends.torch_native import TorchNative
from trnfft.ops import (
    block_circulant,
    convolution,
    frames,
    real_fft2,
    spectral_convolution,
)
from trnfft.planner import kinds
from trnfft.planner.plan import Recipe


def _transform(recipe: Recipe, x: Parts, inverse: bool, scale: float) -> list[torch.Tensor]:
    """Transforms data, to which zeros are added, or of whose result a part is kept."""
    kind = recipe.kind
    assert isinstance(kind, kinds.Transform)
    if kind.data and kind.part != kinds.C2R:
        missing = [n - m for n, m in zip(kind.lengths, kind.data, strict=True)]
        zeros = [n for size in reversed(missing) for n in (0, size)]
        x = tuple(torch.nn.functional.pad(part, zeros) for part in x)
    call = Call(kind.part, inverse, kind.lengths, (), scale, "fast")
    results = getattr(TorchNative(), kind.part)(x, call)
    if kind.data and kind.part == kinds.C2R:
        return [y[(..., *map(slice, kind.data))] for y in results]
    return list(results)


_REFERENCES: dict[type[Any], Callable[..., list[torch.Tensor]]] = {
    kinds.Transform: _transform,
    kinds.Convolution: convolution.reference,
    kinds.BlockCirculant: block_circulant.reference,
    kinds.SpectralLayer: spectral_convolution.reference,
    kinds.SpectralGradients: spectral_convolution.reference,
    kinds.Frames: frames.reference,
    kinds.RealPlanes: real_fft2.reference,
}


def reference(
    recipe: Recipe, x: Parts, inverse: bool = False, scale: float = 1.0
) -> list[torch.Tensor]:
    """Returns the results of a launch, in the shapes in which the kernel returns them.

    Args:
        recipe: a recipe of any kind.
        x: the float32 inputs of the kernel, on any device.
        inverse: the direction; for a spectral convolution, whether the weight is the adjoint one.
        scale: a factor on transforms.
    """
    return _REFERENCES[type(recipe.kind)](recipe, x, inverse, scale)
