"""Spectral convolutions: transform, channel mixing and inverse transform, or their gradients."""

from __future__ import annotations

from nki_kernels.spectral import (
    planes,
    spectral_convolution,
    spectral_gradients,
    spectral_tables,
    volumes,
)
from nki_kernels.spectral.layer import Layer
from trnfft.planner import accuracy
from trnfft.planner.algorithms.algorithm import Ahead, ShapeAlgorithm, Shapes, Tables
from trnfft.planner.kinds import SpectralGradients, SpectralLayer
from trnfft.planner.kinds.spectral_layer import SPECTRAL, SPECTRAL_GRADIENTS, SPECTRAL_KEPT
from trnfft.planner.plan import Recipe

Spectral = SpectralLayer | SpectralGradients


class SpectralConvolution(ShapeAlgorithm[Spectral]):
    """Spectral convolution of the channels of real data: a Fourier layer, or its gradients.

    The inverse direction is the convolution with the adjoint weight.
    """

    has_stages = False
    takes = "one to three axes, with few frequencies"

    def __init__(self, kind: str, dtype: str = "float32") -> None:
        self.kind, self.dtype = kind, dtype
        samples = [(3, 4, (24,)), (32, 32, (256,)), (2, 3, (12, 20)), (16, 16, (16, 16))]
        if dtype != "bfloat16":  # there is no kernel for three axes with bfloat16 operands
            samples.append((2, 3, (6, 8, 12)))
        self.samples = tuple(
            self._record(inputs, outputs, lengths, tuple(-(-n // 4) for n in lengths))
            for inputs, outputs, lengths in samples
        )
        self.name = kind if dtype == "float32" else f"{kind}_bf16"
        is_gradient = kind == SPECTRAL_GRADIENTS
        self.kernel = (
            spectral_gradients.spectral_gradients
            if is_gradient
            else spectral_convolution.spectral_convolution
        )
        self.ahead = Ahead(self._record(64, 64, (1024,), (256,)), 64, "trn1")

    def _record(
        self, inputs: int, outputs: int, lengths: tuple[int, ...], kept: tuple[int, ...]
    ) -> Spectral:
        sizes = inputs, outputs, lengths, kept
        if self.kind == SPECTRAL_GRADIENTS:
            return SpectralGradients(*sizes)
        return SpectralLayer(*sizes, keeps_spectra=self.kind == SPECTRAL_KEPT)

    @staticmethod
    def sizes(recipe: Recipe) -> Layer:
        """Returns the channels, the lengths and the kept frequencies."""
        kind = recipe.kind
        return Layer(kind.inputs, kind.outputs, kind.lengths, kind.kept)

    def inputs_beside(self, recipe: Recipe, shapes: Shapes) -> list[tuple[int, ...]]:
        x, *others = self.inputs(recipe, shapes[0][0])
        inputs, outputs, kept = others[-1]
        if self.kind == SPECTRAL and tuple(shapes[-1]) == (outputs, inputs, kept):
            return [x, shapes[-1], shapes[-1]]  # of the adjoint weight
        return [x, *others]

    def why_not_shape(self, kind: Spectral) -> str:
        lengths, counts = kind.lengths, kind.kept
        if len(lengths) not in (1, 2, 3):
            return f"takes one to three axes, not {len(lengths)}"
        if len(lengths) == 2:
            most = planes.MOST_SIGNED, planes.MOST_LAST
            if counts[0] > most[0] or counts[1] > most[1]:
                return f"keeps up to {most[0]} x {most[1]} frequencies"
        if len(lengths) == 3:
            if self.dtype != "float32":
                return "takes float32 along three axes"
            if max(lengths) > volumes.LONGEST:
                return f"takes up to {volumes.LONGEST} points along three axes"
            if counts[-1] > volumes.MOST_LAST:
                return f"keeps up to {volumes.MOST_LAST} frequencies of the last of three axes"
        return ""

    def table_specs(self, recipe: Recipe) -> Tables:
        layer = self.sizes(recipe)
        return spectral_tables.spectral_specs(layer.lengths, layer.counts, self.dtype)

    def tables(self, recipe: Recipe, inverse: bool = False, scale: float = 1.0) -> Tables:
        layer, is_gradient = self.sizes(recipe), self.kind == SPECTRAL_GRADIENTS
        options = recipe.kind.negative_first, scale, is_gradient, self.dtype
        return spectral_tables.spectral_tables(layer.lengths, layer.counts, *options)

    def settings(self, recipe: Recipe, inverse: bool = False) -> tuple[object, ...]:
        layer = self.sizes(recipe)
        sizes = layer.lengths, layer.counts
        if self.kind == SPECTRAL_GRADIENTS:
            return (sizes,)
        return ((*sizes, inverse, self.kind == SPECTRAL_KEPT),)

    def error(self, recipe: Recipe) -> float:
        layer = self.sizes(recipe)
        if self.dtype != "float32":  # each axis twice, and channels, whose operands have no zeros
            return accuracy.bfloat16_error(2 * len(layer.lengths) + 2, False)
        sums = (*layer.lengths, 2 * layer.inputs, *(2 * count for count in layer.counts))
        return accuracy.root_of_squares(*map(accuracy.matrix_error, sums))
