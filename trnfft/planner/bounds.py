"""Lower bounds of a launch's time, from the recipe alone, which let a search skip dry runs.

A launch reads its input and writes its output at least once, at most at the rate of the DMA floor.
Its first load and its last store each take at least the time from a DMA's trigger to the use of its
data. In between, the launch computes for at least as long as its columns or numbers take. Waiting
is not counted. A short transform therefore takes several times its bound, but a long transform,
whose dry run takes longest, does not. A test compares the bounds with the prices of all shipped
plans, and with others.
"""

from __future__ import annotations

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
