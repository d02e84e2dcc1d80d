"""Folded DFT: products of half the DFT matrix's size with the even and odd parts of rows."""

from __future__ import annotations

from nki_kernels.fft import folded_dft
from nki_sim.hardware import PARTITIONS
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm
from trnfft.planner.factorization import prime_factors
from trnfft.planner.plan import Recipe

ANY_LENGTH = 768  # length up to which it may be the cheapest, whatever the prime factors are
LARGE_PRIME = 53  # prime factor below which stages of smaller factors are less work


class FoldedDft(LengthAlgorithm):
    """Products of half the DFT matrix's size with the even and odd parts of rows."""

    name = "folded_dft"
    title = "folded DFT"
    has_stages = False  # only kernels fold products; in torch it would be a whole DFT matrix
    takes = "above 768 only with a prime factor above 47"
    kernel = folded_dft.folded_dft
    make_tables = staticmethod(folded_dft.folded_dft_tables)
    make_specs = staticmethod(folded_dft.folded_dft_specs)
    shortest, longest = folded_dft.MIN_LENGTH, folded_dft.MAX_LENGTH
    moved = (2.5, 3.8)
    ahead = Ahead(2039, 256, "trn1")

    def why_not_inside(self, n: int) -> str:
        if n > ANY_LENGTH and prime_factors(n)[-1] < LARGE_PRIME:
            return f"takes no N > {ANY_LENGTH} without a prime factor of at least {LARGE_PRIME}"
        return ""

    def columns(self, recipe: Recipe) -> float:
        return recipe.n**2 / PARTITIONS
