"""All algorithms by name: those of the planner, and those that serve only as passes of others."""

from trnfft.planner.algorithms import ALGORITHMS, PASSES

REGISTRY = {**ALGORITHMS, **PASSES}
