"""All algorithms by name: those of the planner, and one that serves only as a pass of others."""

from trnfft.planner.algorithms import ALGORITHMS, STRIDED_STOCKHAM

REGISTRY = {**ALGORITHMS, STRIDED_STOCKHAM.name: STRIDED_STOCKHAM}
