"""Lower bounds of a launch's time, from the recipe alone, which let a search skip dry runs.

A launch reads its input and writes its output at least once, at most at the rate of the DMA floor.
Its first load and its last store each take at least the time from a DMA's trigger to the use of its
data. In between, the launch computes for at least as long as its columns or numbers take. Waiting
is not counted. A short transform therefore takes several times its bound, but a long transform,
whose dry run takes longest, does not. A test compares the bounds with the prices of all shipped
plans, and with others.

For one problem, recipes of an algorithm with as many stages take almost the same multiple of their
bounds. So the first price of such recipes is an estimate of the others.
"""

from __future__ import annotations

import math

from nki_sim import hardware
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import Problem


def least_ns(recipe: Recipe, problem: Problem) -> float:
    """Returns the nanoseconds that a recipe needs at least for a problem, modelled like prices."""
    chip = hardware.chip(problem.target)
    transfer = chip.dma_start_ns + chip.dma_finish_ns
    rows = problem.batch / problem.cores
    computing = ALGORITHMS[recipe.algorithm].least_ns(recipe, rows, chip)
    return max(problem.dma_floor_ns + transfer, computing + 2 * transfer)


class Estimates:
    """Times of recipes for one problem, from their bounds and from the prices found so far."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._bounds: dict[Recipe, float] = {}
        self._ratios: dict[tuple[str, int], float] = {}  # the least ratio of a price to its bound

    def bound(self, recipe: Recipe) -> float:
        """Returns `least_ns` of a recipe."""
        if recipe not in self._bounds:
            self._bounds[recipe] = least_ns(recipe, self._problem)
        return self._bounds[recipe]

    def note(self, recipe: Recipe, ns: float) -> None:
        """Notes the price of a recipe."""
        family, bound = family_of(recipe), self.bound(recipe)
        if bound:
            self._ratios[family] = min(self._ratios.get(family, math.inf), ns / bound)

    def about(self, recipe: Recipe) -> float:
        """Returns about the nanoseconds that a recipe takes; its bound without a price like it."""
        return self.bound(recipe) * max(1.0, self._ratios.get(family_of(recipe), 1.0))

    def least(self, recipe: Recipe) -> float:
        """Returns the nanoseconds that a recipe hardly ever undercuts."""
        varies = ALGORITHMS[recipe.algorithm].bound_varies
        return max(self.bound(recipe), (1 - varies) * self.about(recipe))


def family_of(recipe: Recipe) -> tuple[str, int]:
    """Returns what recipes have in common whose prices are almost proportional to their bounds."""
    return recipe.algorithm, len((recipe.inner or recipe).radices)
