"""Strided Stockham: one or two stages along an axis that is not the last; a pass of `Axes`."""

from __future__ import annotations

from nki_kernels.nd import strided_stockham
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm
from trnfft.planner.plan import Recipe


class StridedStockham(LengthAlgorithm):
    """One or two stages along an axis that is not the last; a pass of `Axes`."""

    name = "strided_stockham"
    kernel = strided_stockham.strided_stockham
    make_tables = staticmethod(strided_stockham.strided_stockham_tables)
    make_specs = staticmethod(strided_stockham.strided_stockham_specs)
    longest = strided_stockham.MAX_LENGTH
    ahead = Ahead(1024, 1024, "trn1")

    def why_not(self, n: int) -> str:
        return "" if self._lists(n) else "has no one or two radices up to 64"

    @staticmethod
    def _lists(n: int) -> list[tuple[int, ...]]:
        if 2 <= n <= strided_stockham.MAX_STRIDED_RADIX:
            return [(n,)]
        return list(strided_stockham.radix_pairs(n))

    def recipes(self, n: int) -> list[Recipe]:
        return [self.recipe(n, radices) for radices in self._lists(n)]
