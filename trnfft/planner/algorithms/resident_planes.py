"""Images that rest in SBUF between the stages of their transform."""

from __future__ import annotations

from nki_kernels.nd import resident_planes
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, ShapeAlgorithm
from trnfft.planner.kinds import Transform
from trnfft.planner.plan import Recipe


class ResidentPlanes(ShapeAlgorithm[Transform]):
    """Both axes of complex images that stay in SBUF between their stages."""

    name = "resident_planes"
    kernel = resident_planes.resident_planes
    make_tables = staticmethod(resident_planes.resident_planes_tables)
    make_specs = staticmethod(resident_planes.resident_planes_specs)
    title = "plane in SBUF"
    takes = "powers of two: 256 to 4096 rows, 128 to 2048 columns, up to 2^20 points"
    samples = tuple(map(Transform, ((256, 128), (512, 256))))
    ahead = Ahead(Transform((512, 2048)), 2, "trn1")

    def why_not_shape(self, kind: Transform) -> str:
        if len(kind.lengths) != 2:
            return f"an image has 2 axes, not {len(kind.lengths)}"
        return "takes no padding" if kind.data else resident_planes.check_shape(*kind.lengths)

    def error(self, recipe: Recipe) -> float:
        return accuracy.stages_error(resident_planes.stages(*recipe.kind.lengths))
