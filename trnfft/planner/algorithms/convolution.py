"""Circular convolution of real rows with a filter, by the filter's spectrum."""

from __future__ import annotations

from nki_kernels.convolution import convolution
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm, Shapes, Tables
from trnfft.planner.kinds import Convolution
from trnfft.planner.kinds.convolution import CONVOLUTION
from trnfft.planner.plan import Recipe


class RowConvolution(LengthAlgorithm):
    """Circular convolution of real rows, by the stages of another algorithm forward and inverse."""

    name = "convolve_rows"
    kernel = convolution.convolve_rows
    kind = CONVOLUTION
    make_specs = staticmethod(convolution.convolution_specs)
    shortest, longest = 4, convolution.MAX_LENGTH
    moved = (31.5, 18.0)
    ahead = Ahead(5120, 200, "trn1")

    def __init__(self, inner: LengthAlgorithm) -> None:
        self.inner = inner

    def why_not_inside(self, n: int) -> str:
        return self.inner.why_not(n)

    def inputs_beside(self, recipe: Recipe, shapes: Shapes) -> list[tuple[int, ...]]:
        batch, filters = shapes[0][0], shapes[1][0]
        x, *parts = self.inputs(recipe, batch)
        # One filter for all rows, or one for each.
        return [x, *((batch if filters == batch else 1, *part[1:]) for part in parts)]

    def rows(self, n: int) -> Convolution:
        return Convolution((n,))

    def recipes(self, n: int) -> list[Recipe]:
        return [self.recipe(n, recipe.radices) for recipe in self.inner.recipes(n)]

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        first, second = recipe.radices
        return convolution.convolution_tables(recipe.n, (first, second))

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        return recipe.radices, *recipe.kind.results

    def error(self, recipe: Recipe) -> float:
        once = accuracy.stages_error(recipe.radices)
        return accuracy.root_of_squares(once, once, accuracy.UNIT)
