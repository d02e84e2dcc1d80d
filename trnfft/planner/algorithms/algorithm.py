"""The interface of an algorithm: what the planner has to know about a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, cast

from nki_kernels.base import packing
from nki_sim.hardware import PARTITIONS, NeuronCore
from trnfft.planner import accuracy, tables
from trnfft.planner.factorization import prime_factors
from trnfft.planner.kinds import C2C, K, Kind, Part, Transform
from trnfft.planner.plan import Pass, Recipe

Shapes = Sequence[tuple[int, ...]]
Tables = tuple[Any, ...]  # arrays, or a tuple of arrays for each pass


@dataclass(frozen=True)
class Ahead:
    """A launch whose loads run far ahead of the instructions that read them."""

    size: int | Kind  # a length, or what the launch computes
    batch: int
    target: str


class Algorithm(Generic[K]):
    """One kernel of `nki_kernels`: its lengths or shapes, its recipes, its arguments and its error.

    A recipe is one way to run the kernel. The kernel's input has the shapes `inputs`.
    `arguments(recipe, ...)` are the kernel's arguments after its input: all tables as one array,
    the place of each table in it, and settings. `specs(recipe)` are the same arguments with (shape,
    dtype) in place of the tables, so that pricing needs no tables.

    Unless it has others, its tables are `make_tables(n, radices, inverse, scale, *options)`, and
    their shapes and dtypes `make_specs(radices, *options)`; without radices, both get the sizes of
    the kind.
    """

    name: str
    kernel: Any
    make_tables: Callable[..., Any]
    make_specs: Callable[..., Any]
    options: tuple[object, ...] = ()
    roundings = 0  # of all numbers beside those of the stages, each an error of `accuracy.UNIT`
    kind: str = C2C  # name of the kinds that it solves
    takes_shapes = False  # whether it takes shapes, of axes or of a weight, instead of a length
    lighter = ""  # name of an algorithm that does the same with less work, if its error allows
    # By how much, of 1, the ratio of a price to its bound varies among recipes for one problem that
    # have as many stages. It is as large as the shipped plans need, and was checked on other sizes.
    # With 1.0 no price is an estimate of another one.
    bound_varies = 0.15
    has_stages = True  # whether products with DFT matrices of its radices, or of its length, do it
    # Pages show the first sentence of the class and the following, so that no page lists kernels.
    title = ""  # what people call it, if that is not its name
    takes = ""  # which lengths or shapes it takes, beside `shortest` and `longest`
    # Tests and scripts run the following, so that a new kernel is in all of their tables.
    ahead: Ahead  # a launch with loads far ahead, for which the simulator has a rule
    short: tuple[Recipe, ...] = ()  # shorter transforms than the planner would choose, for tests

    def recipes_for(self, kind: K) -> list[Recipe]:
        """Returns recipes for a record of its kind, the likeliest first.

        Raises:
            NotImplementedError: the algorithm cannot compute it; the message says why.
        """
        raise NotImplementedError

    def variants(self, recipe: Recipe, index: int) -> list[Recipe]:
        """Returns recipes that differ from one of its recipes in the pass of this index."""
        return []

    def solves(self, recipe: Recipe, kind: K) -> bool:
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
        shapes: list[tuple[int, ...]] = recipe.kind.input_shapes(batch)
        return shapes

    def inputs_beside(self, recipe: Recipe, shapes: Shapes) -> list[tuple[int, ...]]:
        """Returns `inputs` for inputs of these shapes, where the kernel takes several shapes."""
        return self.inputs(recipe, recipe.kind.batch_of(shapes[0][0]))

    def check_inputs(self, recipe: Recipe, shapes: Shapes) -> None:
        """Checks the shapes of the kernel's inputs, because kernels cannot.

        A kernel would read beyond the end of an input of another shape, or only a part of it.

        Raises:
            ValueError: the inputs do not have the shapes that the recipe needs.
        """
        allowed = self.inputs_beside(recipe, shapes)
        if list(shapes) != allowed:
            raise ValueError(f"inputs have shapes {list(shapes)}; {recipe} needs {allowed}")

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        """Returns the kernel's tables, or a tuple of tables for each pass."""
        sizes = (recipe.n, recipe.radices) if recipe.radices else recipe.kind.sizes
        made: Tables = self.make_tables(*sizes, inverse, scale, *self.options)
        return made

    def table_specs(self, recipe: Recipe) -> Tables:
        """Returns the (shape, dtype) of each of `tables`."""
        sizes = (recipe.radices,) if recipe.radices else recipe.kind.sizes
        made: Tables = self.make_specs(*sizes, *self.options)
        return made

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        """Returns the kernel's arguments after its tables: the radices, if it has any."""
        return (recipe.radices,) if recipe.radices else ()

    def specs(self, recipe: Recipe) -> Tables:
        """Returns what `arguments` returns, with (shape, dtype) in place of the tables."""
        return *packing.packed_spec(self.table_specs(recipe)), *self.settings(recipe)

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        """Returns the kernel's arguments after its input; the tables are cached and read-only."""
        packed, places = tables.cached(_packed, self, recipe, inverse, scale)
        return packed, places, *self.settings(recipe, inverse)

    def error(self, recipe: Recipe) -> float:
        """Returns the predicted relative L2 error for random normal input.

        Unless it has another, it is that of the stages, or of a product for each size.
        """
        stages = accuracy.stages_error(recipe.radices or recipe.kind.sizes)
        return accuracy.root_of_squares(stages, *[accuracy.UNIT] * self.roundings)

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
    """An algorithm for rows of one length, from `shortest` to `longest`."""

    shortest = 1
    longest: int
    largest_radix = 0  # the largest prime factor that it takes; 0 for any
    # How often the Tensor engine moves each of `columns` at least, for a block of one row and for a
    # full block. Where it is 0, no lower bound of the time follows from the columns.
    moved: tuple[float, float] = (0.0, 0.0)

    def why_not(self, n: int) -> str:
        """Returns why it cannot transform length n, or "" where it can."""
        if not self.shortest <= n <= self.longest:
            least = "" if self.shortest == 1 else f"{self.shortest} <= "
            return f"takes {least}N <= {self.longest}"
        if self.largest_radix and (largest := prime_factors(n)[-1]) > self.largest_radix:
            return f"has no radix for the prime factor {largest}"
        return self.why_not_inside(n)

    def why_not_inside(self, n: int) -> str:
        """Returns the same for a length that is neither too short nor too long, nor too prime."""
        return ""

    def recipe(self, n: int, radices: tuple[int, ...] = (), inner: Recipe | None = None) -> Recipe:
        """Returns its recipe for length n with these radices, or this inner transform."""
        return Recipe(self.name, self.rows(n), radices, inner)

    def rows(self, n: int) -> Kind:
        """Returns what it computes of rows of length n."""
        return Transform((n,), part=cast("Part", self.kind))

    def recipes(self, n: int) -> list[Recipe]:
        """Returns recipes for a length that it can transform, the likeliest first."""
        return [self.recipe(n)]

    def recipes_for(self, kind: Kind) -> list[Recipe]:
        if reason := self.why_not(kind.points):
            raise NotImplementedError(reason)
        return self.recipes(kind.points)

    def columns(self, recipe: Recipe) -> float:
        """Returns the columns of a row, to which a lower bound of its time is proportional."""
        return recipe.n

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        return self.columns(recipe) * least_of(*self.moved, rows) / chip.tensor_columns_per_ns


