"""Stockham's last stage before the twiddles of a four-step transform: see four_step.py.

Mathematics.  Only [K][j][part] is left of Stockham's state, with K < R and j < r. The stage
contracts j with a matrix for each K, and its outputs k_a = K + R k are multiplied by W_N^(c k_a).

Layout on the NeuronCore.  As in stockham.py, the Tensor engine transposes slabs, one for each K,
and multiplies them as stationary operands, so that c returns to partitions. For r <= 32 the array
works as two row tiles of 64, if the slabs fill them. Each row tile multiplies half of the 128 rows
of an operand, with half of the columns that a block-diagonal matrix for all of them would have. The
two work side by side, in two PSUM banks. VectorE multiplies the results by the twiddles as it
evacuates them, which takes a cycle a number because one operand is in PSUM. It also computes the
sums of these products, later, when the products of the next bank are on their way. From v3 on, one
of the two products of a sum stays in PSUM, so that the sum takes a cycle a number, too. On v2 that
does not pay, because VectorE and ScalarE take turns in using PSUM there.

Tables for which SBUF has no room are streamed: they come in pieces, product by product.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..isa import nisa, nl
from ..table_terms import table_spec
from ..tiles import (
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    WHOLE_RADIX,
    evacuate,
    multiply,
    multiply_half,
    padded_columns,
    psum_banks,
    transpose,
    transposed_dtype,
)
from .stockham_stages import Stage, operand_rows, piece_count, slab_stride, stage_table

_PIECE = 1024  # numbers of a streamed piece, at least
_HELD = 1536  # numbers of a piece that stays in SBUF, which DMA loads at a time


class Turn(nl.NKIObject):
    """The stage before the twiddles."""

    stage: Stage  # the stage; its slabs are those of an operand, in both row tiles together
    halves: int  # row tiles, side by side
    together: int  # products whose results share PSUM banks


class Streamed(nl.NKIObject):
    """A table that products read one after the other, each product some numbers of every row."""

    source: Any  # HBM [rows, numbers]
    tiles: Any  # its pieces in SBUF, or [] where it is streamed
    width: int  # numbers of a product
    together: int  # products whose numbers stay in one piece
    each: int  # products whose numbers a piece has


class Slabs(nl.NKIObject):
    """Consecutive products of one row, before they are made."""

    row: int
    first: int  # the first product
    count: int
    operands: Any  # transposed slabs, by bank: [rows of a product, products, pieces, columns]
    results: Any  # SBUF [C, 2, rows, A]


class Sums(nl.NKIObject):
    """Products of numbers with twiddles, which are added while the next products are made."""

    target: Any  # [C, 2, ...], or None where there are no products to add
    by_real: Any
    by_imaginary: Any


def turn_of(stage: Stage) -> Turn:
    """Return how a stage with left = 1, as ``stage_of`` returns it, is carried out."""
    tiled = WHOLE_RADIX // (2 * stage.contracted)  # slabs of a row tile
    if WHOLE_RADIX % (2 * stage.contracted) == 0 and stage.done % (2 * tiled) == 0:
        stage.slabs = 2 * tiled
        return Turn(stage, 2, PSUM_BANK // WHOLE_RADIX)
    most = PSUM_BANK // (2 * stage.produced * stage.slabs)
    return Turn(stage, 1, most if piece_count(stage) == 1 else 1)


def operand_count(turn: Turn) -> int:
    """Return the products of a transform; both row tiles together make one product."""
    return int(turn.stage.done // turn.stage.slabs)


def product_columns(turn: Turn) -> int:
    """Return the columns of a product in one row tile."""
    return int(2 * turn.stage.produced * turn.stage.slabs // turn.halves)


def matrices_table(turn: Turn, inverse: bool) -> np.ndarray[Any, Any]:
    """Return the matrices, [rows of an operand, products, (piece, columns)].

    Rows are (half, slab, j, part) or, for r > 64, j for each part; columns (part, k, slab).
    """
    stage, halves, pieces = turn.stage, turn.halves, piece_count(turn.stage)
    tiled = Stage(stage.contracted, stage.produced, stage.done, 1, 1, stage.slabs // halves)
    table = stage_table(tiled, inverse, 1.0)
    if halves == 2:
        return np.concatenate([table[:, 0::2], table[:, 1::2]])
    by_piece = table.reshape(pieces, -1, *table.shape[1:])
    return np.concatenate(list(by_piece), 2)


def matrices_spec(turn: Turn) -> Any:
    """Return the (shape, dtype) of ``matrices_table(turn, ...)``."""
    width = product_columns(turn) * piece_count(turn.stage)
    return table_spec((operand_rows(turn.stage), operand_count(turn), width))


def twiddled_outputs(turn: Turn) -> list[np.ndarray[Any, Any]]:
    """Return the k_a that share a PSUM bank, bank by bank, [k, K] as they lie in the bank."""
    stage, slabs = turn.stage, turn.stage.slabs // turn.halves
    found = []
    for low in range(0, operand_count(turn), turn.together):
        products = np.arange(low, min(low + turn.together, operand_count(turn)))
        for half in range(turn.halves):
            begins = (products * turn.halves + half) * slabs
            outputs = (begins[:, None] + np.arange(slabs)).ravel()
            found.append(outputs + stage.done * np.arange(stage.produced)[:, None])
    return found


def streamed_of(source: Any, width: int, together: int) -> Streamed:
    """Return a table in HBM as a Streamed, of which products read ``together`` at a time."""
    each = together * max(1, _PIECE // (together * width))
    return Streamed(source, [], width, together, each)


def pieces_to_hold(table: Streamed) -> Any:
    """Return views in HBM of the pieces of a table that is to stay in SBUF."""
    table.each = table.together * max(1, _HELD // (table.together * table.width))
    numbers, size = table.source.shape[1], table.each * table.width
    pieces: Any = []
    for low in range(0, numbers, size):
        pieces.append(table.source[:, low : min(low + size, numbers)])
    return pieces


def pieces_for(table: Streamed, count: int) -> Any:
    """Allocate tiles for a table's pieces, loaded in turn, or [] where it stays in SBUF."""
    tiles: Any = []
    shape = (table.source.shape[0], table.each * table.width)
    for _ in range(count if len(table.tiles) == 0 else 0):
        tiles.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return tiles


