"""Areas of block circulant kernels: boxes of blocks, slots and rows, and where they lie in HBM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..engines import PARTITIONS, PSUM_BANK, transfer
from ..real.real_dft_gemm import contracted_half
from ..tensor import Tensor

LOADED = 4096  # fp32 numbers a partition that one load brings, at most
STAGED = 1024  # the same for loads of the weight's spectra
WIDE = 64  # columns that a stationary operand has at least
# Axes of an area; TAKEN are blocks of x, where BLOCKS are those of y.
BLOCKS, SLOTS, ROWS, TAKEN = range(4)
_BLOCKS = 64  # blocks that a product takes, at most, with both parts


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


@dataclass(frozen=True, eq=False)
class Operand:
    """A tensor in HBM, in which each position of an area has its place."""

    tensor: Tensor
    strides: tuple[int, int, int, int]  # numbers from one position of each axis to the next

    def view(self, area: Area, pattern: Sequence[Sequence[int]], more: int = 0) -> Tensor:
        """Return a view with a pattern, ``more`` numbers after an area's first position."""
        steps = zip(area.first, self.strides, strict=True)
        offset = more + sum(first * stride for first, stride in steps)
        last = len(self.tensor.shape) - 1  # registers count numbers
        base = area.bases.get(self)
        return self.tensor.ap(pattern, offset, scalar_offset=base, indirect_dim=last)

    def load(self, tile: Tensor, area: Area, source: Tensor) -> None:
        """Load a view of this operand into SBUF."""
        transfer(tile, source, area.bases.get(self))

    def store(self, target: Tensor, area: Area, tile: Tensor) -> None:
        """Store SBUF in a view of this operand."""
        transfer(target, tile, area.bases.get(self))


@dataclass(frozen=True)
class Area:
    """A box of positions along four axes; registers of a loop may move it."""

    first: tuple[int, int, int, int]
    sizes: tuple[int, int, int, int]
    # for operands that an iteration moves, the register with the numbers by which it does so
    bases: Mapping[Operand, Any] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.sizes[BLOCKS]

    @property
    def slots(self) -> int:
        """Number of slots."""
        return self.sizes[SLOTS]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.sizes[ROWS]

    @property
    def taken(self) -> int:
        """Number of blocks of x."""
        return self.sizes[TAKEN]

    def part(self, axis: int, first: int, count: int) -> Area:
        """Return ``count`` positions along an axis, from ``first`` on."""
        firsts, sizes = list(self.first), list(self.sizes)
        firsts[axis] += first
        sizes[axis] = count
        return replace(self, first=tuple(firsts), sizes=tuple(sizes))

    def cut(self, axis: int, step: int) -> Iterator[Area]:
        """Yield parts with ``step`` positions along an axis, the last one with what is left."""
        for first in range(0, self.sizes[axis], step):
            yield self.part(axis, first, min(step, self.sizes[axis] - first))


def whole_area(blocks: int, slots: int, rows: int, taken: int = 1) -> Area:
    """Return the area of all positions."""
    return Area((0, 0, 0, 0), (blocks, slots, rows, taken))


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
        return self.area.first[SLOTS] == 0


@dataclass(frozen=True, eq=False)
class Spectra(Operand):
    """Spectra in HBM, [blocks, 2h, pitch]."""

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.tensor.shape[0]

    @property
    def chunk(self) -> int:
        """Blocks that a product takes."""
        return chunk_size(self.blocks)

    @property
    def height(self) -> int:
        """Numbers of a block's spectrum, 2h."""
        return self.tensor.shape[1]

    @property
    def pitch(self) -> int:
        """Numbers from one line of a spectrum to the next."""
        return self.tensor.shape[2]

    @property
    def size(self) -> int:
        """Numbers from one block to the next."""
        return self.height * self.pitch

    def of_group(self, group: Group, area: Area, blocks: int, more: int = 0) -> Tensor:
        """Return a view of a group's slots, [side, part, blocks, together, rows of the area]."""
        run, half = [self.pitch, group.together], self.size // 2
        sides = [[group.together * self.pitch, group.side], [half, 2], [self.size, blocks]]
        return self.view(area, [*sides, run, [1, area.rows]], more)


def spectra(tensor: Tensor, blocks: int | None, rows: int | None) -> Spectra:
    """Return spectra with the axes along which an area takes blocks and rows, or takes all."""
    _, height, pitch = tensor.shape
    strides = [0, pitch, 0, 0]
    for axis, stride in ((blocks, height * pitch), (rows, 1)):
        if axis is not None:
            strides[axis] = stride
    return Spectra(tensor, tuple(strides))


def numbers(tensor: Tensor) -> Operand:
    """Return rows of blocks in HBM, [rows, blocks, k]; one row belongs to all rows of an area."""
    rows, blocks, k = tensor.shape
    return Operand(tensor, (k, 0, blocks * k if rows > 1 else 0, 0))
