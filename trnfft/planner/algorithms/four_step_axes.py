"""Four-step over several axes: each array is spread over all partitions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nki_kernels.base.engines import PSUM_BANK
from nki_kernels.fft import stage
from nki_kernels.fft.spread_lines import RING_LENGTH, STORED, Spread
from nki_kernels.nd import four_step_axes
from nki_kernels.nd.axis_stages import Axes
from nki_sim.hardware import NeuronCore
from trnfft.base.cache import cached
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, Tables
from trnfft.planner.algorithms.stockham import columns_moved
from trnfft.planner.algorithms.stockham_axes import StagesOfAxes, axes_of, digit_lists
from trnfft.planner.kinds import C2C, C2R, R2C, Part, Transform
from trnfft.planner.plan import Recipe

RADIX_LISTS = 4  # lists of radices for one shape
SHORTEST = 256  # points of an array; below, one array on each partition is never slower
_LEAST = 16  # numbers c on partitions, and lines of a large array: fewer leave most of them empty
_LARGE = 4096  # points of an array, beyond which a block has few arrays to fill partitions with
_MOST_BYTES = 208 << 10  # of a partition, by a sum that may be above what a launch takes
_PASSES = 3.6  # cycles of a float32 column at least, of the four that it takes alone
_MOVED = 1.9  # the same for a stage, whose transposes take fewer; see `LengthAlgorithm.moved`
_NAMES = {C2C: "four_step_axes", R2C: "real_four_step_axes", C2R: "inverse_real_four_step_axes"}


class FourStepAxes(StagesOfAxes):
    """Stages of several axes, one after the other, with each array spread over all partitions."""

    title = "four-step over axes"
    bound_varies = 0.6  # where there are few arrays, which leave engines waiting
    takes = "arrays of up to 2^20 points, whose axes have radices up to 128"

    def __init__(self, kind: Part) -> None:
        self.kind, self.name = kind, _NAMES[kind]
        self.kernel = getattr(four_step_axes, self.name)
        shapes = ((32, 33), (12, 10, 24), (48, 160))
        self.samples = tuple(Transform(shape, part=kind) for shape in shapes)
        self.ahead = Ahead(Transform((128, 128), part=kind), 8, "trn1")

    def why_not_shape(self, kind: Transform) -> str:
        if not SHORTEST <= kind.points <= four_step_axes.MAX_STREAMED_LENGTH:
            return f"takes {SHORTEST} to {four_step_axes.MAX_STREAMED_LENGTH} points"
        if sum(n > 1 for n in kind.lengths) < 2:
            return "takes two or more axes"
        if kind.data:
            return "takes no padding"
        if not self.lists(kind):
            return f"has no radices up to {stage.MAX_RADIX} for these axes whose tables fit SBUF"
        return ""

    def lists(self, kind: Transform) -> list[tuple[int, ...]]:
        return _lists(axes_of(kind))

    def table_specs(self, recipe: Recipe) -> Tables:
        return four_step_axes.four_step_axes_specs(axes_of(recipe.kind), recipe.radices)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        make = four_step_axes.four_step_axes_tables
        return make(axes_of(recipe.kind), recipe.radices, inverse, scale)

    def error(self, recipe: Recipe) -> float:
        return accuracy.stages_error(recipe.radices)

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        digits = four_step_axes.axes_digits(axes_of(recipe.kind), recipe.radices)
        return columns_of(digits) * max(1.0, rows) / chip.tensor_columns_per_ns


def columns_of(digits: four_step_axes.AxesDigits) -> float:
    """Returns about the columns' cycles of the Tensor engine for an array, in its three steps."""
    first, *stages = digits.stages()
    spread = Spread(digits.spread, 1, is_real=digits.axes.is_real)
    opening = first.left * spread.parts * max(64, 2 * spread.first) / spread.places
    rows = max(1, STORED // spread.length)  # arrays of a block, in a long batch
    products = sum(
        cut.each for cut in four_step_axes.cuts_of(rows * digits.lines, digits.most_lines)
    )
    closing = products / rows * digits.repeats * 2 * max(64, digits.width)
    return _PASSES * (opening + closing) + _MOVED * columns_moved(stages)


def _bytes_of(digits: four_step_axes.AxesDigits) -> int:
    """Returns about the bytes of a partition: two states, the last table, inputs and results."""
    length = digits.lines * digits.repeats
    table = 8 * digits.repeats * digits.width
    results = 8 * digits.parts * max(digits.line, STORED)
    return 16 * length + table + (32 << 10 if length <= RING_LENGTH else 16 << 10) + results


@cached(64)  # a search asks for prices of several recipes
def _lists(axes: Axes) -> list[tuple[int, ...]]:
    """Returns lists of radices of axes, those with the least work first."""
    found = {}
    for radices in _candidates(axes):
        try:
            digits = four_step_axes.axes_digits(axes, radices)
        except ValueError:
            continue
        lines = digits.lines if math.prod(axes.lengths) > _LARGE else _LEAST
        if min(digits.columns, lines) >= _LEAST and _bytes_of(digits) <= _MOST_BYTES:
            found[radices] = columns_of(digits), radices
    return sorted(found, key=lambda radices: found[radices])[:RADIX_LISTS]


def _candidates(axes: Axes) -> Iterator[tuple[int, ...]]:
    """Yields lists of radices, whose last ones are products of the last axes and of a divisor."""
    lengths = axes.lengths
    for axis in range(len(lengths) - 1, -1, -1):
        whole = math.prod(lengths[axis + 1 :])
        if whole > PSUM_BANK:
            return
        for inside in range(1, min(lengths[axis], PSUM_BANK) + 1):
            if lengths[axis] % inside == 0 and whole * inside > 1:
                sizes = (*lengths[:axis], lengths[axis] // inside)
                for radices in digit_lists(tuple(n for n in sizes if n > 1)):
                    yield *radices, whole * inside
