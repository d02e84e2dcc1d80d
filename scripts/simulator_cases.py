"""A small launch of every algorithm of the planner, which two simulators compute.

compare_simulators.py runs these launches. The registry of the planner has them all, so that a new
kernel is among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trnfft.planner.algorithms import ALGORITHMS, PASSES, STRIDED_STOCKHAM
from trnfft.planner.algorithms.algorithm import Algorithm, LengthAlgorithm, ShapeAlgorithm
from trnfft.planner.plan import Recipe

LENGTHS = (180, 64, 256, 4096)  # of which each algorithm for rows takes one
SHORT = 200  # points of a transform up to which a launch has more than a tile of rows
FLOAT32 = 1e-6  # relative L2 error of another order of float32 sums of the same products


@dataclass(frozen=True)
class Case:
    """A launch of the kernel of an algorithm.

    Attributes:
        name: the name of the algorithm, with a number behind it where it has several cases.
        algorithm: the algorithm.
        recipe: one of its recipes for a small size.
    """

    name: str
    algorithm: Algorithm
    recipe: Recipe

    @property
    def kernel(self) -> Any:
        """The kernel, decorated with the `nki.jit` of the nki in use."""
        return self.algorithm.kernel

    @property
    def tolerance(self) -> float:
        """The largest relative L2 distance between the outputs of two simulators."""
        return max(FLOAT32, 4 * self.algorithm.error(self.recipe))

    def arguments(self) -> tuple[Any, ...]:
        """Returns the kernel's arguments, which are the same in every process."""
        rng = np.random.default_rng(0)
        batch = 130 if self.recipe.kind.is_rows and self.recipe.n <= SHORT else 2
        shapes = self.algorithm.inputs(self.recipe, batch)
        if self.algorithm is STRIDED_STOCKHAM:  # which transforms columns
            shapes = [(2, self.recipe.n, 20)] * 2
        inputs = [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]
        return *inputs, *self.algorithm.arguments(self.recipe)


def all_cases() -> list[Case]:
    """Returns a case of every algorithm, and of those for several axes one for each number."""
    return [case for each in (ALGORITHMS | PASSES).values() for case in cases_of(each)]


def cases_of(algorithm: Algorithm) -> list[Case]:
    """Returns the cases of an algorithm: of its smallest sizes, the recipes of most stages."""
    if algorithm.short:
        return [Case(algorithm.name, algorithm, algorithm.short[0])]
    if isinstance(algorithm, ShapeAlgorithm):
        smallest = sorted(algorithm.samples, key=lambda kind: -kind.points)
        kinds = list({len(kind.sizes): kind for kind in smallest}.values())
    else:
        assert isinstance(algorithm, LengthAlgorithm)
        kinds = [algorithm.rows(next(n for n in LENGTHS if not algorithm.why_not(n)))]
    return [
        Case(
            f"{algorithm.name}_{place}" if place else algorithm.name,
            algorithm,
            max(algorithm.recipes_for(kind), key=lambda recipe: len(recipe.radices)),
        )
        for place, kind in enumerate(kinds)
    ]
