"""Transforms in HBM, and their way into SBUF, each spread over all partitions: see four_step.py.

A line is a transform, or a part of one. The top digit a1 of its first index lies on partitions, so
that every descriptor of a load reads as many contiguous numbers as possible. A line that is shorter
than a transform is followed by zeros.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..base.engines import (
    HALF,
    PARTITIONS,
    WHOLE_RADIX,
    addressed,
    chunks,
    clear,
    columns_read,
    factor_views,
    multiply_complex,
    sbuf,
    transfer,
)
from ..base.isa import Tensor, nisa, nl
from ..base.launch import Rows

STORED = 1024  # numbers of each part that are stored together
SIDE_BY_SIDE = STORED // 2  # A, up to which transforms lie side by side on the partitions of a tile
LONG = 2048  # k_a of a block, beyond which SBUF holds no more than two states
RING_LENGTH = 4096  # A of transforms, beyond which SBUF has room for two input tiles
_LOADED = 2048  # fp32 numbers a partition of an input tile, where it does not hold whole lines
_RING = 4  # number of input tiles
_SHORT_RING = 2
_FEWEST = 16  # blocks of a batch, if it is long enough: nothing overlaps the first and the last


@dataclass(frozen=True)
class Spread:
    """How transforms are spread over the partitions."""

    radices: tuple[int, ...]  # r1, ..., C
    rows: int  # transforms of a block
    is_whole: bool = False  # whether an input tile holds all that partitions have of a transform
    is_real: bool = False  # whether lines have a real part only

    @property
    def first(self) -> int:
        """The first radix r1."""
        return self.radices[0]

    @property
    def columns(self) -> int:
        """The last radix C."""
        return self.radices[-1]

    @property
    def length(self) -> int:
        """A, the product of the other radices."""
        return math.prod(self.radices[:-1])

    @property
    def size(self) -> int:
        """Numbers of a transform on each partition: N / r1."""
        return self.length // self.first * self.columns

    @property
    def parts(self) -> int:
        """Pieces of the first contraction: 2 if r1 > 64, one for each part, else 1."""
        return 1 if self.is_real or self.first <= WHOLE_RADIX else 2

    @property
    def stacked(self) -> int:
        """Numbers of a piece, which lie on partitions: one part, or both parts, of a1."""
        return self.first if self.is_real or self.parts == 2 else 2 * self.first

    @property
    def places(self) -> int:
        """Transforms side by side on the partitions of an input tile."""
        return 2 if self.stacked <= HALF and self.length <= SIDE_BY_SIDE else 1

    @property
    def loaded(self) -> int:
        """Numbers a partition of an input tile."""
        return self.size if self.is_whole else _LOADED

    @property
    def step(self) -> int:
        """Numbers of each part that an input tile holds of a transform, at most."""
        return self.loaded // self.parts // self.columns * self.columns

    @property
    def tiles(self) -> int:
        """Input tiles that fit beside two states."""
        if self.is_whole:
            return 1
        return _RING if self.length <= RING_LENGTH else _SHORT_RING

    @property
    def is_long(self) -> bool:
        """Whether SBUF holds no more than two states of a block."""
        return self.rows * self.length > LONG

    def blocks(self, base: object, first: int, count: int) -> list[Rows]:
        """Return ``count`` transforms from ``first`` on, counted from a base, as blocks."""
        cuts = chunks(count, self.rows)
        return [Rows(base, first + low, PARTITIONS, each) for low, each in cuts]


def spread_of(radices: tuple[int, ...], batch: int, is_real: bool = False) -> Spread:
    """Return how transforms of a batch are spread."""
    spread = Spread(radices, 1, is_real=is_real)
    each = min(spread.step // spread.size, STORED // (spread.places * spread.length))
    few = -(-batch // (_FEWEST * nl.num_programs()))
    return replace(spread, rows=min(spread.places * max(1, each), max(spread.places, few)))


def with_whole_lines(spread: Spread) -> Spread:
    """Let one input tile hold all that partitions have of a transform, if it fits and r1 <= 64.

    A DMA then has no gaps between its rows, and fewer descriptors. The tile is filled again while
    the transform passes the stages.
    """
    fits = spread.step < spread.size <= _LOADED * spread.tiles
    return replace(spread, is_whole=spread.parts == 1 and fits)


@dataclass(frozen=True)
class Lines:
    """Transforms in HBM, one in each row, or parts of transforms."""

    parts: Sequence[Tensor]  # [B, ...], whole: real and imaginary part, or both parts twice
    held: int  # numbers that are there; zeros follow
    base: object = None  # register with the place at which a loop's iteration begins, or None
    skip: int = 0  # numbers before the first line
    starts: tuple[int, int] = (0, 0)  # the number of each tensor with which its part begins
    dimension: int = 0  # dimension of the tensors that the register counts

    def swapped(self) -> Lines:
        """Return the same lines with real and imaginary part swapped."""
        return replace(self, parts=self.parts[::-1], starts=self.starts[::-1])

    def view(self, part: int, pattern: Sequence[Sequence[int]], offset: int) -> Tensor:
        """Return a view of one part, ``offset`` numbers after the first line begins."""
        start = self.starts[part] + self.skip + offset
        return addressed(self.parts[part], pattern, start, self.base, self.dimension)


@dataclass(frozen=True)
class Place:
    """A tile's place in lines, [P, rows, n]: a line is a matrix of P rows, or begins with one."""

    row: int  # the first line
    low: int  # the first column of the matrix
    pitch: int  # columns of the matrix


