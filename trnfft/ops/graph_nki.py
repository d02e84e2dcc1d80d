"""Kernels in a graph: launches whose tables are operands, determined before the graph is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from trnfft.backends.backend import Call, Parts
from trnfft.backends.nki import Nki
from trnfft.ops.reference import reference
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Recipe


def tables_of(
    shapes: Sequence[tuple[int, ...]], call: Call, device: torch.device
) -> list[torch.Tensor]:
    """Returns the tables of a transform's launches, in the order of the launches, on the device."""
    backend = Rehearsal(device)
    getattr(backend, call.kind)(tuple(torch.empty(s, device="meta") for s in shapes), call)
    return backend.tables


class GraphNki(Nki):
    """The kernels with given tables, those of `tables_of`."""

    is_in_graph = True

    def __init__(self, tables: Sequence[torch.Tensor]) -> None:
        super().__init__("nki")
        self.tables = iter(tables)

    def _tables(self, recipe: Recipe, inverse: bool, scale: float, device: torch.device) -> Any:
        arguments = ALGORITHMS[recipe.algorithm].arguments(recipe, inverse, scale)
        return tuple(
            next(self.tables) if isinstance(argument, np.ndarray) else argument
            for argument in arguments
        )


class Rehearsal(Nki):
    """Follows the kernels' steps on tensors without data, to find the tables that launches need."""

    is_in_graph = True

    def __init__(self, device: torch.device) -> None:
        super().__init__("nki")
        self.device = device
        self.tables: list[torch.Tensor] = []

    def run(
        self, recipe: Recipe, x: Parts, inverse: bool = False, scale: float = 1.0
    ) -> list[torch.Tensor]:
        operands = self._tables(recipe, inverse, scale, self.device)
        self.tables += [item for item in operands if isinstance(item, torch.Tensor)]
        return reference(recipe, x, inverse, scale)

    def _check(self, x: torch.Tensor) -> None:
        pass
