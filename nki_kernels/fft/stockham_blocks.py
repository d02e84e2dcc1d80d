"""Blocks of rows for Stockham's stages: their loads, their states and their stores.

Input is loaded into a few tiles in turn, because only a small part of SBUF may be written by DMA.
See stockham.py.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..row_blocks import Rows, descriptors, load_rows, part_of_rows, rows_in_hbm
from ..row_guard import advance_guard, begin_guard, guard_steps, transposes_mix_rows
from ..tiles import DMA_RUN, PARTITIONS
from .stockham_stages import input_length, output_length, padding_of, pitch_of, row_numbers

_COPIED = 2048  # numbers a partition of input that are copied at a time


class Block(nl.NKIObject):
    """Rows on their way through the stages."""

    rows: Rows
    state: Any  # SBUF, which the next stage reads
    guard: Any = None  # the guard of its rows, where transposes mix rows
    results: Any = None  # after the last stage: tiles [P, 2, rows, outputs] of consecutive rows


def load_block(shared: Any, source: Any, rows: Any, ring: Any, index: int) -> Any:
    """Load a block of rows into SBUF, [part][j][m'] for each row, with zeros after the data.

    ring: tiles that DMA writes in turn; the first blocks append them.
    """
    stage = shared.stages[0]
    size = row_numbers(stage)
    if shared.ahead == 0:
        return load_by_parts(shared, source, rows)
    if index < shared.ahead:
        ring.append(allocate_state(shared.dtype, PARTITIONS, shared.each * size, stage))
    state = ring[index % shared.ahead]
    if padding_of(stage) > 0:
        end = rows.each * size
        nisa.memset(dst=state[:, end : end + padding_of(stage)], value=0.0)
    tile = state[0 : rows.partitions, 0 : rows.each * size]
    tile = tile.reshape((rows.partitions, rows.each, size))[:, :, 0 : 2 * input_length(stage)]
    tile = tile.reshape_dim(2, (2, input_length(stage)))
    for part in range(2):
        load_rows(tile[:, :, part], source[part].tensor, rows, source[part].columns)
    return Block(rows, state, guard_of(shared, tile))


def load_by_parts(shared: Any, source: Any, rows: Any) -> Any:
    """Do as ``load_block``, where DMA may not write so much; GpSimdE copies each part."""
    length = input_length(shared.stages[0])
    state = allocate_state(shared.dtype, rows.partitions, 2 * length, shared.stages[0])
    staged = nl.ndarray((rows.partitions, length), dtype=shared.dtype, buffer=nl.sbuf)
    for part in range(2):
        held = source[part].columns
        data = rows_in_hbm(source[part].tensor, rows, 0, held)
        place = staged[:, 0:held].expand_dim(1)
        nisa.dma_copy(dst=place, src=data, dge_mode=descriptors(rows.base))
        origin = part * length
        if held < length:
            nisa.memset(dst=state[:, origin + held : origin + length], value=0.0)
        # The copy proceeds in steps, between which VectorE has its turns on v2.
        for low in range(0, held, _COPIED):
            high = min(low + _COPIED, held)
            place = state[:, origin + low : origin + high]
            nisa.tensor_copy(dst=place, src=staged[:, low:high], engine=nisa.engine.gpsimd)
    data = state[:, 0 : 2 * length].reshape((rows.partitions, 1, 2, length))
    return Block(rows, state, guard_of(shared, data))


def allocate_state(dtype: Any, partitions: int, numbers: int, stage: Any) -> Any:
    """Allocate SBUF [partitions, numbers + padding] for a stage's input, zeros behind each K."""
    padding = padding_of(stage)
    state = nl.ndarray((partitions, numbers + padding), dtype=dtype, buffer=nl.sbuf)
    if padding > 0:
        nisa.memset(dst=state[:, numbers : numbers + padding], value=0.0)
    pitch, used = pitch_of(stage), 2 * stage.contracted * stage.left
    if used < pitch:
        behind = state.reshape((partitions, numbers // pitch, pitch))[:, :, used:pitch]
        nisa.memset(dst=behind, value=0.0, engine=nisa.engine.gpsimd)
    return state


def guard_of(shared: Any, data: Any) -> Any:
    """Return the guard of a block's rows, or None where no row meets another row."""
    if data.shape[0] * data.shape[1] == 1 or not transposes_mix_rows():
        return None
    return begin_guard(data, shared.growth)


def finish_guard(block: Any) -> None:
    """Finish a block's guard before its first transposes."""
    if block.guard != None:
        advance_guard(block.guard, guard_steps(block.guard))


def allocate_results(shared: Any, block: Any, number: int) -> Any:
    """Allocate a stage's results: the next stage's state, or finally tiles [P, 2, rows, outputs].

    Such a tile has 4 KiB, so that it is stored before the rest of the block is computed. On v2 one
    tile has all rows, because stores of every second row, a power of two apart, are slow there.
    """
    partitions, each = block.rows.partitions, block.rows.each
    length = output_length(shared.stages[number])
    if number + 1 < len(shared.stages):
        following = shared.stages[number + 1]
        return [allocate_state(shared.dtype, partitions, each * row_numbers(following), following)]
    tiles: Any = []
    most = each if transposes_mix_rows() else max(1, DMA_RUN // length)
    for row in range(0, each, most):
        shape = (partitions, 2, min(most, each - row), length)
        tiles.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return tiles


def store_block(block: Any, target: Any) -> None:
    """Store the results of a block, as many numbers of each row as the target holds."""
    row = 0
    for tile in block.results:
        for part in range(2):
            columns = target[part].columns
            y = target[part].tensor
            place = part_of_rows(y, block.rows, row, tile.shape[2], 0, columns)
            data = tile[:, part, :, 0:columns]
            nisa.dma_copy(dst=place, src=data, dge_mode=descriptors(block.rows.base))
        row += tile.shape[2]
