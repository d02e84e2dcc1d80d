"""Stockham FFT with any radices, stages on the Tensor engine: one launch, natural order.

Mathematics.  N = r1 r2 ... rs. After stage i the state is Z_i[K, m] with K < R_i = r1...ri (the
output index so far, in natural order) and m < M_i = N / R_i (the input index still to do). Stage i
splits m = j M_i + m' and contracts j:

    Z_i[K + R_(i-1) k, m'] = sum_j exp(-+2 pi i j (K / R_i + k / r_i)) Z_(i-1)[K, j M_i + m']

so that the twiddle is part of the stage's matrix, of which each K has its own (exponents are
reduced exactly in integers, and a scale is folded into the first stage). Z_0 is the input and Z_s
the output, both in natural order: Stockham's autosort.

Layout on the NeuronCore.  Transforms lie on partitions. A slab is the contraction of one (K, m'); g
<= 64 / r slabs fill the array. As in dft_gemm, the Tensor engine transposes the data of the slabs
(stationary = data, moving = identity) and multiplies it as the stationary operand once more, so
that the transforms return to partitions. The engine reads a stationary operand along one strided
run. So the state between stages is [K][j][part][m'], where j belongs to the next stage, and a
product takes slabs M_i / g apart: (j, part, slab) is one run of stride M_i / g. The input, whole
rows as DMA brings them, is [part][j][m'], one run of (part, j, slab). The last stage, where M_i =
1, takes g consecutive K. Up to four products share a PSUM bank, where consecutive m' lie side by
side (column stride 16 bytes), so that the evacuation writes at full rate. For r > 64 the real and
the imaginary part are contracted one after the other. For r <= 32 two row tiles of the array work
side by side, each on its own products and its own PSUM bank (stockham_stages.py): up to eight
products go together (stockham_products.py).

Tables that fit SBUF beside two states (16 bytes a point) stay there. Other tables are streamed:
they are read from HBM for each block of transforms, chunk by chunk, each chunk before the products
of the chunk ahead of it (stockham_shared.py). Input comes into a few tiles in turn
(stockham_blocks.py), because only a small part of SBUF may be written by DMA. Where transposes mix
rows, on NeuronCore-v2, bad rows are set aside before (row_guard.py).

A stage reads what the stage before it wrote last. So where SBUF has room, stages of consecutive
blocks take turns, and blocks of many rows begin and end with half blocks, because nothing overlaps
the first load and the last store. On NeuronCore-v2, ScalarE and VectorE share PSUM's port: there
ScalarE evacuates everything except the first stage's transposes, while VectorE sets rows aside.

Precision.  As in dft_gemm the tables' dtype decides: float32, bfloat16 (the state is bfloat16
between stages, too), or refined, which means pairs of bfloat16 for tables and transposed data. PSUM
and HBM are fp32 throughout.

Why it is fast.  As modelled for trn1, a stage costs 38 ps a point on the Tensor engine for r <= 64,
and 26 ps in full row tiles, whatever r is, against 59 ps of the DMA floor: two stages of radix 64
beat four stages of radix 8. VectorE never multiplies, so that twiddles are free. The DMA of a
streamed table runs behind the products. It takes half a floor, twice as much if r > 64, and again
twice as much if the table's rows are a power of two apart in HBM. The kernel needs 128 transforms
to fill the array.
"""

from __future__ import annotations

from typing import Any

from ..isa import nki, nl
from ..launch import is_data_first
from ..packing import unpack
from ..row_blocks import HbmRows, blocks_of, ramped, row_count, share_rows
from ..row_guard import advance_guard
from ..table_terms import table_terms
from ..tiles import DMA_RUN, PARTITIONS, load_identity
from .stockham_blocks import allocate_results, finish_guard, load_block, store_block
from .stockham_products import Group, Matrices, Target, group_size, multiply_group, transpose_group
from .stockham_shared import (
    Shared,
    Stream,
    chunk_matrices,
    load_stage_tables,
    shared_of_rows,
    stream_chunk,
)
from .stockham_stages import (
    input_length,
    length_of,
    padding_of,
    piece_count,
    product_count,
    stages_of,
)

