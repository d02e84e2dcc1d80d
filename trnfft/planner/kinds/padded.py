"""What transforms and convolutions share: lengths, and the sizes of data that zeros extend."""

from __future__ import annotations

from operator import gt

from msgspec import structs

from trnfft.base.checks import brief
from trnfft.planner.kinds.kind import Counts, KindRecord, checked_shape


class Padded(KindRecord, frozen=True):
    """Rows or arrays of data that zeros at the end may extend.

    Attributes:
        lengths: the length along each transformed axis.
        data: sizes of the data before zeros extend it to `lengths`; () where they are the same.
    """

    lengths: Counts
    data: Counts = ()

    def __post_init__(self) -> None:
        structs.force_setattr(self, "lengths", checked_shape("lengths", self.lengths))
        if self.data != ():
            data = checked_data("data", self.data, self.lengths)
            structs.force_setattr(self, "data", () if data == self.lengths else data)

    @property
    def held(self) -> tuple[int, ...]:
        """The sizes of the data, whether or not zeros extend it."""
        return self.data or self.lengths

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.lengths

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.held

    @property
    def is_rows(self) -> bool:
        return len(self.lengths) == 1 and not self.data

    @property
    def size(self) -> str:
        if self.is_rows:
            return f"N = {self.lengths[0]}"
        size = " x ".join(map(str, self.lengths))
        return f"{size} for {' x '.join(map(str, self.data))}" if self.data else size


def checked_data(name: str, data: object, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the sizes of data that zeros extend to `lengths`, which the argument `name` gives."""
    sizes = checked_shape(name, data)
    if len(sizes) != len(lengths) or any(map(gt, sizes, lengths)):
        raise ValueError(
            f"argument {name!r} is {brief(sizes)}, allowed are {len(lengths)} sizes up to "
            f"{brief(lengths)}"
        )
    return sizes
