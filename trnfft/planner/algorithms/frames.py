"""Spectra of overlapping frames, their powers, or sums of powers in bands."""

from __future__ import annotations

import math
from typing import Any

from nki_kernels.real.real_stockham_tables import real_stockham_specs, real_stockham_tables
from nki_kernels.spectral import frames
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm, ShapeAlgorithm
from trnfft.planner.plan import Recipe
from trnfft.planner.problem import FRAME_BANDS, FRAME_SPECTRA


class Frames(ShapeAlgorithm):
    """Spectra of overlapping frames, their powers, or sums of powers in bands.

    `held` of its recipes is (n, hop) or (n, hop, bands); its batch counts blocks of hop samples,
    with each of which a frame begins. `layout` is (1,) for absolute values as powers, and else
    empty, for their squares.
    """

    takes = "frames of lengths that real_stockham takes, up to 128 bands"

    def __init__(self, kind: str, inner: LengthAlgorithm) -> None:
        self.kind = self.name = kind
        self.kernel = getattr(frames, kind)
        self.inner = inner
        bands = (16,) if kind == FRAME_BANDS else ()
        self.samples = tuple((*sizes, *bands) for sizes in ((64, 16), (400, 160), (1024, 1024)))
        self.ahead = Ahead((4096, 1024, *bands), 600, "trn1")

    def inputs(self, recipe: Recipe, batch: int) -> list[tuple[int, ...]]:
        n, hop, *bands = recipe.held
        blocks = batch + (n - 1) // hop
        return [(blocks, hop), (1, n), *([(n // 2 + 1, *bands)] if bands else [])]

    def inputs_beside(self, recipe: Recipe, shapes: Any) -> Any:
        n, hop, *_ = recipe.held
        return self.inputs(recipe, shapes[0][0] - (n - 1) // hop)

    def orders(self, shape: tuple[int, ...], held: tuple[int, ...]) -> list[Recipe]:
        """Returns a recipe for each pair of radices."""
        if len(shape) != (3 if self.kind == FRAME_BANDS else 2):
            raise NotImplementedError(f"shape {shape} is none of frames")
        if self.kind == FRAME_BANDS and shape[2] > frames.MAX_BANDS:
            raise NotImplementedError(f"takes up to {frames.MAX_BANDS} bands")
        if reason := self.inner.why_not(shape[0]):
            raise NotImplementedError(reason)
        total = math.prod(shape)
        return [
            Recipe(self.name, total, recipe.radices, held=shape)
            for recipe in self.inner.recipes(shape[0])
        ]

    def table_specs(self, recipe: Recipe) -> tuple[Any, ...]:
        return real_stockham_specs(recipe.radices)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> tuple[Any, ...]:
        first, second = recipe.radices
        return real_stockham_tables(recipe.held[0], (first, second), inverse, scale)

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[Any, ...]:
        if self.kind == FRAME_SPECTRA:
            return (recipe.radices,)
        return recipe.radices, recipe.layout[0] if recipe.layout else 2

    def error(self, recipe: Recipe) -> float:
        once = accuracy.stages_error(recipe.radices)
        if self.kind == FRAME_SPECTRA:
            return once
        twice = 2 * once
        if self.kind != FRAME_BANDS:
            return twice
        bins = recipe.held[0] // 2 + 1
        return accuracy.root_of_squares(twice, accuracy.matrix_error(bins))
