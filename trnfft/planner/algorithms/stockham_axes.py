"""Stockham over several axes: the axes are digits of one row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from nki_kernels.fft import stage
from nki_kernels.nd import stockham_axes
from nki_kernels.nd.axis_stages import Axes, stages_of_axes
from nki_sim.hardware import NeuronCore
from trnfft.base.cache import cached
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, ShapeAlgorithm, Tables, least_of
from trnfft.planner.algorithms.stockham import columns_moved
from trnfft.planner.kinds import C2C, C2R, R2C, Part, Transform
from trnfft.planner.plan import Recipe

RADIX_LISTS = 4  # lists of radices for one shape
_NAMES = {C2C: "stockham_axes", R2C: "real_stockham_axes", C2R: "inverse_real_stockham_axes"}
_MOVED = (1.6, 1.9)  # how often the Tensor engine moves columns at least; see `LengthAlgorithm`


class StagesOfAxes(ShapeAlgorithm[Transform]):
    """An algorithm whose recipes are lists of radices of the axes, in their order."""

    def lists(self, kind: Transform) -> list[tuple[int, ...]]:
        """Returns the lists of radices that are worth a price, those with the least work first."""
        raise NotImplementedError

    def recipes_for(self, kind: Transform) -> list[Recipe]:
        if reason := self.why_not_shape(kind):
            raise NotImplementedError(reason)
        return [Recipe(self.name, kind, radices) for radices in self.lists(kind)]

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        """Returns the radices, and for a real result the length of its last axis."""
        last = (recipe.kind.lengths[-1],) if self.kind == C2R else ()
        return recipe.radices, *last


class StockhamAxes(StagesOfAxes):
    """Stages of several axes, one after the other, with one array in each partition."""

    title = "Stockham over axes"
    bound_varies = 0.3
    takes = "arrays of up to 10240 points, whose axes have radices up to 128"

    def __init__(self, kind: Part, dtype: str = "float32", refined: bool = False) -> None:
        self.kind, self.name = kind, _NAMES[kind]
        self.kernel = getattr(stockham_axes, self.name)
        self.dtype, self.refined, self.is_exact = dtype, refined, dtype == "float32"
        if not self.is_exact:
            self.name += accuracy.REFINED if refined else "_bf16"
        shapes = ((16, 17), (3, 5, 40), (32, 8, 8))
        self.samples = tuple(Transform(shape, part=kind) for shape in shapes)
        self.ahead = Ahead(Transform((64, 64), part=kind), 512, "trn1")

    def why_not_shape(self, kind: Transform) -> str:
        if kind.points > stage.MAX_LENGTH:
            return f"takes up to {stage.MAX_LENGTH} points"
        if sum(n > 1 for n in kind.lengths) < 2:
            return "takes two or more axes"
        if kind.held[1:] != kind.lengths[1:] or (kind.data and self.kind == C2R):
            return "takes padding along the first axis alone, before the transform"
        if not self.lists(kind):
            return f"has no radices up to {stage.MAX_RADIX} for these axes"
        return ""

    def lists(self, kind: Transform) -> list[tuple[int, ...]]:
        return _lists(axes_of(kind))

    def table_specs(self, recipe: Recipe) -> Tables:
        make = stockham_axes.stockham_axes_specs
        return make(axes_of(recipe.kind), recipe.radices, self.dtype, self.refined)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        make = stockham_axes.stockham_axes_tables
        axes = axes_of(recipe.kind)
        return make(axes, recipe.radices, inverse, scale, self.dtype, self.refined)

    def error(self, recipe: Recipe) -> float:
        if self.is_exact:
            return accuracy.stages_error(recipe.radices)
        return accuracy.bfloat16_error(len(recipe.radices), self.refined)

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        columns = columns_moved(stages_of_axes(recipe.radices, axes_of(recipe.kind)))
        rate = chip.tensor_columns_per_ns * (1 if self.is_exact else 4)
        return columns * least_of(*_MOVED, rows) / rate


def axes_of(kind: Transform) -> Axes:
    """Returns the axes of a transform as the kernels name them."""
    return Axes(kind.lengths, kind.part == R2C, kind.part == C2R)


@cached(64)  # a search asks for each dtype
def _lists(axes: Axes) -> list[tuple[int, ...]]:
    """Returns lists of radices of axes, those with the least work first."""
    sizes = tuple(n for n in axes.lengths if n > 1)
    is_half = axes.is_real or axes.to_real
    if is_half and axes.lengths[-1] == 1:
        return []
    return sorted(digit_lists(sizes, is_half), key=partial(_work, axes))[:RADIX_LISTS]


def digit_lists(sizes: tuple[int, ...], is_half: bool = False) -> list[tuple[int, ...]]:
    """Returns lists of radices up to 128 of axes in their order, each of an axis or of whole axes.

    An axis has one or two radices. Only lists with the fewest stages are made, and with one more.

    Args:
        sizes: sizes of the axes, each 2 or more.
        is_half: whether one radix has to have the whole last axis.
    """
    for count in range(1, 2 * len(sizes) + 1):  # of stages: many axes have very many longer lists
        if any(_digits(sizes, is_half, count)):
            return list(set(_digits(sizes, is_half, count + 1)))
    return []


def _digits(sizes: tuple[int, ...], is_half: bool, most: int) -> Iterator[tuple[int, ...]]:
    """Yields lists of radices up to 128 of axes in their order, each of an axis or of whole axes.

    is_half: whether one radix has to have the whole last axis.
    """
    if not sizes:
        yield ()
    if not sizes or most == 0:
        return
    for count in range(1, len(sizes) + 1):
        whole = math.prod(sizes[:count])
        if whole > stage.MAX_RADIX:
            break
        for rest in _digits(sizes[count:], is_half, most - 1):
            yield (whole, *rest)
    if is_half and len(sizes) == 1:
        return
    for radix in range(2, min(stage.MAX_RADIX, sizes[0] - 1) + 1):
        if sizes[0] % radix == 0 and sizes[0] // radix <= stage.MAX_RADIX:
            for rest in _digits(sizes[1:], is_half, most - 2) if most > 1 else ():
                yield (radix, sizes[0] // radix, *rest)


def _work(axes: Axes, radices: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
    """Returns the columns that a transform moves, and the numbers of its tables, as a rank."""
    stages = stages_of_axes(radices, axes)
    numbers = sum(math.prod(stage.stage_spec(each)[0]) for each in stages)
    return columns_moved(stages), numbers, radices
