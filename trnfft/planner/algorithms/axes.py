"""Transforms over several axes: one pass for each axis, in one launch.

A search first prices the orders of the axes, each axis with its likeliest recipe. Then it replaces
one pass of the cheapest order after the other by `Axes.ways`.
"""

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
RECIPES = 3  # of each algorithm for an axis
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
        ways = [self._ways(axis, kind)[0] for axis in range(last + 1)]
        recipes = []
        for order in islice(permutations(first), ORDERS):
            whole = {R2C: (last, *order), C2R: (*order, last), C2C: order}[kind.part]
            passes = tuple(Pass(axis, ways[axis], self._kept(axis, kind)) for axis in whole)
            recipes.append(Recipe(self.name, kind, passes=passes))
        return recipes

    def ways(self, kind: Transform, item: Pass) -> list[Recipe]:
        return self._ways(item.axis, kind)

    def _ways(self, axis: int, kind: Transform) -> list[Recipe]:
        """Returns the recipes for an axis, the likeliest first."""
        is_last = axis == len(kind.lengths) - 1
        return ways_of(
            axis, kind.lengths[axis], self.row_algorithms if is_last else (self.columns,)
        )

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


def ways_of(axis: int, n: int, algorithms: Sequence[LengthAlgorithm]) -> list[Recipe]:
    """Returns the recipes for an axis of length n that are worth a price, the likeliest first.

    Raises:
        NotImplementedError: none of the algorithms takes the length; the message says why.
    """
    reasons: list[str] = []
    ways: list[Recipe] = []
    for algorithm in algorithms:
        if reason := algorithm.why_not(n):
            reasons.append(f"{algorithm.name} {reason}")
        else:
            ways += algorithm.recipes(n)[:RECIPES]
    if not ways:
        raise NotImplementedError(f"axis {axis} of length {n}: {'; '.join(reasons)}")
    return ways
