"""Four-step FFT: one transform spread over all partitions. For lengths and batches that Stockham
with a transform a partition cannot hold. One launch, natural order.

Mathematics (Bailey).  N = A C, n = a C + c, k = k_a + A k_c:

    Y[k_c, k_a] = sum_c W_C^(c k_c) W_N^(c k_a) sum_a W_A^(a k_a) x[a, c]

1. transforms of length A = r1 r2 ... over a, 2. the twiddle W_N^(c k_a), 3. DFTs of length
C <= 128 over c; the transpose of the fourth step costs nothing here.

Layout on the NeuronCore.  Transforms are loaded with a1, the top digit of a, on partitions, so
every descriptor reads N / r1 contiguous numbers. For r1 <= 64 real and imaginary part lie there one
after the other, and one product contracts both; for r1 <= 32 that is done with two transforms at
once, each on a half of the array; for r1 > 64 one part follows the other. The data is the
stationary operand, C neighbouring numbers of it, so the products land with c on partitions. That is
Stockham's state of C transforms after one stage: its stages do the rest of A. VectorE multiplies by
the twiddle (12 cycles a point and 128 lanes). The last DFT has its matrix as stationary and k_a as
moving columns: its result [k_c, k_a] is y in natural order, N / C contiguous numbers a descriptor.

    HBM [r1, N/r1] -> PSUM [c, (part, k1)] -> stages -> twiddle -> PSUM [k_c, k_a] -> HBM

A block is as many transforms as one tile of inputs holds. While one block is twiddled and closed,
the next one is opened: their instructions alternate, so that VectorE's twiddles and the Tensor
engine's stages overlap. Inputs come into a few tiles in turn, for what DMA writes may not be much.

Transforms are columns or other partitions of every product, and never meet: what one of them holds
cannot spoil another.

Why it is fast.  HBM is read and written once for every N <= 2^19, in rows of 512 bytes and more
where the planner may choose r1 and C; the Tensor engine needs about 22 + 33 + 45 ps a point for
three radices on trn1, against 59 ps of the DMA floor; and one transform alone fills the array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import share_rows
from ..tiles import (
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    WHOLE_RADIX,
    factor_views,
    load_identity,
    load_table,
    multiply,
    multiply_complex,
    padded_columns,
)
from .dft_gemm import table_spec
from .stockham import MAX_RADIX, stage_spec, stage_table

MAX_LENGTH = 2**19  # two states and the last stage's table take 24 N / C bytes of a partition
_LOADED = 2048  # fp32 numbers a partition of an input tile
STORED = 1024  # of each part of an output tile
RING = 4  # input tiles
_FEWEST = 4  # blocks that a batch is cut into where it can be


class Plan(nl.NKIObject):
    """How transforms are spread over the partitions."""

    radices: Any  # r1, ..., C
    length: int  # A
    columns: int  # C
    parts: int  # pieces of the first contraction: 2 if r1 > 64, one for each part
    places: int  # transforms side by side on the partitions of an input tile
    rows: int  # transforms of a block
    step: int  # columns of N / r1 that an input tile holds of a transform, at most


class Tables(nl.NKIObject):
    """A plan's tables in SBUF, and what else stays there."""

    identity: Any
    first: Any  # [2 r1, 1, 2 r1], again from partition 64 on if r1 <= 32; [r1, 2, 2 r1] if r1 > 64
    stages: Any  # of Stockham's stages
    twiddle: Any  # [C, 2, A]
    last: Any  # Wr, Wi and -Wi: [C, 3, columns], zeros from column C on


class Lines(nl.NKIObject):
    """Transforms in HBM, one a row, or parts of them."""

    parts: Any  # two tensors [B, ...]: real and imaginary part
    is_dynamic: bool  # whether rows are counted from a register's value
    base: Any  # the register: the row that a device loop's iteration begins at
    skip: int  # numbers of a row before the first one
    held: int  # numbers that are there; zeros follow


class Place(nl.NKIObject):
    """Where in lines a tile [P, rows, n] belongs: each row is a matrix there, of P or fewer rows."""

    row: int  # the first of the lines
    low: int  # the first column of the matrix
    pitch: int  # columns of the matrix


