"""What the planner has to know about a kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trnfft.planner import accuracy
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import C2C, C2R, R2C, Problem


class Algorithm:
    """One kernel of `nki_kernels`: what it takes, its recipes, its arguments and its error.

    A recipe is one way to run the kernel. `arguments(recipe, ...)` is what the kernel takes after
    its input, which has the shapes `inputs`; `specs(recipe)` is the same with (shape, dtype) in
    place of every table, so that a price needs no tables.
    """

    name: str
    kernel: Any
    kind = C2C  # what its data and its result are
    takes_shapes = False  # of several axes, or of weights, instead of one length
    rows = 128  # transforms that the kernel takes at once
    lighter = ""  # an algorithm that does the same with less work, where its error allows

    def recipes_for(self, problem: Problem) -> list[Recipe]:
        """Recipes for a problem of its kind, the likeliest first.

        Raises:
            NotImplementedError: it cannot solve the problem; the message says why.
        """
        raise NotImplementedError

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        """Shapes of the kernel's float32 input: one array of real data, two parts of complex."""
        raise NotImplementedError

    def specs(self, recipe: Recipe) -> tuple[Any, ...]:
        """What `arguments` returns, with (shape, dtype) in place of every table."""
        raise NotImplementedError

    def arguments(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Any:
        """The kernel's arguments after its input; the tables are cached and read-only."""
        raise NotImplementedError

    def error(self, recipe: Recipe) -> float:
        """Predicted relative L2 error for random normal input."""
        raise NotImplementedError


class LengthAlgorithm(Algorithm):
    """An algorithm for rows of one length."""

    def why_not(self, n: int) -> str:
        """Why it cannot transform length n; "" if it can."""
        raise NotImplementedError

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


class MatrixAlgorithm(LengthAlgorithm):
    """A kernel of matrix products, in float32, bfloat16 or refined: with pairs of bfloat16."""

    def __init__(self, dtype: str = "float32", refined: bool = False) -> None:
        self.dtype, self.refined = dtype, refined
        if dtype != "float32":
            self.name += "_bf16_refined" if refined else "_bf16"


class ShapeAlgorithm(Algorithm):
    """An algorithm for shapes: of several axes, or of a weight."""

    takes_shapes = True

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
