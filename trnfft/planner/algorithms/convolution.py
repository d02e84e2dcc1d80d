"""Circular convolution of real rows with a filter, by the filter's spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nki_kernels.convolution import convolution
from nki_sim.hardware import NeuronCore
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm, least_of
from trnfft.planner.kinds import Convolution
from trnfft.planner.kinds.convolution import CONVOLUTION
from trnfft.planner.plan import Recipe


class RowConvolution(LengthAlgorithm):
    """Circular convolution of real rows, by the stages of another algorithm forward and inverse."""

    name = "convolve_rows"
    kernel = convolution.convolve_rows
    kind = CONVOLUTION
    shortest, longest = 4, convolution.MAX_LENGTH
    ahead = Ahead(5120, 200, "trn1")

    def __init__(self, inner: LengthAlgorithm) -> None:
        self.inner = inner

    def why_not_inside(self, n: int) -> str:
        return self.inner.why_not(n)

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        return [(batch, *recipe.kind.held), *[(1, recipe.n // 2 + 1)] * 2]

    def inputs_beside(self, recipe: Recipe, shapes: Sequence[tuple[int, ...]]) -> Any:
        batch, filters = shapes[0][0], shapes[1][0]
        x, *parts = self.inputs(recipe, batch)
        # One filter for all rows, or one for each.
        return [x, *((batch if filters == batch else 1, *part[1:]) for part in parts)]

    def rows(self, n: int) -> Convolution:
        return Convolution((n,))

    def recipes(self, n: int) -> list[Recipe]:
        return [self.recipe(n, recipe.radices) for recipe in self.inner.recipes(n)]

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return convolution.convolution_specs(recipe.radices)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        first, second = recipe.radices
        return convolution.convolution_tables(recipe.n, (first, second))

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        return recipe.radices, *recipe.kind.results

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        return recipe.n * least_of(31.5, 18.0, rows) / chip.tensor_columns_per_ns

    def error(self, recipe: Recipe) -> float:
        once = accuracy.stages_error(recipe.radices)
        return accuracy.root_of_squares(once, once, accuracy.UNIT)