class Run(nl.NKIObject):
    """What one DMA moves."""

    view: Any  # of HBM: [partitions, rows, n]
    partition: int  # the first one of the tile
    row: int  # the first one of the tile


class Chunk(nl.NKIObject):
    """What an input tile holds of a block's transforms: columns of N / r1."""

    low: int
    size: int
    tile: Any  # the input tile
    factors: Any  # the tile [128, 2, ...] of factors of the inputs, or nothing
    data: Any  # the input tile, or its product with the factors; nothing before it is needed


class Block(nl.NKIObject):
    """Transforms that are opened together, and closed together."""

    first: int  # the row, of the lines
    rows: int
    each: int  # of them on the same partitions of an input tile
    chunks: Any


class Inputs(nl.NKIObject):
    """Tiles that DMA fills in turn, each when its last reader is done."""

    tiles: Any
    before: Any  # the factors of the inputs in HBM, [r1, 2, N/r1], or nothing
    factors: Any  # tiles for them, as many as the others


class Loads(nl.NKIObject):
    """Inputs of a plan on their way into SBUF."""

    source: Lines
    inputs: Inputs
    blocks: Any
    chunks: Any  # of all blocks
    issued: int  # chunks whose load is issued
    plan: Plan


class Opening(nl.NKIObject):
    """Products of the first stage that share a PSUM bank."""

    row: int
    rows: int
    low: int  # the first value of a', which is what r1 leaves of a
    count: int
    chunk: Chunk
    is_last: bool  # of the chunk


class Closing(nl.NKIObject):
    """A part of the states that a PSUM bank holds."""

    row: int
    rows: int
    low: int  # the first k_a
    size: int
    store: Any  # the Closing that holds all that is stored at once, or nothing
    is_last: bool  # of it


class Twiddled(nl.NKIObject):
    """What awaits its last DFT."""

    closing: Closing
    block: Block
    product: Any  # [C, 2, rows, size]
    result: Any  # [C, 2, rows, size] of all that is stored at once


class Results(nl.NKIObject):
    """Where results go."""

    target: Lines
    after: Any  # the factors of the outputs in HBM, [C, 2, N/C], or nothing
    factors: Any  # tiles for them, that DMA fills in turn
    turn: int  # how many it has filled


