"""Volumes that rest in SBUF between their axes."""

from __future__ import annotations

import math
from typing import Any

from nki_kernels.nd import resident_volumes
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, ShapeAlgorithm
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import R2C


class ResidentVolumes(ShapeAlgorithm):
    """Three axes of complex or real volumes that stay in SBUF between their stages."""

    takes = "axes of 64 and 128 that fit"
    samples = ((64, 64, 64), (128, 64, 64))
    ahead = Ahead((64, 64, 64), 4, "trn1")

    def __init__(self, kind: str) -> None:
        self.kind, self.is_real = kind, kind == R2C
        self.name = "resident_real_volumes" if self.is_real else "resident_volumes"
        self.kernel = getattr(resident_volumes, self.name)
        if self.is_real:
            self.samples = ((64, 64, 64), (64, 128, 128))
            self.ahead = Ahead((128, 128, 128), 2, "trn1")

    def orders(self, shape: tuple[int, ...], held: tuple[int, ...]) -> list[Recipe]:
        if shape != held:
            raise NotImplementedError("takes no padding")
        if reason := resident_volumes.check_shape(shape, self.is_real):
            raise NotImplementedError(reason)
        return [Recipe(self.name, math.prod(shape), held=shape)]

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        return [(batch, *recipe.held)] * (1 if self.is_real else 2)

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return resident_volumes.resident_volumes_specs(recipe.held, self.is_real)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        make = resident_volumes.resident_volumes_tables
        return make(recipe.held, self.is_real, inverse, scale)

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        return ()

    def error(self, recipe: Recipe) -> float:
        return accuracy.stages_error(recipe.held)
