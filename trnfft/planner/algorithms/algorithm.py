"""What the planner has to know about a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nki_kernels import packing
from nki_kernels.hardware import PARTITIONS, NeuronCore
from trnfft.planner import accuracy, tables
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import C2C, C2R, R2C, Problem


@dataclass(frozen=True)
class Ahead:
    """A launch whose loads run far ahead of what reads them: what is transformed, and where."""

    size: int | tuple[int, ...]  # a length, or a shape
    batch: int
    target: str


class Algorithm:
    """One kernel of `nki_kernels`: what it takes, its recipes, its arguments and its error.

    A recipe is one way to run the kernel. `arguments(recipe, ...)` is what the kernel takes after
    its input, which has the shapes `inputs`: all tables as one, where each lies in it, settings.
    `specs(recipe)` is the same with (shape, dtype) in place of the tables, so that a price needs
    none.
    """

    name: str
    kernel: Any
    kind = C2C  # what its data and its result are
    takes_shapes = False  # of several axes, or of weights, instead of one length
    lighter = ""  # an algorithm that does the same with less work, where its error allows
    # What tests and scripts run, so that a new kernel is in all of their tables:
    ahead: Ahead  # where loads run far ahead, of which the simulator has a rule
    short: tuple[Recipe, ...] = ()  # shorter than the planner takes them, where those are long

    def recipes_for(self, problem: Problem) -> list[Recipe]:
        """Recipes for a problem of its kind, the likeliest first.

        Raises:
            NotImplementedError: it cannot solve the problem; the message says why.
        """
        raise NotImplementedError

    def solves(self, recipe: Recipe, problem: Problem) -> bool:
        """Whether a recipe, which may come from anywhere, is one of its own for a problem."""
        if self.kind != problem.kind or self.takes_shapes != bool(problem.shape):
            return False
        try:
            return recipe in self.recipes_for(problem)
        except NotImplementedError:
            return False

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        """Shapes of the kernel's float32 input: one array of real data, two parts of complex.

        Raises:
            ValueError: the kernel does not take so many transforms by this recipe.
        """
        raise NotImplementedError

    def inputs_beside(self, recipe: Recipe, shapes: Sequence[tuple[int, ...]]) -> Any:
        """`inputs` for input of these shapes, where the kernel takes others than those."""
        return self.inputs(recipe, shapes[0][0])

    def check_inputs(self, recipe: Recipe, shapes: Sequence[tuple[int, ...]]) -> None:
        """Here, as kernels cannot check: they read other shapes beyond the end, or in part.

        Raises:
            ValueError: the kernel's input does not have the shapes that the recipe is for.
        """
        allowed = self.inputs_beside(recipe, shapes)
        if list(shapes) != allowed:
            raise ValueError(f"inputs of shapes {list(shapes)}: {recipe} takes {allowed}")

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        """The kernel's tables, or a tuple of them for each pass."""
        raise NotImplementedError

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        """(shape, dtype) of each of `tables`."""
        raise NotImplementedError

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        """The kernel's arguments after its tables."""
        return (recipe.radices,)

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        """What `arguments` returns, with (shape, dtype) in place of the tables."""
        return *packing.packed_spec(self.table_specs(recipe)), *self.settings(recipe)

    def arguments(
        self, recipe: Recipe, inverse: bool = False, scale: float = 1.0
    ) -> tuple[Any, ...]:
        """The kernel's arguments after its input; the tables are cached and read-only."""
        packed, places = tables.cached(_packed, self, recipe, inverse, scale)
        return packed, places, *self.settings(recipe, inverse)

    def error(self, recipe: Recipe) -> float:
        """Predicted relative L2 error for random normal input."""
        raise NotImplementedError

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        """Nanoseconds that one core takes at least for so many rows, from first load to last store.

        From the recipe alone: in proportion to the columns that the Tensor engine moves, or to
        the numbers that the Vector engine computes. The factors are a little below the least that
        dry runs of the shipped plans' recipes show; tests compare them with those and with others.
        0 where nothing is known.
        """
        return 0.0

    def stated_error(self, recipe: Recipe) -> float:
        """`error` with the digits that plans state."""
        return float(f"{self.error(recipe):.2e}")


