"""The real part of the transform of real planes, as products with matrices of cosines and sines."""

from __future__ import annotations

from nki_kernels.spectral import real_planes
from nki_sim.hardware import PARTITIONS, NeuronCore
from trnfft.planner import kinds
from trnfft.planner.algorithms.algorithm import Ahead, ShapeAlgorithm, Tables
from trnfft.planner.kinds.real_planes import REAL_PLANES
from trnfft.planner.plan import Recipe


class RealPlanes(ShapeAlgorithm[kinds.RealPlanes]):
    """The real part of the transform of real planes, as products with cosines and sines."""

    name = kind = REAL_PLANES
    kernel = real_planes.real_planes
    make_specs = staticmethod(real_planes.real_planes_specs)
    title = "real part of planes"
    takes = "66 to 1022 rows and 66 to 1024 columns, up to 511 where a number is odd"
    has_stages = False  # in torch it would be whole DFT matrices
    samples = tuple(kinds.RealPlanes(*shape) for shape in ((66, 66), (67, 131), (132, 200)))
    ahead = Ahead(kinds.RealPlanes(512, 768), 4, "trn1")

    def why_not_shape(self, kind: kinds.RealPlanes) -> str:
        return real_planes.check_shape(kind.rows, kind.columns)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        """Returns the tables of both directions, whose results have the same real part."""
        return real_planes.real_planes_tables(recipe.kind.rows, recipe.kind.columns, scale)

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        """Returns the time of the products, without chunks that are not full."""
        down, along = (real_planes.Axis(n) for n in recipe.kind.sizes)
        columns = down.points * 2 * down.half * along.n + along.points * 2 * along.half * down.half
        cycles = chip.fp32_matmul_factor * columns / PARTITIONS**2
        return rows * cycles / chip.tensor_columns_per_ns
