"""Spectra of overlapping frames, their powers, or sums of powers in bands."""

from __future__ import annotations

from dataclasses import replace

from nki_kernels.real.real_stockham_tables import real_stockham_specs, real_stockham_tables
from nki_kernels.spectral import frames
from trnfft.planner import accuracy, kinds
from trnfft.planner.algorithms.algorithm import Ahead, LengthAlgorithm, ShapeAlgorithm
from trnfft.planner.kinds.frames import FRAME_BANDS, FRAME_SPECTRA, Power
from trnfft.planner.plan import Recipe


class Frames(ShapeAlgorithm[kinds.Frames]):
    """Spectra of overlapping frames, their powers, or sums of powers in bands.

    The kernel reads blocks of hop samples, with each of which a frame begins.
    """

    takes = "frames of lengths that real_stockham takes, up to 128 bands"
    make_tables = staticmethod(real_stockham_tables)
    make_specs = staticmethod(real_stockham_specs)

    def __init__(self, kind: str, inner: LengthAlgorithm) -> None:
        self.kind = self.name = kind
        self.kernel = getattr(frames, kind)
        self.inner = inner
        power: Power | None = None if kind == FRAME_SPECTRA else 2
        bands = 16 if kind == FRAME_BANDS else None
        sizes = ((64, 16), (400, 160), (1024, 1024), (4096, 1024))
        *samples, longest = (kinds.Frames(n, hop, power, bands) for n, hop in sizes)
        self.samples = tuple(samples)
        self.ahead = Ahead(longest, 600, "trn1")

    def why_not_shape(self, kind: kinds.Frames) -> str:
        if (kind.bands or 0) > frames.MAX_BANDS:
            return f"takes up to {frames.MAX_BANDS} bands"
        return self.inner.why_not(kind.n)

    def recipes_for(self, kind: kinds.Frames) -> list[Recipe]:
        """Returns a recipe for each pair of radices."""
        (recipe,) = super().recipes_for(kind)
        return [replace(recipe, radices=row.radices) for row in self.inner.recipes(kind.n)]

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        power = recipe.kind.power
        return (recipe.radices,) if power is None else (recipe.radices, power)

    def error(self, recipe: Recipe) -> float:
        once = accuracy.stages_error(recipe.radices)
        if self.kind == FRAME_SPECTRA:
            return once
        twice = 2 * once
        if self.kind != FRAME_BANDS:
            return twice
        return accuracy.root_of_squares(twice, accuracy.matrix_error(recipe.kind.bins))
