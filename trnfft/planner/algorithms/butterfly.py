"""Radix-4 butterflies on the Vector engine; compensated, it is the most accurate kernel."""

from __future__ import annotations

import math

from nki_kernels.fft import butterfly, butterfly_tables
from nki_sim.hardware import NeuronCore
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm, least_of
from trnfft.planner.plan import Recipe


class Butterfly(LengthAlgorithm):
    """Radix-4 butterflies on the Vector engine; compensated, it is the most accurate kernel."""

    kernel = butterfly.butterfly
    make_tables = staticmethod(butterfly_tables.butterfly_tables)
    make_specs = staticmethod(butterfly_tables.butterfly_specs)
    shortest = 2
    takes = "powers of two"
    ahead = Ahead(8192, 1, "trn3")

    def __init__(self, compensated: bool) -> None:
        self.compensated = compensated
        self.options = (compensated,)
        self.name = "butterfly_kahan" if compensated else "butterfly"
        self.lighter = "butterfly" if compensated else ""
        self.longest = (
            butterfly_tables.MAX_COMPENSATED_LENGTH if compensated else butterfly_tables.MAX_LENGTH
        )
        if compensated:  # the compensated kernel has no longer lengths
            self.ahead = Ahead(self.longest, 1, "trn3")

    def why_not(self, n: int) -> str:
        if self.shortest <= n <= self.longest and n & (n - 1) == 0:
            return ""
        return f"takes powers of two from 2 to {self.longest}"

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        return (self.compensated,)

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        passes = 36.0 if self.compensated else 5.8
        numbers = recipe.n * math.log2(recipe.n) * least_of(1.0, 1.0, rows)
        return passes * numbers / chip.vector_ghz

    def error(self, recipe: Recipe) -> float:
        if self.compensated:
            return accuracy.COMPENSATED_ERROR
        return accuracy.butterfly_error(recipe.n)
