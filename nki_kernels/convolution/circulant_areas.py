"""Areas of block circulant kernels: boxes of blocks, slots and rows, and where they lie in HBM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.engines import PARTITIONS, PSUM_BANK, transfer
from ..base.tensor import Tensor
from ..real.real_dft_gemm import contracted_half

LOADED = 4096  # fp32 numbers a partition that one load brings, at most
STAGED = 1024  # the same for loads of the weight's spectra
WIDE = 64  # columns that a stationary operand has at least
# Axes of an area: names of its fields. TOPS are blocks of x, where BLOCKS are those of y.
BLOCKS, SLOTS, ROWS, TOPS = "blocks", "slots", "rows", "tops"
_BLOCKS = 64  # blocks that a product takes, at most, with both parts

Pattern = Sequence[Sequence[int]]


def spectrum_rows(k: int) -> int:
    """Return the numbers of a block's spectrum, slots with two parts: k, or k + 1 for odd k."""
    return 2 * contracted_half(k)


def row_pitch(rows: int) -> int:
    """Return the distance of rows of spectra in HBM.

    It avoids large powers of two, at which DMA would run at half its rate.
    """
    return rows + 16 if rows > PSUM_BANK and rows & (rows - 1) == 0 else rows


def blocks_together(k: int) -> int:
    """Return how many blocks one product transforms, at least 1."""
    return max(1, PARTITIONS // spectrum_rows(k))


def chunk_size(blocks: int) -> int:
    """Return how many blocks a product takes: all, or equal parts of at most 64."""
    return -(-blocks // -(-blocks // _BLOCKS))


def steps(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield (first, number) of parts of up to ``most``, which make up ``count``."""
    return ((first, min(most, count - first)) for first in range(0, count, most))


@dataclass(frozen=True)
class Area:
    """A box of positions along four axes; registers of a loop may move it."""

    blocks: int
    slots: int
    rows: int
    tops: int = 1
    block: int = 0  # the first of the blocks
    slot: int = 0
    row: int = 0
    top: int = 0
    # for operands that an iteration moves, the register with the numbers by which it does so
    bases: Mapping[Operand, Any] = field(default_factory=dict)

    def size(self, axis: str) -> int:
        """Return the number of positions along an axis."""
        return int(getattr(self, axis))

    def first(self, axis: str) -> int:
        """Return the first position along an axis, whose field has the singular of its name."""
        return int(getattr(self, axis[:-1]))

    def part(self, axis: str, first: int, count: int) -> Area:
        """Return ``count`` positions along an axis, from ``first`` on."""
        changed: dict[str, Any] = {axis[:-1]: self.first(axis) + first, axis: count}
        return replace(self, **changed)

    def cut(self, axis: str, step: int) -> Iterator[Area]:
        """Return parts with ``step`` positions along an axis, the last one with what is left."""
        return (self.part(axis, *part) for part in steps(self.size(axis), step))


@dataclass(eq=False)
class Operand:
    """A tensor in HBM, in which the positions of an area have their places."""

    tensor: Tensor
    strides: Mapping[str, int]  # numbers from one position of an axis to the next

    def view(self, area: Area, pattern: Pattern, more: int) -> Tensor:
        """Return a view with a pattern, ``more`` numbers after an area's first position."""
        places = (area.first(axis) * stride for axis, stride in self.strides.items())
        offset = more + sum(places)
        last = len(self.tensor.shape) - 1  # registers count numbers
        return self.tensor.ap(
            pattern, offset, scalar_offset=area.bases.get(self), indirect_dim=last
        )

    def load(self, tile: Tensor, area: Area, pattern: Pattern, more: int = 0) -> None:
        """Load a tile from a view."""
        transfer(tile, self.view(area, pattern, more), area.bases.get(self))

    def store(self, tile: Tensor, area: Area, pattern: Pattern, more: int = 0) -> None:
        """Store a tile in a view."""
        transfer(self.view(area, pattern, more), tile, area.bases.get(self))


@dataclass(frozen=True)
class Group:
    """Slots that are multiplied together: ``side`` runs of consecutive slots."""

    area: Area
    side: int

    @property
    def together(self) -> int:
        """Slots of a run."""
        return self.area.slots // self.side

    @property
    def is_first(self) -> bool:
        """Whether it is slot 0, whose parts are two real frequencies."""
        return self.area.slot == 0


class Spectra(Operand):
    """Spectra in HBM, [blocks, 2h, pitch]."""

    def __init__(self, tensor: Tensor, blocks: str | None, rows: str | None) -> None:
        """Take the axes along which an area has some of the blocks and rows; None: all."""
        self.blocks, self.height, self.pitch = tensor.shape
        self.size, self.chunk = self.height * self.pitch, chunk_size(self.blocks)
        strides = {blocks: self.size, SLOTS: self.pitch, rows: 1}
        super().__init__(tensor, {axis: stride for axis, stride in strides.items() if axis})

    def slots(self, group: Group, blocks: int, rows: int) -> Pattern:
        """Return the pattern of a group's slots, [side, part, blocks, together, rows]."""
        sides = [group.together * self.pitch, group.side]
        parts, lines = [self.size // 2, 2], [self.pitch, group.together]
        return [sides, parts, [self.size, blocks], lines, [1, rows]]