def numbers_of(table: Streamed, tiles: Any, product: int) -> Any:
    """Return [SBUF tile, column] of the numbers that a product and the rest of its bank read."""
    number = product // table.each
    first = number * table.each
    if len(table.tiles) > 0:
        return [table.tiles[number], (product - first) * table.width]
    if product == first:
        ahead = len(tiles) if number == 0 else 1
        for index in range(len(tiles) - ahead, len(tiles)):
            load_piece(table, tiles, number + index)
    return [tiles[number % len(tiles)], (product - first) * table.width]


def load_piece(table: Streamed, tiles: Any, number: int) -> None:
    """Issue the load of a piece, if the table has so many."""
    size = table.each * table.width
    low, end = number * size, min((number + 1) * size, table.source.shape[1])
    if low < end:
        tile = tiles[number % len(tiles)][:, 0 : end - low]
        nisa.dma_copy(dst=tile, src=table.source[:, low:end], dge_mode=nisa.dge_mode.none)


def transpose_slabs(turn: Turn, state: Any, row: int, first: int, identity: Any) -> Any:
    """Return operands of products from ``first`` on, as many as share PSUM banks, by bank.

    state: SBUF [C, (row, K, j, part) and padding].
    """
    stage = turn.stage
    rows, stride, pieces = operand_rows(stage), slab_stride(stage), piece_count(stage)
    columns, wide = padded_columns(state.shape[0], rows), max(rows, NARROW + 1)
    most = PSUM_BANK // (PARTITIONS * pieces)
    end = min(first + turn.together, operand_count(turn))
    operands: Any = []
    for start in range(first, end, most):
        count = min(most, end - start)
        shape = (wide, count, pieces, columns)
        bank = nl.ndarray(shape, dtype=transposed_dtype(nl.float32), buffer=nl.psum)
        for product in range(count):
            low = 2 * stage.contracted * (row * stage.done + (start + product) * stage.slabs)
            for piece in range(pieces):
                at = low + piece
                data = state[:, at : at + (wide - 1) * stride + 1 : stride]
                transpose(bank[:, product, piece], data, identity)
        operands.append(evacuate(bank[0:rows], nl.float32, True))
    return operands


