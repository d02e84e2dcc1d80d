"""The kind of overlapping frames: their spectra, powers of these, or sums of powers in bands.

Separate launches are a transform of frames, which torch cuts out of the signal, times the window.
For a spectrogram torch squares both parts, adds them, and multiplies them by a bank of bands.
"""

from __future__ import annotations

from typing import Literal

from msgspec import structs

from trnfft.base.checks import brief
from trnfft.planner.kinds.kind import Count, KindRecord, Launched, Separate, at_least_one, number_of
from trnfft.planner.kinds.transform import R2C, Transform

FRAME_SPECTRA, FRAME_POWERS, FRAME_BANDS = "frame_spectra", "frame_powers", "frame_bands"

Power = Literal[1, 2]


class Frames(KindRecord, tag="frames", frozen=True):
    """Overlapping frames of real signals. The batch is the number of frames. See `docs/layers.md`.

    Attributes:
        n: length of a frame and of its transform.
        hop: distance between the starts of two frames.
        power: exponent of the absolute value, 1 or 2, which take the same time; None for the
            spectra themselves, as in a short-time transform.
        bands: number of bands in which powers are summed, as for a mel spectrogram; None for the
            powers of all frequencies.
    """

    n: Count
    hop: Count
    power: Power | None = 2
    bands: Count | None = None

    def __post_init__(self) -> None:
        self._check(n=at_least_one, hop=at_least_one, power=_checked_power)
        if self.bands is not None:
            self._check(bands=at_least_one)
        if self.power is None and self.bands is not None:
            raise ValueError(
                f"argument 'bands' is {brief(self.bands)}, allowed is None with argument 'power' "
                f"None, because only powers are summed in bands"
            )

    @property
    def name(self) -> str:
        if self.power is None:
            return FRAME_SPECTRA
        return FRAME_POWERS if self.bands is None else FRAME_BANDS

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.n, self.hop) if self.bands is None else (self.n, self.hop, self.bands)

    @property
    def title(self) -> str:
        if self.power is None:
            return "spectra of frames"
        return f"powers of the spectra of frames{'' if self.bands is None else ' in bands'}"

    @property
    def points(self) -> int:
        """The length of a frame."""
        return self.n

    @property
    def bins(self) -> int:
        """Numbers of half a spectrum."""
        return self.n // 2 + 1

    @property
    def priced(self) -> Frames:
        return structs.replace(self, power=2) if self.power == 1 else self

    @property
    def transformed(self) -> tuple[int, ...]:
        return (self.n,)

    def batch_of(self, rows: int) -> int:
        """Returns how many frames lie in so many blocks of `hop` samples."""
        return rows - (self.n - 1) // self.hop

    def input_shapes(self, batch: int) -> list[tuple[int, ...]]:
        """Returns the shapes of blocks of `hop` samples, of the window, and of a bank of bands."""
        bank = [] if self.bands is None else [(self.bins, self.bands)]
        return [(batch + (self.n - 1) // self.hop, self.hop), (1, self.n), *bank]

    def work(self, batch: int) -> str:
        return f"{number_of(batch, 'frame')} of {self.n} samples"

    def least_bytes(self, batch: int) -> int:
        parts = 2 if self.power is None else 1
        samples = min(self.n, self.hop)  # that no other frame begins with
        return 4 * batch * (samples + parts * (self.bands or self.bins))

    def separate(self, batch: int) -> Separate:
        rows = Launched(Transform((self.n,), part=R2C), batch)
        operators, numbers = 1, 2 * self.n
        if self.power is not None:
            operators, numbers = 4, numbers + 7 * self.bins
        if self.bands is not None:
            operators, numbers = 5, numbers + self.bins + self.bands
        squares = self.power is not None
        return Separate((rows,), operators, batch * numbers, squares=squares)


def _checked_power(name: str, power: object) -> object:
    if power is not None and (type(power) is not int or power not in (1, 2)):
        raise ValueError(f"argument {name!r} is {brief(power)}, allowed are None, 1 and 2")
    return power
