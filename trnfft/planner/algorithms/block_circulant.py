"""Products of rows with a block circulant matrix [p, q, k], and the gradients of such a product."""

from __future__ import annotations

import math
from typing import Any

from nki_kernels.convolution import block_circulant
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, ShapeAlgorithm
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import CIRCULANT


class BlockCirculant(ShapeAlgorithm):
    """Product of rows with a block circulant matrix [p, q, k], or the product's gradients."""

    takes = "blocks up to 256"
    samples = ((2, 3, 16), (64, 64, 64), (3, 3, 256))

    def __init__(self, kind: str) -> None:
        self.kind = self.name = kind
        self.kernel = getattr(block_circulant, kind)
        self.ahead = Ahead((3, 3, 256), 4096, "trn3" if kind == CIRCULANT else "trn1")

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        p, q, k = recipe.held
        most = block_circulant.most_rows(recipe.layout)
        if most is not None and batch > most:
            raise ValueError(f"layout {recipe.layout}: takes up to {most} rows, not {batch}")
        if self.kind == CIRCULANT:
            return [(batch, q, k), (p, q, k), (1, p, k)]
        spectra = [block_circulant.spectra_shape(q, k, rows) for rows in (batch, p)]
        return [(batch, p, k), *spectra]

    def orders(self, shape: tuple[int, ...], held: tuple[int, ...]) -> list[Recipe]:
        """Returns a recipe for every layout of the partitions."""
        if len(shape) != 3:
            raise NotImplementedError(f"a weight has 3 axes, not {len(shape)}")
        if shape[2] > block_circulant.MAX_BLOCK:
            raise NotImplementedError(f"takes blocks of up to {block_circulant.MAX_BLOCK}")
        layouts = block_circulant.layouts(*shape)
        return [Recipe(self.name, math.prod(shape), held=held, layout=each) for each in layouts]

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        found = block_circulant.block_circulant_specs(recipe.held[2])
        return *found, block_circulant.masks_spec(recipe.layout[0])

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        _, q, k = recipe.held
        masks = block_circulant.product_masks(q, recipe.layout[0])
        return *block_circulant.block_circulant_tables(k), masks

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        return (recipe.layout,)

    def error(self, recipe: Recipe) -> float:
        _, q, k = recipe.held
        return accuracy.root_of_squares(*map(accuracy.matrix_error, (k, 2 * q, k)))
