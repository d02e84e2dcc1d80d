"""Bluestein's convolution by two long transforms: by four-step, or split through HBM."""

from __future__ import annotations

import math

from nki_kernels.base.engines import PARTITIONS, PSUM_BANK, WHOLE_RADIX
from nki_kernels.fft import four_step_tables, long_bluestein, split_bluestein, stage
from nki_kernels.fft.split_four_step import checked_geometry, geometry_of
from nki_sim.hardware import NeuronCore
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm, Tables
from trnfft.planner.algorithms.bluestein import ChirpConvolution, inner_of
from trnfft.planner.algorithms.four_step import (
    LONG_LISTS,
    SHORTEST,
    latency,
    spread_ns,
    spread_work,
    throughput,
)
from trnfft.planner.factorization import radix_lists
from trnfft.planner.kinds import Transform
from trnfft.planner.plan import Recipe

SPLIT_SHORTEST = 2**15 + 1  # below, two transforms that SBUF holds are never slower
_PASSES = 0.2  # nanoseconds a point of the first and the last pass on trn1, with all partitions


class LongConvolution(ChirpConvolution):
    """A convolution whose kernel takes one row, and which is more work than its inner transform."""

    bound_varies = 0.0

    def __init__(self, inner: LengthAlgorithm) -> None:
        super().__init__(inner)
        self.lighter = inner.name

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        made: Tables = self.make_tables(recipe.n, inner_of(recipe).radices, inverse, scale)
        return made


class LongBluestein(LongConvolution):
    """Bluestein's convolution by two four-step transforms."""

    name = "long_bluestein"
    kernel = long_bluestein.long_bluestein
    make_tables = staticmethod(long_bluestein.long_bluestein_tables)
    shortest, longest = SHORTEST, long_bluestein.MAX_CONVOLVED
    ahead = Ahead(65537, 1, "trn1")

    def table_specs(self, recipe: Recipe) -> Tables:
        return long_bluestein.long_bluestein_specs(inner_of(recipe).radices)

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        inner = inner_of(recipe)
        return 1.75 * spread_ns(inner.radices, inner.n * max(1.0, rows), chip)

    def recipes(self, n: int) -> list[Recipe]:
        first = stage.MAX_RADIX
        least = max(2, -(-(2 * n - 1) // first))
        most = min(least + least // 3 + LONG_LISTS, four_step_tables.MAX_LENGTH // first)
        lists = [
            (first, *rest)
            for left in range(least, most + 1)
            for rest in radix_lists(left, spread_work, 1, stage.MAX_RADIX, spare=0)
        ]
        ranked = sorted(lists, key=convolution_work)[: LONG_LISTS - 1]
        # the shortest list is among them
        return self.around(n, list(dict.fromkeys([*ranked, *lists]))[:LONG_LISTS])


def convolution_work(radices: tuple[int, ...]) -> float:
    """Returns a rank of a convolution: the time of one transform, and its time for few numbers."""
    return math.prod(radices) * throughput(radices) + latency(radices)


class SplitBluestein(LongConvolution):
    """Bluestein's convolution by two transforms split through HBM, in their passes' order."""

    name = "split_bluestein"
    kernel = split_bluestein.split_bluestein
    make_tables = staticmethod(split_bluestein.split_bluestein_tables)
    shortest, longest = SPLIT_SHORTEST, split_bluestein.MAX_SPLIT_CONVOLVED
    ahead = Ahead(300007, 1, "trn3")
    short = (
        Recipe(
            "split_bluestein",
            Transform((601,)),
            inner=Recipe("split_four_step", Transform((2730,)), (65, 3, 14)),
        ),
    )

    def table_specs(self, recipe: Recipe) -> Tables:
        return split_bluestein.split_bluestein_specs(recipe.n, inner_of(recipe).radices)

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        inner = inner_of(recipe)
        # The passes of one row alone overlap more than those of several rows.
        times = 4.9 if rows < 2 else 5.5
        return times * spread_ns(inner.radices[1:], inner.n * rows, chip)

    def recipes(self, n: int) -> list[Recipe]:
        lists = set[tuple[int, ...]]()
        for split in range(WHOLE_RADIX + 1, PARTITIONS + 1):
            columns = -(-(2 * n - 1) // (split * PARTITIONS))
            for multiple in (1, 4, 8):  # a larger multiple gives longer pieces of a pass
                size = PARTITIONS * multiple * -(-columns // multiple)
                if size <= four_step_tables.MAX_LENGTH and geometry_of(split, size):
                    rests = radix_lists(size, throughput, 1, PARTITIONS, spare=0)
                    lists.update((split, *radices) for radices in rests)
        return self.around(n, sorted(lists, key=split_convolution_work)[:LONG_LISTS])


def split_convolution_work(radices: tuple[int, ...]) -> float:
    """Returns a rank of a convolution: two transforms, and its passes' lanes and PSUM banks."""
    geometry = checked_geometry(math.prod(radices), radices)
    banks = -(-geometry.piece // PSUM_BANK) * PSUM_BANK / geometry.piece
    passes = _PASSES * banks * PARTITIONS / geometry.lanes
    return math.prod(radices) * (2 * throughput(radices[1:]) + passes)
