"""The choice of the article with which this project started, "FFT is a GEMM, and then it isn't"."""

from __future__ import annotations

from nki_kernels.fft import dft_gemm
from trnfft.planner.algorithms import (
    BLUESTEIN,
    DFT_GEMM,
    FOUR_STEP,
    LONG_BLUESTEIN,
    SPLIT_BLUESTEIN,
    STOCKHAM,
)
from trnfft.planner.factorization import seed_radices
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import Problem

SEED = "seed"
_CONVOLUTIONS = (BLUESTEIN, LONG_BLUESTEIN, SPLIT_BLUESTEIN)


def seed_choice(problem: Problem) -> Recipe | str:
    """Returns the article's recipe, or the name of an algorithm where the article has no recipe.

    Lengths up to 256 take DFT-GEMM. Other powers of two take Stockham with radices [8^a, 4^b]. All
    other lengths take a Bluestein algorithm. The article ends at 4096; where the stages exceed the
    SBUF of one partition, four-step takes their place.
    """
    n = problem.n
    if n <= dft_gemm.MAX_LENGTH:
        return DFT_GEMM.recipe(n)
    radices = seed_radices(n)
    if radices is not None:
        algorithm = next((each for each in (STOCKHAM, FOUR_STEP) if not each.why_not(n)), None)
        return FOUR_STEP.name if algorithm is None else algorithm.recipe(n, radices)
    return next((each for each in _CONVOLUTIONS if not each.why_not(n)), _CONVOLUTIONS[-1]).name
