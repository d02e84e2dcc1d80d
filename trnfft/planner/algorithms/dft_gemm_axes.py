"""DFT-GEMM over several axes: one product with the Kronecker product of their DFT matrices."""

from __future__ import annotations

import math
from typing import cast

from nki_kernels.fft import dft_gemm
from nki_sim.hardware import NeuronCore
from trnfft.planner.algorithms.algorithm import (
    Ahead,
    LengthAlgorithm,
    OneMatrix,
    ShapeAlgorithm,
    Tables,
)
from trnfft.planner.kinds import C2R, Part, Transform
from trnfft.planner.plan import Recipe

# Shapes that tests compute, with the data before zeros or, of an inverse, what is kept of it.
_SAMPLES = (
    ((8, 8), ()),
    ((1, 7), ()),
    ((14, 14), ()),
    ((2, 3, 4), ()),
    ((16, 16), ()),
    ((12, 9), (5, 7)),
    ((16, 16), (1, 1)),
)


class DftGemmAxes(OneMatrix, ShapeAlgorithm[Transform]):
    """All axes of small arrays by one product with the Kronecker product of their DFT matrices.

    Args:
        rows: the algorithm whose kernel does this to rows.
    """

    title = "DFT-GEMM over axes"
    takes = f"up to {dft_gemm.MAX_LENGTH} points"

    def __init__(self, rows: LengthAlgorithm) -> None:
        self.rows = rows
        self.name = rows.name.replace("dft_gemm", "dft_gemm_axes")
        self.kind, self.kernel, self.options = rows.kind, rows.kernel, rows.options
        self.make_tables, self.make_specs = rows.make_tables, rows.make_specs
        part = cast("Part", rows.kind)
        self.samples = tuple(Transform(lengths, data, part) for lengths, data in _SAMPLES)
        self.ahead = Ahead(Transform((16, 16), part=part), 4096, "trn1")

    def why_not_shape(self, kind: Transform) -> str:
        return "" if kind.points <= dft_gemm.MAX_LENGTH else f"takes {self.takes}"

    def table_specs(self, recipe: Recipe) -> Tables:
        kind = recipe.kind
        return (self.make_specs(kind.lengths, *self.options, kind.data),)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        kind = recipe.kind
        return (self.make_tables(kind.lengths, inverse, scale, *self.options, kind.data),)

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        """Returns the sizes of the transforms, or of what is kept of an inverse to real data."""
        return (recipe.kind.held if self.kind == C2R else recipe.kind.lengths,)

    def error(self, recipe: Recipe) -> float:
        return self.rows.error(self.rows.recipe(recipe.n))

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        """Returns what rows without the zeros need at least, whose products are smaller."""
        held = math.prod(recipe.kind.held)
        return self.rows.least_ns(self.rows.recipe(held), rows, chip)
