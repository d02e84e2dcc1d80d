"""Bundles of transforms of the real four-step kernel: their records, loads and stores."""

from __future__ import annotations

from typing import Any

from ..fft.twiddled_stage import Sums
from ..isa import nisa, nl
from ..row_blocks import descriptors, rows_together
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

_LOADED = 2048  # numbers a partition of an input tile, at most
RING = 3  # number of input tiles


class Spread(nl.NKIObject):
    """How transforms are spread over the partitions."""

    radix: int  # R
    middle: int  # L
    columns: int  # C
    together: int  # slots of a product of the second stage
    slots: int  # R/2 + 1 slots, and more up to a multiple of ``together``, which nobody reads
    fine: int  # S
    rows: int  # transforms of a bundle
    portion: int  # slots whose outputs share a PSUM bank
    halves: int  # row tiles of the array that open transforms of their own, side by side


class Tables(nl.NKIObject):
    """A plan's tables in SBUF."""

    identity: Any  # SBUF, see load_identity
    first: Any  # [R, 2 slots]
    middle: Any  # [2 L g, groups, 2 L g], or None
    twiddle: Any  # [C, 2, L slots]
    last: Any  # [C, 4, C]


class Source(nl.NKIObject):
    """Where inputs are, and the tiles that DMA fills with them in turn."""

    x: Any  # HBM [B, N]
    base: Any  # register with the row at which a device loop's iteration begins, or None
    tiles: Any
    chunks: Any  # the chunks of all bundles
    issued: int  # chunks whose load has been issued


class Target(nl.NKIObject):
    """Where results go."""

    parts: Any  # HBM [B, N/2 + 1], two of them
    base: Any  # the register of the Source, or None


class Bundle(nl.NKIObject):
    """Transforms that are closed together."""

    first: int  # the first row, counted within the source
    rows: int
    chunks: Any
    states: Any  # for L > 1, the state of each row between the stages: SBUF [C, (slot, part, j)]
    portions: Any
    result: Any  # SBUF [(part, k'), rows, A + 1]


class Portion(nl.NKIObject):
    """Slots of a bundle that are closed together; the last portion also has slot R/2."""

    bundle: Bundle
    low: int  # the first slot
    slots: int
    tile: Any  # v, SBUF [C, 2, rows, L, slots]
    is_last: bool  # whether it is the last portion of its bundle


class Chunk(nl.NKIObject):
    """Inputs of a bundle that are loaded at once: some digits j of all of its rows."""

    bundle: Bundle
    low: int  # the first digit
    digits: int
    tile: Any  # SBUF [halves R, rows of a half, digits C], once the load has been issued


class Opening(nl.NKIObject):
    """Products of the first stage that share a PSUM bank: of some rows, or of digits of one row.

    Each half has such products; its rows follow the rows of the half before.
    """

    bundle: Bundle
    chunk: Chunk
    row: int  # the first row, counted within a half
    rows: int  # number of rows of a half
    low: int  # the first digit
    digits: int
    is_last: bool  # whether it is the last of the chunk


class Middle(nl.NKIObject):
    """Products of the second stage that share a PSUM bank."""

    portion: Portion
    row: int
    first: int  # the first group of slots
    count: int  # number of groups
    is_last: bool  # whether it is the last of the portion
    operands: Any  # SBUF [2 L g, count, C], once the slots are transposed


class Work(nl.NKIObject):
    """A step of the first or of the second stage."""

    opening: Any  # the step's Opening, or None
    middle: Any  # the step's Middle, or None


class Closing(nl.NKIObject):
    """Outputs that share a PSUM bank: of one of the two lines, or of slot R/2."""

    portion: Portion
    line: int  # 0 or 1
    low: int  # the first slot, counted within the portion
    slots: int
    bank: Any  # PSUM [(part, k'), rows, L, slots], once the products are made


class Step(nl.NKIObject):
    """A step of closing a bundle: the products of a closing, some evacuations, or the store."""

    closing: Closing
    first: int  # the first evacuation, or -1 where the step makes products
    count: int  # number of evacuations
    ready: int  # number of stage steps that must be done, before which it would wait for VectorE
    is_last: bool  # whether it is the last of the bundle, which is stored after it


class Pipeline(nl.NKIObject):
    """The state of a launch."""

    tables: Tables
    spread: Spread
    source: Source
    target: Target
    pending: Any  # the Middle that is transposed and not yet multiplied, or None
    steps: Any  # all steps that close bundles
    closed: int  # how many of these are done
    opened: int  # how many steps of the first and the second stage are done
    sums: Sums  # products with twiddles that are to be added
    late: int  # stage steps by which closing is delayed, because it waits for VectorE's twiddles


def spread_of(radices: Any, batch: int) -> Spread:
    """Return how transforms of a batch are spread."""
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
    """Return the number of a bundle's rows in its first half."""
    return -(-bundle.rows // spread.halves)


def input_tiles(spread: Spread) -> Any:
    """Allocate the tiles that DMA fills in turn."""
    size = min(_LOADED, spread.rows * spread.middle * spread.columns)
    tiles = []
    for _ in range(RING):
        shape = (spread.halves * spread.radix, size)
        tiles.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return tiles


def bundles_of(spread: Spread, first: int, count: int) -> Any:
    """Return ``count`` rows from ``first`` on, as bundles with the chunks of their inputs."""
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
    """Return the chunks of all bundles."""
    chunks = []
    for bundle in bundles:
        for chunk in bundle.chunks:
            chunks.append(chunk)
    return chunks


def start_loads(source: Source, spread: Spread, count: int) -> None:
    """Issue the next ``count`` loads, or all that are left."""
    for _ in range(min(count, len(source.chunks) - source.issued)):
        chunk = source.chunks[source.issued]
        tile = source.tiles[source.issued % len(source.tiles)]
        source.issued += 1
        each, size = half_rows(chunk.bundle, spread), chunk.digits * spread.columns
        chunk.tile = tile[:, 0 : each * size].reshape_dim(1, (each, size))
        together = rows_together(source.base, spread.radix, each, size)
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
    """Store a bundle's results: A numbers of each partition, then X[N/2], which follows them."""
    length, half = spread.radix * spread.middle, spread.columns // 2
    line = half * length + 1
    for part in range(2):
        y, low = target.parts[part], part * half
        offset = bundle.first * line
        tile = bundle.result[low : low + half, :, 0:length]
        pattern = [[length, half], [line, bundle.rows], [1, length]]
        place = y.ap(pattern, offset, scalar_offset=target.base)
        nisa.dma_copy(dst=place, src=tile, dge_mode=descriptors(target.base))
        tile = bundle.result[low + half - 1 : low + half, :, length : length + 1]
        pattern = [[length, 1], [line, bundle.rows], [1, 1]]
        offset = bundle.first * line + half * length
        place = y.ap(pattern, offset, scalar_offset=target.base)
        nisa.dma_copy(dst=place, src=tile, dge_mode=descriptors(target.base))
