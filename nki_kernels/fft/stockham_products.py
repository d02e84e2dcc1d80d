"""Products of one of Stockham's stages, from the state in SBUF to the next state: see stockham.py.

Consecutive products form a group. The slabs of a group are transposed, multiplied by the table and
evacuated together. A group has as many products as fit a PSUM bank and leave their results in one
strided run.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..row_guard import transposes_mix_rows
from ..table_terms import PAIRS, evacuate_operand, table_terms
from ..tiles import (
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    WHOLE_RADIX,
    element_count,
    even_columns,
    multiply,
    multiply_half,
    padded_columns,
    psum_banks,
    transpose,
    transposed_dtype,
)
from .stockham_stages import (
    Stage,
    first_number,
    operand_rows,
    output_length,
    piece_count,
    product_count,
    row_numbers,
    slab_stride,
)


class Matrices(nl.NKIObject):
    """The matrices that a group of products takes, one after the other."""

    tiles: Any  # [piece][term] of the table
    first: int  # the first matrix in these tiles
    is_shared: bool  # whether all products take the same matrix


class Target(nl.NKIObject):
    """The place of a row's results."""

    tile: Any  # SBUF [P, numbers], the state of the next stage, or [P, 2, rows, outputs]
    row: int  # the row of the tile
    marks: Any  # the marks of rows that were set aside, where these results get them


class Group(nl.NKIObject):
    """Consecutive products of one row's stage, before they are made and evacuated."""

    stage: Stage
    first: int  # the first product
    count: int  # number of products
    halves: int  # row tiles that have products
    operands: Any  # [bank][term] of the transposed slabs [K, count, pieces, partitions]
    matrices: Matrices
    target: Target


