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

A bundle is at most as many transforms as one tile of inputs holds. While one is twiddled and
closed, the next one is opened: their instructions alternate, so that VectorE's twiddles and the
Tensor engine's stages overlap. Inputs come into a few tiles in turn, for what DMA writes may not
take much of SBUF. A long batch is a loop on the device, and two cores share its transforms.

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
from ..row_blocks import Rows, descriptors, share_rows
from ..tiles import (
    PARTITIONS,
    PSUM_BANK,
    WHOLE_RADIX,
    columns_read,
    factor_views,
    load_identity,
    load_tables,
    multiply,
    multiply_complex,
)
from .dft_gemm import table_spec
from .stockham import (
    MAX_RADIX,
    Block,
    Group,
    Plan,
    allocate_state,
    group_size,
    multiply_group,
    nested,
    piece_count,
    pieces_of,
    product_count,
    stage_of,
    stage_spec,
    stage_table,
    transpose_group,
)

MAX_LENGTH = 2**19  # two states and the last stage's table take 24 N / C bytes of a partition
_LOADED = 2048  # fp32 numbers a partition of an input tile
STORED = 1024  # of each part of an output tile
RING = 4  # input tiles
_LONG = 2048  # k_a of a bundle, beyond which one closes before the next one's stages
_FEWEST = 16  # bundles of a batch, where it is long enough: the first and last overlap no other


class Spread(nl.NKIObject):
    """How transforms are spread over the partitions."""

    radices: Any  # r1, ..., C
    length: int  # A
    columns: int  # C
    parts: int  # pieces of the first contraction: 2 if r1 > 64, one for each part
    places: int  # transforms side by side on the partitions of an input tile
    rows: int  # transforms of a bundle
    step: int  # columns of N / r1 that an input tile holds of a transform, at most


class Tables(nl.NKIObject):
    """A plan's tables in SBUF, and what else stays there."""

    plan: Plan  # of Stockham's stages between the first and the last one
    first: Any  # [2 r1, 1, 2 r1], again from partition 64 on if r1 <= 32; [r1, 2, 2 r1] if r1 > 64
    twiddle: Any  # [C, 2, A]
    last: Any  # Wr, Wi and -Wi: [C, 3, columns], zeros from column C on


class Lines(nl.NKIObject):
    """Transforms in HBM, one a row, or parts of them."""

    parts: Any  # two tensors [B, ...]: real and imaginary part
    base: Any  # register with the row that a device loop's iteration begins at, or None
    skip: int  # numbers of a row before the first one
    held: int  # numbers that are there; zeros follow


class Place(nl.NKIObject):
    """Where in lines a tile [P, rows, n] belongs: a line is a matrix with P rows, or begins one."""

    row: int  # the first of the lines
    low: int  # the first column of the matrix
    pitch: int  # columns of the matrix


class Run(nl.NKIObject):
    """What one DMA moves."""

    view: Any  # of HBM: [partitions, rows, n]
    partition: int  # the first one of the tile
    row: int  # the first one of the tile


class Bundle(nl.NKIObject):
    """Transforms that are opened together, and closed together."""

    first: int  # the row, of the lines
    rows: int
    each: int  # of them on the same partitions of an input tile
    chunks: Any  # of their inputs


class Chunk(nl.NKIObject):
    """What an input tile holds of a bundle's transforms: columns of N / r1."""

    bundle: Bundle
    low: int
    size: int
    tile: Any  # the input tile, once its load is issued
    factors: Any  # a tile [128, 2, ...] with factors of the inputs, or None


class Inputs(nl.NKIObject):
    """Tiles that DMA fills in turn, each when its last reader is done."""

    tiles: Any
    before: Any  # the factors of the inputs in HBM, [r1, 2, N/r1], or nothing
    factors: Any  # tiles for them, as many as the others


class Loads(nl.NKIObject):
    """Inputs on their way into SBUF."""

    source: Lines
    inputs: Inputs
    bundles: Any
    chunks: Any  # of all bundles
    issued: int  # chunks whose load is issued
    spread: Spread


