"""The interface of a kind: its sizes, its traffic, and the same work by separate launches.

A kind names its sizes and knows nothing of a batch, a direction or a chip. So a recipe can hold it,
and recipes can be the keys of the caches of tables. Kinds are structs of msgspec, because they are
the schema of what files of plans say about them, too: reading a file makes the records, with all
checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, structs

from trnfft.base.checks import brief, check_flag, index

Count = Annotated[int, Meta(ge=1, le=2**62)]
_MOST_AXES = 64
Counts = Annotated[tuple[Count, ...], Meta(max_length=_MOST_AXES)]


@dataclass(frozen=True)
class Launched:
    """A transform that is a launch of its own, of `batch` rows or arrays."""

    transform: KindRecord
    batch: int
    inverse: bool = False


@dataclass(frozen=True)
class Separate:
    """The same work by transforms alone, and what torch does around them.

    Attributes:
        transforms: the transforms, in their order.
        operators: number of torch's operators, which `trnfft.plan_layer` counts, too; each waits
            for a load and for a store, but those that make constants.
        numbers: how many float32 numbers these operators read and write.
        error: the relative L2 error that they add.
        constants: how many of the operators make zeros, which may be ready beforehand.
        squares: whether they square the result of a transform, which doubles its error.
    """

    transforms: tuple[Launched, ...]
    operators: int
    numbers: int
    error: float = 0.0
    constants: int = 0
    squares: bool = False


class KindRecord(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="what"
):
    """What a launch computes, apart from the batch and the direction.

    Fields are checked when a record is made, also from a file: TypeError and ValueError name the
    field, its value and what is allowed.

    A new kind is a subclass in a file of its own, with a name in the union of `kinds/__init__.py`.
    """

    unit: ClassVar[str] = "transform"  # what a batch counts

    @property
    def name(self) -> str:
        """The name by which an algorithm says which kind it solves."""
        raise NotImplementedError

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes by which people name it, in messages: lengths, or the shape of a weight."""
        raise NotImplementedError

    @property
    def numbers(self) -> tuple[int, ...]:
        """All its sizes, by which recipes name it."""
        return self.sizes

    @property
    def transformed(self) -> tuple[int, ...]:
        """The lengths of its transforms, or the shape of a block circulant weight."""
        return self.sizes

    @property
    def title(self) -> str:
        """What it computes, in words."""
        raise NotImplementedError

    @property
    def size(self) -> str:
        """Its sizes, in words."""
        return " x ".join(map(str, self.sizes))

    @property
    def points(self) -> int:
        """The product of its sizes; for rows, their length."""
        return math.prod(self.sizes)

    @property
    def is_rows(self) -> bool:
        """Whether its data are plain rows of one length, as algorithms for lengths take them."""
        return False

    @property
    def priced(self) -> KindRecord:
        """The record under which plans are remembered, where others differ but have its price."""
        return self

    def batch_of(self, rows: int) -> int:
        """Returns the batch of a launch whose first input has so many rows."""
        return rows

    def work(self, batch: int) -> str:
        """Returns the work of a launch, in words."""
        size = " x ".join(map(str, self.transformed))
        return f"{number_of(batch, self.unit)} of {size} points"

    def input_shapes(self, batch: int) -> list[tuple[int, ...]]:
        """Returns the shapes of a kernel's float32 inputs: one of real data, or two parts."""
        return [(batch, *self.sizes)]

    def least_bytes(self, batch: int) -> int:
        """Returns the bytes of the input and the output, each read or written once."""
        raise NotImplementedError

    def separate(self, batch: int) -> Separate | None:
        """Returns the same work by separate launches, or None where one launch is the only way."""
        return None

    def _check(self, **checks: Callable[[str, object], object]) -> None:
        """Replaces fields by what a check returns for their name and value."""
        for name, check in checks.items():
            structs.force_setattr(self, name, check(name, getattr(self, name)))


def number_of(count: int, what: str) -> str:
    """Returns a number of things, as text: "1 row", "2 rows"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def checked_flag(name: str, value: object) -> bool:
    """Returns an argument as a bool; TypeError for what is no flag."""
    check_flag(name, value)
    return bool(value)


def at_least_one(name: str, value: object) -> int:
    """Returns an argument as an int; TypeError for other types, ValueError for less than 1."""
    number = index(name, value)
    if number < 1:
        raise ValueError(f"argument {name!r} is {brief(number)}, allowed is 1 or more")
    return number


def checked_shape(name: str, sizes: object) -> tuple[int, ...]:
    """Returns an argument as a tuple of one or more ints of at least 1."""
    if not isinstance(sizes, Iterable) or getattr(sizes, "ndim", 1) == 0:
        raise TypeError(f"argument {name!r} must be a tuple of ints, not {type(sizes).__name__}")
    checked = tuple(at_least_one(name, size) for size in islice(sizes, _MOST_AXES + 1))
    if not checked:
        raise ValueError(f"argument {name!r} is (), allowed are one or more sizes")
    if len(checked) > _MOST_AXES:  # an iterable may be endless
        raise ValueError(f"argument {name!r} has more than {_MOST_AXES} sizes, allowed are fewer")
    return checked
