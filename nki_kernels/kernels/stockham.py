"""Stockham FFT with any radices, stages on the Tensor engine: one launch, natural order.

Mathematics.  N = r1 r2 ... rs. After stage i the state is Z_i[K, m] with K < R_i = r1...ri (the
output index so far, natural order) and m < M_i = N / R_i (the input index still to do). Stage i
splits m = j M_i + m' and contracts j:

    Z_i[K + R_(i-1) k, m'] = sum_j exp(-+2 pi i j (K / R_i + k / r_i)) Z_(i-1)[K, j M_i + m']

so the twiddle is part of the stage's matrix, one matrix a K (exponents reduced exactly in
integers, a scale folded into the first stage). Z_0 is the input and Z_s the output, both in
natural order: Stockham's autosort.

Layout on the NeuronCore.  Transforms lie on partitions. A slab is the contraction of one (K, m');
g <= 64 / r slabs fill the array. As in dft_gemm, the Tensor engine transposes the slabs' data
(stationary = data, moving = identity) and multiplies it as the stationary operand once more, so
the transforms return to partitions. It reads a stationary operand along one strided run. So the
state between stages is [K][j][part][m'] with j of the stage to come, and a product takes slabs
M_i / g apart: (j, part, slab) is one run of stride M_i / g. The input, whole rows as DMA brings
them, is [part][j][m'], one run of (part, j, slab), and the last stage, where M_i = 1, takes g
consecutive K. Up to four products share a PSUM bank, where consecutive m' lie side by side (column
stride 16 bytes), so that the evacuation writes at full rate. For r > 64 real and imaginary part are
contracted one after the other.

Tables that fit SBUF beside two states (16 bytes a point) stay there. The others are streamed: read
from HBM for each block of transforms, chunk by chunk, each before the products of the one ahead.
Input comes into a few tiles in turn, as what DMA writes may not take much of SBUF. Where transposes
mix rows, on NeuronCore-v2, bad ones are set aside before (row_guard.py).

Precision.  As in dft_gemm the tables' dtype decides: float32, bfloat16 (the state is bfloat16
between stages too), or refined, pairs of bfloat16 for tables and transposed data. PSUM and HBM
are fp32 throughout.

Why it is fast.  A stage costs 33 ps a point on trn1's Tensor engine for r <= 64, whatever r is,
against 59 ps of the DMA floor: two stages of radix 64 beat four of radix 8. VectorE never
multiplies: twiddles are free. DMA of a streamed table runs behind the products: half a floor, twice
as much if r > 64, and again if its rows are a power of two apart in HBM. The kernel needs 128
transforms to fill the array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import (
    HbmRows,
    Rows,
    blocks_of,
    descriptors,
    load_rows,
    rows_in_hbm,
    share_rows,
    store_rows,
)
from ..row_guard import advance_guard, begin_guard, guard_steps, prepare_guard, transposes_mix_rows
from ..tiles import (
    DMA_RUN,
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    load_identity,
    load_tables,
    padded_columns,
    transpose,
    transposed_dtype,
)
from .dft_gemm import (
    PAIRS,
    data_dtype,
    evacuate_operand,
    rounded_table,
    table_spec,
    table_terms,
)

MAX_RADIX = 128
_SBUF = 192 << 10  # bytes of a partition, on the smallest chip
_WORKING = 32 << 10  # of them for operands and for chunks of tables, in use and ahead
_STATES = 16  # bytes a point that input and output of a stage take
MAX_LENGTH = (_SBUF - _WORKING) // _STATES
_LOADED = 32 << 10  # bytes a partition of input that DMA writes at a time
_AHEAD = 4  # blocks of input that are loaded at a time, if they fit
_CHUNK = 2048  # numbers a partition of a table that are streamed, or of input that is copied


class Stage(nl.NKIObject):
    """A stage of transforms whose state is [K < done][j < contracted][part][m' < left]."""

    contracted: int  # inputs of a slab
    produced: int  # outputs of a slab
    done: int  # R_(i-1)
    left: int  # M_i
    following: int  # radix of the next stage; 1 if there is none
    slabs: int  # of a product; they lie left / slabs apart or, if left = 1, are consecutive K
    factor: float = 1.0  # on the sums of a last stage, whose table has one term; free of charge
    table: Any = None  # in HBM
    tiles: Any = None  # [piece][term] of the table in SBUF, or None where it is streamed


class Plan(nl.NKIObject):
    """What all blocks of a launch share."""

    stages: Any  # list of Stage
    identity: Any  # SBUF [128, 128]
    dtype: Any  # of states
    growth: int  # as for ``set_rows_aside``
    each: int  # rows of a partition, at most
    ahead: int  # blocks whose input DMA writes ahead; 0: it comes by parts, which are copied
    chunks: Any = None  # two SBUF tiles for chunks of streamed tables
    is_scalar: bool = False  # whether ScalarE, not VectorE, evacuates transposed slabs


class Block(nl.NKIObject):
    """Rows on their way through the stages."""

    rows: Rows
    state: Any  # SBUF: what the next stage reads, or the results
    guard: Any = None  # of its rows, where transposes mix them


class Stream(nl.NKIObject):
    """The chunk of a streamed table that products take, and the one behind it."""

    tiles: Any  # [piece][term]
    ahead: Any  # the same
    slot: int  # of ``Plan.chunks`` that is written next


class Group(nl.NKIObject):
    """Consecutive products of one row's stage, before they are made and evacuated."""

    stage: Stage
    row: int  # of each partition
    first: int  # product
    count: int  # of products
    operands: Any  # [term] of the transposed slabs [K, count, pieces, partitions]
    tiles: Any  # [piece][term] of the table
    matrix: int  # of these tiles that the first product takes
    is_shared: bool  # whether the others take the same
    results: Any  # SBUF tile
    is_state: bool  # whether the results are the next stage's input
    marks: Any  # of rows that were set aside, if these are their results


def slabs_per_product(radix: int, done: int, left: int, following: int) -> int:
    """Slabs g that one product takes: 2 g r <= 128.

    They divide R_(i-1) if M_i = 1. Else they divide the next radix, so that one evacuation can
    lay out their results, or, where this leaves most of the array empty, are a multiple of it
    that divides M_i.
    """
    best = 1
    for g in range(2, PARTITIONS // (2 * radix) + 1):
        if left == 1:
            fits = done % g == 0
        else:
            fits = following % g == 0 or (
                4 * radix * best <= PARTITIONS and left % g == 0 and g % following == 0
            )
        if fits:
            best = g
    return best


def stage_of(radices: Any, index: int) -> Stage:
    """The stage of a whole transform, without its table."""
    done = 1
    for i in range(index):
        done *= radices[i]
    left = 1
    for i in range(index + 1, len(radices)):
        left *= radices[i]
    radix = radices[index]
    following = radices[index + 1] if index + 1 < len(radices) else 1
    slabs = slabs_per_product(radix, done, left, following)
    return Stage(radix, radix, done, left, following, slabs)


def piece_count(stage: Any) -> int:
    """2 where real and imaginary part are contracted one after the other, else 1."""
    return 1 if 2 * stage.contracted <= PARTITIONS else 2


def product_count(stage: Any) -> int:
    """Products of the Tensor engine that a transform takes, each with ``piece_count`` terms."""
    return int(stage.done * stage.left // stage.slabs)


def stockham_tables(
    n: int,
    radices: tuple[int, ...],
    inverse: bool = False,
    scale: float = 1.0,
    dtype: str = "float32",
    refined: bool = False,
) -> tuple[np.ndarray[Any, Any], ...]:
    """One table a stage: [2 g r, matrices, 2 r g], float32 or bfloat16.

    Rows are (part, j, slab) in the first stage, (slab, j, part) in the last one, (j, part, slab)
    in the others and (part, j) for r > 64; columns (part, k, slab). Refined ones (bfloat16 only)
    have a leading axis: rounded, and what rounding lost. Computed in float64, rounded once. Raises
    ValueError where the radices do not multiply to n, a radix is not in 2..128, or n exceeds what
    SBUF holds.
    """
    check_radices(n, radices)
    return tuple(
        stage_table(stage_of(radices, i), inverse, 1.0 if i else scale, dtype, refined)
        for i in range(len(radices))
    )


def check_radices(n: int, radices: tuple[int, ...]) -> None:
    """ValueError as of ``stockham_tables``."""
    if math.prod(radices) != n or not radices:
        raise ValueError(f"radices {radices}: their product must be n = {n}")
    if any(not 2 <= r <= MAX_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_RADIX}")
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: Stockham in SBUF takes lengths up to {MAX_LENGTH}")


def stockham_specs(
    radices: tuple[int, ...], dtype: str = "float32", refined: bool = False
) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``stockham_tables(n, radices, ...)``."""
    return tuple(stage_spec(stage_of(radices, i), dtype, refined) for i in range(len(radices)))


def stage_table(
    stage: Stage, inverse: bool, scale: float, dtype: str = "float32", refined: bool = False
) -> np.ndarray[Any, Any]:
    """The table of one stage, as for ``stockham_tables``: one matrix a K, or for g of them."""
    r, done = stage.contracted, stage.done
    j, k = np.arange(r)[:, None], np.arange(r)[None, :]
    outputs = np.arange(done)[:, None, None]
    # j (K / R_i + k / r) = j (K + R_(i-1) k) / R_i, reduced modulo R_i.
    angle = 2 * np.pi / (done * r) * (j * (outputs + done * k) % (done * r))
    matrix = scale * (np.cos(angle) + (1j if inverse else -1j) * np.sin(angle))
    slabs = stage.slabs
    each = matrix[:, None] if stage.left > 1 else matrix.reshape(done // slabs, slabs, r, r)
    return rounded_table(slab_matrices(stage, each), dtype, refined)


def slab_matrices(stage: Stage, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Complex [matrices, g or 1, j, k], one for each slab of a product, as a stage's table."""
    split = np.stack([np.stack([w.real, w.imag], 3), np.stack([-w.imag, w.real], 3)], 2)
    split = np.broadcast_to(split, (len(w), stage.slabs, *split.shape[2:]))
    if stage.done == 1 or piece_count(stage) == 2:
        rows = "ajs"
    else:
        rows = "jas" if stage.left > 1 else "sja"
    order = f"Gsajbk,st->{rows}Gbkt"
    full: np.ndarray[Any, Any] = np.einsum(order, split, np.eye(stage.slabs))
    return full.reshape(2 * stage.slabs * stage.contracted, len(w), -1)


def stage_spec(stage: Stage, dtype: str = "float32", refined: bool = False) -> Any:
    """(shape, dtype) of ``stage_table(stage, ...)``."""
    rows = 2 * stage.slabs * stage.contracted
    matrices = stage.done if stage.left > 1 else stage.done // stage.slabs
    return table_spec((rows, matrices, 2 * stage.slabs * stage.produced), dtype, refined)


@nki.jit
def stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables, places: ``pack(stockham_tables(N, radices, ...))``,
    radices: tuple of ints with product N. Returns (y_re, y_im), float32 HBM [B, N].
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

    Zeros follow data that is shorter than N; the rest of the outputs is not stored.
    """
    stages: Any = []
    n = 1
    for index in range(len(radices)):
        stage = stage_of(radices, index)
        stage.table = tables[index]
        stages.append(stage)
        n *= radices[index]
    transform_rows(source, target, stages, max(1, DMA_RUN // n), n)


def transform_rows(source: Any, target: Any, stages: Any, each: int, growth: int) -> None:
    """Run stages on the rows of source, up to ``each`` of them a partition, into target.

    source, target: as for ``stockham_rows``. growth: as for ``set_rows_aside``.
    """
    instructions = 0
    for stage in stages:
        instructions += stage_instructions(stage)
    batch = source[0].tensor.shape[0]
    share = share_rows(batch, PARTITIONS * each, each * instructions)
    end = share.first + share.trips * share.step
    blocks = blocks_of(None, end, share.rest, each)
    plan = plan_rows(stages, growth, each)
    if share.trips == 0 and len(blocks) == 0:
        return
    ring: Any = []
    loaded: Any = None
    if share.trips == 0:
        # Its first stage runs while the tables of the others arrive.
        loaded = load_block(plan, source, blocks[0], ring, 0)
    load_stage_tables(plan)

    def body(row: Any) -> None:
        inner = blocks_of(row, 0, share.step, each)
        transform_blocks(plan, source, target, inner, [], None)

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, share.step)
    transform_blocks(plan, source, target, blocks, ring, loaded)


def transform_blocks(
    plan: Any, source: Any, target: Any, blocks: Any, ring: Any, loaded: Any
) -> None:
    """Transform blocks; the first stage of each follows the last one of the block before.

    ring, loaded: input tiles so far, and the first block if it is in one of them.
    """
    stream = Stream(None, None, 0)
    pending: Any = None
    finished: Any = None
    following = loaded
    # The next block is loaded, and its bad rows are set aside, between the products of this one.
    for index in range(len(blocks)):
        block = following
        following = None
        if block == None:
            block = load_block(plan, source, blocks[index], ring, index)
        finish_guard(block)
        for number in range(len(plan.stages)):
            if number == 0 and plan.ahead > 1 and index + 1 < len(blocks):
                following = load_block(plan, source, blocks[index + 1], ring, index + 1)
            pending = run_stage(plan, block, number, stream, pending, following)
            if number == 0 and plan.ahead > 0 and finished != None:
                store_block(finished, target)
        finished = block
        if plan.ahead == 0 or index + 1 == len(blocks):
            # Long results leave before the next block comes in.
            multiply_group(pending)
            pending = None
            store_block(finished, target)


def plan_rows(stages: Any, growth: int, each: int) -> Plan:
    """What all blocks share, but for the tables."""
    dtype = data_dtype(stages[0].table, 3)
    if transposes_mix_rows():
        prepare_guard()
    ahead = min(_AHEAD, _LOADED // input_bytes(stages[0], dtype, each))
    return Plan(stages, load_identity(dtype), dtype, growth, each, ahead)


def input_bytes(stage: Any, dtype: Any, each: int) -> int:
    """Bytes a partition of a block's input."""
    return itemsize(dtype) * (2 * each * input_length(stage) + padding_of(stage))


def stage_instructions(stage: Any) -> int:
    """About how many instructions a stage of one row takes."""
    pieces = piece_count(stage)
    steps = 2 * len(table_terms(stage.table, 3)) - 1
    return product_count(stage) * (pieces * (1 + steps) + 1)


def input_length(stage: Any) -> int:
    """Numbers of each part that a first stage reads of a row."""
    return int(stage.contracted * stage.left)


def output_length(stage: Any) -> int:
    """Numbers of each part that a stage makes of a row."""
    return int(stage.produced * stage.done * stage.left)


def operand_rows(stage: Any) -> int:
    """Rows of a product: what of a slab is contracted at once."""
    return int(2 * stage.slabs * stage.contracted // piece_count(stage))


def slab_stride(stage: Any) -> int:
    """Numbers from row to row of a product's operand, in the state."""
    spacing = stage.left // stage.slabs if stage.left > 1 else 1
    return int(spacing if piece_count(stage) == 1 or stage.done == 1 else 2 * spacing)


def padding_of(stage: Any) -> int:
    """Numbers behind a state, so that a narrow operand may have more columns, which nobody uses."""
    return max(0, NARROW + 1 - operand_rows(stage)) * slab_stride(stage)


def itemsize(dtype: Any) -> int:
    """Bytes of a number, float32 or bfloat16."""
    return 4 if dtype == nl.float32 else 2


def load_block(plan: Any, source: Any, rows: Any, ring: Any, index: int) -> Any:
    """A block of rows in SBUF, [part][j][m'] a row, zeros after the data.

    ring: tiles that DMA writes in turn; the first blocks append them.
    """
    stage = plan.stages[0]
    size = 2 * input_length(stage)
    if plan.ahead == 0:
        return load_by_parts(plan, source, rows)
    if index < plan.ahead:
        numbers = plan.each * size + padding_of(stage)
        ring.append(nl.ndarray((PARTITIONS, numbers), dtype=plan.dtype, buffer=nl.sbuf))
    state = ring[index % plan.ahead]
    if padding_of(stage) > 0:
        end = rows.each * size
        nisa.memset(dst=state[:, end : end + padding_of(stage)], value=0.0)
    tile = state[0 : rows.partitions, 0 : rows.each * size]
    tile = tile.reshape((rows.partitions, rows.each, 2, size // 2))
    for part in range(2):
        load_rows(tile[:, :, part], source[part].tensor, rows, source[part].columns)
    return Block(rows, state, guard_of(plan, tile))


def load_by_parts(plan: Any, source: Any, rows: Any) -> Any:
    """As ``load_block``: what DMA writes may not take so much, so GpSimdE copies part by part."""
    length = input_length(plan.stages[0])
    state = allocate_state(plan.dtype, rows.partitions, 2 * length, plan.stages[0])
    staged = nl.ndarray((rows.partitions, length), dtype=plan.dtype, buffer=nl.sbuf)
    for part in range(2):
        held = source[part].columns
        data = rows_in_hbm(source[part].tensor, rows, 0, held)
        place = staged[:, 0:held].expand_dim(1)
        nisa.dma_copy(dst=place, src=data, dge_mode=descriptors(rows.base))
        origin = part * length
        if held < length:
            nisa.memset(dst=state[:, origin + held : origin + length], value=0.0)
        # In steps: between them VectorE has its turns on v2.
        for low in range(0, held, _CHUNK):
            high = min(low + _CHUNK, held)
            place = state[:, origin + low : origin + high]
            nisa.tensor_copy(dst=place, src=staged[:, low:high], engine=nisa.engine.gpsimd)
    data = state[:, 0 : 2 * length].reshape((rows.partitions, 1, 2, length))
    return Block(rows, state, guard_of(plan, data))


def allocate_state(dtype: Any, partitions: int, numbers: int, stage: Any) -> Any:
    """SBUF [partitions, numbers and padding] for the input of a stage."""
    padding = padding_of(stage)
    state = nl.ndarray((partitions, numbers + padding), dtype=dtype, buffer=nl.sbuf)
    if padding > 0:
        nisa.memset(dst=state[:, numbers : numbers + padding], value=0.0)
    return state


def guard_of(plan: Any, data: Any) -> Any:
    """The guard of a block's rows, or None where no row meets another one."""
    if data.shape[0] * data.shape[1] == 1 or not transposes_mix_rows():
        return None
    return begin_guard(data, plan.growth)


def finish_guard(block: Any) -> None:
    """What is left to do before the first transposes."""
    if block.guard != None:
        advance_guard(block.guard, guard_steps(block.guard))


def load_stage_tables(plan: Any) -> None:
    """The stages' tables in SBUF, as many as fit beside two states; room for those that do not.

    In the order of the stages, each one that still fits stays. The others are streamed.
    """
    longest = DMA_RUN
    for stage in plan.stages:
        longest = max(longest, plan.each * output_length(stage), plan.each * input_length(stage))
    room = _SBUF - _WORKING - _STATES * longest
    if plan.ahead > 0:
        room -= plan.ahead * input_bytes(plan.stages[0], plan.dtype, plan.each)
    pieces: Any = []
    begins: Any = []
    chunk = 0
    for stage in plan.stages:
        terms = table_terms(stage.table, 3)
        width = len(terms) * piece_count(stage) * terms[0].shape[2]
        size = width * terms[0].shape[1] * itemsize(stage.table.dtype)
        begins.append(len(pieces) if size <= room else -1)
        if size <= room:
            room -= size
            for piece in pieces_of(stage):
                pieces.append(piece)
        else:
            chunk = max(chunk, chunk_matrices(stage) * width)
    loaded = load_tables(pieces)
    for index in range(len(plan.stages)):
        if begins[index] >= 0:
            plan.stages[index].tiles = nested(plan.stages[index], loaded, begins[index])
    if chunk > 0:
        shape = (PARTITIONS, chunk)
        dtype = plan.stages[0].table.dtype
        plan.chunks = [
            nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf),
            nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf),
        ]


def pieces_of(stage: Any) -> Any:
    """The table in HBM by pieces, each by terms, in one list of [rows, matrices, columns]."""
    pieces: Any = []
    rows = operand_rows(stage)
    for piece in range(piece_count(stage)):
        for term in table_terms(stage.table, 3):
            pieces.append(term[piece * rows : (piece + 1) * rows])
    return pieces


def nested(stage: Any, tiles: Any, first: int) -> Any:
    """Tiles from the first on, in the order of ``pieces_of``, as [piece][term]."""
    terms = len(table_terms(stage.table, 3))
    found: Any = []
    for piece in range(piece_count(stage)):
        at = first + piece * terms
        found.append(tiles[at : at + terms])
    return found


def chunk_matrices(stage: Any) -> int:
    """Matrices of a streamed table that come at a time: a multiple of what a group takes."""
    terms = table_terms(stage.table, 3)
    group = group_limit(stage)
    width = terms[0].shape[2] * piece_count(stage) * len(terms)
    return group * max(1, _CHUNK // (group * width))


def stream_chunk(plan: Any, stage: Any, stream: Any, number: int) -> None:
    """Load a chunk of a table into the slot that is next, to be ``stream.ahead``."""
    size = chunk_matrices(stage)
    pieces = pieces_of(stage)
    rows, count, width = pieces[0].shape
    first = number * size
    last = min(first + size, count)
    tiles: Any = []
    for index in range(len(pieces)):
        low = index * size * width
        tile = plan.chunks[stream.slot][0:rows, low : low + (last - first) * width]
        tile = tile.reshape((rows, last - first, width))
        source = pieces[index][:, first:last]
        nisa.dma_copy(dst=tile, src=source, dge_mode=nisa.dge_mode.none)
        tiles.append(tile)
    stream.ahead = nested(stage, tiles, 0)
    stream.slot = 1 - stream.slot


def group_limit(stage: Any) -> int:
    """Products that fit a PSUM bank, as transposed operands and as results."""
    columns = 2 * stage.produced * stage.slabs
    return min(PSUM_BANK // (PARTITIONS * piece_count(stage)), PSUM_BANK // columns)


def group_size(stage: Any, first: int, sharing: int) -> int:
    """Products of the group that begins at ``first``: their results are one strided run of m'."""
    run = product_count(stage)
    if stage.left > 1:
        run = stage.left // stage.slabs
        inner = stage.left // stage.following
        if 1 < inner < run:
            run = inner
    end = first // run * run + run
    if stage.tiles == None:
        chunk = chunk_matrices(stage) * sharing
        end = min(end, first // chunk * chunk + chunk)
    return int(min(group_limit(stage), end - first))


def run_stage(plan: Any, block: Any, number: int, stream: Any, pending: Any, following: Any) -> Any:
    """A stage of a block, whose state it replaces; the last group's products stay pending.

    following: the next block, if it is loaded: its guard advances.
    """
    stage = plan.stages[number]
    results = allocate_results(plan, block, number)
    if following != None and following.guard != None:
        advance_guard(following.guard, 1)
    for row in range(block.rows.each):
        ends = padding_of(stage) > 0 or (pending != None and pending.row == row)
        if number > 0 and pending != None and ends:
            # The stage before has to end first: every product here reads all of a row's results,
            # and a narrow operand columns of the next row.
            multiply_group(pending)
            pending = None
        pending = run_row(plan, block, stage, row, results, stream, pending, following)
    block.state = results
    return pending


def allocate_results(plan: Any, block: Any, number: int) -> Any:
    """SBUF for results of a stage: the next one's state, or [P, 2, each, outputs] at the end."""
    partitions, each = block.rows.partitions, block.rows.each
    length = output_length(plan.stages[number])
    if number + 1 < len(plan.stages):
        return allocate_state(plan.dtype, partitions, 2 * each * length, plan.stages[number + 1])
    return nl.ndarray((partitions, 2, each, length), dtype=nl.float32, buffer=nl.sbuf)


def run_row(
    plan: Any,
    block: Any,
    stage: Any,
    row: int,
    results: Any,
    stream: Any,
    pending: Any,
    following: Any,
) -> Any:
    """A stage of one row of each partition; the last group's products stay pending."""
    products = product_count(stage)
    terms = table_terms(stage.table, 3)
    sharing = products // terms[0].shape[1]
    chunk = products if stage.tiles != None else chunk_matrices(stage) * sharing
    if stage.tiles == None:
        stream_chunk(plan, stage, stream, 0)
    first = 0
    while first < products:
        count = group_size(stage, first, sharing)
        if stage.tiles == None and first % chunk == 0:
            stream.tiles = stream.ahead
        operands = transpose_group(plan, block, stage, row, first, count)
        if pending != None:
            multiply_group(pending)
        if stage.tiles == None and first % chunk == 0 and first + chunk < products:
            # Not before the last products of the chunk before: two chunks are live at a time.
            stream_chunk(plan, stage, stream, first // chunk + 1)
        tiles = stream.tiles if stage.tiles == None else stage.tiles
        matrix = first % chunk // sharing
        is_state = len(results.shape) == 2
        marks: Any = None
        if not is_state and block.guard != None:
            marks = block.guard.marks[:, row : row + 1]
        pending = Group(
            stage, row, first, count, operands, tiles, matrix, sharing > 1, results, is_state, marks
        )
        if following != None and following.guard != None:
            advance_guard(following.guard, 1)
        first += count
    return pending


def transpose_group(plan: Any, block: Any, stage: Any, row: int, first: int, count: int) -> Any:
    """Operands [rows of a product, count, pieces, partitions] of the group's slabs, by term."""
    rows, stride, pieces = operand_rows(stage), slab_stride(stage), piece_count(stage)
    partitions = block.rows.partitions
    columns = padded_columns(partitions, rows)
    wide = max(rows, NARROW + 1)
    begin = 2 * row * stage.contracted * stage.left * stage.done
    dtype = transposed_dtype(plan.dtype)
    bank = nl.ndarray((wide, count, pieces, columns), dtype=dtype, buffer=nl.psum)
    for product in range(count):
        for piece in range(pieces):
            low = begin + first_number(stage, first + product, piece)
            data = block.state[0:partitions, low : low + (wide - 1) * stride + 1 : stride]
            transpose(bank[:, product, piece], data, plan.identity)
    terms = len(table_terms(stage.table, 3))
    return evacuate_operand(bank[0:rows], stage.table.dtype, terms, plan.is_scalar)


def first_number(stage: Any, product: int, piece: int) -> int:
    """Where in a row's state a product's operand begins."""
    if stage.left == 1:
        at = 2 * product * stage.slabs * stage.contracted
    else:
        spacing = stage.left // stage.slabs
        at = 2 * (product // spacing) * stage.contracted * stage.left + product % spacing
    apart = stage.contracted * stage.left if stage.done == 1 else stage.left
    return int(at + piece * apart)


def multiply_group(group: Any) -> None:
    """Products of a transposed group, side by side in a PSUM bank, and their evacuation."""
    stage = group.stage
    steps = 2 * len(group.operands) - 1
    # Sums of several products have a bank each: it may not hold two of them.
    together = group.count if steps * len(group.tiles) == 1 else 1
    columns = group.operands[0].shape[3]
    # Refined, ScalarE alone takes longer than the products. On v2 VectorE would keep it from PSUM.
    is_shared = steps > 1 and nisa.get_nc_version() != nisa.nc_version.gen2
    for low in range(0, group.count, together):
        shape = (columns, 2, stage.produced, stage.slabs, together)
        if stage.left == 1:
            shape = (columns, 2, stage.produced, together, stage.slabs)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for product in range(together):
            place = bank[:, :, :, product] if stage.left == 1 else bank[:, :, :, :, product]
            multiply_slabs(group, low + product, place)
        evacuate_group(group, bank, low, together, is_shared and low % 2 == 1)


def multiply_slabs(group: Any, product: int, place: Any) -> None:
    """One product of a group, summed over pieces and, refined, over pairs of terms."""
    matrix = group.matrix if group.is_shared else group.matrix + product
    steps = 2 * len(group.operands) - 1
    for step in range(steps):
        pair = PAIRS[step]
        for piece in range(len(group.tiles)):
            nisa.nc_matmul(
                dst=place,
                stationary=group.operands[pair[0]][:, product, piece],
                moving=group.tiles[piece][pair[1]][:, matrix],
                accumulate=step + piece > 0,
            )


def evacuate_group(group: Any, bank: Any, low: int, count: int, is_vector: bool) -> None:
    """Products from ``low`` of a group on, from PSUM to their places."""
    stage = group.stage
    partitions = group.results.shape[0]
    splits = stage.left > 1 and stage.following % stage.slabs != 0
    for part in range(2 if splits else 1):
        if splits:
            # Slabs (j, m'') of the next stage: with the parts that would be a dimension too many.
            digits = (stage.following, stage.slabs // stage.following)
            data = bank[0:partitions, part].reshape_dim(2, digits)
        else:
            data = bank[0:partitions]
        place = results_of(group, low, count, part)
        if is_vector:
            nisa.tensor_copy(dst=place, src=data, engine=nisa.engine.vector)
        elif group.marks != None:
            nisa.activation(dst=place, op=nl.copy, data=data, bias=group.marks, scale=stage.factor)
        else:
            nisa.activation(dst=place, op=nl.copy, data=data, scale=stage.factor)


def results_of(group: Any, low: int, count: int, part: int) -> Any:
    """Where products from ``low`` of a group on belong, [P, part, k, ...] or, of a part, [P, k,
    ...], as ``evacuate_group`` has them.
    """
    stage, results = group.stage, group.results
    free = 1
    for size in results.shape[1:]:
        free *= size
    length = output_length(stage)
    first = group.first + low
    if stage.left == 1:
        apart = length if group.is_state else results.shape[2] * length
        origin = group.row * (2 * length if group.is_state else length) + first * stage.slabs
        pattern = [[free, results.shape[0]], [apart, 2], [stage.done, stage.produced]]
        return results.ap(pattern + [[stage.slabs, count], [1, stage.slabs]], origin)
    spacing, inner = stage.left // stage.slabs, stage.left // stage.following
    m = first % spacing
    origin = 2 * group.row * length + 2 * (first // spacing) * stage.left
    origin += 2 * (m // inner) * inner + m % inner
    outputs = [2 * stage.done * stage.left, stage.produced]
    if stage.following % stage.slabs == 0:
        run = [2 if inner == 1 else 1, count]
        pattern = [[free, results.shape[0]], [inner, 2], outputs, [2 * spacing, stage.slabs], run]
        return results.ap(pattern, origin)
    digits = [[2 * inner, stage.following], [spacing, stage.slabs // stage.following], [1, count]]
    return results.ap([[free, results.shape[0]], outputs] + digits, origin + part * inner)


def store_block(block: Any, target: Any) -> None:
    """Store the results of a block, as many of each row as the target holds."""
    for part in range(2):
        rows = target[part]
        store_rows(rows.tensor, block.state[:, part], block.rows, rows.columns)
