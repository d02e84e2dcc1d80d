"""Every algorithm by name: those of the planner, and the one that is a pass of others only."""

from trnfft.planner.algorithms import ALGORITHMS, STRIDED_STOCKHAM

REGISTRY = {**ALGORITHMS, STRIDED_STOCKHAM.name: STRIDED_STOCKHAM}
