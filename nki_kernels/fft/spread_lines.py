"""Transforms in HBM, and their way into SBUF, each spread over all partitions: see four_step.py.

A line is a transform, or a part of one. The top digit a1 of its first index lies on partitions, so
that every descriptor of a load reads as many contiguous numbers as possible. A line that is shorter
than a transform is followed by zeros.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..row_blocks import descriptors, rows_together
from ..tiles import HALF, PARTITIONS, columns_read, factor_views, multiply_complex

LOADED = 2048  # fp32 numbers a partition of an input tile, where it does not hold whole lines
RING = 4  # number of input tiles
RING_LENGTH = 4096  # A of transforms, beyond which SBUF has room for two input tiles
_SHORT_RING = 2


class Spread(nl.NKIObject):
    """How transforms are spread over the partitions."""

    radices: Any  # r1, ..., C
    length: int  # A
    columns: int  # C
    parts: int  # pieces of the first contraction: 2 if r1 > 64, one for each part, else 1
    places: int  # transforms side by side on the partitions of an input tile
    rows: int  # transforms of a bundle
    step: int  # columns of N / r1 that an input tile holds of a transform, at most
    loaded: int = LOADED  # numbers a partition of an input tile


class Lines(nl.NKIObject):
    """Transforms in HBM, one in each row, or parts of transforms."""

    parts: Any  # two tensors [B, ...], whole: real and imaginary part, or both parts twice
    base: Any  # register with the place at which a device loop's iteration begins, or None
    skip: int  # numbers of a row before the line
    held: int  # numbers that are there; zeros follow
    starts: Any = (0, 0)  # the number of each tensor with which its part begins
    dimension: int = 0  # dimension of the tensors that the register counts


class Place(nl.NKIObject):
    """A tile's place in lines, [P, rows, n]: a line is a matrix of P rows, or begins with one."""

    row: int  # the first line
    low: int  # the first column of the matrix
    pitch: int  # columns of the matrix


class Run(nl.NKIObject):
    """What one DMA moves."""

    view: Any  # view of HBM: [partitions, rows, n]
    partition: int  # the first partition of the tile
    row: int  # the first row of the tile


class Bundle(nl.NKIObject):
    """Transforms that are opened together, and closed together."""

    first: int  # the first row of the lines
    rows: int
    each: int  # rows that lie on the same partitions of an input tile
    chunks: Any  # the chunks of its inputs


class Chunk(nl.NKIObject):
    """The part of a bundle's transforms that one input tile holds: columns of N / r1."""

    bundle: Bundle
    low: int
    size: int
    tile: Any  # the input tile, once its load has been issued
    factors: Any  # a tile [128, 2, ...] with factors of the inputs, or None


class Inputs(nl.NKIObject):
    """Tiles that DMA fills in turn, each when its last reader is done."""

    tiles: Any
    before: Any  # [the factors of the inputs in HBM, [r1, 2, N/r1]], or []
    factors: Any  # tiles for these factors, as many as there are input tiles; or []


class Loads(nl.NKIObject):
    """Inputs on their way into SBUF."""

    source: Lines
    inputs: Inputs
    bundles: Any
    chunks: Any  # the chunks of all bundles
    issued: int  # chunks whose load has been issued
    opened: int  # chunks that have been read, and whose tiles are free
    spread: Spread


def load_whole_lines(spread: Spread) -> None:
    """Let one input tile hold all that partitions have of a transform, if it fits and r1 <= 64.

    A DMA then has no gaps between its rows; rows that are a power of two apart come at a lower
    rate. The tile is filled again while the transform passes the stages.
    """
    columns = spread.length * spread.columns // spread.radices[0]
    fits = columns <= LOADED * ring_size(spread, RING)
    if spread.parts == 1 and spread.step < columns and fits:
        spread.step = columns
        spread.loaded = columns


def ring_size(spread: Spread, most: int) -> int:
    """Return how many input tiles fit beside two states, up to ``most``."""
    if spread.loaded > LOADED:
        return 1
    return most if spread.length <= RING_LENGTH else min(_SHORT_RING, most)


def input_tiles(spread: Spread, count: int) -> Any:
    """Allocate tiles for ``count`` chunks, or as many as fit.

    Products may read columns beyond the last number, so that a tile has some more columns.
    """
    beyond = columns_read(spread.columns) - spread.columns
    tiles = []
    for _ in range(ring_size(spread, count)):
        tiles.append(
            nl.ndarray((PARTITIONS, spread.loaded + beyond), dtype=nl.float32, buffer=nl.sbuf)
        )
    return tiles


def loads_of(source: Lines, inputs: Inputs, spread: Spread, first: int, count: int) -> Loads:
    """Return the loads of ``count`` rows from ``first`` on, bundle by bundle."""
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
    return Loads(source, inputs, bundles, chunks, 0, 0, spread)


