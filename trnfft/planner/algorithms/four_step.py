"""Four-step: each transform is spread over all partitions, for long or for few transforms."""

from __future__ import annotations

import math

from nki_kernels.base.engines import WHOLE_RADIX
from nki_kernels.fft import four_step, four_step_tables, spread_lines, stage
from nki_sim import hardware
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm
from trnfft.planner.factorization import radix_lists
from trnfft.planner.plan import Recipe

SHORTEST = 256  # below, one transform on each partition is never slower
LONG_LISTS = 3  # lists of radices for one length; dry runs take longer than Stockham's


class FourStep(LengthAlgorithm):
    """One transform spread over all partitions, for long transforms and for few of them."""

    name = "four_step"
    title = "four-step"
    kernel = four_step.four_step
    make_tables = staticmethod(four_step_tables.four_step_tables)
    make_specs = staticmethod(four_step_tables.four_step_specs)
    shortest, longest = SHORTEST, four_step_tables.MAX_STREAMED_LENGTH
    largest_radix = stage.MAX_RADIX
    roundings = 1
    bound_varies = 1.0  # loads count, which bounds leave out
    ahead = Ahead(262144, 1, "trn1")

    def why_not_inside(self, n: int) -> str:
        state = n // max(r for r in range(2, stage.MAX_RADIX + 1) if n % r == 0)
        if state > four_step_tables.MAX_STATE:
            return f"has states of {state} numbers or more, SBUF holds {four_step_tables.MAX_STATE}"
        return ""

    def recipes(self, n: int) -> list[Recipe]:
        # Lists that leave too long a state have an infinite rank, and come last.
        many = radix_lists(n, throughput, LONG_LISTS - 1, stage.MAX_RADIX)
        few = radix_lists(n, latency, LONG_LISTS, stage.MAX_RADIX)
        lists = list(dict.fromkeys([*many, *few]))[:LONG_LISTS]
        return [
            self.recipe(n, radices)
            for radices in lists
            if n // radices[-1] <= four_step_tables.MAX_STATE
        ]

    def least_ns(self, recipe: Recipe, rows: float, chip: hardware.NeuronCore) -> float:
        return 0.66 * spread_ns(recipe.radices, recipe.n * max(1.0, rows), chip)


def spread_ns(radices: tuple[int, ...], points: float, chip: hardware.NeuronCore) -> float:
    """Returns about the Tensor engine's nanoseconds for `points` of a four-step plan."""
    return tensor_cycles(radices) / radices[-1] * points / chip.tensor_columns_per_ns


def spread_work(radices: tuple[int, ...]) -> tuple[int, int, int]:
    """Returns a rank of a four-step plan: few stages, a wide last one, one piece in the first."""
    return len(radices), -radices[-1], abs(radices[0] - WHOLE_RADIX)


def latency(radices: tuple[int, ...]) -> float:
    """Returns about the nanoseconds of a four-step plan on trn1 for one transform.

    It is the sum of the time for the tables, the time for loading and storing the data with the DMA
    engines whose partitions the data fills, and the time of the Tensor engine.
    """
    chip, n = hardware.TRN1, math.prod(radices)
    if len(radices) < 2 or n // radices[-1] > four_step_tables.MAX_STATE:
        return math.inf
    first, last = radices[0], radices[-1]
    rows = 2 * first if 2 * first <= hardware.PARTITIONS else first
    specs = four_step_tables.four_step_specs(radices)[1:-2]
    numbers: float = sum(math.prod(shape) for shape, _ in specs)
    numbers += 2 * n * hardware.PARTITIONS * (1 / rows + 1 / last)
    tensor = tensor_cycles(radices) * n / last / chip.tensor_ghz
    return 4 * numbers / chip.dma_total_bytes_per_ns + tensor


def throughput(radices: tuple[int, ...]) -> float:
    """Returns about the nanoseconds a point of a four-step plan on trn1, for 2^20 points.

    It is the time of the Tensor engine, and a share of the latency.
    """
    if len(radices) < 2 or min(radices[0], radices[-1]) < 16:
        return math.inf
    cycles = tensor_cycles(radices) / radices[-1]
    return cycles / hardware.TRN1.tensor_ghz + latency(radices) / 2**20


def tensor_cycles(radices: tuple[int, ...]) -> float:
    """Returns the Tensor engine's cycles a point of a four-step plan, for each c on partitions."""
    first = radices[0]
    # A product takes 4 cycles for each column of the moving float32 table, but at least the time
    # for loading the data.
    least = 2 * hardware.PARTITIONS
    cycles = (1 if 2 * first <= hardware.PARTITIONS else 2) * max(8 * first, least) / first + 16
    cycles += 2 * len(radices)  # engines wait for each other after every stage
    if 4 * first <= hardware.PARTITIONS and math.prod(radices[:-1]) <= spread_lines.SIDE_BY_SIDE:
        cycles -= least / first / 2  # two transforms at once
    stages = four_step_tables.inner_stages(radices)
    for index, inner in enumerate(stages, 1):
        if index < len(stages):  # two row tiles gain more in these than evacuation can follow
            inner = stage.stage_of(radices[:-1], index)
        rows = 2 * inner.slabs * inner.tiles * inner.contracted
        pieces = 1 if rows <= hardware.PARTITIONS else 2
        cycles += pieces * (least + max(4 * rows // inner.tiles, least)) / (rows // 2)
    return cycles