def least_of(alone: float, block: float, rows: float) -> float:
    """What blocks of 128 rows take at least: one block, or as many as there are, in parts.

    Args:
        alone: what a block with one row takes.
        block: what a full block takes.
        rows: how many there are.
    """
    return max(alone, block * rows / PARTITIONS)


def _packed(algorithm: Algorithm, recipe: Recipe, inverse: bool, scale: float) -> Any:
    return packing.pack(algorithm.tables(recipe, inverse, scale))


class LengthAlgorithm(Algorithm):
    """An algorithm for rows of one length, from `shortest` to `longest`."""

    shortest = 1
    longest: int

    def why_not(self, n: int) -> str:
        """Why it cannot transform length n; "" if it can."""
        if self.shortest <= n <= self.longest:
            return self.why_not_inside(n)
        least = "" if self.shortest == 1 else f"{self.shortest} <= "
        return f"takes {least}N <= {self.longest}"

    def why_not_inside(self, n: int) -> str:
        """The same, for a length that is neither too short nor too long."""
        return ""

    def recipes(self, n: int) -> list[Recipe]:
        """Recipes for a length it can do, the likeliest first."""
        return [Recipe(self.name, n)]

    def recipes_for(self, problem: Problem) -> list[Recipe]:
        if reason := self.why_not(problem.n):
            raise NotImplementedError(reason)
        return self.recipes(problem.n)

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        if self.kind == R2C:
            return [(batch, recipe.n)]
        return [(batch, recipe.n // 2 + 1 if self.kind == C2R else recipe.n)] * 2


class OneMatrix(Algorithm):
    """A kernel whose one table is an argument of its own, and nothing follows."""

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        return ()

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return *self.table_specs(recipe), *self.settings(recipe)

    def arguments(
        self, recipe: Recipe, inverse: bool = False, scale: float = 1.0
    ) -> tuple[Any, ...]:
        found = tables.cached(self.tables, recipe, inverse, scale)
        return *found, *self.settings(recipe, inverse)


class MatrixAlgorithm(LengthAlgorithm):
    """A kernel of matrix products, in float32, bfloat16 or refined: with pairs of bfloat16."""

    def __init__(self, dtype: str = "float32", refined: bool = False) -> None:
        self.dtype, self.refined = dtype, refined
        if dtype != "float32":
            self.name += "_bf16_refined" if refined else "_bf16"


class ShapeAlgorithm(Algorithm):
    """An algorithm for shapes: of several axes, or of a weight."""

    takes_shapes = True
    samples: tuple[tuple[int, ...], ...]  # shapes that tests run

    def orders(self, shape: tuple[int, ...], held: tuple[int, ...]) -> list[Recipe]:
        """Recipes for a shape with data of the shape `held` in it.

        Raises:
            NotImplementedError: it cannot do the shape; the message says why.
        """
        raise NotImplementedError

    def recipes_for(self, problem: Problem) -> list[Recipe]:
        if not problem.shape:
            raise NotImplementedError("takes shapes")
        return self.orders(problem.shape, problem.padded_from)


class PassAlgorithm(ShapeAlgorithm):
    """An algorithm whose recipes are passes over the data, each by one of other algorithms."""

    def __init__(self, algorithms: Iterable[LengthAlgorithm]) -> None:
        self.by_name = {algorithm.name: algorithm for algorithm in algorithms}

    def error(self, recipe: Recipe) -> float:
        passes = [item.recipe for item in recipe.passes]
        return accuracy.root_of_squares(*(self.by_name[p.algorithm].error(p) for p in passes))
