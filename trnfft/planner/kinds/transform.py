"""The kind of transforms: of rows or of arrays, of complex data, or of or to real data."""

from __future__ import annotations

import math
from typing import Literal

from trnfft.base.checks import brief
from trnfft.planner.kinds.kind import Launched, Separate
from trnfft.planner.kinds.padded import Padded

Part = Literal["c2c", "r2c", "c2r"]
C2C: Part = "c2c"
R2C: Part = "r2c"
C2R: Part = "c2r"
_TITLES = {C2C: "FFT", R2C: "FFT of real data", C2R: "FFT to real data"}


class Transform(Padded, tag="transform", frozen=True):
    """A transform of rows or arrays.

    Attributes:
        lengths: the length along each transformed axis; for "c2r", of the result.
        data: sizes of the data before zeros extend it to `lengths`; for "c2r", of the part of the
            result that is kept. () where they are the same.
        part: "c2c" for complex data, "r2c" for half spectra of real data, "c2r" for their inverse.
    """

    part: Part = C2C

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.part not in _TITLES:
            raise ValueError(
                f"argument 'part' is {brief(self.part)}, allowed are {', '.join(_TITLES)}"
            )

    @property
    def name(self) -> str:
        return self.part

    @property
    def title(self) -> str:
        return _TITLES[self.part]

    def as_complex(self, batch: int) -> Separate:
        """Returns a transform of, or to, real rows by one of complex rows, and what torch does.

        Real data get zeros as their imaginary part, and the result gets zeros where it is real.
        Half a spectrum becomes a whole one by zeros, two mirrored parts, a sign and two joined
        parts.
        """
        rows = Launched(Transform(self.lengths), batch)
        operators, numbers = (2, 1) if self.part == R2C else (6, 7)
        return Separate((rows,), operators, numbers * batch * self.points, constants=1)

    def input_shapes(self, batch: int) -> list[tuple[int, ...]]:
        if self.part == C2R:
            return [(batch, *self.lengths[:-1], self.lengths[-1] // 2 + 1)] * 2
        return [(batch, *self.held)] * (1 if self.part == R2C else 2)

    def least_bytes(self, batch: int) -> int:
        numbers, last = math.prod(self.held), self.lengths[-1]
        if self.part == C2C:
            numbers *= 2
        else:
            last = last // 2 + 1
        return batch * 4 * (numbers + 2 * math.prod(self.lengths[:-1]) * last)
