"""Transforms over several axes: one pass for each axis, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, permutations

from nki_kernels.nd import axes
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm, PassAlgorithm, Tables
from trnfft.planner.kinds import C2C, C2R, R2C, Part, Transform
from trnfft.planner.plan import Pass, Recipe

_NAMES = {C2C: "axes", R2C: "real_axes", C2R: "axes_to_real"}
_AHEAD = {
    C2C: Ahead(Transform((1024, 1024)), 1, "trn1"),
    R2C: Ahead(Transform((4096, 640), part=R2C), 1, "trn3"),
    C2R: Ahead(Transform((4096, 640), part=C2R), 1, "trn1"),
}
ORDERS = 24  # orders of axes that are tried for one shape: all orders of four axes
_KERNELS = {
    C2C: axes.transform_axes,
    R2C: axes.transform_real_axes,
    C2R: axes.transform_axes_to_real,
}


class Axes(PassAlgorithm[Transform]):
    """One pass for each of several axes, in one launch.

    Args:
        kind: kind of data and result.
        rows: algorithms for the last axis, the likeliest first.
        columns: the algorithm for the other axes.
    """

    title = "axis by axis"

    def __init__(
        self, kind: Part, rows: Sequence[LengthAlgorithm], columns: LengthAlgorithm
    ) -> None:
        super().__init__((*rows, columns))
        self.kind, self.name, self.kernel = kind, _NAMES[kind], _KERNELS[kind]
        self.row_algorithms, self.columns = rows, columns
        self.ahead = _AHEAD[kind]
        shapes = ((16, 16), (64, 64), (33, 100), (64, 200), (16, 300), (4, 64))
        self.samples = tuple(Transform(shape, part=kind) for shape in shapes)

    def recipes_for(self, kind: Transform) -> list[Recipe]:
        """Returns a recipe for every order of up to four axes; for more axes, for some orders."""
        shape = kind.lengths
        last = len(shape) - 1
        first = range(last) if self.kind != C2C else range(last + 1)
        ways = [likeliest(axis, shape[axis], (self.columns,)) for axis in range(last)]
        ways.append(likeliest(last, shape[last], self.row_algorithms))
        recipes = []
        for order in islice(permutations(first), ORDERS):
            whole = {R2C: (last, *order), C2R: (*order, last), C2C: order}[kind.part]
            passes = tuple(Pass(axis, ways[axis], self._kept(axis, kind)) for axis in whole)
            recipes.append(Recipe(self.name, kind, passes=passes))
        return recipes

    def _kept(self, axis: int, kind: Transform) -> int:
        """Returns the outputs kept of an axis; an inverse to real data keeps those asked for."""
        shape = kind.lengths
        if self.kind == C2R:
            return kind.held[axis]
        if self.kind == R2C and axis == len(shape) - 1:
            return shape[axis] // 2 + 1
        return shape[axis]

    def table_specs(self, recipe: Recipe) -> Tables:
        recipes = [item.recipe for item in recipe.passes]
        return tuple(self.by_name[each.algorithm].table_specs(each) for each in recipes)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        tables = []
        for item in recipe.passes:
            algorithm = self.by_name[item.recipe.algorithm]
            tables.append(algorithm.tables(item.recipe, inverse, scale))
            scale = 1.0
        return tuple(tables)

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        """Returns the passes in the form of the kernel's argument."""
        passes = []
        for item in recipe.passes:
            each = item.recipe
            number = axes.PASS_NUMBERS[each.algorithm]
            passes.append((number, item.axis + 1, each.n, item.kept, each.radices))
        return (tuple(passes),)


def likeliest(axis: int, n: int, algorithms: Sequence[LengthAlgorithm]) -> Recipe:
    """Returns the likeliest recipe for an axis of length n.

    Raises:
        NotImplementedError: none of the algorithms takes the length; the message says why.
    """
    reasons = []
    for algorithm in algorithms:
        reason = algorithm.why_not(n)
        if not reason:
            return algorithm.recipes(n)[0]
        reasons.append(f"{algorithm.name} {reason}")
    raise NotImplementedError(f"axis {axis} of length {n}: {'; '.join(reasons)}")
