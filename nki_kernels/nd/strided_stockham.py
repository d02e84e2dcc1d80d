"""FFT along an axis that is not the last one, without a transposition through HBM.

Mathematics.  The data [A, N, C] is transformed along N = r M, where n = j M + m is an input and K +
r q is an output:

    Z[K, m] = sum_j W_r^(j K) x[j M + m],      X[K + r q] = sum_m W_N^(m (K + r q)) Z[K, m].

The twiddles are part of the second matrix, of which each K has its own. N <= 64 needs the second
stage only.

Layout on the NeuronCore.  Rows of x are loaded as they lie: (part, j, s) is on partitions, where g
<= 64 / r slabs s of M / g rows fill the array, and columns C are on the free axis, so that DMA
moves runs of columns. The data is the stationary operand of the first stage. The products of this
stage therefore have the columns on partitions and the digits on the free axis: one product is a
transform and a transposition. There, a slab K lies as one run (part, m). The second stage
transposes it back and multiplies it as the moving operand, so that (part, q) is on partitions. The
outputs q r + K are stored as they lie, and are in natural order.

    HBM [N, C] -> SBUF [(part, j, s), M/g, C] -> [C, r, 2, M] -> [(part, q), r, C] -> HBM [N, C]

Where there are fewer columns than the array takes, several members (indices of A) lie side by side.
Where members share a transposition that adds products with zero, columns that are not finite are
set aside before (row_guard). NeuronCore-v2 refuses some narrow operands; a narrow operand therefore
reads columns beyond its own.

The input may have fewer than N rows: zeros follow, which are neither stored in HBM nor loaded. The
output may have fewer rows, too: the others are not stored. A long batch is a loop on the device,
over members or over blocks of columns, and two programs share it in the same way
(column_blocks.py).

Why it is fast.  It makes three passes of the Tensor engine instead of the four of two Stockham
stages, and DMA moves runs of up to 8 KiB.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_sim.hardware import PARTITIONS

from ..isa import nisa, nki, nl
from ..packing import unpack
from ..roots import roots
from ..row_blocks import LAUNCH_INSTRUCTIONS
from ..row_guard import marks_of, set_rows_aside, transposes_mix_rows
from ..table_terms import table_spec
from ..tiles import (
    PSUM_BANK,
    columns_read,
    evacuate,
    load_identity,
    load_tables,
    multiply,
    transpose,
)
from .column_blocks import (
    Block,
    HbmColumns,
    block_size,
    blocks_of,
    chunks_of,
    columns_of,
    groups_of,
    is_narrow,
    member_count,
    rows_in_hbm,
    share_columns,
    walk_of,
)

MAX_STRIDED_RADIX = 64
MAX_LENGTH = MAX_STRIDED_RADIX**2
# points of a block of columns in all programs, if the block has more than 128 columns
_POINTS = 2**19
_TOGETHER = 2**16  # points of a block of several members
_HELD = 2**13  # numbers a partition of a block's results
_COLUMNS = 2048  # columns of a block, at most
_PIECE = 2816  # numbers a partition that are loaded at a time
_RING = 11520  # numbers a partition that are loaded and not yet used
_SHARED_RING = 4608  # the same where other passes precede or follow, whose loads may run at once


class Stages(nl.NKIObject):
    """The stages of a transform, and their tables in SBUF."""

    radix: int  # r, or 1 where there is only the second stage
    left: int  # M
    rows: int  # partitions of a part of the input: (j, s), or m without a first stage
    length: int  # rows of N on a partition of the input: M / g, or 1
    piece: int  # numbers a partition that are loaded at a time
    ring: int  # numbers a partition that are loaded and not yet used
    opening: Any  # table of the first stage, or None without a first stage
    closing: Any  # table of the second stage
    identity: Any  # for transpositions, or None without a first stage


class Piece(nl.NKIObject):
    """Rows of every slab of a block, which are loaded together."""

    block: Block
    first: int  # the first row of each slab
    count: int  # rows of each slab
    tile: Any  # SBUF [128, numbers] of the ring


class Slabs(nl.NKIObject):
    """Rows of every slab in SBUF, as the first stage reads them."""

    data: Any  # SBUF [(part, j, s), numbers]
    row: int  # numbers from a row to the next
    member: int  # numbers from a member to the next


class Turned(nl.NKIObject):
    """Transposed slabs, which the second stage multiplies."""

    data: Any  # SBUF [(part, m), slabs, columns of the chunk]
    first: int  # the first slab


def slabs_together(radix: int, left: int) -> int:
    """Return how many slabs g of the first stage fill the array: 2 g r <= 128, and g divides M."""
    best = 1
    for g in range(2, PARTITIONS // (2 * radix) + 1):
        if left % g == 0:
            best = g
    return best


def strided_stockham_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the tables of ``strided_stockham``: one for each radix.

    With one radix there is only the second stage. The first stage is [2 g r, 2 g r], rows (part, j,
    s), columns (K, part, s). The second stage is [2 M, r, P], rows (part, m), columns (part, q),
    then zeros up to P of at least 64.

    Args:
        n: length of the transform.
        radices: one or two radices with product n, each 2 to 64.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        One or two float32 arrays.

    Raises:
        ValueError: the radices do not fit.
    """
    if len(radices) not in (1, 2) or math.prod(radices) != n:
        raise ValueError(f"radices {radices}: must be one or two with the product n = {n}")
    if any(not 2 <= r <= MAX_STRIDED_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_STRIDED_RADIX}")
    radix, left = (1, n) if len(radices) == 1 else radices
    outputs = np.arange(radix)[:, None] + radix * np.arange(left)  # [K, q]
    w = roots(np.arange(left)[:, None, None] * outputs, n, inverse)  # [m, K, q]
    if len(radices) == 1:
        w *= scale
    closing = _real_matrix(w).reshape(2 * left, radix, 2 * left).astype(np.float32)
    closing = np.pad(closing, ((0, 0), (0, 0), (0, columns_read(2 * left) - 2 * left)))
    if len(radices) == 1:
        return (closing,)
    g = slabs_together(radix, left)
    j = np.arange(radix)
    first = scale * roots(np.outer(j, j), radix, inverse)
    opening = np.einsum("ajbk,st->ajskbt", _real_matrix(first[:, None])[:, :, 0], np.eye(g))
    size = 2 * g * radix
    return opening.reshape(size, size).astype(np.float32), closing


