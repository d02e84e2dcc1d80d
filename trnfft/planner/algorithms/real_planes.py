"""The real part of the transform of real planes, as products with matrices of cosines and sines."""

from __future__ import annotations

import math
from typing import Any

from nki_kernels.spectral import real_planes
from nki_sim.hardware import PARTITIONS, NeuronCore
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, ShapeAlgorithm
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import REAL_PLANES


class RealPlanes(ShapeAlgorithm):
    """The real part of the transform of real planes, as products with cosines and sines."""

    name = kind = REAL_PLANES
    kernel = real_planes.real_planes
    title = "real part of planes"
    takes = "66 to 1022 rows and 66 to 1024 columns, up to 511 where a number is odd"
    has_stages = False  # in torch it would be whole DFT matrices
    samples = ((66, 66), (67, 131), (132, 200))
    ahead = Ahead((512, 768), 4, "trn1")

    def orders(self, shape: tuple[int, ...], held: tuple[int, ...]) -> list[Recipe]:
        if len(shape) != 2:
            raise NotImplementedError(f"a plane has 2 axes, not {len(shape)}")
        if reason := real_planes.check_shape(*shape):
            raise NotImplementedError(reason)
        return [Recipe(self.name, math.prod(shape), held=shape)]

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        return [(batch, *recipe.held)]

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        rows, columns = recipe.held
        return real_planes.real_planes_specs(rows, columns)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        """Returns the tables of both directions, whose results have the same real part."""
        rows, columns = recipe.held
        return real_planes.real_planes_tables(rows, columns, scale)

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        return ()

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        """Returns the time of the products, without chunks that are not full."""
        down, along = (real_planes.Axis(n) for n in recipe.held)
        columns = down.points * 2 * down.half * along.n + along.points * 2 * along.half * down.half
        cycles = chip.fp32_matmul_factor * columns / PARTITIONS**2
        return rows * cycles / chip.tensor_columns_per_ns

    def error(self, recipe: Recipe) -> float:
        return accuracy.stages_error(recipe.held)
