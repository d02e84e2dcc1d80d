"""What a launch returns, computed by torch: one function a kind, in the file of its operator.

Checks of models have these references in place of the kernels, graphs know the shapes of results by
them on tensors without data, and tests compare kernels with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from trnfft.backends.backend import Call, Parts
from trnfft.backends.torch_native import TorchNative
from trnfft.planner import kinds

if TYPE_CHECKING:
    from trnfft.planner.plan import Recipe

Reference = Callable[["Recipe", Parts, bool, float], list[torch.Tensor]]

_references: dict[type[kinds.Kind], Reference] = {}


def reference_of(*records: type[kinds.Kind]) -> Callable[[Reference], Reference]:
    """Returns a decorator for the reference of kinds, which the file of their operator has."""

    def register(function: Reference) -> Reference:
        _references.update(dict.fromkeys(records, function))
        return function

    return register


def reference(
    recipe: Recipe, x: Parts, inverse: bool = False, scale: float = 1.0
) -> list[torch.Tensor]:
    """Returns the results of a launch, in the shapes in which the kernel returns them.

    Of a spectral convolution, `inverse` says whether the weight is the adjoint one.
    """
    return _references[type(recipe.kind)](recipe, x, inverse, scale)


@reference_of(kinds.Transform)
def _transform(recipe: Recipe, x: Parts, inverse: bool, scale: float) -> list[torch.Tensor]:
    """Transforms data, to which zeros are added, or of whose result a part is kept."""
    kind = recipe.kind
    if kind.data and kind.part != kinds.C2R:
        missing = [n - m for n, m in zip(kind.lengths, kind.data, strict=True)]
        zeros = [n for size in reversed(missing) for n in (0, size)]
        x = tuple(torch.nn.functional.pad(part, zeros) for part in x)
    call = Call(kind.part, inverse, kind.lengths, (), scale, "fast")
    results = getattr(TorchNative(), kind.part)(x, call)
    if kind.data and kind.part == kinds.C2R:
        return [y[(..., *map(slice, kind.data))] for y in results]
    return list(results)
