"""The kind of real planes, of whose transform only the real part is kept, as FNet mixes tokens.

A separate launch transforms the planes as complex data. One operator of torch makes the zeros of
their imaginary part before it, one copies the real part of the result.
"""

from __future__ import annotations

from trnfft.planner.kinds.kind import Count, KindRecord, Launched, Separate, at_least_one
from trnfft.planner.kinds.transform import Transform

REAL_PLANES = "real_planes"


class RealPlanes(KindRecord, tag=REAL_PLANES, frozen=True):
    """The real part of the transform of real planes. See `docs/layers.md`.

    Attributes:
        rows, columns: sizes of a plane.
    """

    name = REAL_PLANES
    title = "real part of the FFT of real data"

    rows: Count
    columns: Count

    def __post_init__(self) -> None:
        self._check(rows=at_least_one, columns=at_least_one)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.rows, self.columns

    def work(self, batch: int) -> str:
        return f"real part of {super().work(batch)}"

    def least_bytes(self, batch: int) -> int:
        return 8 * batch * self.points

    def separate(self, batch: int) -> Separate:
        planes = Launched(Transform(self.sizes), batch)
        return Separate((planes,), 2, 3 * batch * self.points, constants=1)
