"""Areas of block circulant kernels: boxes of blocks, slots and rows, and where they lie in HBM."""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..real.real_dft_gemm import contracted_half
from ..tiles import PARTITIONS, PSUM_BANK

LOADED = 4096  # fp32 numbers a partition that one load brings, at most
STAGED = 1024  # the same for loads of the weight's spectra
WIDE = 64  # columns that a stationary operand has at least
PASSES = 3  # passes of a launch that may be as long as its budget allows; others are short
BLOCKS, SLOTS, ROWS = 0, 1, 2  # axes of spectra
GRID = 3  # instead of an axis: several axes at once, see circulant_grid
NO_AXIS = -1
_BLOCKS = 64  # blocks that a product takes, at most, with both parts


class Tools(nl.NKIObject):
    """What all passes of a launch use, in SBUF."""

    k: int  # numbers of a block
    identity: Any
    there: Any  # transform of a slab to spectra, in pieces of at most 128 rows
    back: Any  # its inverse, in such pieces
    masks: Any  # signs of matrices, see product_masks
    loaded: Any  # three tiles into which loads go in turn
    staged: Any  # two tiles for loads of the weight's spectra


class Area(nl.NKIObject):
    """A box in spectra [blocks, slots, rows]; a loop's register may move it along one axis."""

    base: Any  # the register, or None; in a grid, a register for each tensor
    axis: int  # the axis along which the register counts, or GRID, or NO_AXIS
    block: int  # the first block
    blocks: int
    slot: int  # the first slot
    slots: int
    row: int  # the first row
    rows: int


class Group(nl.NKIObject):
    """Slots that are multiplied together: ``side`` runs of ``together`` consecutive slots."""

    slot: int  # the first slot
    side: int
    together: int
    is_first: bool  # whether it is slot 0, whose parts are two real frequencies


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


def part_of(area: Any, axis: int, first: int, count: int) -> Any:
    """Return ``count`` positions of an area along an axis, from ``first`` on."""
    found = Area(
        area.base, area.axis, area.block, area.blocks, area.slot, area.slots, area.row, area.rows
    )
    if axis == BLOCKS:
        found.block += first
        found.blocks = count
    elif axis == SLOTS:
        found.slot += first
        found.slots = count
    else:
        found.row += first
        found.rows = count
    return found


def moved_by(base: Any, area: Any, axis: int, count: int) -> Any:
    """Return ``count`` positions of an area along an axis, from where register ``base`` points."""
    found = part_of(area, axis, 0, count)
    found.base = base
    found.axis = axis
    return found


def size_of(area: Any, axis: int) -> int:
    """Return the number of positions of an area along an axis."""
    if axis == BLOCKS:
        return int(area.blocks)
    return int(area.slots if axis == SLOTS else area.rows)


def copy(dst: Any, src: Any, area: Any) -> None:
    """Transfer an area by DMA; the host writes the descriptors where the address is known."""
    if area.axis == NO_AXIS:
        nisa.dma_copy(dst=dst, src=src, dge_mode=nisa.dge_mode.none)
    else:
        nisa.dma_copy(dst=dst, src=src)


def in_spectra(spectra: Any, pattern: Any, area: Any) -> Any:
    """Return a view of HBM [blocks, 2h, pitch] with a pattern from the area's start on."""
    _, height, pitch = spectra.shape
    offset = (area.block * height + area.slot) * pitch + area.row
    axis = 2 if area.axis == GRID else max(0, area.axis)  # a register of a grid counts numbers
    return spectra.ap(pattern, offset, scalar_offset=area.base, indirect_dim=axis)


def in_numbers(numbers: Any, pattern: Any, area: Any) -> Any:
    """Return a view of HBM [rows, blocks, k] with a pattern from the area's start on."""
    _, blocks, k = numbers.shape
    offset = (area.row * blocks + area.block) * k
    axis = 1 if area.axis == BLOCKS else 0
    if area.axis == GRID:
        axis = 2
    return numbers.ap(pattern, offset, scalar_offset=area.base, indirect_dim=axis)


def slots_of(spectra: Any, area: Any, group: Any, blocks: int) -> Any:
    """Return a view of a group's slots in HBM, [side, part, blocks, together, rows].

    The view begins with the area's first block.
    """
    _, height, pitch = spectra.shape
    together = group.together
    pattern = [[together * pitch, group.side], [height // 2 * pitch, 2], [height * pitch, blocks]]
    pattern.append([pitch, together])
    pattern.append([1, area.rows])
    return in_spectra(spectra, pattern, part_of(area, SLOTS, group.slot, 0))
