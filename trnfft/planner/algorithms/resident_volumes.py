"""Volumes that rest in SBUF between their axes."""

from __future__ import annotations

from nki_kernels.nd import resident_volumes
from trnfft.planner.algorithms.algorithm import Ahead, ShapeAlgorithm, Tables
from trnfft.planner.kinds import R2C, Part, Transform
from trnfft.planner.plan import Recipe


class ResidentVolumes(ShapeAlgorithm[Transform]):
    """Three axes of complex or real volumes that stay in SBUF between their stages."""

    takes = "axes of 64 and 128 that fit"

    def __init__(self, kind: Part) -> None:
        self.kind, self.is_real = kind, kind == R2C
        self.name = "resident_real_volumes" if self.is_real else "resident_volumes"
        self.kernel = getattr(resident_volumes, self.name)
        shapes = ((64, 64, 64), (64, 128, 128) if self.is_real else (128, 64, 64))
        self.samples = tuple(Transform(shape, part=kind) for shape in shapes)
        self.ahead = Ahead(self.samples[0], 4, "trn1")
        if self.is_real:
            self.ahead = Ahead(Transform((128, 128, 128), part=kind), 2, "trn1")

    def why_not_shape(self, kind: Transform) -> str:
        if kind.data:
            return "takes no padding"
        return resident_volumes.check_shape(kind.lengths, self.is_real)

    def table_specs(self, recipe: Recipe) -> Tables:
        return resident_volumes.resident_volumes_specs(recipe.kind.lengths, self.is_real)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        make = resident_volumes.resident_volumes_tables
        return make(recipe.kind.lengths, self.is_real, inverse, scale)
