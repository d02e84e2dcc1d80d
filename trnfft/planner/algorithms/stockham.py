"""Stockham: stages of any radices on the Tensor engine."""

from __future__ import annotations

import math
from collections.abc import Iterable

from nki_kernels.fft import stage, stockham
from trnfft.base.cache import cached
from trnfft.planner.algorithms.algorithm import Ahead, MatrixAlgorithm
from trnfft.planner.factorization import radix_lists
from trnfft.planner.plan import Recipe

RADIX_LISTS = 10  # lists of radices for one length


class Stockham(MatrixAlgorithm):
    """Stages of radices up to 128 as matrix products, one transform in each partition."""

    name = "stockham"
    title = "Stockham"
    kernel = stockham.stockham
    make_tables = staticmethod(stockham.stockham_tables)
    make_specs = staticmethod(stockham.stockham_specs)
    shortest, longest = 2, stage.MAX_LENGTH
    largest_radix = stage.MAX_RADIX
    moved = (1.6, 1.9)
    ahead = Ahead(4096, 128, "trn1")

    def recipes(self, n: int) -> list[Recipe]:
        return [self.recipe(n, radices) for radices in _lists(n)]

    def columns(self, recipe: Recipe) -> float:
        return stage_work(recipe.radices)[0]


@cached(64)  # a search asks for each dtype
def _lists(n: int) -> list[tuple[int, ...]]:
    return radix_lists(n, stage_work, RADIX_LISTS, stage.MAX_RADIX)


def stage_work(radices: tuple[int, ...]) -> tuple[int, int]:
    """Returns the columns that a transform moves, then the numbers of its tables, as a rank."""
    stages = stage.stages_of(radices)
    numbers = sum(math.prod(stage.stage_spec(each)[0]) for each in stages)
    return columns_moved(stages), numbers


def columns_moved(stages: Iterable[stage.Stage]) -> int:
    """Returns the columns that products and transposes of stages move over the Tensor engine."""
    columns = 0
    for each in stages:
        # A product and a transpose. The transpose has 128 columns at twice the rate, but VectorE
        # copies them. Two row tiles move theirs side by side, in a first stage for two transforms.
        both = each.products * each.pieces * (max(64, each.columns) + 128)
        columns += both // each.pair
    return columns