def four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The kernel's tables, float32: (first, *stages, twiddle, last).

    radices: r1, ..., C with product n, at least two. first: [2 r1, 2 r1], the split DFT of r1
    times ``scale``; for r1 > 64 [r1, 2, 2 r1], for r1 <= 32 again from row 64 on. stages: Stockham's
    tables of the radices between. twiddle: [C, 2, A]. last: Wr, Wi and -Wi, [C, 3, max(C, 64)],
    zeros after C columns. Raises ValueError where the plan is not one.
    """
    if math.prod(radices) != n or len(radices) < 2:
        raise ValueError(f"radices {radices}: two or more with product n = {n}")
    if any(not 2 <= r <= MAX_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_RADIX}")
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: the four-step kernel takes lengths up to {MAX_LENGTH}")
    first, last = radices[0], radices[-1]
    length = n // last
    stages = []
    done = first
    for r in radices[1:-1]:
        stages.append(stage_table(r, done, length // (done * r), inverse, 1.0))
        done *= r
    sign = 1 if inverse else -1
    c, k = np.arange(last)[:, None], np.arange(length)[None, :]
    angle = 2 * np.pi / n * (c * k)  # c k < n: no reduction needed
    twiddle = np.stack([np.cos(angle), sign * np.sin(angle)], 1).astype(np.float32)
    angle = 2 * np.pi / last * (c * c.T % last)
    real, imaginary = np.cos(angle), sign * np.sin(angle)
    closing = np.zeros((last, 3, whole_columns(last)), np.float32)
    closing[:, :, :last] = np.stack([real, imaginary, -imaginary], 1)
    return _opening_table(first, inverse, scale), *stages, twiddle, closing


def _opening_table(radix: int, inverse: bool, scale: float) -> np.ndarray[Any, Any]:
    """The first of ``four_step_tables``: rows (part, j), columns (part, k)."""
    angle = 2 * np.pi / radix * (np.outer(np.arange(radix), np.arange(radix)) % radix)
    real, imaginary = scale * np.cos(angle), scale * np.sin(angle) * (1 if inverse else -1)
    matrix = np.block([[real, imaginary], [-imaginary, real]]).astype(np.float32)
    if radix > WHOLE_RADIX:
        return matrix.reshape(2, radix, 2 * radix).swapaxes(0, 1).copy()
    table = np.zeros(opening_shape(radix), np.float32)
    for start in range(0, len(table) - 2 * radix + 1, WHOLE_RADIX):
        table[start : start + 2 * radix, 0] = matrix
    return table


def opening_shape(radix: int) -> tuple[int, int, int]:
    """Shape of the first of ``four_step_tables``."""
    if radix > WHOLE_RADIX:
        return radix, 2, 2 * radix
    return 2 * radix + (WHOLE_RADIX if 4 * radix <= PARTITIONS else 0), 1, 2 * radix


def whole_columns(count: int) -> int:
    """Columns of a stationary operand of ``count``: v2 refuses some of 32 and fewer."""
    return count if count > NARROW else padded_columns(count)


def four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``four_step_tables(n, radices, ...)``."""
    first, *middle, last = radices
    length = math.prod(radices[:-1])
    stages = []
    done = first
    for r in middle:
        stages.append(stage_spec(r, done, length // (done * r)))
        done *= r
    twiddle = table_spec((last, 2, length))
    closing = table_spec((last, 3, whole_columns(last)))
    return table_spec(opening_shape(first)), *stages, twiddle, closing


@nki.jit
def four_step(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables, places: ``pack(four_step_tables(N, radices, ...))``.
    Returns (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    assert length_of(radices) == n, f"the product of radices {radices} is not {n}"
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    x, y = [x_re, x_im], [y_re, y_im]
    plan = plan_of(radices, batch)
    share = share_rows(batch, plan.rows, instructions_of(plan))
    inputs = Inputs(input_tiles(plan, RING), [], [])
    end = share.first + share.trips * share.step
    loads = loads_of(Lines(x, False, 0, 0, n), inputs, plan, end, share.rest)
    if share.trips == 0:
        # Data first: the first products run while the last tables arrive.
        start_loads(loads, RING)
    held = load_plan(unpack(tables, places), plan)
    if share.trips > 0:

        def body(row: Any) -> None:
            inside = loads_of(Lines(x, True, row, 0, n), inputs, plan, 0, share.step)
            start_loads(inside, RING)
            transform_rows(inside, Results(Lines(y, True, row, 0, n), [], [], 0), held)

        nl.fori_loop(share.first, end, body, share.step)
        start_loads(loads, RING)
    transform_rows(loads, Results(Lines(y, False, 0, 0, n), [], [], 0), held)
    return y_re, y_im


def length_of(radices: Any) -> int:
    """Product of the radices."""
    n = 1
    for radix in radices:
        n *= radix
    return n


def plan_of(radices: Any, batch: int) -> Plan:
    """The plan for a batch."""
    first, columns = radices[0], radices[len(radices) - 1]
    length = length_of(radices) // columns
    parts = 1 if first <= WHOLE_RADIX else 2
    places = 2 if 4 * first <= PARTITIONS and 2 * length <= STORED else 1
    width = _LOADED // parts
    each = min(width * first // (columns * length), STORED // (places * length))
    few = -(-batch // (_FEWEST * nl.num_programs()))
    rows = min(places * max(1, each), max(places, few))
    return Plan(radices, length, columns, parts, places, rows, width // columns * columns)


def instructions_of(plan: Plan) -> int:
    """At most so many instructions does a block take."""
    products = plan.rows * plan.length // plan.radices[0]
    return (plan.parts + 1) * products + 4 * plan.rows + 14 * len(closing_work(plan, plan.rows))


def load_plan(tables: Any, plan: Plan) -> Tables:
    """The tables in SBUF."""
    stages = len(plan.radices) - 2
    first = load_table(tables[0])
    twiddle, last = tables[stages + 1], tables[stages + 2]
    flat = (plan.columns, 2 * plan.length)
    factors = load_table(twiddle.reshape(flat)).reshape(twiddle.shape)
    return Tables(load_identity(nl.float32), first, [], factors, load_table(last))


def input_tiles(plan: Plan, count: int) -> Any:
    """Tiles for ``count`` chunks, with columns that may be read beyond the last number."""
    beyond = whole_columns(plan.columns) - plan.columns
    tiles = []
    for _ in range(count):
        tiles.append(nl.ndarray((PARTITIONS, _LOADED + beyond), dtype=nl.float32, buffer=nl.sbuf))
    return tiles


# Loads and stores.


def loads_of(source: Lines, inputs: Inputs, plan: Plan, first: int, count: int) -> Loads:
    """The loads of ``count`` rows from ``first`` on, block by block."""
    size = plan.length * plan.columns // plan.radices[0]
    blocks = []
    chunks = []
    for start in range(first, first + count, plan.rows):
        rows = min(plan.rows, first + count - start)
        block = Block(start, rows, -(-rows // plan.places), [])
        for low in range(0, size, plan.step):
            chunk = Chunk(low, min(plan.step, size - low), [], [], [])
            block.chunks.append(chunk)
            chunks.append([block, chunk])
        blocks.append(block)
    return Loads(source, inputs, blocks, chunks, 0, plan)


def start_loads(loads: Loads, count: int) -> None:
    """Issue the next ``count`` loads, or those that are left."""
    for _ in range(min(count, len(loads.chunks) - loads.issued)):
        block, chunk = loads.chunks[loads.issued]
        turn = loads.issued % len(loads.inputs.tiles)
        chunk.tile = loads.inputs.tiles[turn]
        load_chunk(loads, block, chunk)
        if len(loads.inputs.factors) > 0:
            chunk.factors.append(loads.inputs.factors[turn])
            load_factors(loads.inputs.factors[turn], loads.inputs.before[0], chunk.low, chunk.size)
        loads.issued += 1


def load_factors(tile: Any, factors: Any, low: int, size: int) -> None:
    """Factors low.. of HBM [P, 2, L] in the first columns of SBUF [128, 2, ...]."""
    move(tile[0 : factors.shape[0], :, 0:size], factors[:, :, low : low + size], False)


def load_chunk(loads: Loads, block: Block, chunk: Chunk) -> None:
    """Fill a tile: digit a1 on partitions, rows and columns along the free axis."""
    plan = loads.plan
    radix = plan.radices[0]
    clear_beyond(chunk.tile, block, chunk.size, plan)
    for start in range(0, block.rows, block.each):
        rows = min(block.each, block.rows - start)
        for part in range(2):
            low, column = start // block.each * WHOLE_RADIX + part * radix, 0
            if plan.parts == 2:
                low, column = 0, part * (_LOADED // 2)
            tile = chunk.tile[low : low + radix, column : column + rows * chunk.size]
            place = Place(block.first + start, chunk.low, plan.length * plan.columns // radix)
            load_lines(tile.reshape_dim(1, (rows, chunk.size)), loads.source, part, place)


def clear_beyond(tile: Any, block: Block, size: int, plan: Plan) -> None:
    """Zeros where products read an input tile beyond its last number."""
    beyond = whole_columns(plan.columns) - plan.columns
    fewest = block.rows - (-(-block.rows // block.each) - 1) * block.each
    for part in range(plan.parts if beyond > 0 else 0):
        low = part * (_LOADED // 2)
        read = tile[:, low + fewest * size : low + block.each * size + beyond]
        nisa.memset(dst=read, value=0.0, engine=nisa.engine.gpsimd)


def load_lines(tile: Any, lines: Lines, part: int, place: Place) -> None:
    """Fill SBUF [P, rows, n] with numbers of lines, and with zeros where they end."""
    if lines.held < tile.shape[0] * place.pitch:
        nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
    for run in runs_of(tile.shape, lines, part, place):
        move(part_of(tile, run), run.view, lines.is_dynamic)


def store_lines(tile: Any, lines: Lines, part: int, place: Place) -> None:
    """Store SBUF [P, rows, n] as numbers of lines, up to where they end."""
    for run in runs_of(tile.shape, lines, part, place):
        move(run.view, part_of(tile, run), lines.is_dynamic)


def part_of(tile: Any, run: Run) -> Any:
    """What of SBUF [P, rows, n] a run moves."""
    partitions, rows, size = run.view.shape
    return tile[run.partition : run.partition + partitions, run.row : run.row + rows, 0:size]


def move(dst: Any, src: Any, is_dynamic: bool) -> None:
    """A DMA, whose descriptors the host makes if addresses are known."""
    if is_dynamic:
        nisa.dma_copy(dst=dst, src=src)
    else:
        nisa.dma_copy(dst=dst, src=src, dge_mode=nisa.dge_mode.none)


def runs_of(shape: Any, lines: Lines, part: int, place: Place) -> Any:
    """The DMAs that move a tile: of whole rows of its matrices, and of one that is cut short.

    Each moves one line where addresses are known: together they would be a power of two apart, at
    half the rate. Where they are not, a DMA costs a microsecond of GpSimdE, and moves all lines.
    """
    partitions, rows, size = shape
    line = lines.parts[part].shape[1]
    full = min(partitions, lines.held // place.pitch)
    rest = min(size, lines.held - full * place.pitch - place.low) if full < partitions else 0
    together = rows if lines.is_dynamic else 1
    runs = []
    for row in range(0, rows, together):
        offset = (place.row + row) * line + lines.skip + place.low
        if full > 0:
            pattern = [[place.pitch, full], [line, together], [1, size]]
            runs.append(Run(view_of(lines, part, pattern, offset), 0, row))
        if rest > 0:
            pattern = [[place.pitch, 1], [line, together], [1, rest]]
            runs.append(Run(view_of(lines, part, pattern, offset + full * place.pitch), full, row))
    return runs


def view_of(lines: Lines, part: int, pattern: Any, offset: int) -> Any:
    """Numbers of lines by strides, ``offset`` beyond the first line's first."""
    if lines.is_dynamic:
        return lines.parts[part].ap(pattern, offset, scalar_offset=lines.base, indirect_dim=0)
    return lines.parts[part].ap(pattern, offset)


# Transforms.


def transform_rows(loads: Loads, results: Results, tables: Tables) -> None:
    """Transform what ``loads`` brings, of which as much as its tiles hold is on the way."""
    plan = loads.plan
    twiddled: Any = []
    before: Any = []  # the block that closes, and its state
    closings: Any = []
    for block in loads.blocks:
        # This block opens while the one before closes.
        states = states_of(block, plan)
        openings = opening_work(block, plan)
        closed = 0
        for step in range(len(openings)):
            open_step(openings[step], loads, states[0], block, tables)
            due = ((step + 1) * len(closings) + len(openings) // 2) // len(openings)
            for closing in closings[closed:due]:
                twiddled.append(twiddle(closing, before[0], before[1], tables, twiddled))
                if len(twiddled) > 1:
                    close(twiddled[len(twiddled) - 2], results, tables, plan)
            closed = due
        before = [block, states[len(states) - 1]]
        closings = closing_work(plan, block.rows)
    for closing in closings:
        twiddled.append(twiddle(closing, before[0], before[1], tables, twiddled))
        if len(twiddled) > 1:
            close(twiddled[len(twiddled) - 2], results, tables, plan)
    if len(twiddled) > 0:
        close(twiddled[len(twiddled) - 1], results, tables, plan)


def states_of(block: Block, plan: Plan) -> Any:
    """Tiles of a block before every stage and after the last one: [C, rows, 2 A]."""
    states = []
    for _ in range(len(plan.radices) - 1):
        shape = (plan.columns, block.rows, 2 * plan.length)
        states.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return states


def left_of(plan: Plan) -> int:
    """M of the stage after the first one, or A / r1 where there is none."""
    left = plan.length // plan.radices[0]
    return left // plan.radices[1] if len(plan.radices) > 2 else left


def opening_work(block: Block, plan: Plan) -> Any:
    """The openings of a block, chunk by chunk."""
    most = max(1, PSUM_BANK // (2 * plan.radices[0])) if plan.parts == 1 else 1
    left = left_of(plan)
    work: Any = []
    for chunk in block.chunks:
        low, end = chunk.low // plan.columns, (chunk.low + chunk.size) // plan.columns
        together = max(1, most // (end - low)) if len(block.chunks) == 1 else 1
        for member in range(0, block.each, together):
            digit = low
            while digit < end:
                # Whole runs of M values of a', or a part of one.
                count = min(most, left - digit % left, end - digit)
                if count == left and most >= left:
                    count = min(most, end - digit) // left * left
                for start in range(member, block.rows, block.each):
                    rows = min(together, block.each - member, block.rows - start)
                    work.append(Opening(start, rows, digit, count, chunk, False))
                digit += count
        work[len(work) - 1].is_last = True
    return work


def open_step(opening: Opening, loads: Loads, state: Any, block: Block, tables: Tables) -> None:
    """Contract top digits, with c on partitions, for a PSUM bank of them."""
    plan, chunk = loads.plan, opening.chunk
    radix, left = plan.radices[0], left_of(plan)
    if len(chunk.data) == 0:
        chunk.data.append(weighted_chunk(chunk, block, plan))
    spread = spread_state(state, plan)
    size = min(opening.count, left)
    whole = whole_columns(plan.columns)
    shape = (whole, opening.rows, spread.shape[2], 2 * (opening.count // size), size)
    if len(plan.radices) == 2:
        shape = (whole, opening.rows, 1, 2, radix)
    bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    for row in range(opening.rows):
        for digit in range(opening.count):
            place = bank[:, row, 0]
            if len(plan.radices) > 2:
                j = 2 * (digit // size)
                place = bank[:, row, :, j : j + 2, digit % size].permute((0, 2, 1))
            contract(place, opening, row, digit, block, plan, tables.first)
    target = spread[:, opening.row : opening.row + opening.rows]
    if len(plan.radices) > 2:
        j, m = 2 * (opening.low // left), opening.low % left
        target = target[:, :, :, j : j + shape[3], m : m + size]
    nisa.activation(dst=target, op=nl.copy, data=bank[0 : plan.columns])
    if opening.is_last:
        start_loads(loads, 1)


def spread_state(state: Any, plan: Plan) -> Any:
    """The state after the first stage as [C, rows, k1, (j, part), m], or [C, rows, 1, part, k1]."""
    rows, radix = state.shape[1], plan.radices[0]
    if len(plan.radices) == 2:
        return state.reshape((plan.columns, rows, 1, 2, radix))
    return state.reshape((plan.columns, rows, radix, 2 * plan.radices[1], left_of(plan)))


def weighted_chunk(chunk: Chunk, block: Block, plan: Plan) -> Any:
    """The chunk's tile, or one with its numbers times the factors; both have r1 > 64."""
    if len(chunk.factors) == 0:
        return chunk.tile
    product = input_tiles(plan, 1)[0]
    clear_beyond(product, block, chunk.size, plan)
    x, weighted = numbers_of(chunk.tile, block, chunk, plan), numbers_of(product, block, chunk, plan)
    multiply_complex(weighted, x, factor_views(chunk.factors[0], 0, x.shape))
    return product


def numbers_of(tile: Any, block: Block, chunk: Chunk, plan: Plan) -> Any:
    """A chunk's numbers in an input tile with r1 > 64: [r1, 2, rows, columns]."""
    halves = tile[0 : plan.radices[0], 0:_LOADED].reshape_dim(1, (2, _LOADED // 2))
    numbers = halves[:, :, 0 : block.rows * chunk.size]
    return numbers.reshape_dim(2, (block.rows, chunk.size))


def contract(
    dst: Any, opening: Opening, row: int, digit: int, block: Block, plan: Plan, first: Any
) -> None:
    """The product of one transform's a', in PSUM [columns, part, k1]."""
    chunk = opening.chunk
    radix = plan.radices[0]
    side, member = (opening.row + row) // block.each, (opening.row + row) % block.each
    column = member * chunk.size + (opening.low + digit) * plan.columns - chunk.low
    whole = whole_columns(plan.columns)
    tile = chunk.data[0]
    if plan.parts == 2:
        for part in range(2):
            at = part * (_LOADED // 2) + column
            multiply(dst, tile[0:radix, at : at + whole], first[:, part], part > 0)
    elif plan.places == 2:
        low = side * WHOLE_RADIX
        nisa.nc_matmul(
            dst=dst,
            stationary=tile[low : low + 2 * radix, column : column + whole],
            moving=first[low : low + 2 * radix, 0],
            accumulate=False,
            tile_position=(low, 0),
            tile_size=(WHOLE_RADIX, PARTITIONS),
        )
    else:
        multiply(dst, tile[0 : 2 * radix, column : column + whole], first[0 : 2 * radix, 0], False)


def closing_work(plan: Plan, rows: int) -> Any:
    """The closings of a block, store by store."""
    length = plan.length
    together = max(1, STORED // length)
    work: Any = []
    for top in range(0, rows, together):
        for low in range(0, length, STORED):
            store = Closing(
                top, min(together, rows - top), low, min(STORED, length - low), [], False
            )
            each = max(1, PSUM_BANK // store.size)
            for row in range(top, top + store.rows, each):
                count = min(each, top + store.rows - row)
                for start in range(low, low + store.size, PSUM_BANK):
                    size = min(PSUM_BANK, low + store.size - start)
                    work.append(Closing(row, count, start, size, store, False))
            work[len(work) - 1].is_last = True
    return work


def twiddle(closing: Closing, block: Block, state: Any, tables: Tables, earlier: Any) -> Twiddled:
    """Multiply a part of a block's state [C, rows, 2 A] by the twiddles."""
    columns, rows, length = state.shape[0], state.shape[1], state.shape[2] // 2
    x = state.reshape((columns, rows, 2, length)).permute((0, 2, 1, 3))
    low, store = closing.low, closing.store
    x = x[:, :, closing.row : closing.row + closing.rows, low : low + closing.size]
    product = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    multiply_complex(product, x, factor_views(tables.twiddle, low, x.shape))
    if closing.row == store.row and low == store.low:
        shape = (columns, 2, store.rows, store.size)
        result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    else:
        result = earlier[len(earlier) - 1].result
    return Twiddled(closing, block, product, result)


def close(twiddled: Twiddled, results: Results, tables: Tables, plan: Plan) -> None:
    """DFT over the partitions, and the store where this is the last part of it."""
    closing, store, columns = twiddled.closing, twiddled.closing.store, plan.columns
    row, low = closing.row - store.row, closing.low - store.low
    for part in range(2):
        shape = (tables.last.shape[2], closing.rows, closing.size)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        # yr = Wr vr - Wi vi and yi = Wi vr + Wr vi: W is symmetric.
        matrices = [0, 2] if part == 0 else [1, 0]
        for term in range(2):
            multiply(bank, tables.last[:, matrices[term]], twiddled.product[:, term], term > 0)
        target = twiddled.result[:, part, row : row + closing.rows, low : low + closing.size]
        nisa.activation(dst=target, op=nl.copy, data=bank[0:columns])
    if closing.is_last:
        place = Place(twiddled.block.first + store.row, store.low, plan.length)
        store_results(twiddled.result, results, place)


def store_results(result: Any, results: Results, place: Place) -> None:
    """Store SBUF [C, 2, rows, n], times the factors if there are any."""
    if len(results.factors) > 0:
        tile = results.factors[results.turn % len(results.factors)]
        results.turn += 1
        load_factors(tile, results.after[0], place.low, result.shape[3])
        multiply_complex(result, result, factor_views(tile, 0, result.shape))
    for part in range(2):
        store_lines(result[:, part], results.target, part, place)