def strided_stockham_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``strided_stockham_tables(n, radices, ...)``."""
    radix, left = (1, *radices)[-2:]
    closing = table_spec((2 * left, radix, columns_read(2 * left)))
    if len(radices) == 1:
        return (closing,)
    size = 2 * radix * slabs_together(radix, left)
    return table_spec((size, size)), closing


def radix_pairs(n: int) -> list[tuple[int, int]]:
    """Return pairs of radices of a length, the likeliest first: those with a large last radix."""
    lasts = [r for r in range(MAX_STRIDED_RADIX, 1, -1) if n % r == 0 and n > r]
    return [(n // last, last) for last in lasts if n // last <= MAX_STRIDED_RADIX]


def _real_matrix(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return complex [i, K, o] as the real matrices [part, i, K, part', o]."""
    real = np.stack([w.real, w.imag], 2)
    imaginary = np.stack([-w.imag, w.real], 2)
    return np.stack([real, imaginary])


@nki.jit
def strided_stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform ``x_re + i x_im`` along the middle axis.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [A, N, C].
        tables, places: the two results of ``pack(strided_stockham_tables(N, radices, ...))``.
        radices: a tuple of one or two ints with product N.

    Returns:
        (y_re, y_im), float32 HBM [A, N, C].
    """
    y_re = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    columns = x_re.shape[2]
    source = [HbmColumns(x_re, 1, columns), HbmColumns(x_im, 1, columns)]
    target = [HbmColumns(y_re, 1, columns), HbmColumns(y_im, 1, columns)]
    transform_columns(source, target, radices, unpack(tables, places), 1)
    return y_re, y_im


def transform_columns(source: Any, target: Any, radices: Any, tables: Any, passes: int) -> None:
    """Transform HBM source [A, held, C] into target [A, kept, C], lists of two HbmColumns.

    passes: number of passes of the launch, which share its instructions and what DMA may write.
    """
    ring = _RING if passes == 1 else _SHARED_RING
    stages = stages_of(radices, load_tables(tables), _PIECE, ring)
    sides = share_columns(member_count(source[0]), source[0].columns)
    size = stages_block(sides, stages)
    cost = block_instructions(size, stages)
    walk = walk_of(sides, size, LAUNCH_INSTRUCTIONS * 2 // (5 * passes * cost))
    end = walk.first + walk.trips * walk.step

    def body(base: Any) -> None:
        blocks = blocks_of(walk, base, nisa.dge_mode.unknown, 0, walk.step)
        transform_blocks(source, target, stages, blocks)

    if walk.trips > 0:
        nl.fori_loop(walk.first, end, body, step=walk.step)
    if walk.rest > 0:
        blocks = blocks_of(walk, None, nisa.dge_mode.none, end, walk.rest)
        transform_blocks(source, target, stages, blocks)


def stages_of(radices: Any, tables: Any, piece: int, ring: int) -> Any:
    """Return the stages, with tables that are in SBUF."""
    if len(radices) == 1:
        return Stages(1, radices[0], radices[0], 1, piece, ring, None, tables[0], None)
    radix, left = radices
    slabs = slabs_together(radix, left)
    rows, length, identity = radix * slabs, left // slabs, load_identity(nl.float32)
    return Stages(radix, left, rows, length, piece, ring, tables[0], tables[1], identity)


def stages_block(sides: Any, stages: Any) -> Any:
    """Return the size of blocks for the stages."""
    n = stages.radix * stages.left
    together = min(_TOGETHER // n, _COLUMNS, _HELD // stages.radix)
    if stages.radix == 1:
        return block_size(sides, _COLUMNS, together)
    most = (stages.ring - stages.piece // 4) // stages.length
    most = min(most, PSUM_BANK, _HELD // stages.radix, _POINTS // (n * nl.num_programs()))
    return block_size(sides, most, together)


def block_instructions(size: Any, stages: Any) -> int:
    """Return how many instructions a block takes, at most."""
    chunks = chunks_of(size.members, size.columns)
    if stages.radix == 1:
        return 2 * len(chunks) + 12
    groups = 0
    for chunk in chunks:
        groups += len(groups_of(chunk))
    pieces = -(-stages.length // piece_rows(columns_of(size), stages))
    slabs = groups + 3 * len(chunks)
    return 24 + 6 * pieces + groups * (2 * stages.length + 16) + stages.radix * slabs


def transform_blocks(source: Any, target: Any, stages: Any, blocks: Any) -> None:
    """Transform blocks; loads run as far ahead as the ring of pieces reaches."""
    ring = ring_of(blocks, stages)
    pieces = pieces_of(blocks, stages, ring)
    for index in range(min(len(ring), len(pieces))):
        load_piece(pieces[index], source, stages)
    at = 0
    for block in blocks:
        states: Any = empty_states(block, stages)
        result = nl.ndarray(result_shape(block, stages), dtype=nl.float32, buffer=nl.sbuf)
        for _ in range(0, stages.length, piece_rows(columns_of(block.place), stages)):
            if stages.radix > 1:
                open_piece(pieces[at], states, stages)
            else:
                multiply_piece(pieces[at], result, stages)
            if at + len(ring) < len(pieces):
                load_piece(pieces[at + len(ring)], source, stages)
            at += 1
        if stages.radix > 1:
            close_block(states, result, block, stages)
        store_block(target, result, block, stages)


def piece_rows(columns: int, stages: Any) -> int:
    """Return how many rows of each slab are loaded at a time."""
    pieces = -(-stages.length // max(1, stages.piece // columns))
    return int(-(-stages.length // pieces))


def ring_of(blocks: Any, stages: Any) -> Any:
    """Allocate SBUF tiles into which pieces are loaded in turn."""
    size = 1
    count = 0
    for block in blocks:
        columns = columns_of(block.place)
        rows = piece_rows(columns, stages)
        size = max(size, columns * rows + PARTITIONS // 2)
        count += -(-stages.length // rows)
    tiles = []
    for _ in range(min(count, stages.ring // size)):
        tiles.append(nl.ndarray((PARTITIONS, size), dtype=nl.float32, buffer=nl.sbuf))
    return tiles


def pieces_of(blocks: Any, stages: Any, ring: Any) -> Any:
    """Return all pieces of blocks, in the order in which they are used."""
    pieces: Any = []
    for block in blocks:
        rows = piece_rows(columns_of(block.place), stages)
        for first in range(0, stages.length, rows):
            count = min(rows, stages.length - first)
            pieces.append(Piece(block, first, count, ring[len(pieces) % len(ring)]))
    return pieces


def load_piece(piece: Any, source: Any, stages: Any) -> None:
    """Load SBUF [(part, j, s), members, rows of the piece, columns], with zeros after the data."""
    block = piece.block
    rows, length = stages.rows, stages.length
    size = piece.count * columns_of(block.place)
    tile = piece.tile[0 : 2 * rows, 0:size]
    held = source[0].tensor.shape[source[0].axis]
    full = held // length
    tail = min(piece.count, held - full * length - piece.first)
    if full < rows:
        nisa.memset(dst=tile, value=0.0)
    if stages.radix > 1 and is_narrow(block):
        nisa.memset(dst=piece.tile[0 : 2 * rows, size : size + PARTITIONS // 2], value=0.0)
    tile = tile.reshape((2 * rows, block.place.members, piece.count, block.place.columns))
    for part in range(2):
        at = part * rows
        if full > 0:
            data = rows_in_hbm(source[part], block, piece.first, full, length, piece.count)
            nisa.dma_copy(dst=tile[at : at + full], src=data, dge_mode=block.descriptors)
        if tail > 0:
            first = full * length + piece.first
            data = rows_in_hbm(source[part], block, first, 1, length, tail)
            last = tile[at + full : at + full + 1, :, 0:tail]
            nisa.dma_copy(dst=last, src=data, dge_mode=block.descriptors)


def empty_states(block: Any, stages: Any) -> Any:
    """Allocate SBUF [columns, (K, part, m)] for each group.

    A state has room for what a stationary operand reads beyond these numbers.
    """
    states: Any = []
    if stages.radix == 1:
        return states
    n = stages.radix * stages.left
    beyond = columns_read(2 * stages.left) - 2 * stages.left
    for chunk in block.chunks:
        for group in groups_of(chunk):
            shape = (columns_of(group), 2 * n + beyond)
            state = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
            if beyond > 0:
                nisa.memset(dst=state[:, 2 * n : 2 * n + beyond], value=0.0)
            states.append(state)
    return states


def result_shape(block: Any, stages: Any) -> Any:
    """Return the shape [(part, q), members, K, columns]."""
    return (2 * stages.left, block.place.members, stages.radix, block.place.columns)


def slabs_of(piece: Any, stages: Any) -> Any:
    """Return the rows of a piece, in an order in which the columns of a group are one run."""
    place = piece.block.place
    columns = columns_of(place)
    if place.members == 1 or piece.count == 1 or 2 * place.columns > PARTITIONS:
        return Slabs(piece.tile, place.columns, piece.count * place.columns)
    size = piece.count * columns
    width = size + PARTITIONS // 2
    data = nl.ndarray((2 * stages.rows, width), dtype=nl.float32, buffer=nl.sbuf)
    if is_narrow(piece.block):
        nisa.memset(dst=data[:, size:width], value=0.0)
    shape = (2 * stages.rows, place.members, piece.count, place.columns)
    loaded = piece.tile[0 : 2 * stages.rows, 0:size].reshape(shape)
    shape = (2 * stages.rows, piece.count, place.members, place.columns)
    moved = data[:, 0:size].reshape(shape).permute((0, 2, 1, 3))
    nisa.tensor_copy(dst=moved, src=loaded, engine=nisa.engine.gpsimd)
    return Slabs(data, columns, place.columns)


def open_piece(piece: Any, states: Any, stages: Any) -> None:
    """Run the first stage of a piece, into the states of all groups of its block."""
    slabs = slabs_of(piece, stages)
    at = 0
    for chunk in piece.block.chunks:
        for group in groups_of(chunk):
            open_group(slabs, piece, group, states[at], stages)
            at += 1


def open_group(slabs: Any, piece: Any, group: Any, state: Any, stages: Any) -> None:
    """Run the first stage of a group of columns; ScalarE moves the results to their state."""
    n, rows = stages.radix * stages.left, 2 * stages.rows
    width = columns_of(group)
    read = columns_read(width)
    results = state[:, 0 : 2 * n].reshape((width, rows, stages.length))
    step = min(piece.count, PSUM_BANK // rows)
    for first in range(0, piece.count, step):
        count = min(step, piece.count - first)
        bank = nl.ndarray((read, rows, count), dtype=nl.float32, buffer=nl.psum)
        for index in range(count):
            low = group.member * slabs.member + (first + index) * slabs.row + group.low
            data = slabs.data[0:rows, low : low + read]
            multiply(bank[:, :, index], data, stages.opening, False)
        at = piece.first + first
        nisa.activation(dst=results[:, :, at : at + count], op=nl.copy, data=bank[0:width])


def multiply_piece(piece: Any, result: Any, stages: Any) -> None:
    """Run the second stage on rows that are its operands as they are loaded."""
    data = piece.tile[0 : 2 * stages.rows]
    low = 0
    for index in range(len(piece.block.chunks)):
        chunk = piece.block.chunks[index]
        columns = columns_of(chunk)
        moved = data[:, low : low + columns].expand_dim(1)
        make_outputs(Turned(moved, 0), chunk, result, stages, [], index % 2 == 0)
        low += columns


def close_block(states: Any, result: Any, block: Any, stages: Any) -> None:
    """Run the second stage, into SBUF result [(part, q), members, K, columns]."""
    at = 0
    for chunk in block.chunks:
        groups = len(groups_of(chunk))
        close_chunk(states[at : at + groups], chunk, result, stages)
        at += groups


def close_chunk(states: Any, chunk: Any, result: Any, stages: Any) -> None:
    """Run the second stage of a chunk; some slabs are transposed while others are multiplied."""
    marks: Any = []
    if transposes_mix_rows() and chunk.members > 1 and 2 * chunk.columns <= PARTITIONS:
        marks.append(set_columns_aside(states, chunk, stages))
    step = min(stages.radix, PSUM_BANK // columns_of(chunk))
    pending: Any = None
    for first in range(0, stages.radix, step):
        count = min(step, stages.radix - first)
        turned = turn_slabs(states, first, count, stages, marks)
        if first > 0:
            make_outputs(pending, chunk, result, stages, marks, first // step % 2 == 1)
        pending = turned
    make_outputs(pending, chunk, result, stages, marks, (stages.radix - 1) // step % 2 == 0)


def set_columns_aside(states: Any, chunk: Any, stages: Any) -> Any:
    """Write zeros to columns that would spoil others; return marks, SBUF [(part, q), columns]."""
    size = 2 * stages.radix * stages.left
    marks = []
    for state in states:
        rows = state[:, 0:size].reshape((state.shape[0], 1, size))
        marks.append(set_rows_aside(rows, float(stages.left)))
    return turn_marks(marks, columns_of(chunk), 2 * stages.left, stages.identity)


def turn_marks(marks: Any, columns: int, partitions: int, identity: Any) -> Any:
    """Bring marks of columns, a list of SBUF [columns, 1], to the free axis of ``partitions``."""
    width = columns_read(partitions)
    bank = nl.ndarray((width, columns), dtype=nl.float32, buffer=nl.psum)
    low = 0
    for mark in marks:
        # The operand has ones, and zeros where a NaN would spoil the transposition.
        count = mark.shape[0]
        good = nl.ndarray((count, width), dtype=nl.float32, buffer=nl.sbuf)
        repeated = mark.ap([[1, count], [0, width]])
        nisa.tensor_scalar(
            dst=good, data=repeated, op0=nl.equal, operand0=0.0, engine=nisa.engine.vector
        )
        transpose(bank[:, low : low + count], good, identity)
        low += count
    return marks_of(evacuate(bank[0:partitions], nl.float32, False))


def turn_slabs(states: Any, first: int, count: int, stages: Any, marks: Any) -> Any:
    """Transpose slabs K from ``first`` on to operands of the second stage."""
    columns = 0
    for state in states:
        columns += state.shape[0]
    left = 2 * stages.left
    read = stages.closing.shape[2]
    bank = nl.ndarray((read, count, columns), dtype=nl.float32, buffer=nl.psum)
    for index in range(count):
        low = 0
        at = (first + index) * left
        for state in states:
            width = state.shape[0]
            data = state[:, at : at + read]
            transpose(bank[:, index, low : low + width], data, stages.identity)
            low += width
    return Turned(evacuate(bank[0:left], nl.float32, len(marks) > 0), first)


def make_outputs(
    turned: Any, chunk: Any, result: Any, stages: Any, marks: Any, is_scalar: bool
) -> None:
    """Multiply a group of slabs and evacuate the products, ScalarE and VectorE in turn.

    marks: an empty list, or marks that VectorE adds to each slab, while ScalarE evacuates
    transposed slabs.
    """
    left, count, columns = turned.data.shape
    bank = nl.ndarray((stages.closing.shape[2], count, columns), nl.float32, buffer=nl.psum)
    for index in range(count):
        table = stages.closing[:, turned.first + index]
        multiply(bank[:, index], table, turned.data[:, index], False)
    shape = (left, count, chunk.members, chunk.columns)
    made = bank[0:left].reshape(shape)
    end = turned.first + count
    place = result[:, chunk.member : chunk.member + chunk.members, turned.first : end]
    place = place[:, :, :, chunk.low : chunk.low + chunk.columns].permute((0, 2, 1, 3))
    if len(marks) > 0:
        pattern = [[columns, left], [0, count], [chunk.columns, chunk.members], [1, chunk.columns]]
        nisa.tensor_tensor(dst=place, data1=made, data2=marks[0].ap(pattern), op=nl.add)
    elif is_scalar:
        nisa.activation(dst=place, op=nl.copy, data=made)
    else:
        nisa.tensor_copy(dst=place, src=made, engine=nisa.engine.vector)


def store_block(target: Any, result: Any, block: Any, stages: Any) -> None:
    """Store those outputs q r + K of a block that the target holds."""
    radix, kept = stages.radix, target[0].tensor.shape[target[0].axis]
    full = kept // radix
    rest = kept - full * radix
    for part in range(2):
        at = part * stages.left
        if full > 0:
            rows = rows_in_hbm(target[part], block, 0, full, radix, radix)
            nisa.dma_copy(dst=rows, src=result[at : at + full], dge_mode=block.descriptors)
        if rest > 0:
            rows = rows_in_hbm(target[part], block, full * radix, 1, radix, rest)
            last = result[at + full : at + full + 1, :, 0:rest]
            nisa.dma_copy(dst=rows, src=last, dge_mode=block.descriptors)
