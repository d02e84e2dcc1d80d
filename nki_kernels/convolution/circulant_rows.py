"""Inverse transforms in block circulant kernels: spectra [(i part slot), b] to rows [b, (i n)]."""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..tiles import NARROW, PARTITIONS, PSUM_BANK, multiply
from .circulant_areas import (
    BLOCKS,
    GRID,
    LOADED,
    ROWS,
    STAGED,
    WIDE,
    blocks_together,
    copy,
    in_numbers,
    part_of,
)
from .circulant_grid import based_on
from .circulant_transforms import blocks_loaded, first_of, move_slabs, pattern_of_numbers, row_tiles


def make_rows(transform: Any, tools: Any, area: Any) -> None:
    """Make the rows of an area from its spectra, as many at a time as fit."""
    most = blocks_loaded(tools.k)
    step = PARTITIONS * transform.tiles
    turn = transform.turn
    if area.rows == 0:
        return
    for block in range(0, area.blocks, most):
        blocks = part_of(area, BLOCKS, block, min(most, area.blocks - block))
        bias = None
        if transform.has_bias:
            bias = repeat_bias(transform, tools, blocks)
        for row in range(0, area.rows, step):
            box = part_of(blocks, ROWS, row, min(step, area.rows - row))
            turn = restore_box(transform, tools, box, bias, turn)


def repeat_bias(transform: Any, tools: Any, area: Any) -> Any:
    """Repeat the bias HBM [1, blocks, k] of an area on partitions (piece, row), by a product.

    DMA would have to move it once for each partition.
    """
    split = transform.split
    _, blocks, k = transform.numbers.shape
    width = area.blocks * k
    rows = PARTITIONS if split == 1 else area.rows
    one = nl.ndarray((split, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=one, value=0.0)
    own = tools.identity.ap([[PARTITIONS, split], [1, split], [0, rows]])
    nisa.tensor_copy(dst=one[:, 0 : split * rows], src=own, engine=nisa.engine.vector)
    result = nl.ndarray((PARTITIONS, width), dtype=nl.float32, buffer=nl.sbuf)
    for low in range(0, width, STAGED):
        high = min(low + STAGED, width)
        row = tools.staged[low // STAGED % 2][0:split]
        pattern = [[blocks // split * k, split], [1, high - low]]
        source = bias_columns(transform.bias, pattern, area, low)
        copy(row[:, 0 : high - low], source, area)
        for first in range(low, high, PSUM_BANK):
            last = min(first + PSUM_BANK, high)
            bank = nl.ndarray((PARTITIONS, last - first), dtype=nl.float32, buffer=nl.psum)
            multiply(bank, one, row[:, first - low : last - low], False)
            nisa.activation(dst=result[:, first:last], op=nl.copy, data=bank)
    return result


def bias_columns(bias: Any, pattern: Any, area: Any, low: int) -> Any:
    """Return a view of a bias HBM [1, blocks, k] from number ``low`` of an area's blocks on."""
    offset = area.block * bias.shape[2] + low
    if area.axis == BLOCKS:
        return bias.ap(pattern, offset, scalar_offset=area.base, indirect_dim=1)
    if area.axis == GRID:
        return bias.ap(pattern, offset, scalar_offset=area.base[2], indirect_dim=2)
    return bias.ap(pattern, offset)


def restore_box(transform: Any, tools: Any, area: Any, bias: Any, turn: int) -> int:
    """Make and store the rows of an area; return which tile loads take next."""
    count = area.rows * transform.split
    slabs = -(-area.blocks // blocks_together(tools.k))
    numbers = area.blocks * tools.k
    pieces = len(tools.back)
    group = max(1, LOADED // (pieces * count))
    tiles = row_tiles(count, numbers, LOADED // numbers)
    for tile in tiles:
        shape = (tile.partitions, tile.parts, numbers)
        tile.tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    for slab in range(0, slabs, group):
        held = min(group, slabs - slab)
        data = load_slabs(transform, tools, area, slab, held, turn)
        turn += 1
        for tile in tiles:
            for index in range(tile.parts):
                restore_slabs(transform, tools, data, tile, index, slab, bias)
    for tile in tiles:
        pattern = pattern_of_numbers(transform, area, tile)
        copy(
            in_numbers(transform.numbers, pattern, based_on(first_of(area, tile), 0)),
            tile.tile,
            area,
        )
    return turn


def load_slabs(transform: Any, tools: Any, area: Any, slab: int, slabs: int, turn: int) -> Any:
    """Load spectra of slabs, [lines, pieces, slabs, rows], with zeros for missing blocks."""
    pieces = len(tools.back)
    lines = tools.back[0].shape[0]
    count = area.rows * transform.split
    size = slabs * count
    tile = tools.loaded[turn % len(tools.loaded)]
    if NARROW // 2 < count % PARTITIONS <= NARROW:
        nisa.memset(dst=tile[0:lines, pieces * size : pieces * size + WIDE], value=0.0)
    if (slab + slabs) * blocks_together(tools.k) > area.blocks:
        nisa.memset(dst=tile[0:lines, size - count : size], value=0.0)
    data = tile[0:lines, 0 : pieces * size].reshape((lines, pieces, slabs, count))
    for piece in range(pieces):
        move_slabs(transform, tools, area, slab, piece * lines, data[:, piece], False)
    return data


def restore_slabs(
    transform: Any, tools: Any, data: Any, tile: Any, index: int, slab: int, bias: Any
) -> None:
    """Make the rows of part ``index`` of a tile, from spectra of slabs from number ``slab`` on."""
    lines, pieces, slabs, count = data.shape
    width = tools.back[0].shape[1]
    partitions = tile.partitions
    numbers = tile.tile.shape[2]
    columns = partitions if partitions <= NARROW // 2 or partitions > NARROW else WIDE
    low = tile.low + index * PARTITIONS
    number = max(1, PSUM_BANK // width) if pieces == 1 else 1
    for first in range(0, slabs, number):
        taken = min(number, slabs - first)
        bank = nl.ndarray((columns, taken, width), dtype=nl.float32, buffer=nl.psum)
        for inner in range(taken):
            for piece in range(pieces):
                at = (piece * slabs + first + inner) * count + low
                part = data.ap([[LOADED + WIDE, lines], [1, columns]], at)
                multiply(bank[:, inner], part, tools.back[piece], piece > 0)
        left = (slab + first) * width
        right = min(left + taken * width, numbers)
        made = bank.reshape((columns, taken * width))[0:partitions, 0 : right - left]
        result = tile.tile[:, index, left:right]
        if transform.has_bias:
            added = bias[0:partitions, left:right]
            nisa.tensor_tensor(dst=result, data1=made, data2=added, op=nl.add)
        else:
            nisa.activation(dst=result, op=nl.copy, data=made)
