"""Bluestein: a convolution with a chirp, by two transforms of a longer, smooth length."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

from nki_kernels.fft import bluestein, stage
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm, Tables
from trnfft.planner.algorithms.stockham import columns_moved
from trnfft.planner.factorization import radix_lists
from trnfft.planner.plan import Recipe

CONVOLUTIONS = 4  # convolutions that are priced for one length


class ChirpConvolution(LengthAlgorithm):
    """A convolution with a chirp by two transforms of the algorithm `inner`."""

    def __init__(self, inner: LengthAlgorithm) -> None:
        self.inner = inner

    def around(self, n: int, lists: Iterable[tuple[int, ...]]) -> list[Recipe]:
        """Returns a recipe for length n for each list of radices of the inner transform."""
        inner = [self.inner.recipe(math.prod(radices), radices) for radices in lists]
        return [self.recipe(n, inner=recipe) for recipe in inner]

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        return (inner_of(recipe).radices,)

    def error(self, recipe: Recipe) -> float:
        once = self.inner.error(inner_of(recipe))
        return accuracy.root_of_squares(once, once, accuracy.UNIT)


class Bluestein(ChirpConvolution):
    """A convolution with a chirp, by two Stockham transforms of a longer, smooth length."""

    name = "bluestein"
    title = "Bluestein"
    kernel = bluestein.bluestein
    shortest, longest = 2, bluestein.MAX_CONVOLVED
    moved = (2.3, 2.1)
    ahead = Ahead(1009, 1, "trn1")

    def recipes(self, n: int) -> list[Recipe]:
        work = partial(convolution_work, n)
        # With two stages or more, one stage beyond the fewest is never among the least work.
        spare = 1 if 2 * n <= stage.MAX_RADIX else 0
        lists = [
            radices
            for m in bluestein.convolution_lengths(n)
            for radices in radix_lists(m, work, CONVOLUTIONS, stage.MAX_RADIX, spare)
        ]
        return self.around(n, sorted(lists, key=work)[:CONVOLUTIONS])

    def columns(self, recipe: Recipe) -> float:
        return convolution_work(recipe.n, inner_of(recipe).radices)

    def table_specs(self, recipe: Recipe) -> Tables:
        return bluestein.bluestein_specs(recipe.n, inner_of(recipe).radices)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        n, inner = recipe.n, inner_of(recipe)
        return bluestein.bluestein_tables(n, inner.n, inner.radices, inverse, scale)


def inner_of(recipe: Recipe) -> Recipe:
    """Returns the transform of another length that a convolution's recipe contains."""
    assert recipe.inner is not None, f"{recipe} has no inner transform"
    return recipe.inner


def convolution_work(n: int, radices: tuple[int, ...]) -> int:
    """Returns the columns that Bluestein's products and transposes move, as a rank."""
    return columns_moved(bluestein.stages_of(n, radices))
