"""Images that rest in SBUF between the stages of their transform."""

from __future__ import annotations

from typing import Any

from nki_kernels.nd import resident_planes
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, ShapeAlgorithm
from trnfft.planner.kinds import Transform
from trnfft.planner.plan import Recipe


class ResidentPlanes(ShapeAlgorithm):
    """Both axes of complex images that stay in SBUF between their stages."""

    name = "resident_planes"
    kernel = resident_planes.resident_planes
    title = "plane in SBUF"
    takes = "powers of two: 256 to 4096 rows, 128 to 2048 columns, up to 2^20 points"
    samples = tuple(map(Transform, ((256, 128), (512, 256))))
    ahead = Ahead(Transform((512, 2048)), 2, "trn1")

    def recipes_for(self, kind: Transform) -> list[Recipe]:
        if len(kind.lengths) != 2:
            raise NotImplementedError(f"an image has 2 axes, not {len(kind.lengths)}")
        if kind.data:
            raise NotImplementedError("takes no padding")
        if reason := resident_planes.check_shape(*kind.lengths):
            raise NotImplementedError(reason)
        return [Recipe(self.name, kind)]

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        return [(batch, *recipe.kind.lengths)] * 2

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        rows, columns = recipe.kind.lengths
        return resident_planes.resident_planes_specs(rows, columns)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        rows, columns = recipe.kind.lengths
        return resident_planes.resident_planes_tables(rows, columns, inverse, scale)

    def error(self, recipe: Recipe) -> float:
        return accuracy.stages_error(resident_planes.stages(*recipe.kind.lengths))