def load_lines(tile: Tensor, lines: Lines, part: int, place: Place) -> None:
    """Fill SBUF [P, rows, n] with numbers of lines, and with zeros where the lines end."""
    if lines.held < tile.shape[0] * place.pitch:
        clear(tile, nisa.engine.gpsimd)
    for here, there in _moves(tile, lines, part, place):
        transfer(here, there, lines.base)


def store_lines(tile: Tensor, lines: Lines, part: int, place: Place) -> None:
    """Store SBUF [P, rows, n] as numbers of lines, up to the end of the lines."""
    for here, there in _moves(tile, lines, part, place):
        transfer(there, here, lines.base)


def _moves(tile: Tensor, lines: Lines, part: int, place: Place) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what DMAs move, in SBUF and in HBM: whole rows of a matrix, and a shorter last row."""
    partitions, rows, size = tile.shape
    line = lines.parts[part].shape[1]
    full = min(partitions, lines.held // place.pitch)
    rest = min(size, lines.held - full * place.pitch - place.low) if full < partitions else 0
    offset = place.row * line + place.low
    for first, count, numbers in ((0, full, size), (full, 1, rest)):
        if count > 0 and numbers > 0:
            pattern = [[place.pitch, count], [line, rows], [1, numbers]]
            there = lines.view(part, pattern, offset + first * place.pitch)
            yield tile[first : first + count, :, 0:numbers], there


class Factors:
    """Factors of numbers, which come from HBM [P, 2, L] into tiles [128, 2, n] in turn."""

    def __init__(self, table: Tensor, tiles: Sequence[Tensor]) -> None:
        self.table, self._tiles = table, tiles

    def load(self, low: int, size: int, number: int) -> Tensor:
        """Load ``size`` factors of each partition from ``low`` on, into the tile returned.

        number: how many loads have been before.
        """
        tile = self._tiles[number % len(self._tiles)]
        rows = self.table.shape[0]
        transfer(tile[0:rows, :, 0:size], self.table[:, :, low : low + size])
        return tile


@dataclass
class Chunk:
    """The part of a block's transforms that one input tile holds: columns of N / r1."""

    lines: Lines
    rows: Rows
    low: int
    size: int
    before: Factors | None  # factors of the inputs, [r1, 2, N / r1], for r1 > 64
    tile: Tensor = field(init=False)  # once the load has been issued
    factors: Tensor | None = None  # [128, 2, ...]