def start_loads(loads: Loads, count: int) -> None:
    """Issue the next ``count`` loads, or as many as are left and have free tiles."""
    count = min(count, len(loads.inputs.tiles) - loads.issued + loads.opened)
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
    """Load factors of HBM [P, 2, L] from ``low`` on to the first columns of SBUF [128, 2, ...]."""
    nisa.dma_copy(
        dst=tile[0 : factors.shape[0], :, 0:size],
        src=factors[:, :, low : low + size],
        dge_mode=nisa.dge_mode.none,
    )


def load_chunk(loads: Loads, chunk: Chunk) -> None:
    """Fill a tile with a chunk: digit a1 on partitions, rows and columns along the free axis."""
    spread, bundle = loads.spread, chunk.bundle
    radix = spread.radices[0]
    clear_beyond(chunk, spread)
    for start in range(0, bundle.rows, bundle.each):
        rows = min(bundle.each, bundle.rows - start)
        for part in range(2):
            low, column = start // bundle.each * HALF + part * radix, 0
            if spread.parts == 2:
                low, column = 0, part * (LOADED // 2)
            tile = chunk.tile[low : low + radix, column : column + rows * chunk.size]
            place = Place(bundle.first + start, chunk.low, spread.length * spread.columns // radix)
            load_lines(tile.reshape_dim(1, (rows, chunk.size)), loads.source, part, place)


def clear_beyond(chunk: Chunk, spread: Spread) -> None:
    """Write zeros where products read an input tile beyond its last number."""
    bundle, size = chunk.bundle, chunk.size
    beyond = columns_read(spread.columns) - spread.columns
    fewest = bundle.rows - (-(-bundle.rows // bundle.each) - 1) * bundle.each
    for part in range(spread.parts if beyond > 0 else 0):
        low = part * (LOADED // 2)
        read = chunk.tile[:, low + fewest * size : low + bundle.each * size + beyond]
        nisa.memset(dst=read, value=0.0, engine=nisa.engine.gpsimd)


def load_lines(tile: Any, lines: Lines, part: int, place: Place) -> None:
    """Fill SBUF [P, rows, n] with numbers of lines, and with zeros where the lines end."""
    if lines.held < tile.shape[0] * place.pitch:
        nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
    for run in runs_of(tile.shape, lines, part, place):
        nisa.dma_copy(dst=part_of(tile, run), src=run.view, dge_mode=descriptors(lines.base))


def store_lines(tile: Any, lines: Lines, part: int, place: Place) -> None:
    """Store SBUF [P, rows, n] as numbers of lines, up to the end of the lines."""
    for run in runs_of(tile.shape, lines, part, place):
        nisa.dma_copy(dst=run.view, src=part_of(tile, run), dge_mode=descriptors(lines.base))


def part_of(tile: Any, run: Run) -> Any:
    """Return the part of SBUF [P, rows, n] that a run moves."""
    partitions, rows, size = run.view.shape
    return tile[run.partition : run.partition + partitions, run.row : run.row + rows, 0:size]


def runs_of(shape: Any, lines: Lines, part: int, place: Place) -> Any:
    """Return the DMAs that move a tile: of whole rows of its matrices, and a shorter last row."""
    partitions, rows, size = shape
    line = lines.parts[part].shape[1]
    full = min(partitions, lines.held // place.pitch)
    rest = min(size, lines.held - full * place.pitch - place.low) if full < partitions else 0
    together = rows_together(lines.base, full, rows, size)
    runs = []
    for row in range(0, rows, together):
        offset = lines.starts[part] + (place.row + row) * line + lines.skip + place.low
        if full > 0:
            pattern = [[place.pitch, full], [line, together], [1, size]]
            runs.append(Run(view_of(lines, part, pattern, offset), 0, row))
        if rest > 0:
            pattern = [[place.pitch, 1], [line, together], [1, rest]]
            offset += full * place.pitch
            runs.append(Run(view_of(lines, part, pattern, offset), full, row))
    return runs


def view_of(lines: Lines, part: int, pattern: Any, offset: int) -> Any:
    """Return a view of one part of lines, ``offset`` numbers after the register's place."""
    x = lines.parts[part]
    return x.ap(pattern, offset, scalar_offset=lines.base, indirect_dim=lines.dimension)


def weigh_inputs(chunk: Chunk, spread: Spread) -> None:
    """Multiply the numbers of a chunk with r1 > 64 by the factors."""
    rows = chunk.bundle.rows
    halves = chunk.tile[0 : spread.radices[0], 0:LOADED].reshape_dim(1, (2, LOADED // 2))
    numbers = halves[:, :, 0 : rows * chunk.size].reshape_dim(2, (rows, chunk.size))
    multiply_complex(numbers, numbers, factor_views(chunk.factors, 0, numbers.shape))