class Opening(nl.NKIObject):
    """Products of the first stage that share a PSUM bank."""

    row: int
    rows: int
    low: int  # the first value of a', which is what r1 leaves of a
    count: int
    chunk: Chunk
    is_first: bool  # of the chunk
    is_last: bool


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
    bundle: Bundle
    product: Any  # [C, 2, rows, size]
    result: Any  # [C, 2, rows, size] of all that is stored at once


class Middle(nl.NKIObject):
    """A group of products of one of Stockham's stages."""

    stage: int  # counted from the first one between
    row: int
    first: int  # product
    count: int


class Opener(nl.NKIObject):
    """A bundle on its way through the stages."""

    states: Any  # what each of Stockham's stages reads, and their result [C, 2, rows, A]
    block: Block
    pending: Any  # Group that is transposed, and not yet multiplied, or None


class Results(nl.NKIObject):
    """Where results go."""

    target: Lines
    after: Any  # the factors of the outputs in HBM, [C, 2, N/C], or nothing
    factors: Any  # tiles for them, that DMA fills in turn
    turn: int  # how many it has filled


class Closer(nl.NKIObject):
    """A bundle that is closed, step by step."""

    work: Any  # its closings
    twiddled: Any  # Twiddled, which awaits its last DFT, or None
    closed: int  # of the work
    bundle: Bundle
    state: Any  # [C, 2, rows, A]
    results: Results
    tables: Tables
    spread: Spread
    result: Any = None  # of what is stored at once


def four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The kernel's tables, float32: (first, *stages, twiddle, last).

    radices: r1, ..., C with product n, at least two. first: [2 r1, 1, 2 r1], the split DFT of r1
    times ``scale``, for r1 <= 32 again from row 64 on; for r1 > 64 [r1, 2, 2 r1]. stages:
    Stockham's tables of the radices between. twiddle: [C, 2, A]. last: Wr, Wi and -Wi, [C, 3, C],
    or with zeros after them [C, 3, 64]. Raises ValueError where the plan is not one.
    """
    if math.prod(radices) != n or len(radices) < 2:
        raise ValueError(f"radices {radices}: two or more with product n = {n}")
    if any(not 2 <= r <= MAX_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_RADIX}")
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: the four-step kernel takes lengths up to {MAX_LENGTH}")
    first, last = radices[0], radices[-1]
    length = n // last
    stages = [stage_table(stage, inverse, 1.0) for stage in middle_stages(radices)]
    sign = 1 if inverse else -1
    c, k = np.arange(last)[:, None], np.arange(length)[None, :]
    angle = 2 * np.pi / n * (c * k)  # c k < n: no reduction needed
    twiddle = np.stack([np.cos(angle), sign * np.sin(angle)], 1).astype(np.float32)
    angle = 2 * np.pi / last * (c * c.T % last)
    real, imaginary = np.cos(angle), sign * np.sin(angle)
    closing = np.zeros((last, 3, columns_read(last)), np.float32)
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


def middle_stages(radices: Any) -> Any:
    """Stockham's stages between the first and the last one, without their tables."""
    stages = []
    for index in range(1, len(radices) - 1):
        stages.append(stage_of(radices[0 : len(radices) - 1], index))
    return stages


