"""Times below which no launch of a recipe ends, from the recipe alone: searches cut by them.

A launch reads its input and writes its output once, at most at the rate of the DMA floor. Its
first load takes as long from trigger to use as any, and so does its last store. In between it
computes for as long as its columns or numbers take. Of waiting nothing is said, so that short
transforms take several times as long as their bound; long ones, whose dry runs take longest, do
not. A test compares the bounds with the prices of all shipped plans, and with others.
"""

from __future__ import annotations

from nki_kernels import hardware
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import Problem


def least_ns(recipe: Recipe, problem: Problem) -> float:
    """Nanoseconds that a problem takes at least by a recipe, modelled as prices are."""
    chip = hardware.chip(problem.target)
    transfer = chip.dma_start_ns + chip.dma_finish_ns
    rows = problem.batch / problem.cores
    computing = ALGORITHMS[recipe.algorithm].least_ns(recipe, rows, chip)
    return max(problem.dma_floor_ns + transfer, computing + 2 * transfer)
