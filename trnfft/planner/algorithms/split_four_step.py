"""Split four-step, for lengths that exceed SBUF: a radix through HBM, then four-step transforms."""

from __future__ import annotations

import math
from typing import Any

from nki_kernels.base import packing
from nki_kernels.fft import four_step_tables, split_four_step, stage
from nki_sim import hardware
from trnfft.base.cache import cached
from trnfft.planner import tables
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm, Tables
from trnfft.planner.algorithms.four_step import LONG_LISTS, spread_ns, throughput
from trnfft.planner.factorization import radix_lists
from trnfft.planner.kinds import Transform
from trnfft.planner.plan import Recipe

SHORTEST = 2**19 + 1  # below, a transform that SBUF holds is never slower
_PASSES = 0.13  # nanoseconds a point of the first and the last pass on trn1, with all partitions


class SplitFourStep(LengthAlgorithm):
    """A radix of up to 128 through HBM, then four-step transforms, for lengths that exceed SBUF."""

    name = "split_four_step"
    title = "split four-step"
    kernel = split_four_step.split_four_step
    make_tables = staticmethod(split_four_step.split_four_step_tables)
    make_specs = staticmethod(split_four_step.split_four_step_specs)
    shortest, longest = SHORTEST, split_four_step.MAX_SPLIT_LENGTH
    largest_radix = stage.MAX_RADIX
    roundings = 2
    bound_varies = 1.0  # loads count, which bounds leave out
    ahead = Ahead(600000, 1, "trn3")
    short = (
        Recipe("split_four_step", Transform((4096,)), (16, 16, 16)),
        Recipe("split_four_step", Transform((11520,)), (6, 16, 3, 40)),
    )

    def why_not_inside(self, n: int) -> str:
        if self.recipes(n):
            return ""
        most = four_step_tables.MAX_LENGTH
        return f"has no factor that fills 33 to 128 partitions and leaves {most} points or fewer"

    def recipes(self, n: int) -> list[Recipe]:
        return [self.recipe(n, radices) for radices in likeliest_radices(n)]

    def specs(self, recipe: Recipe) -> Tables:
        matrices, *others = self.table_specs(recipe)
        return matrices, *packing.packed_spec(tuple(others)), *self.settings(recipe)

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        return *tables.cached(_arrays, self, recipe, inverse, scale), *self.settings(recipe)

    def least_ns(self, recipe: Recipe, rows: float, chip: hardware.NeuronCore) -> float:
        return 0.95 * spread_ns(recipe.radices[1:], recipe.n * rows, chip)


def _arrays(algorithm: SplitFourStep, recipe: Recipe, inverse: bool, scale: float) -> Any:
    """Returns the matrices, which a device loop addresses, and the other tables as one array."""
    matrices, *others = algorithm.tables(recipe, inverse, scale)
    return matrices, *packing.pack(tuple(others))


@cached(4096)
def likeliest_radices(n: int) -> tuple[tuple[int, ...], ...]:
    """Returns the lists of radices that are worth a price, the likeliest first."""
    lists = [
        (split, *radices)
        for split in range(2, hardware.PARTITIONS + 1)
        if n % split == 0
        and n // split <= four_step_tables.MAX_LENGTH
        and split_four_step.geometry_of(split, n // split)
        for radices in radix_lists(n // split, throughput, 1, stage.MAX_RADIX, spare=0)
    ]
    return tuple(sorted(lists, key=split_work)[:LONG_LISTS])


def split_work(radices: tuple[int, ...]) -> float:
    """Returns a rank of a split plan: the time of its transforms, and the lanes of its passes."""
    geometry = split_four_step.checked_geometry(math.prod(radices), radices)
    return throughput(radices[1:]) + _PASSES * hardware.PARTITIONS / geometry.lanes
