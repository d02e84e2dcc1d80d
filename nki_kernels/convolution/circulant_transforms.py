"""Records and helpers of both transforms in block circulant kernels, rows to spectra and back."""

from __future__ import annotations

from typing import Any

from ..isa import nl
from ..row_blocks import share_rows
from ..tiles import PARTITIONS, PSUM_BANK
from .circulant_areas import (
    BLOCKS,
    LOADED,
    NO_AXIS,
    PASSES,
    ROWS,
    Area,
    blocks_together,
    copy,
    in_spectra,
    part_of,
    size_of,
)
from .circulant_grid import WALKED, based_on, cut_into_grid, equal_part


class Transform(nl.NKIObject):
    """Rows of blocks and their spectra, both in HBM."""

    numbers: Any  # [rows, blocks, k]
    spectra: Any  # [blocks, 2h, pitch]
    split: int  # pieces into which a row is cut
    tiles: int  # tiles of 128 rows that are taken at once
    bias: Any  # HBM [1, blocks, k], to be added to rows that are made; or None
    has_bias: bool
    turn: int  # the first of the tiles into which its loads go in turn
    makes_rows: bool  # whether it makes rows from spectra, rather than spectra from rows


class RowTile(nl.NKIObject):
    """Rows of an area on partitions: row ``low`` + t P + p lies on partition p, in part t."""

    tile: Any  # SBUF [P, parts, ...]
    low: int
    partitions: int
    parts: int


def by_rows(transform: Any) -> bool:
    """Return whether a transform walks along rows: they are many, or blocks too few to share."""
    rows, blocks, k = transform.numbers.shape
    return (rows > PSUM_BANK and 8 * rows >= blocks * k) or blocks < 2 * transform.split


def blocks_loaded(k: int) -> int:
    """Return how many blocks of a row are in SBUF at once, in whole slabs."""
    slab = blocks_together(k)
    return max(1, LOADED // (k * slab)) * slab


def area_of(transform: Any) -> Any:
    """Return all rows of a transform, with the blocks of one piece of a row."""
    rows, blocks, _ = transform.numbers.shape
    return Area(None, NO_AXIS, 0, blocks // transform.split, 0, 0, 0, rows)


def units_of(transform: Any) -> Any:
    """Return the blocks, slots and rows that are transformed at once."""
    rows, blocks, k = transform.numbers.shape
    step = min(rows * transform.split, PARTITIONS * transform.tiles) // transform.split
    return [min(blocks // transform.split, blocks_loaded(k)), 1, step]


def unit_instructions(transform: Any) -> int:
    """Return about how many instructions a unit takes, at most."""
    rows, _, k = transform.numbers.shape
    slabs = -(-units_of(transform)[BLOCKS] // blocks_together(k))
    pieces = 2 if k > PARTITIONS else 1
    tiles = -(-min(rows * transform.split, PARTITIONS * transform.tiles) // PARTITIONS)
    return 24 + 14 * tiles + slabs * pieces * (tiles * 5 // 4 + pieces + 2)


def share_transform(transform: Any, area: Any, axis: int) -> Any:
    """Return this program's share of an area along an axis."""
    unit = units_of(transform)
    other = BLOCKS if axis == ROWS else ROWS
    once = unit_instructions(transform) * -(-size_of(area, other) // unit[other])
    return share_rows(size_of(area, axis), unit[axis], PASSES * once)


def cut_transform(transform: Any, area: Any, axis: int) -> Any:
    """Cut an area into a grid along an axis and, where a body is too long, along the other axis."""
    unit = units_of(transform)
    other = BLOCKS if axis == ROWS else ROWS
    once = unit_instructions(transform)
    count = size_of(area, other) // unit[other]
    axes = [axis]
    if once * count > WALKED:
        axes.append(other)
        unit[other] *= equal_part(count, WALKED // once)
    _, blocks, k = transform.numbers.shape
    _, height, pitch = transform.spectra.shape
    steps = [[k, 0, blocks * k], [height * pitch, 0, 1], [k, 0, 0]]
    return cut_into_grid(area, axes, unit, steps)


def row_tiles(rows: int, numbers: int, parts: int) -> Any:
    """Return rows as tiles [P, parts, numbers] without memory; only the last may have P < 128."""
    tiles = []
    low = 0
    while low < rows:
        partitions = min(PARTITIONS, rows - low)
        held = min(max(1, parts), (rows - low) // partitions)
        tiles.append(RowTile(None, low, partitions, held))
        low += partitions * held
    return tiles


def pattern_of_numbers(transform: Any, area: Any, tile: Any) -> Any:
    """Return the pattern in HBM of a tile's rows and an area's blocks: [P, parts, blocks k]."""
    _, blocks, k = transform.numbers.shape
    pitch = blocks * k
    columns = [1, area.blocks * k]
    if transform.split > 1:
        return [[pitch // transform.split, transform.split], [pitch, area.rows], columns]
    return [[pitch, tile.partitions], [PARTITIONS * pitch, tile.parts], columns]


def first_of(area: Any, tile: Any) -> Any:
    """Return an area from the first row of a tile on; tiles of pieces begin with the area."""
    return part_of(area, ROWS, tile.low, tile.partitions)


def move_slabs(
    transform: Any, tools: Any, area: Any, slab: int, top: int, tile: Any, is_store: bool
) -> None:
    """Move spectra of slabs between HBM and a tile [lines, slabs, rows].

    The last slab may have fewer blocks. top: the first of the lines (block, part, slot) of each
    slab.
    """
    together = blocks_together(tools.k)
    blocks, height, pitch = transform.spectra.shape
    lines, slabs, count = tile.shape
    full = min(slabs, area.blocks // together - slab)
    rows = [[blocks // transform.split * height * pitch, transform.split], [1, area.rows]]
    for first in range(0, slabs, max(1, full)):
        number = full if first < full else 1
        if first >= full:
            lines = area.blocks % together * height
        box = part_of(area, BLOCKS, (slab + first) * together, 0)
        box.slot = top
        pattern = [[pitch, lines], [together * height * pitch, number], rows[0], rows[1]]
        held = tile[0:lines, first : first + number]
        other = in_spectra(transform.spectra, pattern, based_on(box, 1))
        if is_store:
            copy(other, held, area)
        else:
            copy(held, other, area)
