"""The choice of the article that this project started from, "FFT is a GEMM, and then it isn't"."""

from __future__ import annotations

from nki_kernels.kernels import dft_gemm
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.factorization import seed_radices
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import Problem

SEED = "seed"
_CONVOLUTIONS = ("bluestein", "long_bluestein", "split_bluestein")


def seed_choice(problem: Problem) -> Recipe | str:
    """DFT-GEMM to 256, else [8^a, 4^b] Stockham; else the name of a Bluestein.

    The article ends at 4096. Stages that exceed one partition's SBUF are done by four-step.
    """
    n = problem.n
    if n <= dft_gemm.MAX_LENGTH:
        return Recipe("dft_gemm", n)
    radices = seed_radices(n)
    if radices is not None:
        for name in ("stockham", "four_step"):
            if takes(name, problem):
                return Recipe(name, n, radices)
        return "four_step"
    return next((name for name in _CONVOLUTIONS if takes(name, problem)), _CONVOLUTIONS[-1])


def takes(name: str, problem: Problem) -> bool:
    """Whether the algorithm of this name can solve the problem."""
    try:
        return bool(ALGORITHMS[name].recipes_for(problem))
    except NotImplementedError:
        return False
