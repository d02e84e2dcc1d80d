"""Bluestein's convolution by two long transforms: four-step's, or those split through HBM."""

from __future__ import annotations

import math
from typing import Any

from nki_kernels.kernels import four_step, long_bluestein
from nki_kernels.tiles import WHOLE_RADIX
from trnfft.planner.algorithms.algorithm import LengthAlgorithm
from trnfft.planner.algorithms.bluestein import ChirpConvolution, inner_of
from trnfft.planner.algorithms.four_step import LONG_LISTS, SHORTEST, spread_work
from trnfft.planner.factorization import radix_lists
from trnfft.planner.plan import Recipe


class LongConvolution(ChirpConvolution):
    """A convolution whose kernel takes one row, and is never lighter than the inner transform."""

    rows = 1
    make_tables: Any
    make_specs: Any

    def __init__(self, inner: LengthAlgorithm) -> None:
        super().__init__(inner)
        self.lighter = inner.name

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return self.make_specs(inner_of(recipe).radices)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        return self.make_tables(recipe.n, inner_of(recipe).radices, inverse, scale)

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        return (inner_of(recipe).radices,)


class LongBluestein(LongConvolution):
    """Bluestein's convolution by two four-step transforms."""

    name = "long_bluestein"
    kernel = long_bluestein.long_bluestein
    make_tables = staticmethod(long_bluestein.long_bluestein_tables)
    make_specs = staticmethod(long_bluestein.long_bluestein_specs)

    def why_not(self, n: int) -> str:
        longest = long_bluestein.MAX_CONVOLVED
        return "" if SHORTEST <= n <= longest else f"takes {SHORTEST} <= N <= {longest}"

    def recipes(self, n: int) -> list[Recipe]:
        first = four_step.MAX_RADIX
        found: list[Recipe] = []
        left = max(2, -(-(2 * n - 1) // first))
        while len(found) < LONG_LISTS and first * left <= four_step.MAX_LENGTH:
            for rest in radix_lists(left, spread_work, 1, four_step.MAX_RADIX):
                inner = Recipe(self.inner.name, first * left, (first, *rest))
                found.append(Recipe(self.name, n, inner=inner))
            left += 1
        return found


class SplitBluestein(LongConvolution):
    """Bluestein's convolution by two transforms of `SplitFourStep`."""

    name = "split_bluestein"
    kernel = long_bluestein.split_bluestein
    make_tables = staticmethod(long_bluestein.split_bluestein_tables)
    make_specs = staticmethod(long_bluestein.split_bluestein_specs)

    def why_not(self, n: int) -> str:
        shortest, longest = long_bluestein.MAX_CONVOLVED + 1, long_bluestein.MAX_SPLIT_CONVOLVED
        return "" if shortest <= n <= longest else f"takes {shortest} <= N <= {longest}"

    def recipes(self, n: int) -> list[Recipe]:
        split, first, last = 4, WHOLE_RADIX, four_step.MAX_RADIX
        middle = -(-(2 * n - 1) // (split * first * last))
        radices = (split, first, middle, last)
        inner = Recipe(self.inner.name, math.prod(radices), radices)
        return [Recipe(self.name, n, inner=inner)]