def group_limit(stage: Any) -> int:
    """Return how many products fit a PSUM bank, as transposed operands and as results."""
    columns = 2 * stage.produced * stage.slabs
    return min(stage.halves * transposes_together(stage), PSUM_BANK // columns)


def transposes_together(stage: Any) -> int:
    """Return how many products have their transposed operands in one PSUM bank."""
    return PSUM_BANK // (PARTITIONS * piece_count(stage))


def group_size(stage: Any, first: int, end: int) -> int:
    """Return the products of the group from ``first`` on: their results are one strided run of m'.

    end: the end of the products whose matrices are in SBUF.
    """
    run = product_count(stage)
    if stage.left > 1:
        run = stage.left // stage.slabs
        inner = stage.left // stage.following
        if 1 < inner < run:
            run = inner
    end = min(end, first // run * run + run)
    return int(min(group_limit(stage), end - first))


def transpose_group(shared: Any, block: Any, stage: Any, row: int, first: int, count: int) -> Any:
    """Return the operands of a group's slabs, [bank][term] of [rows, count, pieces, columns]."""
    most = transposes_together(stage)
    operands: Any = []
    for low in range(0, count, most):
        together = min(most, count - low)
        operands.append(transpose_bank(shared, block, stage, row, first + low, together))
    return operands


def transpose_bank(shared: Any, block: Any, stage: Any, row: int, first: int, count: int) -> Any:
    """Return operands [rows of a product, count, pieces, partitions] of slabs, for each term."""
    rows, stride, pieces = operand_rows(stage), slab_stride(stage), piece_count(stage)
    if stage.done == 1 and row + stage.halves > block.rows.each:
        rows = WHOLE_RADIX  # the other row tile has no row
    partitions = block.rows.partitions
    columns = padded_columns(partitions, rows)
    wide = max(rows, NARROW + 1)
    begin = row * row_numbers(stage)
    dtype = transposed_dtype(shared.dtype)
    shape = (wide, count, pieces, even_columns(columns, dtype))
    bank = nl.ndarray(shape, dtype=dtype, buffer=nl.psum)[:, :, :, 0:columns]
    for product in range(count):
        for piece in range(pieces):
            low = begin + first_number(stage, first + product, piece)
            data = block.state[0:partitions, low : low + (wide - 1) * stride + 1 : stride]
            transpose(bank[:, product, piece], data, shared.identity)
    terms = len(table_terms(stage.table, 3))
    is_scalar = shared.is_scalar or (transposes_mix_rows() and stage.done > 1)
    return evacuate_operand(bank[0:rows], stage.table.dtype, terms, is_scalar)


def multiply_group(group: Any) -> None:
    """Make the products of a transposed group side by side in a PSUM bank, and evacuate them.

    Each row tile has a bank of its own, because only then do row tiles work side by side.
    """
    stage = group.stage
    steps = 2 * len(group.operands[0]) - 1
    # A sum of several products needs a bank of its own.
    together = group.count if steps * len(group.matrices.tiles) == 1 else 1
    columns = group.operands[0][0].shape[3]
    # With refined tables, ScalarE alone would take longer than the products. On v2 VectorE would
    # keep it from PSUM.
    is_shared = steps > 1 and nisa.get_nc_version() != nisa.nc_version.gen2
    for low in range(0, group.count, together):
        shape = (columns, 2, stage.produced, stage.slabs, together)
        if stage.left == 1:
            shape = (columns, 2, stage.produced, together, stage.slabs)
        banks = psum_banks(group.halves, shape)
        for product in range(together):
            places: Any = []
            for bank in banks:
                place = bank[:, :, :, product] if stage.left == 1 else bank[:, :, :, :, product]
                places.append(place)
            multiply_product(group, low + product, places)
        for half in range(group.halves):
            is_vector = is_shared and (low + half) % 2 == 1
            evacuate_group(group, banks[half], low, together, half, is_vector)


def multiply_product(group: Any, at: int, places: Any) -> None:
    """Make one product of a group, summed over pieces and, refined, over pairs of terms.

    places: PSUM for the results of each row tile.
    """
    stage = group.stage
    tiles, matrix = group.matrices.tiles, group.matrices.first
    if not group.matrices.is_shared:
        matrix += at
    each = transposes_together(stage)
    operands = group.operands[at // each]
    for step in range(2 * len(operands) - 1):
        pair = PAIRS[step]
        for piece in range(len(tiles)):
            data = operands[pair[0]][:, at % each, piece]
            table = tiles[piece][pair[1]][:, matrix]
            if stage.halves == 1:
                multiply(places[0], data, table, step + piece > 0)
            else:
                for half in range(len(places)):
                    multiply_half(places[half], data, table, half, step + piece > 0)


def evacuate_group(group: Any, bank: Any, low: int, count: int, half: int, is_vector: bool) -> None:
    """Move the products from ``low`` of a group on, in one of its row tiles, out of PSUM."""
    stage = group.stage
    partitions, marks = group.target.tile.shape[0], group.target.marks
    splits = stage.left > 1 and stage.following % stage.slabs != 0
    for part in range(2 if splits else 1):
        if splits:
            # The slabs are (j, m'') of the next stage; with the parts they would have a dimension
            # too many.
            digits = (stage.following, stage.slabs // stage.following)
            data = bank[0:partitions, part].reshape_dim(2, digits)
        else:
            data = bank[0:partitions]
        place = results_of(group, low, count, half, part)
        if is_vector:
            nisa.tensor_copy(dst=place, src=data, engine=nisa.engine.vector)
        elif marks != None:
            nisa.activation(dst=place, op=nl.copy, data=data, bias=marks, scale=stage.factor)
        else:
            nisa.activation(dst=place, op=nl.copy, data=data, scale=stage.factor)


def results_of(group: Any, low: int, count: int, half: int, part: int) -> Any:
    """Return the place of a group's products from ``low`` on, in the order of ``evacuate_group``.

    It is [P, part, k, ...] or, where each part is evacuated alone, [P, k, ...].
    """
    stage, results = group.stage, group.target.tile
    is_state = len(results.shape) == 2
    free = element_count(results.shape[1:])
    length = output_length(stage)
    row, first = group.target.row, group.first + low
    if stage.done == 1:
        row += half
        half = 0
    if stage.left == 1:
        apart = length if is_state else results.shape[2] * length
        origin = row * (2 * length if is_state else length)
        origin += (first * stage.halves + half) * stage.slabs
        pattern = [[free, results.shape[0]], [apart, 2], [stage.done, stage.produced]]
        step = stage.slabs * stage.halves
        return results.ap(pattern + [[step, count], [1, stage.slabs]], origin)
    spacing, inner = stage.left // stage.slabs, stage.left // stage.following
    spread = stage.spread if stage.spread > 0 else 2 * stage.left
    m = first % spacing
    origin = (row * stage.done * stage.produced + first // spacing * stage.halves + half) * spread
    origin += 2 * (m // inner) * inner + m % inner
    outputs = [stage.done * spread, stage.produced]
    if stage.following % stage.slabs == 0:
        run = [2 if inner == 1 else 1, count]
        pattern = [[free, results.shape[0]], [inner, 2], outputs, [2 * spacing, stage.slabs], run]
        return results.ap(pattern, origin)
    digits = [[2 * inner, stage.following], [spacing, stage.slabs // stage.following], [1, count]]
    return results.ap([[free, results.shape[0]], outputs] + digits, origin + part * inner)
