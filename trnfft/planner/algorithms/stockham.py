"""Stockham: stages of any radices on the Tensor engine."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from nki_kernels.fft import stage, stockham
from nki_sim.hardware import NeuronCore
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, MatrixAlgorithm, least_of
from trnfft.planner.factorization import prime_factors, radix_lists
from trnfft.planner.plan import Recipe

RADIX_LISTS = 10  # lists of radices for one length


class Stockham(MatrixAlgorithm):
    """Stages of radices up to 128 as matrix products, one transform in each partition."""

    name = "stockham"
    title = "Stockham"
    kernel = stockham.stockham
    shortest, longest = 2, stage.MAX_LENGTH
    ahead = Ahead(4096, 128, "trn1")

    def why_not_inside(self, n: int) -> str:
        largest = prime_factors(n)[-1]
        if largest > stage.MAX_RADIX:
            return f"has no radix for the prime factor {largest}"
        return ""

    def recipes(self, n: int) -> list[Recipe]:
        lists = radix_lists(n, stage_work, RADIX_LISTS, stage.MAX_RADIX)
        return [self.recipe(n, radices) for radices in lists]

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return stockham.stockham_specs(recipe.radices, self.dtype, self.refined)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        options = (inverse, scale, self.dtype, self.refined)
        return stockham.stockham_tables(recipe.n, recipe.radices, *options)

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        cycles = 1.0 if self.dtype == "float32" else 0.25
        columns = stage_work(recipe.radices)[0] * least_of(1.6, 1.9, rows)
        return cycles * columns / chip.tensor_columns_per_ns

    def error(self, recipe: Recipe) -> float:
        if self.dtype == "float32":
            return accuracy.stages_error(recipe.radices)
        return accuracy.bfloat16_error(len(recipe.radices), self.refined)


def stage_work(radices: tuple[int, ...]) -> tuple[int, int]:
    """Returns the columns that a transform moves, then the numbers of its tables, as a rank."""
    stages = stage.stages_of(radices)
    numbers = sum(math.prod(stage.stage_spec(one)[0]) for one in stages)
    return columns_moved(stages), numbers


def columns_moved(stages: Iterable[stage.Stage]) -> int:
    """Returns the columns that products and transposes of stages move over the Tensor engine."""
    columns = 0
    for one in stages:
        # A product and a transpose. The transpose has 128 columns at twice the rate, but VectorE
        # copies them. Two row tiles move theirs side by side, in a first stage for two transforms.
        both = one.products * one.pieces * (max(64, one.columns) + 128)
        columns += both // one.pair
    return columns
