"""Convolution of real images, padded to a shape, in passes along rows, columns and rows."""

from __future__ import annotations

from collections.abc import Sequence

from nki_kernels.convolution import image_convolution
from nki_kernels.nd.axes import PASS_NUMBERS
from trnfft.planner.algorithms.algorithm import (
    Ahead,
    LengthAlgorithm,
    PassAlgorithm,
    Shapes,
    Tables,
)
from trnfft.planner.algorithms.axes import ways_of
from trnfft.planner.kinds import Convolution
from trnfft.planner.kinds.convolution import CONVOLUTION
from trnfft.planner.plan import Pass, Recipe


class ImageConvolution(PassAlgorithm[Convolution]):
    """Convolution of real images, padded to a shape, in passes along rows, columns and rows.

    Args:
        forward, inverse: algorithms for rows to half spectra and back, the likeliest first.
        columns: the algorithm for columns.
    """

    kind = CONVOLUTION
    name = "convolve_images"
    kernel = image_convolution.convolve_images
    samples = tuple(map(Convolution, ((12, 64), (64, 64), (256, 200), (600, 300))))
    ahead = Ahead(Convolution((1024, 1024)), 1, "trn1")

    def __init__(
        self,
        forward: Sequence[LengthAlgorithm],
        columns: LengthAlgorithm,
        inverse: Sequence[LengthAlgorithm],
    ) -> None:
        super().__init__((*forward, columns, *inverse))
        self.forward, self.columns, self.inverse = forward, columns, inverse

    def inputs_beside(self, recipe: Recipe, shapes: Shapes) -> list[tuple[int, ...]]:
        x, *parts = self.inputs(recipe, shapes[0][0])
        return [x, *((shapes[1][0], *part[1:]) for part in parts)]  # any number of filters

    def recipes_for(self, kind: Convolution) -> list[Recipe]:
        return self._all(kind)[:1]

    def variants(self, recipe: Recipe, index: int) -> list[Recipe]:
        """Returns those with other rows, whose radices both passes along rows share."""
        return [] if index else [each for each in self._all(recipe.kind) if each != recipe]

    def solves(self, recipe: Recipe, kind: Convolution) -> bool:
        if self.kind != kind.name or kind.is_rows:
            return False
        try:
            return recipe in self._all(kind)
        except NotImplementedError:
            return False

    def _all(self, kind: Convolution) -> list[Recipe]:
        """Returns a recipe for each way of the rows, the likeliest first.

        The radices of the columns do not vary, because spectra of filters are in their order.
        """
        if len(kind.lengths) != 2:
            raise NotImplementedError(f"an image has 2 axes, not {len(kind.lengths)}")
        m, n = kind.lengths
        radices = image_convolution.column_radices(m)
        if not radices:
            raise NotImplementedError(f"axis 0 of length {m} has no two radices up to 64")
        columns = Pass(0, self.columns.recipe(m, radices[0]), kind.held[0])
        ways = zip(ways_of(1, n, self.forward), ways_of(1, n, self.inverse), strict=True)
        return [
            Recipe(
                self.name,
                kind,
                passes=(Pass(1, rows, n // 2 + 1), columns, Pass(1, back, kind.held[1])),
            )
            for rows, back in ways
        ]

    def table_specs(self, recipe: Recipe) -> Tables:
        rows, columns, back = (item.recipe for item in recipe.passes)
        return (
            self.by_name[rows.algorithm].table_specs(rows),
            image_convolution.column_specs(columns.radices),
            self.by_name[back.algorithm].table_specs(back),
        )

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        rows, columns, back = (item.recipe for item in recipe.passes)
        radices = columns.radices[0], columns.radices[1]
        return (
            self.by_name[rows.algorithm].tables(rows),
            image_convolution.column_tables(columns.n, radices),
            self.by_name[back.algorithm].tables(back, True, 1.0 / back.n),
        )

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        rows, columns, _ = (item.recipe for item in recipe.passes)
        kind = PASS_NUMBERS[rows.algorithm]
        kept = recipe.kind.results
        return ((kind, rows.n, rows.radices, columns.n, columns.radices, *kept),)
