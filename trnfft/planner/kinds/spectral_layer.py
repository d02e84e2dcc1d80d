"""The kinds of a neural operator's Fourier layer, and of its gradients.

Separate launches of a layer are two transforms:

    X = rfftn(x),  kept frequencies of X,  Y = mixed channels,  Y among zeros,  y = irfftn(Y)

torch cuts the kept frequencies out of half a spectrum, mixes the channels by four products and two
sums of real parts, and writes the result among zeros. Along each axis but the last, an operator
joins the frequencies of both signs of a part, and two operators write a part among zeros. Along the
last axis, one operator adds zeros. The gradient of the data is the same with the adjoint weight.
The gradient of the weight is another mixing, of the kept spectra, and factors.
"""

from __future__ import annotations

import math
from operator import gt
from typing import TYPE_CHECKING

from msgspec import structs

from trnfft.base.checks import brief
from trnfft.planner import accuracy
from trnfft.planner.kinds.kind import (
    Count,
    Counts,
    KindRecord,
    Launched,
    Separate,
    at_least_one,
    checked_flag,
    checked_shape,
)
from trnfft.planner.kinds.transform import C2R, R2C, Transform

if TYPE_CHECKING:
    from typing_extensions import Self

SPECTRAL, SPECTRAL_KEPT = "spectral_convolution", "spectral_convolution_kept"
SPECTRAL_GRADIENTS = "spectral_gradients"


class _Spectral(KindRecord, frozen=True):
    """What a layer and its gradients share: see `SpectralLayer`.

    `negative_first` changes tables, but no price.
    """

    unit = "sample"

    inputs: Count
    outputs: Count
    lengths: Counts
    kept: Counts
    negative_first: bool = False

    def __post_init__(self) -> None:
        self._check(inputs=at_least_one, outputs=at_least_one)
        self._check(lengths=checked_shape, kept=checked_shape, negative_first=checked_flag)
        most = (*self.lengths[:-1], self.lengths[-1] // 2 + 1)
        if len(self.kept) != len(self.lengths) or any(map(gt, self.kept, most)):
            raise ValueError(
                f"argument 'kept' is {brief(self.kept)}, allowed are {len(self.lengths)} numbers "
                f"up to {most}"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.inputs, self.outputs, *self.lengths

    @property
    def numbers(self) -> tuple[int, ...]:
        return *self.sizes, *self.kept

    @property
    def size(self) -> str:
        points = f"{' x '.join(map(str, self.lengths))} points"
        frequencies = f"{' x '.join(map(str, self.kept))} frequencies"
        return f"{self.inputs} to {self.outputs} channels, {points}, {frequencies}"

    @property
    def priced(self) -> Self:
        return structs.replace(self, negative_first=False) if self.negative_first else self

    @property
    def transformed(self) -> tuple[int, ...]:
        return self.lengths

    @property
    def frequencies(self) -> int:
        """How many frequencies of a channel are kept."""
        return math.prod(self.kept)

    @property
    def _weights(self) -> list[tuple[int, ...]]:
        return [(self.inputs, self.outputs, self.frequencies)] * 2

    @property
    def _weight(self) -> int:
        return self.inputs * self.outputs * self.frequencies

    def _data(self, batch: int) -> int:
        return batch * (self.inputs + self.outputs) * math.prod(self.lengths)

    def _spectra(self, batch: int) -> int:
        return batch * 2 * self.inputs * self.frequencies

    def _launches(self, batch: int, first: int, last: int) -> tuple[Launched, ...]:
        """Returns the transforms of `first` channels, and back those of `last` channels."""
        return (
            Launched(Transform(self.lengths, part=R2C), batch * first),
            Launched(Transform(self.lengths, part=C2R), batch * last, inverse=True),
        )

    def _around(self, batch: int, first: int, last: int) -> tuple[int, int]:
        """Returns the operators between these transforms, and the numbers that these move."""
        half = batch * last * math.prod(self.lengths[:-1]) * (self.lengths[-1] // 2 + 1)
        operators, numbers = 6 + 2, self._products(batch) + 6 * batch * last * self.frequencies
        spectrum = batch * last * self.frequencies
        for axis in range(len(self.lengths) - 1):
            cut = math.prod((*self.kept[: axis + 1], *self.lengths[axis + 1 : -1], self.kept[-1]))
            spectrum = spectrum // self.kept[axis] * self.lengths[axis]
            operators += 2 + 4
            numbers += 4 * batch * first * cut + 2 * 3 * spectrum
        return operators, numbers + 2 * (spectrum + half)

    def _products(self, batch: int) -> int:
        return 4 * (batch * (self.inputs + self.outputs) * self.frequencies + self._weight)

    @property
    def _mixing_error(self) -> float:
        return accuracy.matrix_error(2 * self.inputs)


class SpectralLayer(_Spectral, tag=SPECTRAL, frozen=True):
    """A Fourier layer: spectral convolution of the channels of real data. See `docs/layers.md`.

    Attributes:
        inputs, outputs: numbers of channels.
        lengths: points along each axis.
        kept: frequencies that are kept along each axis, of both signs but along the last.
        negative_first: whether negative frequencies come first in the weight.
        keeps_spectra: whether the kept spectra are a result, too, as gradients need them.
    """

    keeps_spectra: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(keeps_spectra=checked_flag)

    @property
    def name(self) -> str:
        return SPECTRAL_KEPT if self.keeps_spectra else SPECTRAL

    @property
    def title(self) -> str:
        return f"spectral convolution{' that keeps spectra' if self.keeps_spectra else ''}"

    def input_shapes(self, batch: int) -> list[tuple[int, ...]]:
        return [(batch, self.inputs, math.prod(self.lengths)), *self._weights]

    def least_bytes(self, batch: int) -> int:
        spectra = self._spectra(batch) if self.keeps_spectra else 0
        return 4 * (self._data(batch) + spectra + 2 * self._weight)

    def separate(self, batch: int) -> Separate:
        way = self.inputs, self.outputs
        operators, numbers = self._around(batch, *way)
        if self.keeps_spectra:  # as kernels keep them: both parts joined, and laid out anew
            operators, numbers = operators + 2, numbers + 4 * self._spectra(batch)
        return Separate(self._launches(batch, *way), operators, numbers, self._mixing_error)


class SpectralGradients(_Spectral, tag=SPECTRAL_GRADIENTS, frozen=True):
    """The gradients of a Fourier layer, from that of its result and the kept spectra.

    Attributes:
        inputs, outputs, lengths, kept, negative_first: of the layer, see `SpectralLayer`.
    """

    name = SPECTRAL_GRADIENTS
    title = "gradients of a spectral convolution"

    def input_shapes(self, batch: int) -> list[tuple[int, ...]]:
        spectra = (batch, self.frequencies, 2, self.inputs)
        return [(batch, self.outputs, math.prod(self.lengths)), spectra, *self._weights]

    def least_bytes(self, batch: int) -> int:
        return 4 * (self._data(batch) + self._spectra(batch) + 4 * self._weight)

    def separate(self, batch: int) -> Separate:
        way = self.outputs, self.inputs
        operators, numbers = self._around(batch, *way)
        # A sign of the weight and one of the spectra; the products and sums; and the factors of
        # both parts, which are made of three pieces and divided.
        operators += 2 + 6 + 4 + 2
        numbers += self._products(batch) + 12 * self._weight + self._spectra(batch)
        return Separate(self._launches(batch, *way), operators, numbers, self._mixing_error)
