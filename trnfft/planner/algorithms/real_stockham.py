"""Stockham of real data: two stages of half the numbers, from real data or to real data."""

from __future__ import annotations

from nki_kernels.real import real_stockham, real_stockham_tables
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm
from trnfft.planner.kinds import R2C
from trnfft.planner.plan import Recipe

REAL_PAIRS = 3  # pairs of radices for one length
_TRANSPOSE = 64  # columns that a transpose counts, and a product at least


class RealStockham(LengthAlgorithm):
    """Two stages of half the numbers, from real data or to real data."""

    takes = "products of one radix up to 128 and one up to 64"
    shortest, longest = 4, real_stockham.MAX_LENGTH
    moved = (2.8, 2.2)
    bound_varies = 0.5  # slots that are paired, or not, wait for each other more or less
    ahead = Ahead(8192, 256, "trn1")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = "real_stockham" if kind == R2C else "inverse_real_stockham"
        self.kernel = getattr(real_stockham, self.name)
        self.make_tables = getattr(real_stockham_tables, f"{self.name}_tables")
        self.make_specs = getattr(real_stockham_tables, f"{self.name}_specs")

    def why_not_inside(self, n: int) -> str:
        return "" if _pairs(n) else "has no two radices, up to 128 and up to 64"

    def recipes(self, n: int) -> list[Recipe]:
        return [self.recipe(n, radices) for radices in _pairs(n)[:REAL_PAIRS]]

    def columns(self, recipe: Recipe) -> float:
        return _columns(recipe.radices)


def _pairs(n: int) -> list[tuple[int, int]]:
    """Returns pairs of radices, those that move the fewest columns first."""
    seconds = range(min(real_stockham_tables.MAX_SPECTRUM_RADIX, n // 2), 1, -1)
    pairs = [(n // second, second) for second in seconds if n % second == 0]
    fitting = [pair for pair in pairs if pair[0] <= real_stockham_tables.MAX_REAL_RADIX]
    return sorted(fitting, key=_columns)


def _columns(radices: tuple[int, ...]) -> float:
    """Returns the columns of transposes and products that a row moves over the Tensor engine.

    The first stage has a product for each group of slabs, and the second stage one for each slot.
    Two slots that are paired move theirs side by side.
    """
    of = real_stockham_tables.Geometry(*radices)
    first = of.left // of.slabs * (_TRANSPOSE + max(_TRANSPOSE, 2 * of.slots * of.slabs))
    slots = of.slots / 2 if of.pairs_slots else of.slots
    return first + slots * (_TRANSPOSE + max(_TRANSPOSE, 4 * of.run))
