"""Forward transforms in block circulant kernels: rows [b, (j n)] to spectra [(j part slot), b]."""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..row_guard import marks_of, set_rows_aside, transposes_mix_rows
from ..tiles import PARTITIONS, PSUM_BANK, multiply, transpose
from .circulant_areas import BLOCKS, LOADED, ROWS, blocks_together, copy, in_numbers, part_of
from .circulant_grid import based_on
from .circulant_transforms import blocks_loaded, first_of, move_slabs, pattern_of_numbers, row_tiles


class Load(nl.NKIObject):
    """A tile of rows of a box of blocks, from its load to its transform."""

    area: Any  # the box
    tile: Any  # RowTile
    columns: int  # numbers of a row, in whole slabs
    is_last: bool  # whether it is the last tile of the box
    marks: Any  # marks of rows, where transposes mix them: [128, parts, P]


def make_spectra(transform: Any, tools: Any, area: Any) -> None:
    """Make the spectra of the rows of an area, as many rows and blocks at a time as fit.

    A tile is loaded, and its bad rows are set aside, while the tile before it is transformed.
    """
    loads = loads_of(transform, tools, area)
    moved = []
    for index in range(len(loads)):
        load = loads[index]
        if index == 0:
            load.marks = load_numbers(transform, tools, load, index)
        if index + 1 < len(loads):
            later = loads[index + 1]
            later.marks = load_numbers(transform, tools, later, index + 1)
        if load.tile.low == 0:
            slabs = load.columns // (blocks_together(tools.k) * tools.k)
            moved = allocate_slabs(tools.there, slabs, load.area.rows * transform.split)
        for part in range(load.tile.parts):
            turn_slabs(moved, load.tile, part, load.marks, tools.identity)
        if load.is_last:
            store_spectra(transform, tools, load.area, moved)


def loads_of(transform: Any, tools: Any, area: Any) -> Any:
    """Return the tiles of rows of each box of rows and blocks."""
    most = blocks_loaded(tools.k)
    step = PARTITIONS * transform.tiles
    loads = []
    for row in range(0, area.rows, step):
        rows = part_of(area, ROWS, row, min(step, area.rows - row))
        for block in range(0, area.blocks, most):
            box = part_of(rows, BLOCKS, block, min(most, area.blocks - block))
            slabs = -(-box.blocks // blocks_together(tools.k))
            columns = slabs * blocks_together(tools.k) * tools.k
            tiles = row_tiles(box.rows * transform.split, columns, LOADED // columns)
            for tile in tiles:
                loads.append(Load(box, tile, columns, False, None))
            loads[len(loads) - 1].is_last = True
    return loads


def allocate_slabs(table: Any, slabs: int, count: int) -> Any:
    """Allocate tiles [<= 128 of a slab's numbers, slabs, rows], one for each piece of a table."""
    moved = []
    for piece in table:
        shape = (piece.shape[0], slabs, count)
        moved.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return moved


def load_numbers(transform: Any, tools: Any, load: Any, index: int) -> Any:
    """Load a tile of rows [P, parts, columns]; return marks [128, parts, P] where rows mix."""
    area, tile, columns = load.area, load.tile, load.columns
    turn = transform.turn + index
    held = area.blocks * tools.k
    memory = tools.loaded[turn % len(tools.loaded)]
    whole = memory[0 : tile.partitions, 0 : tile.parts * columns]
    data = whole.reshape((tile.partitions, tile.parts, columns))
    if held < columns:
        nisa.memset(dst=data[:, :, held:columns], value=0.0)
    numbers = data[:, :, 0:held]
    pattern = pattern_of_numbers(transform, area, tile)
    copy(numbers, in_numbers(transform.numbers, pattern, based_on(first_of(area, tile), 0)), area)
    tile.tile = data
    if not transposes_mix_rows():
        return None
    return turn_marks(set_rows_aside(numbers.expand_dim(2), 1.0), tools.identity)


def turn_marks(marks: Any, identity: Any) -> Any:
    """Bring marks of rows [P, parts] to the free axis of all partitions, [128, parts, P]."""
    partitions, parts = marks.shape
    good = nl.ndarray((partitions, parts, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)
    repeated = marks.ap([[parts, partitions], [1, parts], [0, PARTITIONS]])
    nisa.tensor_scalar(
        dst=good, data=repeated, op0=nl.equal, operand0=0.0, engine=nisa.engine.vector
    )
    bank = nl.ndarray((PARTITIONS, parts, partitions), dtype=nl.float32, buffer=nl.psum)
    for index in range(parts):
        transpose(bank[:, index], good[:, index], identity)
    return marks_of(bank)


def turn_slabs(moved: Any, tile: Any, index: int, marks: Any, identity: Any) -> None:
    """Transpose part ``index`` of a tile of rows to [a slab's numbers, slabs, rows], marked."""
    partitions = tile.partitions
    low = tile.low + index * PARTITIONS
    slabs = moved[0].shape[1]
    group = PSUM_BANK // partitions
    width = tile.tile.shape[2] // slabs
    top = 0
    for piece in moved:
        length = piece.shape[0]
        for first in range(0, slabs, group):
            number = min(group, slabs - first)
            bank = nl.ndarray((length, number, partitions), dtype=nl.float32, buffer=nl.psum)
            for slab in range(number):
                left = (first + slab) * width + top
                transpose(bank[:, slab], tile.tile[:, index, left : left + length], identity)
            result = piece[:, first : first + number, low : low + partitions]
            if transposes_mix_rows():
                pattern = [[tile.parts * partitions, length], [0, number], [1, partitions]]
                repeated = marks.ap(pattern, index * partitions)
                nisa.tensor_tensor(dst=result, data1=bank, data2=repeated, op=nl.add)
            else:
                nisa.tensor_copy(dst=result, src=bank, engine=nisa.engine.vector)
        top += length


def store_spectra(transform: Any, tools: Any, area: Any, moved: Any) -> None:
    """Transform slabs of numbers, and store their spectra."""
    count = moved[0].shape[2]
    slabs = moved[0].shape[1]
    group = max(1, 4 * PSUM_BANK // count)
    number = max(1, PSUM_BANK // count)
    total = tools.there[0].shape[1]
    height = total if total <= PARTITIONS else total // 2
    for slab in range(0, slabs, group):
        held = min(group, slabs - slab)
        for top in range(0, total, height):
            made = nl.ndarray((height, held, count), dtype=nl.float32, buffer=nl.sbuf)
            for first in range(0, held, number):
                taken = min(number, held - first)
                bank = nl.ndarray((height, taken, count), dtype=nl.float32, buffer=nl.psum)
                for piece in range(len(moved)):
                    data = moved[piece][:, slab + first : slab + first + taken]
                    multiply(bank, tools.there[piece][:, top : top + height], data, piece > 0)
                nisa.activation(dst=made[:, first : first + taken], op=nl.copy, data=bank)
            move_slabs(transform, tools, area, slab, top, made, True)