class OneMatrix(Algorithm):
    """A kernel with one table, which is an argument of its own."""

    def table_specs(self, recipe: Recipe) -> Tables:
        return (super().table_specs(recipe),)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        return (super().tables(recipe, inverse, scale),)

    def specs(self, recipe: Recipe) -> Tables:
        return *self.table_specs(recipe), *self.settings(recipe)

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        matrix = tables.cached(self.tables, recipe, inverse, scale)
        return *matrix, *self.settings(recipe, inverse)


class MatrixAlgorithm(LengthAlgorithm):
    """A kernel of matrix products, in float32, bfloat16 or refined (pairs of bfloat16)."""

    def __init__(self, dtype: str = "float32", refined: bool = False) -> None:
        self.refined, self.is_exact = refined, dtype == "float32"
        self.options = dtype, refined
        if not self.is_exact:
            self.name += accuracy.REFINED if refined else "_bf16"

    def least_ns(self, recipe: Recipe, rows: float, chip: NeuronCore) -> float:
        return (1.0 if self.is_exact else 0.25) * super().least_ns(recipe, rows, chip)

    def error(self, recipe: Recipe) -> float:
        if self.is_exact:
            return super().error(recipe)
        return accuracy.bfloat16_error(max(1, len(recipe.radices)), self.refined)


class ShapeAlgorithm(Algorithm[K]):
    """An algorithm for shapes, of several axes or of a weight."""

    takes_shapes = True
    bound_varies = 1.0  # a bound counts DMA alone, or whole products alone
    samples: tuple[Kind, ...]  # what tests compute

    def why_not_shape(self, kind: K) -> str:
        """Returns why it cannot compute a record of its kind, or "" where it can."""
        return ""

    def recipes_for(self, kind: K) -> list[Recipe]:
        if reason := self.why_not_shape(kind):
            raise NotImplementedError(reason)
        return [Recipe(self.name, kind)]


class PassAlgorithm(ShapeAlgorithm[K]):
    """An algorithm whose recipes are passes over the data, each run by another algorithm."""

    def __init__(self, algorithms: Iterable[LengthAlgorithm]) -> None:
        self.by_name = {algorithm.name: algorithm for algorithm in algorithms}

    def ways(self, kind: K, item: Pass) -> list[Recipe]:
        """Returns the recipes for a pass that are worth a price, the likeliest first.

        Args:
            kind: what all passes compute.
            item: the pass, in one of the recipes for the kind.
        """
        raise NotImplementedError

    def variants(self, recipe: Recipe, index: int) -> list[Recipe]:
        item = recipe.passes[index]
        before, after = recipe.passes[:index], recipe.passes[index + 1 :]
        return [
            replace(recipe, passes=(*before, replace(item, recipe=way), *after))
            for way in self.ways(recipe.kind, item)
            if way != item.recipe
        ]

    def solves(self, recipe: Recipe, kind: K) -> bool:
        """Returns whether a recipe is one for a kind, with any of the ways of its passes."""
        if self.kind != kind.name or kind.is_rows:
            return False
        try:
            known = self.recipes_for(kind)
        except NotImplementedError:
            return False
        places = [(item.axis, item.kept) for item in recipe.passes]
        for each in known:
            if places == [(item.axis, item.kept) for item in each.passes]:
                pairs = zip(recipe.passes, each.passes, strict=True)
                fits = all(mine.recipe in self.ways(kind, item) for mine, item in pairs)
                return fits and replace(recipe, passes=each.passes) == each
        return False

    def error(self, recipe: Recipe) -> float:
        passes = [item.recipe for item in recipe.passes]
        return accuracy.root_of_squares(*(self.by_name[p.algorithm].error(p) for p in passes))