class Inputs:
    """Tiles that DMA fills in turn, each when its last reader is done."""

    def __init__(self, spread: Spread, count: int) -> None:
        """Allocate ``count`` tiles; products may read columns beyond the last number."""
        self.spread = spread
        self._beyond = columns_read(spread.columns) - spread.columns
        self.tiles = [sbuf((PARTITIONS, spread.loaded + self._beyond)) for _ in range(count)]
        self._free, self._turn = count, 0
        self._waiting = deque[Chunk]()

    def chunks(self, lines: Lines, rows: Rows, before: Factors | None) -> list[Chunk]:
        """Return the chunks of a block, and load one; the others follow when it is read."""
        size, step = self.spread.size, self.spread.step
        found = [Chunk(lines, rows, *cut, before) for cut in chunks(size, step)]
        self._waiting.extend(found)
        self.start(1)
        return found

    def release(self) -> None:
        """The oldest chunk has been read."""
        self._free += 1
        if self._free == len(self.tiles):
            self._turn = 0  # so that every iteration of a loop begins with the first tile
        self.start()

    def each(self, rows: Rows) -> int:
        """Return how many rows of a block lie on the same partitions."""
        return -(-rows.each // self.spread.places)

    def weigh(self, chunk: Chunk) -> None:
        """Multiply the numbers of a chunk by the factors, if there are any."""
        if chunk.factors is None:
            return
        rows, half = chunk.rows.each, _LOADED // 2
        halves = chunk.tile[0 : self.spread.first, 0:_LOADED].reshape_dim(1, (2, half))
        numbers = halves[:, :, 0 : rows * chunk.size].reshape_dim(2, (rows, chunk.size))
        multiply_complex(numbers, numbers, factor_views(chunk.factors, numbers.shape))

    def start(self, most: int = PARTITIONS) -> None:
        """Issue the loads of the next chunks, as far as tiles are free."""
        for _ in range(min(most, self._free, len(self._waiting))):
            chunk = self._waiting.popleft()
            self._free -= 1
            chunk.tile = self.tiles[self._turn]
            self._load(chunk, chunk.tile)
            if chunk.before is not None:
                chunk.factors = chunk.before.load(chunk.low, chunk.size, self._turn)
            self._turn = (self._turn + 1) % len(self.tiles)

    def _load(self, chunk: Chunk, tile: Tensor) -> None:
        """Fill a tile: digit a1 on partitions, rows and columns along the free axis."""
        spread, rows, each, size = self.spread, chunk.rows, self.each(chunk.rows), chunk.size
        self._clear_beyond(tile, rows.each - (rows.each - 1) // each * each, each, size)
        for start, count in chunks(rows.each, each):
            for part in range(1 if spread.is_real else 2):
                low, column = start // each * HALF + part * spread.first, 0
                if spread.parts == 2:
                    low, column = 0, part * (_LOADED // 2)
                held = tile[low : low + spread.first, column : column + count * size]
                place = Place(rows.first + start, chunk.low, spread.size)
                load_lines(held.reshape_dim(1, (count, size)), chunk.lines, part, place)

    def _clear_beyond(self, tile: Tensor, fewest: int, most: int, size: int) -> None:
        """Write zeros where products read a tile beyond the last number of any of its rows."""
        for part in range(self.spread.parts if self._beyond > 0 else 0):
            low = part * (_LOADED // 2)
            read = tile[:, low + fewest * size : low + most * size + self._beyond]
            clear(read, nisa.engine.gpsimd)


def column_of(spread: Spread, chunk: Chunk, row: int, digit: int, part: int) -> int:
    """Return where in an input tile the numbers of one a' of a row begin."""
    return part * (_LOADED // 2) + row * chunk.size + digit * spread.columns - chunk.low