def four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``four_step_tables(n, radices, ...)``."""
    first, last, length = radices[0], radices[-1], math.prod(radices[:-1])
    stages = [stage_spec(stage) for stage in middle_stages(radices)]
    twiddle = table_spec((last, 2, length))
    closing = table_spec((last, 3, columns_read(last)))
    return table_spec(opening_shape(first)), *stages, twiddle, closing


@nki.jit
def four_step(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables, places: ``pack(four_step_tables(N, radices, ...))``.
    Returns (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    x, y = [x_re, x_im], [y_re, y_im]
    spread = spread_of(radices, batch)
    share = share_rows(batch, spread.rows, instructions_of(spread))
    inputs = Inputs(input_tiles(spread, RING), [], [])
    end = share.first + share.trips * share.step
    loads = loads_of(Lines(x, None, 0, n), inputs, spread, end, share.rest)
    if share.trips == 0:
        # Data first: the first products run while the last tables arrive.
        start_loads(loads, RING)
    held = load_plan(unpack(tables, places), spread)
    if share.trips > 0:

        def body(row: Any) -> None:
            inside = loads_of(Lines(x, row, 0, n), inputs, spread, 0, share.step)
            start_loads(inside, RING)
            transform_rows(inside, Results(Lines(y, row, 0, n), [], [], 0), held)

        nl.fori_loop(share.first, end, body, share.step)
        start_loads(loads, RING)
    transform_rows(loads, Results(Lines(y, None, 0, n), [], [], 0), held)
    return y_re, y_im


def length_of(radices: Any) -> int:
    """Product of the radices."""
    n = 1
    for radix in radices:
        n *= radix
    return n


def spread_of(radices: Any, batch: int) -> Spread:
    """How transforms of a batch are spread."""
    first, columns = radices[0], radices[len(radices) - 1]
    length = length_of(radices) // columns
    parts = 1 if first <= WHOLE_RADIX else 2
    places = 2 if 4 * first <= PARTITIONS and 2 * length <= STORED else 1
    width = _LOADED // parts
    each = min(width * first // (columns * length), STORED // (places * length))
    few = -(-batch // (_FEWEST * nl.num_programs()))
    rows = min(places * max(1, each), max(places, few))
    return Spread(radices, length, columns, parts, places, rows, width // columns * columns)


def instructions_of(spread: Spread) -> int:
    """About how many instructions a bundle takes."""
    opening = spread.length // spread.radices[0] * (spread.parts + 1)
    middle = 0
    for stage in middle_stages(spread.radices):
        middle += product_count(stage) * (2 * piece_count(stage) + 1)
    closing = 10 * len(closing_work(spread, spread.rows))
    return int(spread.rows * (opening + middle + 6) + closing)


def load_plan(tables: Any, spread: Spread) -> Tables:
    """The tables in SBUF."""
    stages = middle_stages(spread.radices)
    wanted = [tables[0]]
    begins = []
    for index in range(len(stages)):
        stages[index].table = tables[index + 1]
        begins.append(len(wanted))
        for piece in pieces_of(stages[index]):
            wanted.append(piece)
    wanted.append(tables[len(tables) - 2].reshape((spread.columns, 2 * spread.length)))
    wanted.append(tables[len(tables) - 1])
    loaded = load_tables(wanted)
    for index in range(len(stages)):
        stages[index].tiles = nested(stages[index], loaded, begins[index])
    # ScalarE evacuates all: VectorE has the twiddles.
    plan = Plan(stages, load_identity(nl.float32), nl.float32, 0, 0, 0, None, True)
    twiddle = loaded[len(loaded) - 2].reshape((spread.columns, 2, spread.length))
    return Tables(plan, loaded[0], twiddle, loaded[len(loaded) - 1])


def input_tiles(spread: Spread, count: int) -> Any:
    """Tiles for ``count`` chunks, with columns that may be read beyond the last number."""
    beyond = columns_read(spread.columns) - spread.columns
    tiles = []
    for _ in range(count):
        tiles.append(nl.ndarray((PARTITIONS, _LOADED + beyond), dtype=nl.float32, buffer=nl.sbuf))
    return tiles


# Loads and stores.


def loads_of(source: Lines, inputs: Inputs, spread: Spread, first: int, count: int) -> Loads:
    """The loads of ``count`` rows from ``first`` on, bundle by bundle."""
    size = spread.length * spread.columns // spread.radices[0]
    bundles = []
    chunks = []
    for start in range(first, first + count, spread.rows):
        rows = min(spread.rows, first + count - start)
        bundle = Bundle(start, rows, -(-rows // spread.places), [])
        for low in range(0, size, spread.step):
            chunk = Chunk(bundle, low, min(spread.step, size - low), None, None)
            bundle.chunks.append(chunk)
            chunks.append(chunk)
        bundles.append(bundle)
    return Loads(source, inputs, bundles, chunks, 0, spread)


def start_loads(loads: Loads, count: int) -> None:
    """Issue the next ``count`` loads, or those that are left."""
    for _ in range(min(count, len(loads.chunks) - loads.issued)):
        chunk = loads.chunks[loads.issued]
        turn = loads.issued % len(loads.inputs.tiles)
        chunk.tile = loads.inputs.tiles[turn]
        load_chunk(loads, chunk)
        if len(loads.inputs.factors) > 0:
            chunk.factors = loads.inputs.factors[turn]
            load_factors(chunk.factors, loads.inputs.before[0], chunk.low, chunk.size)
        loads.issued += 1


def load_factors(tile: Any, factors: Any, low: int, size: int) -> None:
    """Factors low.. of HBM [P, 2, L] in the first columns of SBUF [128, 2, ...]."""
    nisa.dma_copy(
        dst=tile[0 : factors.shape[0], :, 0:size],
        src=factors[:, :, low : low + size],
        dge_mode=nisa.dge_mode.none,
    )


def load_chunk(loads: Loads, chunk: Chunk) -> None:
    """Fill a tile: digit a1 on partitions, rows and columns along the free axis."""
    spread, bundle = loads.spread, chunk.bundle
    radix = spread.radices[0]
    clear_beyond(chunk, spread)
    for start in range(0, bundle.rows, bundle.each):
        rows = min(bundle.each, bundle.rows - start)
        for part in range(2):
            low, column = start // bundle.each * WHOLE_RADIX + part * radix, 0
            if spread.parts == 2:
                low, column = 0, part * (_LOADED // 2)
            tile = chunk.tile[low : low + radix, column : column + rows * chunk.size]
            place = Place(bundle.first + start, chunk.low, spread.length * spread.columns // radix)
            load_lines(tile.reshape_dim(1, (rows, chunk.size)), loads.source, part, place)


def clear_beyond(chunk: Chunk, spread: Spread) -> None:
    """Zeros where products read an input tile beyond its last number."""
    bundle, size = chunk.bundle, chunk.size
    beyond = columns_read(spread.columns) - spread.columns
    fewest = bundle.rows - (-(-bundle.rows // bundle.each) - 1) * bundle.each
    for part in range(spread.parts if beyond > 0 else 0):
        low = part * (_LOADED // 2)
        read = chunk.tile[:, low + fewest * size : low + bundle.each * size + beyond]
        nisa.memset(dst=read, value=0.0, engine=nisa.engine.gpsimd)


def load_lines(tile: Any, lines: Lines, part: int, place: Place) -> None:
    """Fill SBUF [P, rows, n] with numbers of lines, and with zeros where they end."""
    if lines.held < tile.shape[0] * place.pitch:
        nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
    for run in runs_of(tile.shape, lines, part, place):
        nisa.dma_copy(dst=part_of(tile, run), src=run.view, dge_mode=descriptors(lines.base))


def store_lines(tile: Any, lines: Lines, part: int, place: Place) -> None:
    """Store SBUF [P, rows, n] as numbers of lines, up to where they end."""
    for run in runs_of(tile.shape, lines, part, place):
        nisa.dma_copy(dst=run.view, src=part_of(tile, run), dge_mode=descriptors(lines.base))


def part_of(tile: Any, run: Run) -> Any:
    """What of SBUF [P, rows, n] a run moves."""
    partitions, rows, size = run.view.shape
    return tile[run.partition : run.partition + partitions, run.row : run.row + rows, 0:size]


def runs_of(shape: Any, lines: Lines, part: int, place: Place) -> Any:
    """The DMAs that move a tile: of whole rows of its matrices, and of one that is cut short.

    Each moves one line where addresses are known: together they would be a power of two apart, at
    half the rate. Where they are not, a DMA costs a microsecond of GpSimdE, and moves all lines.
    """
    partitions, rows, size = shape
    x = lines.parts[part]
    line = x.shape[1]
    full = min(partitions, lines.held // place.pitch)
    rest = min(size, lines.held - full * place.pitch - place.low) if full < partitions else 0
    together = 1 if lines.base == None else rows
    runs = []
    for row in range(0, rows, together):
        offset = (place.row + row) * line + lines.skip + place.low
        if full > 0:
            pattern = [[place.pitch, full], [line, together], [1, size]]
            runs.append(Run(x.ap(pattern, offset, scalar_offset=lines.base), 0, row))
        if rest > 0:
            pattern = [[place.pitch, 1], [line, together], [1, rest]]
            offset += full * place.pitch
            runs.append(Run(x.ap(pattern, offset, scalar_offset=lines.base), full, row))
    return runs


# Transforms.


def transform_rows(loads: Loads, results: Results, tables: Tables) -> None:
    """Transform what ``loads`` brings, of which as much as its tiles hold is on the way."""
    closer = Closer([], None, 0, None, None, results, tables, loads.spread)
    for bundle in loads.bundles:
        # This bundle opens while the one before closes.
        opener = opener_of(bundle, tables.plan, loads.spread)
        openings = opening_work(bundle, loads.spread)
        middles = middle_work(bundle, tables.plan)
        steps = len(openings) + len(middles)
        # SBUF holds two long states, but not three.
        during = steps if bundle.rows * loads.spread.length <= _LONG else len(openings)
        for step in range(steps):
            if step < len(openings):
                open_step(openings[step], loads, opener.states[0], tables)
            else:
                middle_step(middles[step - len(openings)], opener, tables.plan)
            count = len(closer.work)
            close_until(closer, min(count, ((step + 1) * count + during // 2) // during))
        if opener.pending != None:
            multiply_group(opener.pending)
        close_until(closer, len(closer.work))
        closer.work = closing_work(loads.spread, bundle.rows)
        closer.closed = 0
        closer.bundle = bundle
        closer.state = opener.states[len(opener.states) - 1]
    close_until(closer, len(closer.work))
    if closer.twiddled != None:
        close(closer.twiddled, closer)


def opener_of(bundle: Bundle, plan: Plan, spread: Spread) -> Opener:
    """A bundle with the tiles for its states."""
    numbers = 2 * bundle.rows * spread.length
    states = []
    for stage in plan.stages:
        states.append(allocate_state(nl.float32, spread.columns, numbers, stage))
    shape = (spread.columns, 2, bundle.rows, spread.length)
    states.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    rows = Rows(None, 0, spread.columns, bundle.rows)
    return Opener(states, Block(rows, None), None)


def middle_work(bundle: Bundle, plan: Plan) -> Any:
    """Groups of products of Stockham's stages, stage by stage."""
    work = []
    for index in range(len(plan.stages)):
        stage = plan.stages[index]
        products = product_count(stage)
        sharing = products // stage.table.shape[1]
        for row in range(bundle.rows):
            first = 0
            while first < products:
                count = group_size(stage, first, sharing)
                work.append(Middle(index, row, first, count))
                first += count
    return work


