"""Products of rows with a block circulant matrix [p, q, k], and the gradients of such a product."""

from __future__ import annotations

from dataclasses import astuple, replace

from nki_kernels.convolution import block_circulant
from trnfft.planner import accuracy, kinds
from trnfft.planner.algorithms.algorithm import Ahead, ShapeAlgorithm, Tables
from trnfft.planner.kinds.block_circulant import CIRCULANT
from trnfft.planner.plan import Blocking, Recipe


class BlockCirculant(ShapeAlgorithm[kinds.BlockCirculant]):
    """Product of rows with a block circulant matrix [p, q, k], or the product's gradients."""

    takes = "blocks up to 256"

    def __init__(self, kind: str) -> None:
        self.kind = self.name = kind
        self.kernel = getattr(block_circulant, kind)
        weights = ((2, 3, 16), (64, 64, 64), (3, 3, 256))
        gradients = kind != CIRCULANT
        self.samples = tuple(kinds.BlockCirculant(*weight, gradients) for weight in weights)
        self.ahead = Ahead(self.samples[2], 4096, "trn1" if gradients else "trn3")

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        p, q, k = recipe.kind.sizes
        layout = _layout(recipe)
        most = block_circulant.most_rows(layout)
        if most is not None and batch > most:
            raise ValueError(f"layout {layout}: takes up to {most} rows, not {batch}")
        if self.kind == CIRCULANT:
            return [(batch, q, k), (p, q, k), (1, p, k)]
        spectra = [block_circulant.spectra_shape(q, k, rows) for rows in (batch, p)]
        return [(batch, p, k), *spectra]

    def why_not_shape(self, kind: kinds.BlockCirculant) -> str:
        is_larger = kind.k > block_circulant.MAX_BLOCK
        return f"takes blocks of up to {block_circulant.MAX_BLOCK}" if is_larger else ""

    def recipes_for(self, kind: kinds.BlockCirculant) -> list[Recipe]:
        """Returns a recipe for every layout of the partitions."""
        (recipe,) = super().recipes_for(kind)
        layouts = block_circulant.layouts(*kind.sizes)
        return [replace(recipe, blocking=Blocking(*each)) for each in layouts]

    def table_specs(self, recipe: Recipe) -> Tables:
        masks = block_circulant.masks_spec(_layout(recipe)[0])
        return *block_circulant.block_circulant_specs(recipe.kind.k), masks

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        masks = block_circulant.product_masks(recipe.kind.q, _layout(recipe)[0])
        return *block_circulant.block_circulant_tables(recipe.kind.k), masks

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        return (_layout(recipe),)

    def error(self, recipe: Recipe) -> float:
        _, q, k = recipe.kind.sizes
        return accuracy.root_of_squares(*map(accuracy.matrix_error, (k, 2 * q, k)))


def _layout(recipe: Recipe) -> tuple[int, ...]:
    assert recipe.blocking is not None
    return astuple(recipe.blocking)
