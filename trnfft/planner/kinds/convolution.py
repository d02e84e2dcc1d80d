"""The kind of convolutions of real rows or images with a filter, by the filter's spectrum."""

from __future__ import annotations

import math

from trnfft.planner.kinds.kind import Counts, checked_shape
from trnfft.planner.kinds.padded import Padded

CONVOLUTION = "convolution"


class Convolution(Padded, tag=CONVOLUTION, frozen=True):
    """A circular convolution of real rows (n,), or of images padded to (m, n).

    The filter is given by its spectrum, which is the same for the batch. See `docs/convolution.md`.

    Attributes:
        lengths: lengths of the transforms.
        data: sizes of the data; () where they are `lengths`.
        kept: sizes of the part of the result that is kept; () where they are those of the data.
    """

    name = unit = CONVOLUTION
    title = "convolution of real data"

    kept: Counts = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kept != ():
            self._check(kept=checked_shape)

    @property
    def results(self) -> tuple[int, ...]:
        """The sizes of the part of the result that is kept."""
        return self.kept or self.held

    @property
    def priced(self) -> Convolution:
        data = self.data if len(self.lengths) > 1 else ()
        return Convolution(self.lengths, data)

    def input_shapes(self, batch: int) -> list[tuple[int, ...]]:
        *others, last = self.lengths
        return [(batch, *self.held), *[(1, last // 2 + 1, *others)] * 2]

    def least_bytes(self, batch: int) -> int:
        return batch * 4 * (math.prod(self.held) + math.prod(self.results))