def middle_step(middle: Middle, opener: Opener, plan: Plan) -> None:
    """Transpose a group of slabs; multiply the group before."""
    stage = plan.stages[middle.stage]
    pending = opener.pending
    if middle.stage > 0 and middle.first == 0 and pending != None and pending.row == middle.row:
        # The stage before has to end first: every product here reads all of its results.
        multiply_group(pending)
        opener.pending = None
    opener.block.state = opener.states[middle.stage]
    operands = transpose_group(plan, opener.block, stage, middle.row, middle.first, middle.count)
    if opener.pending != None:
        multiply_group(opener.pending)
    results = opener.states[middle.stage + 1]
    sharing = product_count(stage) // stage.table.shape[1]
    opener.pending = Group(
        stage,
        middle.row,
        middle.first,
        middle.count,
        operands,
        stage.tiles,
        middle.first // sharing,
        sharing > 1,
        results,
        len(results.shape) == 2,
        None,
    )


def left_of(spread: Spread) -> int:
    """M of the stage after the first one, or A / r1 where there is none."""
    left = spread.length // spread.radices[0]
    return left // spread.radices[1] if len(spread.radices) > 2 else left


def opening_work(bundle: Bundle, spread: Spread) -> Any:
    """The openings of a bundle, chunk by chunk."""
    most = max(1, PSUM_BANK // (2 * spread.radices[0])) if spread.parts == 1 else 1
    left = left_of(spread)
    work: Any = []
    for chunk in bundle.chunks:
        low, end = chunk.low // spread.columns, (chunk.low + chunk.size) // spread.columns
        together = max(1, most // (end - low)) if len(bundle.chunks) == 1 else 1
        is_first = True
        for member in range(0, bundle.each, together):
            digit = low
            while digit < end:
                # Whole runs of M values of a', or a part of one.
                count = min(most, left - digit % left, end - digit)
                if count == left and most >= left:
                    count = min(most, end - digit) // left * left
                for start in range(member, bundle.rows, bundle.each):
                    rows = min(together, bundle.each - member, bundle.rows - start)
                    work.append(Opening(start, rows, digit, count, chunk, is_first, False))
                    is_first = False
                digit += count
        work[len(work) - 1].is_last = True
    return work


def open_step(opening: Opening, loads: Loads, state: Any, tables: Tables) -> None:
    """Contract top digits, with c on partitions, for a PSUM bank of them."""
    spread, chunk = loads.spread, opening.chunk
    if opening.is_first and chunk.factors != None:
        weigh_inputs(chunk, spread)
    target = opened_numbers(opening, state, spread)
    shape = (columns_read(spread.columns),) + target.shape[1:]
    bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    for row in range(opening.rows):
        for digit in range(opening.count):
            if len(spread.radices) == 2:
                place = bank[:, row]
            else:
                size = shape[4]
                part = 2 * (digit // size)
                place = bank[:, row, :, part : part + 2, digit % size].permute((0, 2, 1))
            contract(place, opening, row, digit, spread, tables.first)
    nisa.activation(dst=target, op=nl.copy, data=bank[0 : spread.columns])
    if opening.is_last:
        start_loads(loads, 1)


def opened_numbers(opening: Opening, state: Any, spread: Spread) -> Any:
    """Where an opening belongs: [C, rows, k1, (j, part), m], or [C, rows, part, k1]."""
    bundle = opening.chunk.bundle
    if len(spread.radices) == 2:
        return state[:, :, opening.row : opening.row + opening.rows].permute((0, 2, 1, 3))
    radix, left = spread.radices[0], left_of(spread)
    rows = state[:, 0 : 2 * bundle.rows * spread.length]
    rows = rows.reshape((spread.columns, bundle.rows, radix, 2 * spread.radices[1], left))
    size = min(opening.count, left)
    part, m = 2 * (opening.low // left), opening.low % left
    rows = rows[:, opening.row : opening.row + opening.rows]
    return rows[:, :, :, part : part + 2 * (opening.count // size), m : m + size]


def weigh_inputs(chunk: Chunk, spread: Spread) -> None:
    """Multiply the numbers of a chunk with r1 > 64 by the factors."""
    rows = chunk.bundle.rows
    halves = chunk.tile[0 : spread.radices[0], 0:_LOADED].reshape_dim(1, (2, _LOADED // 2))
    numbers = halves[:, :, 0 : rows * chunk.size].reshape_dim(2, (rows, chunk.size))
    multiply_complex(numbers, numbers, factor_views(chunk.factors, 0, numbers.shape))


def contract(dst: Any, opening: Opening, row: int, digit: int, spread: Spread, first: Any) -> None:
    """The product of one transform's a', in PSUM [columns, part, k1]."""
    chunk, bundle = opening.chunk, opening.chunk.bundle
    radix = spread.radices[0]
    side, member = (opening.row + row) // bundle.each, (opening.row + row) % bundle.each
    column = member * chunk.size + (opening.low + digit) * spread.columns - chunk.low
    whole = columns_read(spread.columns)
    tile = chunk.tile
    if spread.parts == 2:
        for part in range(2):
            at = part * (_LOADED // 2) + column
            multiply(dst, tile[0:radix, at : at + whole], first[:, part], part > 0)
    elif spread.places == 2:
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


def closing_work(spread: Spread, rows: int) -> Any:
    """The closings of a bundle, store by store."""
    length = spread.length
    most = STORED if length <= _LONG else PSUM_BANK
    together = max(1, most // length)
    work: Any = []
    for top in range(0, rows, together):
        for low in range(0, length, most):
            count, size = min(together, rows - top), min(most, length - low)
            store = Closing(top, count, low, size, [], False)
            each = max(1, PSUM_BANK // size)
            for row in range(top, top + count, each):
                for start in range(low, low + size, PSUM_BANK):
                    rest = min(PSUM_BANK, low + size - start)
                    closing = Closing(row, min(each, top + count - row), start, rest, store, False)
                    work.append(closing)
            work[len(work) - 1].is_last = True
    return work


def close_until(closer: Closer, count: int) -> None:
    """Close the bundle's work up to ``count`` steps; the last one is twiddled only."""
    while closer.closed < count:
        closing = closer.work[closer.closed]
        closer.closed += 1
        before = closer.twiddled
        closer.twiddled = twiddle(closing, closer)
        if before != None:
            close(before, closer)


def twiddle(closing: Closing, closer: Closer) -> Twiddled:
    """Multiply a part of a bundle's state [C, 2, rows, A] by the twiddles."""
    low, store, state = closing.low, closing.store, closer.state
    x = state[:, :, closing.row : closing.row + closing.rows, low : low + closing.size]
    product = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    multiply_complex(product, x, factor_views(closer.tables.twiddle, low, x.shape))
    if closing.row == store.row and low == store.low:
        shape = (state.shape[0], 2, store.rows, store.size)
        closer.result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    return Twiddled(closing, closer.bundle, product, closer.result)


def close(twiddled: Twiddled, closer: Closer) -> None:
    """DFT over the partitions, and the store where this is the last part of it."""
    closing, store = twiddled.closing, twiddled.closing.store
    row, low = closing.row - store.row, closing.low - store.low
    last, spread = closer.tables.last, closer.spread
    for part in range(2):
        shape = (last.shape[2], closing.rows, closing.size)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        # yr = Wr vr - Wi vi and yi = Wi vr + Wr vi: W is symmetric.
        matrices = [0, 2] if part == 0 else [1, 0]
        for term in range(2):
            multiply(bank, last[:, matrices[term]], twiddled.product[:, term], term > 0)
        target = twiddled.result[:, part, row : row + closing.rows, low : low + closing.size]
        nisa.activation(dst=target, op=nl.copy, data=bank[0 : spread.columns])
    if closing.is_last:
        place = Place(twiddled.bundle.first + store.row, store.low, spread.length)
        store_results(twiddled.result, closer.results, place)


def store_results(result: Any, results: Results, place: Place) -> None:
    """Store SBUF [C, 2, rows, n], times the factors if there are any."""
    if len(results.factors) > 0:
        tile = results.factors[results.turn % len(results.factors)]
        results.turn += 1
        load_factors(tile, results.after[0], place.low, result.shape[3])
        multiply_complex(result, result, factor_views(tile, 0, result.shape))
    for part in range(2):
        store_lines(result[:, part], results.target, part, place)
