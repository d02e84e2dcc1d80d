"""Radix 2 or 4 through HBM, then four-step transforms: for what SBUF cannot hold."""

from __future__ import annotations

from typing import Any

from nki_kernels.kernels import four_step, split_four_step
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import LengthAlgorithm
from trnfft.planner.algorithms.four_step import spread_work
from trnfft.planner.factorization import prime_factors, radix_lists
from trnfft.planner.plan import Recipe


class SplitFourStep(LengthAlgorithm):
    """Radix 2 or 4 through HBM, then four-step transforms: for what SBUF cannot hold."""

    name = "split_four_step"
    kernel = split_four_step.split_four_step
    rows = 1

    def why_not(self, n: int) -> str:
        shortest, longest = four_step.MAX_LENGTH + 2, split_four_step.MAX_SPLIT_LENGTH
        if n % 2 or not shortest <= n <= longest:
            return f"takes even N, {shortest} <= N <= {longest}"
        largest = prime_factors(n)[-1]
        if largest > four_step.MAX_RADIX:
            return f"has no radix for the prime factor {largest}"
        return "" if self.recipes(n) else f"takes multiples of 4 above {2 * four_step.MAX_LENGTH}"

    def recipes(self, n: int) -> list[Recipe]:
        return [
            Recipe(self.name, n, (split, *radices))
            for split in (2, 4)
            if n % split == 0 and n // split <= four_step.MAX_LENGTH
            for radices in radix_lists(n // split, spread_work, 1, four_step.MAX_RADIX)
        ]

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return split_four_step.split_four_step_specs(recipe.radices)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        make = split_four_step.split_four_step_tables
        return make(recipe.n, recipe.radices, inverse, scale)

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        return recipe.radices, inverse

    def error(self, recipe: Recipe) -> float:
        return accuracy.root_of_squares(
            accuracy.stages_error(recipe.radices), accuracy.UNIT, accuracy.UNIT
        )
