"""Stockham of real data: two stages of half the numbers, from real data or to real data."""

from __future__ import annotations

from nki_kernels.real import real_stockham, real_stockham_tables
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm
from trnfft.planner.kinds import R2C
from trnfft.planner.plan import Recipe

REAL_PAIRS = 3  # pairs of radices for one length


class RealStockham(LengthAlgorithm):
    """Two stages of half the numbers, from real data or to real data."""

    takes = "products of one radix up to 128 and one up to 64"
    shortest, longest = 4, real_stockham.MAX_LENGTH
    moved = (8.8, 7.1)
    ahead = Ahead(8192, 256, "trn1")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = "real_stockham" if kind == R2C else "inverse_real_stockham"
        self.kernel = getattr(real_stockham, self.name)
        self.make_tables = getattr(real_stockham_tables, f"{self.name}_tables")
        self.make_specs = getattr(real_stockham_tables, f"{self.name}_specs")

    def why_not_inside(self, n: int) -> str:
        return "" if self._pairs(n) else "has no two radices, up to 128 and up to 64"

    @staticmethod
    def _pairs(n: int) -> list[tuple[int, int]]:
        """Returns pairs of radices, the likeliest first.

        Pairs whose slots are paired come first, then pairs with a large second radix, then with an
        even first radix.
        """
        seconds = range(min(real_stockham_tables.MAX_SPECTRUM_RADIX, n // 2), 1, -1)
        pairs = [(n // second, second) for second in seconds if n % second == 0]
        fitting = [pair for pair in pairs if pair[0] <= real_stockham_tables.MAX_REAL_RADIX]

        def rank(pair: tuple[int, int]) -> tuple[bool, bool, int, int]:
            is_paired = real_stockham_tables.Geometry(*pair).pairs_slots and pair[0] >= 32
            return not is_paired, pair[1] < 40, pair[0] % 2, -pair[1]

        return sorted(fitting, key=rank)

    def recipes(self, n: int) -> list[Recipe]:
        return [self.recipe(n, radices) for radices in self._pairs(n)[:REAL_PAIRS]]