_TOGETHER = 2  # rows of a partition that stay in one block


class Step(nl.NKIObject):
    """A stage of a block."""

    block: int
    stage: int


@nki.jit
def stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, by stages of any radices.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N].
        tables, places: the two results of ``pack(stockham_tables(N, radices, ...))``.
        radices: a tuple of ints with product N.

    Returns:
        (y_re, y_im), float32 HBM [B, N].
    """
    n = x_re.shape[1]
    y_re = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    source = [HbmRows(x_re, n), HbmRows(x_im, n)]
    target = [HbmRows(y_re, n), HbmRows(y_im, n)]
    stockham_rows(source, target, radices, unpack(tables, places))
    return y_re, y_im


def stockham_rows(source: Any, target: Any, radices: Any, tables: Any) -> None:
    """Transform the rows of source into target, each a list of two ``HbmRows``.

    Zeros follow data that is shorter than N; outputs beyond the target's columns are not stored.
    """
    stages = stages_of(radices)
    n = length_of(radices)
    for index in range(len(radices)):
        stages[index].table = tables[index]
    transform_rows(source, target, stages, max(stages[0].halves, DMA_RUN // n), n)


def transform_rows(source: Any, target: Any, stages: Any, each: int, growth: int) -> None:
    """Run stages on the rows of source, up to ``each`` rows a partition, into target.

    source, target: as for ``stockham_rows``. growth: as for ``set_rows_aside``.
    """
    instructions = 0
    for stage in stages:
        instructions += stage_instructions(stage)
    batch, n = row_count(source[0].tensor), input_length(stages[0])
    share = share_rows(batch, PARTITIONS * each, each * instructions)
    end = share.first + share.trips * share.step
    blocks = ramped(blocks_of(None, end, share.rest, each), _TOGETHER)
    shared = shared_of_rows(stages, growth, each)
    if not is_data_first(source[0], n):
        shared.identity = load_identity(shared.dtype)
    if share.trips == 0 and len(blocks) == 0:
        return
    ring: Any = []
    loaded: Any = None
    if share.trips == 0:
        loaded = load_block(shared, source, blocks[0], ring, 0)
    if is_data_first(source[0], n):
        shared.identity = load_identity(shared.dtype)
    load_stage_tables(shared)

    def body(row: Any) -> None:
        inner = ramped(blocks_of(row, 0, share.step, each), _TOGETHER)
        transform_blocks(shared, source, target, inner, [], None)

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, share.step)
    transform_blocks(shared, source, target, blocks, ring, loaded)


def transform_blocks(
    shared: Any, source: Any, target: Any, blocks: Any, ring: Any, loaded: Any
) -> None:
    """Transform blocks, stage by stage in the order of ``steps_of``.

    ring, loaded: the input tiles so far, and the first block if it is in one of them.
    """
    stream = Stream(None, None, 0)
    pending: Any = None
    finished: Any = None
    opened: Any = []
    following = loaded
    steps = steps_of(shared, len(blocks))
    # The next block is loaded, and its bad rows are set aside, between the products of this one.
    for at in range(len(steps)):
        index, number = steps[at].block, steps[at].stage
        if number == 0:
            block = following
            following = None
            if block == None:
                block = load_block(shared, source, blocks[index], ring, index)
            finish_guard(block)
            opened.append(block)
            if shared.ahead > 1 and index + 1 < len(blocks):
                following = load_block(shared, source, blocks[index + 1], ring, index + 1)
        block = opened[index]
        is_next = number > 0 and steps[at - 1].block == index
        if is_next and (pending.target.row == 0 or padding_of(shared.stages[number]) > 0):
            # The stage before has to end first: every product here reads all results of a row, and
            # a narrow operand also reads columns of the next row.
            multiply_group(pending)
            pending = None
        pending = run_stage(shared, block, number, stream, pending, following)
        if finished != None:
            store_block(finished, target)
            finished = None
        if number + 1 == len(shared.stages):
            finished = block
            opened[index] = None
            if shared.ahead == 0 or index + 1 == len(blocks):
                # Long results are stored before the next block is loaded.
                multiply_group(pending)
                pending = None
                store_block(finished, target)
                finished = None


def steps_of(shared: Shared, blocks: int) -> Any:
    """Return the stages of blocks in the order in which they run.

    Where SBUF has room, a stage of another block runs between two stages of a block, because a
    stage reads everything that the stage before it wrote.
    """
    stages = len(shared.stages)
    lag = 1 if shared.is_interleaved else stages
    steps: Any = []
    for turn in range((blocks - 1) * lag + stages):
        for number in range(stages):
            index = (turn - number) // lag
            if (turn - number) % lag == 0 and 0 <= index < blocks:
                steps.append(Step(index, number))
    return steps


def stage_instructions(stage: Any) -> int:
    """Return about how many instructions a stage of one row takes."""
    pieces = piece_count(stage)
    steps = 2 * len(table_terms(stage.table, 3)) - 1
    return product_count(stage) * (pieces * (1 + steps * stage.halves) + 1)


def run_stage(
    shared: Any, block: Any, number: int, stream: Any, pending: Any, following: Any
) -> Any:
    """Run a stage of a block and replace the block's state; return the last group, still pending.

    following: the next block, if it is loaded, whose guard advances meanwhile.
    """
    stage = shared.stages[number]
    results = allocate_results(shared, block, number)
    each = -(-block.rows.each // len(results))
    if following != None and following.guard != None:
        advance_guard(following.guard, 1)
    together = stage.halves if stage.done == 1 else 1
    for row in range(0, block.rows.each, together):
        tile = results[row // each]
        pending = run_row(shared, block, stage, row, tile, stream, pending, following)
    block.state = results[0]
    block.results = results
    return pending


def run_row(
    shared: Any,
    block: Any,
    stage: Any,
    row: int,
    results: Any,
    stream: Any,
    pending: Any,
    following: Any,
) -> Any:
    """Run a stage of one row of each partition; return the last group, still pending.

    The row tiles of a first stage take the row after it, too.
    """
    products = product_count(stage)
    sharing = products // table_terms(stage.table, 3)[0].shape[1]
    is_streamed = bool(stage.tiles == None)
    chunk = chunk_matrices(stage) * sharing if is_streamed else products
    halves = min(stage.halves, block.rows.each - row) if stage.done == 1 else stage.halves
    target = target_of(block, row, results)
    if is_streamed:
        stream_chunk(shared, stage, stream, 0)
    first = 0
    while first < products:
        begins_chunk = is_streamed and first % chunk == 0
        count = group_size(stage, first, min(products, first // chunk * chunk + chunk))
        if begins_chunk:
            stream.tiles = stream.ahead
        operands = transpose_group(shared, block, stage, row, first, count)
        if pending != None:
            multiply_group(pending)
        if begins_chunk and first + chunk < products:
            # The load waits for the last products of the chunk before, because only two chunks have
            # room.
            stream_chunk(shared, stage, stream, first // chunk + 1)
        tiles = stream.tiles if is_streamed else stage.tiles
        matrices = Matrices(tiles, first % chunk // sharing, sharing > 1)
        pending = Group(stage, first, count, halves, operands, matrices, target)
        if following != None and following.guard != None:
            advance_guard(following.guard, 1)
        first += count
    return pending


def target_of(block: Any, row: int, results: Any) -> Target:
    """Return the place of a row's results: the next stage's state, or a tile of several rows."""
    if len(results.shape) == 2:
        return Target(results, row, None)
    marks: Any = None
    if block.guard != None:
        marks = block.guard.marks[:, row : row + 1]
    return Target(results, row % results.shape[2], marks)