def multiply_slabs(slabs: Slabs, turn: Turn, matrices: Any) -> Any:
    """Make the products in PSUM, [columns, part, k, K], a bank for each row tile.

    matrices: [SBUF tile, column], as ``numbers_of`` returns them.
    """
    stage, halves, pieces = turn.stage, turn.halves, piece_count(turn.stage)
    width, each = product_columns(turn), stage.slabs // halves
    shape = (slabs.operands[0].shape[3], 2, stage.produced, slabs.count * each)
    banks = psum_banks(halves, shape)
    most = slabs.operands[0].shape[1]
    for product in range(slabs.count):
        operand = slabs.operands[product // most][:, product % most]
        for piece in range(pieces):
            low = matrices[1] + (product * pieces + piece) * width
            matrix = matrices[0][:, low : low + width]
            for half in range(halves):
                place = banks[half][:, :, :, product * each : (product + 1) * each]
                if halves == 1:
                    multiply(place, operand[:, piece], matrix, piece > 0)
                else:
                    multiply_half(place, operand[:, piece], matrix, half, False)
    return banks


def twiddle_slabs(slabs: Slabs, turn: Turn, banks: Any, twiddles: Any, sums: Sums) -> None:
    """Multiply the products by their twiddles, [SBUF tile, column], into the results."""
    stage, halves = turn.stage, turn.halves
    each, count = stage.slabs // halves, slabs.count
    columns = slabs.results.shape[0]
    outputs = slabs.results[:, :, slabs.row].reshape_dim(2, (stage.produced, stage.done))
    low = slabs.first * stage.slabs
    outputs = outputs[:, :, :, low : low + count * stage.slabs]
    outputs = outputs.reshape_dim(3, (count, halves, each))
    numbers = stage.produced * count * each
    tile = twiddles[0]
    for half in range(halves):
        at = twiddles[1] + 2 * numbers * half
        pattern = [[tile.shape[1], columns], [0, 2], [count * each, stage.produced]]
        pattern.append([1, count * each])
        factors = [tile.ap(pattern, at), tile.ap(pattern, at + numbers)]
        twiddle(outputs[:, :, :, :, half], banks[half][0:columns], factors, sums)


def twiddle(target: Any, bank: Any, factors: Any, sums: Sums) -> None:
    """Set target = PSUM [C, 2, ...] times factors, later; add the products of the call before."""
    by_imaginary = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
    by_real = product_tile(bank, True)
    nisa.tensor_tensor(dst=by_imaginary, data1=bank, data2=factors[1], op=nl.multiply)
    nisa.tensor_tensor(dst=by_real, data1=bank, data2=factors[0], op=nl.multiply)
    finish_sums(sums)
    sums.target = target
    sums.by_real = by_real
    sums.by_imaginary = by_imaginary


def product_tile(bank: Any, is_last: bool) -> Any:
    """Return a tile for the product of a PSUM tile: from v3 on, the last one takes its place."""
    if is_last and nisa.get_nc_version() != nisa.nc_version.gen2:
        return bank
    return nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)


def finish_sums(sums: Sums) -> None:
    """Add the products with twiddles, if there are any."""
    if sums.target == None:
        return
    for part in range(2):
        target = sums.target[:, part]
        data = sums.by_real[:, part].reshape(target.shape)
        other = sums.by_imaginary[:, 1 - part].reshape(target.shape)
        op = nl.subtract if part == 0 else nl.add
        nisa.tensor_tensor(dst=target, data1=data, data2=other, op=op)
    sums.target = None
