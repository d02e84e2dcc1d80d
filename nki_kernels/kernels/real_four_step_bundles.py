"""Bundles of transforms of the real four-step kernel: their records, loads and stores."""

from __future__ import annotations

from typing import Any

from ..nki_api import nisa, nl
from ..row_blocks import descriptors
from ..tiles import PSUM_BANK
from .real_four_step_tables import (
    FEW_ROWS,
    FEWEST_BUNDLES,
    digits_of,
    fine_digits,
    halves_of,
    padded_slots,
    slots_closed,
    slots_together,
)
from .twiddled_stage import Sums

_LOADED = 2048  # numbers a partition of an input tile, at most
RING = 3  # input tiles


class Spread(nl.NKIObject):
    """How transforms are spread over the partitions."""

    radix: int  # R
    middle: int  # L
    columns: int  # C
    together: int  # slots of a product of the second stage
    slots: int  # a multiple of that: R/2 + 1, and some that nobody reads
    fine: int  # S
    rows: int  # transforms of a bundle
    portion: int  # slots whose outputs share a PSUM bank
    halves: int  # row tiles of the array that open transforms of their own, side by side


class Tables(nl.NKIObject):
    """A plan's tables in SBUF."""

    identity: Any  # of load_identity
    first: Any  # [R, 2 slots]
    middle: Any  # [2 L g, groups, 2 L g], or None
    twiddle: Any  # [C, 2, L slots]
    last: Any  # [C, 4, C]


class Source(nl.NKIObject):
    """Where inputs are, and the tiles that DMA fills with them in turn."""

    x: Any  # HBM [B, N]
    base: Any  # register with the row that a device loop's iteration begins at, or None
    tiles: Any
    chunks: Any  # of all bundles
    issued: int  # chunks whose load is issued


class Target(nl.NKIObject):
    """Where results go."""

    parts: Any  # HBM [B, N/2 + 1], two of them
    base: Any  # as of Source


class Bundle(nl.NKIObject):
    """Transforms that are closed together."""

    first: int  # the row, of the source
    rows: int
    chunks: Any
    states: Any  # between the stages, SBUF [C, (slot, part, j)] of each row; none if L = 1
    portions: Any
    result: Any  # SBUF [(part, k'), rows, A + 1]


class Portion(nl.NKIObject):
    """Slots of a bundle that are closed together; the last ones with slot R/2."""

    bundle: Bundle
    low: int  # the first slot
    slots: int
    tile: Any  # v, SBUF [C, 2, rows, L, slots]
    is_last: bool  # of the bundle


class Chunk(nl.NKIObject):
    """Inputs of a bundle that are loaded at once: digits j of all of its rows."""

    bundle: Bundle
    low: int  # the first digit
    digits: int
    tile: Any  # SBUF [halves R, rows of a half, digits C], once the load is issued


class Opening(nl.NKIObject):
    """Products of the first stage that share a PSUM bank: of some rows, or of digits of one.

    Of each half, whose rows follow those of the half before.
    """

    bundle: Bundle
    chunk: Chunk
    row: int  # of a half
    rows: int
    low: int  # the first digit
    digits: int
    is_last: bool  # of the chunk


class Middle(nl.NKIObject):
    """Products of the second stage that share a PSUM bank."""

    portion: Portion
    row: int
    first: int  # group of slots
    count: int
    is_last: bool  # of the portion
    operands: Any  # SBUF [2 L g, count, C], once they are transposed


class Work(nl.NKIObject):
    """A step of either stage."""

    opening: Any  # Opening, or None
    middle: Any  # Middle, or None


class Closing(nl.NKIObject):
    """Outputs that a PSUM bank holds: of one of the two lines, or of slot R/2."""

    portion: Portion
    line: int  # 0 or 1
    low: int  # the first slot, of the portion
    slots: int
    bank: Any  # PSUM [(part, k'), rows, L, slots], once it is computed


class Step(nl.NKIObject):
    """A step of closing a bundle: products of one, or some evacuations, or the store."""

    closing: Closing
    first: int  # evacuation; -1: products instead
    count: int
    ready: int  # step of either stage before which it would wait for VectorE
    is_last: bool  # of the bundle, which is then stored


class Pipeline(nl.NKIObject):
    """What is under way."""

    tables: Tables
    spread: Spread
    source: Source
    target: Target
    pending: Any  # Middle that is transposed, and not yet multiplied, or None
    steps: Any  # that close bundles
    closed: int  # of them
    opened: int  # steps of either stage
    sums: Sums  # of products with twiddles
    late: int  # of them, by which closing comes later, as it waits for VectorE's twiddles


