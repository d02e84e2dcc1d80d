"""What all blocks of a launch of Stockham's stages share, above all tables: see stockham.py.

In the order of the stages, each table that still fits SBUF beside two states stays there. Other
tables are streamed: they are read from HBM for each block, chunk by chunk, into two tiles in turn.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..row_guard import prepare_guard, transposes_mix_rows
from ..table_terms import data_dtype, table_terms
from ..tiles import DMA_RUN, PARTITIONS, SMALLEST_SBUF, itemsize, load_tables
from .stockham_products import group_limit
from .stockham_stages import (
    input_length,
    operand_rows,
    output_length,
    padding_of,
    piece_count,
    row_numbers,
)

_WORKING = 32 << 10  # bytes of a partition for operands and for chunks of tables, in use and ahead
_STATES = 16  # bytes a point of a stage's input and output
_LOADED = 32 << 10  # bytes a partition of input that DMA writes at a time
_AHEAD = 4  # blocks of input that are loaded at a time, if they fit
_CHUNK = 2048  # numbers a partition of a streamed table that are loaded at a time


class Shared(nl.NKIObject):
    """What all blocks of a launch share."""

    stages: Any  # list of Stage
    identity: Any  # SBUF [128, 128]
    dtype: Any  # dtype of states
    growth: int  # as for ``set_rows_aside``
    each: int  # rows of a partition in a block, at most
    ahead: int  # blocks whose input DMA writes ahead; 0 where input is copied part by part
    chunks: Any = None  # two SBUF tiles for chunks of streamed tables
    is_scalar: bool = False  # whether ScalarE, not VectorE, evacuates transposed slabs
    is_interleaved: bool = False  # whether stages of blocks take turns


class Stream(nl.NKIObject):
    """The chunk of a streamed table that is in use, and the chunk behind it."""

    tiles: Any  # [piece][term] of the chunk in use
    ahead: Any  # [piece][term] of the next chunk
    slot: int  # which of ``Shared.chunks`` is written next


def shared_of_rows(stages: Any, growth: int, each: int) -> Shared:
    """Return what all blocks share, without identity and tables."""
    dtype = data_dtype(stages[0].table, 3)
    if transposes_mix_rows():
        prepare_guard()
    ahead = min(_AHEAD, _LOADED // input_bytes(stages[0], dtype, each))
    return Shared(stages, None, dtype, growth, each, ahead)


def input_bytes(stage: Any, dtype: Any, each: int) -> int:
    """Return the bytes a partition of a block's input."""
    return itemsize(dtype) * (each * row_numbers(stage) + padding_of(stage))


def load_stage_tables(shared: Any) -> None:
    """Load the stages' tables into SBUF, as many as fit beside two states.

    In the order of the stages, each table that still fits stays in SBUF. The others are streamed,
    and tiles for their chunks are allocated.
    """
    longest = DMA_RUN
    for stage in shared.stages:
        longest = max(
            longest, shared.each * output_length(stage), shared.each * input_length(stage)
        )
        longest = max(longest, shared.each * row_numbers(stage) // 2)
    room = SMALLEST_SBUF - _WORKING - _STATES * longest
    if shared.ahead > 0:
        room -= shared.ahead * input_bytes(shared.stages[0], shared.dtype, shared.each)
    pieces: Any = []
    begins: Any = []
    chunk = 0
    for stage in shared.stages:
        terms = table_terms(stage.table, 3)
        width = len(terms) * piece_count(stage) * terms[0].shape[2]
        size = width * terms[0].shape[1] * itemsize(stage.table.dtype)
        begins.append(len(pieces) if size <= room else -1)
        if size <= room:
            room -= size
            for piece in table_pieces(stage):
                pieces.append(piece)
        else:
            chunk = max(chunk, chunk_matrices(stage) * width)
    # Stages that take turns need the results of two blocks. Where bad rows are set aside, a long
    # block is not ready so early.
    more = _STATES * longest * (len(shared.stages) - 1)
    least = 3 if transposes_mix_rows() else 2
    shared.is_interleaved = shared.ahead >= least and chunk == 0 and room >= more
    loaded = load_tables(pieces)
    for index in range(len(shared.stages)):
        if begins[index] >= 0:
            shared.stages[index].tiles = tiles_by_piece(shared.stages[index], loaded, begins[index])
    if chunk > 0:
        shape = (PARTITIONS, chunk)
        dtype = shared.stages[0].table.dtype
        shared.chunks = [
            nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf),
            nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf),
        ]


def table_pieces(stage: Any) -> Any:
    """Return the table in HBM as a list of [rows, matrices, columns]: by pieces, each by terms."""
    pieces: Any = []
    rows = operand_rows(stage)
    for piece in range(piece_count(stage)):
        for term in table_terms(stage.table, 3):
            pieces.append(term[piece * rows : (piece + 1) * rows])
    return pieces


def tiles_by_piece(stage: Any, tiles: Any, first: int) -> Any:
    """Return tiles from ``first`` on, in the order of ``table_pieces``, as [piece][term]."""
    terms = len(table_terms(stage.table, 3))
    found: Any = []
    for piece in range(piece_count(stage)):
        at = first + piece * terms
        found.append(tiles[at : at + terms])
    return found


def chunk_matrices(stage: Any) -> int:
    """Return the matrices of a chunk of a streamed table: a multiple of a group's matrices."""
    terms = table_terms(stage.table, 3)
    group = group_limit(stage)
    width = terms[0].shape[2] * piece_count(stage) * len(terms)
    return group * max(1, _CHUNK // (group * width))


def stream_chunk(shared: Any, stage: Any, stream: Any, number: int) -> None:
    """Load a chunk of a table into the next slot, as ``stream.ahead``."""
    size = chunk_matrices(stage)
    pieces = table_pieces(stage)
    rows, count, width = pieces[0].shape
    first = number * size
    last = min(first + size, count)
    tiles: Any = []
    for index in range(len(pieces)):
        low = index * size * width
        tile = shared.chunks[stream.slot][0:rows, low : low + (last - first) * width]
        tile = tile.reshape((rows, last - first, width))
        source = pieces[index][:, first:last]
        nisa.dma_copy(dst=tile, src=source, dge_mode=nisa.dge_mode.none)
        tiles.append(tile)
    stream.ahead = tiles_by_piece(stage, tiles, 0)
    stream.slot = 1 - stream.slot
