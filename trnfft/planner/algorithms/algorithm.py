"""The interface of an algorithm: what the planner has to know about a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nki_kernels.base import packing
from nki_sim.hardware import PARTITIONS, NeuronCore
from trnfft.planner import accuracy, tables
from trnfft.planner.kinds import C2C, C2R, R2C, Kind, Transform
from trnfft.planner.plan import Recipe


@dataclass(frozen=True)
class Ahead:
    """A launch whose loads run far ahead of the instructions that read them."""

    size: int | Kind  # a length, or what the launch computes
    batch: int
    target: str


class Algorithm:
    """One kernel of `nki_kernels`: its lengths or shapes, its recipes, its arguments and its error.

    A recipe is one way to run the kernel. The kernel's input has the shapes `inputs`.
    `arguments(recipe, ...)` are the kernel's arguments after its input: all tables as one array,
    the place of each table in it, and settings. `specs(recipe)` are the same arguments with (shape,
    dtype) in place of the tables, so that pricing needs no tables.
    """

    name: str
    kernel: Any
    kind: str = C2C  # name of the kinds that it solves
    takes_shapes = False  # whether it takes shapes, of axes or of a weight, instead of a length
    lighter = ""  # name of an algorithm that does the same with less work, if its error allows
    has_stages = True  # whether products with DFT matrices of its radices, or of its length, do it
    # Pages show the first sentence of the class and the following, so that no page lists kernels.
    title = ""  # what people call it, if that is not its name
    takes = ""  # which lengths or shapes it takes, beside `shortest` and `longest`
    # Tests and scripts run the following, so that a new kernel is in all of their tables.
    ahead: Ahead  # a launch with loads far ahead, for which the simulator has a rule
    short: tuple[Recipe, ...] = ()  # shorter transforms than the planner would choose, for tests

    def recipes_for(self, kind: Any) -> list[Recipe]:
        """Returns recipes for a record of its kind, the likeliest first.

        Raises:
            NotImplementedError: the algorithm cannot compute it; the message says why.
        """
        raise NotImplementedError

    def solves(self, recipe: Recipe, kind: Kind) -> bool:
        """Returns whether a recipe, whatever its source, is one of its recipes for a kind."""
        if self.kind != kind.name or self.takes_shapes == kind.is_rows:
            return False
        try:
            return recipe in self.recipes_for(kind)
        except NotImplementedError:
            return False

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        """Returns the shapes of the kernel's float32 inputs: one array of real data, or two parts.

        Raises:
            ValueError: the kernel does not take so many transforms with this recipe.
        """
        raise NotImplementedError

    def inputs_beside(self, recipe: Recipe, shapes: Sequence[tuple[int, ...]]) -> Any:
        """Returns `inputs` for inputs of these shapes, where the kernel takes several shapes."""
        return self.inputs(recipe, shapes[0][0])

    def check_inputs(self, recipe: Recipe, shapes: Sequence[tuple[int, ...]]) -> None:
        """Checks the shapes of the kernel's inputs, because kernels cannot.

        A kernel would read beyond the end of an input of another shape, or only a part of it.

        Raises:
            ValueError: the inputs do not have the shapes that the recipe needs.
        """
        allowed = self.inputs_beside(recipe, shapes)
        if list(shapes) != allowed:
            raise ValueError(f"inputs have shapes {list(shapes)}; {recipe} needs {allowed}")

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        """Returns the kernel's tables, or a tuple of tables for each pass."""
        raise NotImplementedError

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        """Returns the (shape, dtype) of each of `tables`."""
        raise NotImplementedError

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        """Returns the kernel's arguments after its tables: the radices, if it has any."""
        return (recipe.radices,) if recipe.radices else ()

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        """Returns what `arguments` returns, with (shape, dtype) in place of the tables."""
        return *packing.packed_spec(self.table_specs(recipe)), *self.settings(recipe)

    def arguments(
        self, recipe: Recipe, inverse: bool = False, scale: float = 1.0
    ) -> tuple[Any, ...]:
        """Returns the kernel's arguments after its input; the tables are cached and read-only."""
        packed, places = tables.cached(_packed, self, recipe, inverse, scale)
        return packed, places, *self.settings(recipe, inverse)

    def error(self, recipe: Recipe) -> float:
        """Returns the predicted relative L2 error for random normal input."""
        raise NotImplementedError

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        """Returns the nanoseconds that one core needs at least for `rows` rows.

        The time begins with the first load and ends with the last store. The bound follows from the
        recipe alone: it is proportional to the columns that the Tensor engine moves, or to the
        numbers that the Vector engine computes. The factors are a little below the lowest that dry
        runs of the shipped plans' recipes show; tests compare them with these recipes and with
        others. The result is 0 where no bound is known.
        """
        return 0.0

    def stated_error(self, recipe: Recipe) -> float:
        """Returns `error` with the digits that plans state."""
        return float(f"{self.error(recipe):.2e}")