def spread_of(radices: Any, batch: int) -> Spread:
    """How transforms of a batch are spread."""
    radix, middle, columns = digits_of(radices)
    rows = min(PSUM_BANK // (middle * (radix // 2)), _LOADED // (middle * columns))
    few = -(-batch // (FEWEST_BUNDLES * nl.num_programs()))
    return Spread(
        radix,
        middle,
        columns,
        slots_together(radix, middle),
        padded_slots(radix, middle),
        fine_digits(radix, middle),
        max(1, min(rows, few)),
        slots_closed(radix, middle),
        halves_of(radix) if min(rows, few) > FEW_ROWS else 1,
    )


def half_rows(bundle: Bundle, spread: Spread) -> int:
    """Rows of a bundle in its first half."""
    return -(-bundle.rows // spread.halves)


def input_tiles(spread: Spread) -> Any:
    """Tiles that DMA fills in turn."""
    size = min(_LOADED, spread.rows * spread.middle * spread.columns)
    tiles = []
    for _ in range(RING):
        shape = (spread.halves * spread.radix, size)
        tiles.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return tiles


def bundles_of(spread: Spread, first: int, count: int) -> Any:
    """``count`` rows from ``first`` on, bundle by bundle, with the chunks of their inputs."""
    bundles = []
    for start in range(first, first + count, spread.rows):
        rows = min(spread.rows, first + count - start)
        bundle = Bundle(start, rows, [], [], [], None)
        digits = min(spread.middle, max(1, _LOADED // (spread.rows * spread.columns)))
        for low in range(0, spread.middle, digits):
            bundle.chunks.append(Chunk(bundle, low, min(digits, spread.middle - low), None))
        bundles.append(bundle)
    return bundles


def chunks_of(bundles: Any) -> Any:
    """The chunks of all bundles."""
    chunks = []
    for bundle in bundles:
        for chunk in bundle.chunks:
            chunks.append(chunk)
    return chunks


def start_loads(source: Source, spread: Spread, count: int) -> None:
    """Issue the next ``count`` loads, or those that are left."""
    for _ in range(min(count, len(source.chunks) - source.issued)):
        chunk = source.chunks[source.issued]
        tile = source.tiles[source.issued % len(source.tiles)]
        source.issued += 1
        each, size = half_rows(chunk.bundle, spread), chunk.digits * spread.columns
        chunk.tile = tile[:, 0 : each * size].reshape_dim(1, (each, size))
        # Rows at addresses that are known come one by one: together they would be a power of two
        # apart, at half the rate. Where they are not, a DMA costs a microsecond of GpSimdE.
        together = 1 if source.base == None else each
        for first in range(0, chunk.bundle.rows, together):
            load_chunk(chunk, source, first, min(together, chunk.bundle.rows - first), spread)


def load_chunk(chunk: Chunk, source: Source, first: int, rows: int, spread: Spread) -> None:
    """Load some rows of a chunk, all of the same half."""
    pitch, size = spread.middle * spread.columns, chunk.digits * spread.columns
    pattern = [[pitch, spread.radix], [spread.radix * pitch, rows], [1, size]]
    offset = (chunk.bundle.first + first) * spread.radix * pitch + chunk.low * spread.columns
    data = source.x.ap(pattern, offset, scalar_offset=source.base)
    each = half_rows(chunk.bundle, spread)
    low, row = first // each * spread.radix, first % each
    part = chunk.tile[low : low + spread.radix, row : row + rows]
    nisa.dma_copy(dst=part, src=data, dge_mode=descriptors(source.base))


def store_bundle(bundle: Bundle, target: Target, spread: Spread) -> None:
    """Store a bundle's results: A numbers a partition, and X[N/2], which follows them."""
    length, half = spread.radix * spread.middle, spread.columns // 2
    line = half * length + 1
    together = 1 if target.base == None else bundle.rows
    for part in range(2):
        y, low = target.parts[part], part * half
        for row in range(0, bundle.rows, together):
            offset = (bundle.first + row) * line
            tile = bundle.result[low : low + half, row : row + together, 0:length]
            pattern = [[length, half], [line, together], [1, length]]
            place = y.ap(pattern, offset, scalar_offset=target.base)
            nisa.dma_copy(dst=place, src=tile, dge_mode=descriptors(target.base))
        tile = bundle.result[low + half - 1 : low + half, :, length : length + 1]
        pattern = [[length, 1], [line, bundle.rows], [1, 1]]
        offset = bundle.first * line + half * length
        place = y.ap(pattern, offset, scalar_offset=target.base)
        nisa.dma_copy(dst=place, src=tile, dge_mode=descriptors(target.base))
