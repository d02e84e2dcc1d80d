"""The kind of transforms: of rows or of arrays, of complex data, or of or to real data.

Separate launches of an array are one launch an axis, each of rows. Kernels want rows whose numbers
lie side by side. So torch turns both parts of the array after each axis: by a copy the last axis
becomes the first. After as many copies as axes, all axes are where they were.
"""

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

    def separate(self, batch: int) -> Separate | None:
        """Returns one launch for each axis of more than one point, in the order of a run.

        Real data is transformed along the last axis first, data of a real result last.
        """
        longer = [n for n in self.lengths if n > 1]
        if self.is_rows or not longer:
            return None
        numbers = batch * math.prod(self._spectrum)
        launches = [Launched(Transform((n,)), numbers // n) for n in reversed(longer)]
        last = self.lengths[-1]
        if self.part != C2C and last > 1:
            rows = Transform((last,), part=self.part)
            real = Launched(rows, batch * self.points // last, inverse=self.part == C2R)
            launches = [real, *launches[1:]] if self.part == R2C else [*launches[1:], real]
        turns = len(longer) if len(longer) > 1 else 0
        operators, constants, others = self._around(batch)
        moved = 4 * turns * numbers + others
        return Separate(tuple(launches), 2 * turns + operators, moved, constants=constants)

    def _around(self, batch: int) -> tuple[int, int, int]:
        """Returns the operators beside turns, how many of them make zeros, and what they move.

        The spectrum of real data gets zeros where it is real. One point of real data becomes a
        complex number by a product, and by zeros twice. Zeros extend each part of the data, and a
        copy cuts out the part of a real result that is kept.
        """
        operators = constants = numbers = 0
        if self.part == R2C and len(self.lengths) > 1:
            operators, numbers = 1, batch * math.prod(min(n, 2 - n % 2) for n in self.lengths)
        if self.part != C2C and self.lengths[-1] == 1:
            constants = 1 if self.part == R2C else 0
            operators += 3 if self.part == R2C else 1
            numbers += (4 if self.part == R2C else 2) * batch * self.points
        if self.data:
            held, parts = math.prod(self.data), 2 if self.part == C2C else 1
            operators += parts
            numbers += parts * batch * (held + (held if self.part == C2R else self.points))
        return operators, constants, numbers

    @property
    def _spectrum(self) -> tuple[int, ...]:
        """The sizes of the spectrum: a half one for real data."""
        if self.part == C2C:
            return self.lengths
        return *self.lengths[:-1], self.lengths[-1] // 2 + 1

    def input_shapes(self, batch: int) -> list[tuple[int, ...]]:
        if self.part == C2R:
            return [(batch, *self._spectrum)] * 2
        return [(batch, *self.held)] * (1 if self.part == R2C else 2)

    def least_bytes(self, batch: int) -> int:
        numbers = math.prod(self.held) * (2 if self.part == C2C else 1)
        return batch * 4 * (numbers + 2 * math.prod(self._spectrum))
