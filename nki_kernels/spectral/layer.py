"""Fourier layers: their sizes, and how channels and axes lie on the partitions.

A number of channels, or the points of an axis, occupy a *slot* of 32, 64 or 128 partitions, because
engines address partitions in such steps. Up to 64 of them lie on the partitions once for the real
and once for the imaginary part, so that one product contracts both parts. More of them are cut into
chunks of up to 128, and the parts into chunks of their own, whose products are added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ..base import chip
from ..base.arguments import are_positive
from ..base.engines import HALF, PARTITIONS
from ..base.isa import nl


@dataclass(frozen=True)
class Layer:
    """The sizes of a Fourier layer, without those of its batch.

    inputs, outputs: numbers of channels. lengths: points along each axis. counts: frequencies that
    are kept along each axis, of both signs but along the last. dtype: that of the operands of
    products, float32 or bfloat16.
    """

    inputs: int
    outputs: int
    lengths: tuple[int, ...]
    counts: tuple[int, ...]
    dtype: Any = nl.float32

    @property
    def points(self) -> int:
        """Points of a channel."""
        return math.prod(self.lengths)

    @property
    def frequencies(self) -> int:
        """Frequencies of a channel that are kept."""
        return math.prod(self.counts)


def check_layer(layer: Any, count: int) -> None:
    """Raise TypeError unless ``layer`` has ``count`` items, of which two are (lengths, counts)."""
    is_tuple = isinstance(layer, (tuple, list)) and len(layer) == count
    if not is_tuple or not (are_positive(layer[0]) and are_positive(layer[1], len(layer[0]))):
        raise TypeError(
            f"argument 'layer' is {layer!r}, allowed are {count} items, the first two of which are "
            f"as many lengths as counts of frequencies"
        )
    if any(kept > n for n, kept in zip(layer[0], layer[1], strict=True)):
        raise ValueError(
            f"argument 'layer' is {layer!r}, allowed are counts up to the lengths {layer[0]}"
        )


def slot(size: int) -> int:
    """Return the partitions of a slot for up to 128 channels or points."""
    return next(width for width in (32, 64, PARTITIONS) if width >= size)


def row_tile(size: int) -> int:
    """Return the partitions of the smallest row tile of the array for up to 128 rows."""
    return slot(max(size, chip.core().smallest_row_tile))


@dataclass(frozen=True)
class Piece:
    """Channels or points of one part, on partitions that follow each other."""

    part: int  # 0 for the real part, 1 for the imaginary part
    low: int  # the first channel or point
    count: int
    partition: int  # the first partition

    @property
    def rows(self) -> slice:
        """The partitions."""
        return slice(self.partition, self.partition + self.count)

    @property
    def range(self) -> slice:
        """The channels or points."""
        return slice(self.low, self.low + self.count)


@dataclass(frozen=True)
class Operand:
    """What one product contracts, or what it makes, on its partitions."""

    pieces: tuple[Piece, ...]
    rows: int  # partitions, with gaps after pieces


def operands(size: int) -> list[Operand]:
    """Return how channels or points in two parts lie on partitions: one operand, or several."""
    width = slot(min(size, PARTITIONS))
    if width <= HALF:
        pieces = tuple(Piece(part, 0, size, part * width) for part in range(2))
        return [Operand(pieces, 2 * width)]
    return [
        Operand((Piece(part, low, min(PARTITIONS, size - low), 0),), PARTITIONS)
        for part in range(2)
        for low in range(0, size, PARTITIONS)
    ]