def least_of(alone: float, block: float, rows: float) -> float:
    """Returns what blocks of 128 rows need at least: one block, or a proportional number of blocks.

    Args:
        alone: what a block with one row needs.
        block: what a full block needs.
        rows: number of rows.
    """
    return max(alone, block * rows / PARTITIONS)


def _packed(algorithm: Algorithm, recipe: Recipe, inverse: bool, scale: float) -> Any:
    return packing.pack(algorithm.tables(recipe, inverse, scale))


class LengthAlgorithm(Algorithm):
    """An algorithm for rows of one length, from `shortest` to `longest`.

    Unless it has others, its tables are `make_tables(n, radices, inverse, scale)`, and their shapes
    and dtypes `make_specs(radices)`.
    """

    shortest = 1
    longest: int
    make_tables: Any
    make_specs: Any

    def why_not(self, n: int) -> str:
        """Returns why it cannot transform length n, or "" where it can."""
        if self.shortest <= n <= self.longest:
            return self.why_not_inside(n)
        least = "" if self.shortest == 1 else f"{self.shortest} <= "
        return f"takes {least}N <= {self.longest}"

    def why_not_inside(self, n: int) -> str:
        """Returns the same for a length that is neither too short nor too long."""
        return ""

    def recipe(self, n: int, radices: tuple[int, ...] = (), inner: Recipe | None = None) -> Recipe:
        """Returns its recipe for length n with these radices, or this inner transform."""
        return Recipe(self.name, self.rows(n), radices, inner)

    def rows(self, n: int) -> Kind:
        """Returns what it computes of rows of length n."""
        return Transform((n,), part=self.kind)  # type: ignore[arg-type]  # a Part

    def recipes(self, n: int) -> list[Recipe]:
        """Returns recipes for a length that it can transform, the likeliest first."""
        return [self.recipe(n)]

    def recipes_for(self, kind: Kind) -> list[Recipe]:
        if reason := self.why_not(kind.points):
            raise NotImplementedError(reason)
        return self.recipes(kind.points)

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self.make_specs(recipe.radices)
        return found

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self.make_tables(recipe.n, recipe.radices, inverse, scale)
        return found

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        if self.kind == R2C:
            return [(batch, recipe.n)]
        return [(batch, recipe.n // 2 + 1 if self.kind == C2R else recipe.n)] * 2


class OneMatrix(Algorithm):
    """A kernel with one table, which is an argument of its own."""

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return *self.table_specs(recipe), *self.settings(recipe)

    def arguments(
        self, recipe: Recipe, inverse: bool = False, scale: float = 1.0
    ) -> tuple[Any, ...]:
        found = tables.cached(self.tables, recipe, inverse, scale)
        return *found, *self.settings(recipe, inverse)


class MatrixAlgorithm(LengthAlgorithm):
    """A kernel of matrix products, in float32, bfloat16 or refined (pairs of bfloat16)."""

    def __init__(self, dtype: str = "float32", refined: bool = False) -> None:
        self.dtype, self.refined = dtype, refined
        if dtype != "float32":
            self.name += accuracy.REFINED if refined else "_bf16"


class ShapeAlgorithm(Algorithm):
    """An algorithm for shapes, of several axes or of a weight."""

    takes_shapes = True
    samples: tuple[Kind, ...]  # what tests compute


class PassAlgorithm(ShapeAlgorithm):
    """An algorithm whose recipes are passes over the data, each run by another algorithm."""

    def __init__(self, algorithms: Iterable[LengthAlgorithm]) -> None:
        self.by_name = {algorithm.name: algorithm for algorithm in algorithms}

    def error(self, recipe: Recipe) -> float:
        passes = [item.recipe for item in recipe.passes]
        return accuracy.root_of_squares(*(self.by_name[p.algorithm].error(p) for p in passes))
