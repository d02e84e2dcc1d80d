"""Rows of samples, one channel a row, in tiles of 128 partitions with a few samples side by side.

A sample's channels begin at a slot of their own, from which engines move their spectra to other
partitions. Long rows are loaded in pieces. Where transposes mix rows, rows that are not finite are
set aside before, and their marks are added to their spectra, which come out on the same partitions
(see row_guard.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..base.chip import transposes_mix_rows
from ..base.engines import (
    HALF,
    PARTITIONS,
    addressed,
    chunks,
    clear,
    cuts,
    element_count,
    sbuf,
    transfer,
)
from ..base.isa import Tensor, nisa, nl
from ..base.launch import Rows
from ..base.pipeline import Beside
from ..base.row_guard import RowGuard, guarded, prepare_guard
from .constants import Loader
from .layer import Layer, Operand, Piece, operands, slot
from .mixing import Modes
from .products import Balance, columns_of, slack, turn

_GATHERED = 6 << 10  # bytes a partition of spectra of rows that DMA moves together
_BY_DMA = 28 << 10  # and of those of a block, because DMA may write only a part of SBUF
_TURNED = 32  # runs of spectra that are transposed and stored at once
_RING = 24 << 10  # bytes a partition of rows that are loaded ahead


@dataclass(frozen=True)
class RowTile:
    """A piece of the rows of some samples."""

    first: int  # the first sample, of the block's
    samples: int
    low: int  # the first channel
    channels: int
    start: int  # the first number of a row
    count: int

    @property
    def cut(self) -> tuple[int, int]:
        """The first channel and the number of channels."""
        return self.low, self.channels


class RowTiles:
    """Tiles of a block, which DMA loads into a ring."""

    def __init__(self, layer: Layer, source: Tensor, pieces: Sequence[tuple[int, int]]) -> None:
        self.layer, self.source, self.pieces = layer, source, pieces
        self.width = slot(min(layer.inputs, PARTITIONS))
        self.together = PARTITIONS // self.width  # samples of a tile
        longest = max(count for _, count in pieces)
        count = max(2, min(6, _RING // (4 * longest)))
        shape = PARTITIONS, longest + slack()
        self.ring = [sbuf(shape, layer.dtype) for _ in range(count)]  # DMA rounds what it loads
        for tile in self.ring:
            if layer.inputs % self.width or columns_of(self.width) > self.width:
                clear(tile)
            elif slack() > 0:
                clear(tile[:, longest:])
        if transposes_mix_rows():
            prepare_guard()

    def of(self, rows: Rows) -> list[RowTile]:
        """Return the tiles of a block, the pieces of a row one after the other."""
        return [
            RowTile(first, samples, *cut, *piece)
            for first, samples in chunks(rows.each, self.together)
            for cut in chunks(self.layer.inputs)
            for piece in self.pieces
        ]

    def load(self, rows: Rows, number: int) -> None:
        """Load the tile of this number, if there is one."""
        tiles = self.of(rows)
        if number >= len(tiles):
            return
        one, inputs, n = tiles[number], self.layer.inputs, self.layer.points
        tile = self.ring[number % len(self.ring)]
        start = ((rows.first + one.first) * inputs + one.low) * n + one.start
        parts = [(sample * self.width, one.channels) for sample in range(one.samples)]
        if one.channels == self.width == inputs:
            parts = [(0, one.samples * inputs)]
        for sample, (place, held) in enumerate(parts):
            pattern = [[n, held], [1, one.count]]
            source = addressed(self.source, pattern, start + sample * inputs * n, rows.base)
            transfer(tile[place : place + held, 0 : one.count], source, rows.base)

    def tile(self, one: RowTile, number: int) -> Tensor:
        """Return a tile in SBUF [rows, n], of which the first numbers are those of the piece."""
        return self.ring[number % len(self.ring)][0 : self.held(one)]

    def held(self, one: RowTile) -> int:
        """Return the partitions of a tile, more than those with rows where few are refused."""
        return columns_of(one.samples * self.width)

    def guard(self, tiles: Sequence[RowTile], number: int) -> RowGuard:
        """Return the guard of a tile's rows, or one without rows after the last tile."""
        if number >= len(tiles):
            return RowGuard(None)
        data = self.tile(tiles[number], number)[:, 0 : tiles[number].count]
        data = data.expand_dim(1).expand_dim(1)
        return guarded(data, float(self.layer.points * len(self.pieces)))

    def run(
        self, rows: Rows, loader: Loader
    ) -> Iterator[Beside | tuple[RowTile, Tensor, RowGuard]]:
        """Load tiles ahead, and yield the work of their guards, and each tile with its guard.

        loader: loads what is needed later, a piece beside each tile.
        """
        tiles = self.of(rows)
        for number in range(1, len(self.ring)):
            self.load(rows, number)
            if number > len(self.ring) // 2:
                loader.begin()
        guard = self.guard(tiles, 0)
        guard.finish()
        for number, one in enumerate(tiles):
            current, guard = guard, self.guard(tiles, number + 1)
            yield from guard.steps()
            yield one, self.tile(one, number), current
            if number > 0:  # the first pieces are queued behind rows
                yield Beside(loader.advance)


class Spectra:
    """Moves spectra of rows [(b, i), ...] to where channels are mixed, [(half, part, i), b, f]."""

    def __init__(self, layer: Layer, modes: Modes, balance: Balance) -> None:
        self.modes, self.balance, self.dtype = modes, balance, layer.dtype
        self.over, self.width = operands(layer.inputs), slot(min(layer.inputs, PARTITIONS))
        self.flat, self.tiles = list[Tensor](), list[Tensor]()

    def open(self, batch: int) -> list[Tensor]:
        """Allocate the spectra of a block."""
        modes = self.modes
        size = modes.each * modes.inner
        count = batch * size
        self.flat = [sbuf((PARTITIONS, count + slack()), self.dtype) for _ in self.over]
        for tile, operand in zip(self.flat, self.over, strict=True):
            used = sum(piece.count for piece in operand.pieces)
            if used < operand.rows or modes.count(modes.halves - 1) < modes.each:
                clear(tile, nisa.engine.gpsimd)
            elif slack() > 0:
                clear(tile[:, count:], nisa.engine.gpsimd)
        self.tiles = [tile[:, 0:count].reshape_dim(1, (batch, size)) for tile in self.flat]
        return self.tiles

    def close(self) -> None:
        """Let go of the spectra of a block."""
        self.flat, self.tiles = list[Tensor](), list[Tensor]()

    def store(self, identity: Tensor, target: Tensor, rows: Rows) -> None:
        """Transpose the spectra of a block and store them in HBM [B, f, parts, channels].

        With three parts, the last one is the real part times -1.
        """
        _, total, parts, channels = target.shape
        modes = self.modes
        size = modes.each * modes.inner
        batch = self.tiles[0].shape[1]
        for tile, operand in zip(self.flat, self.over, strict=True):
            for run in _runs(batch, size, total):
                cuts = [(run.start + index * run.step, run.count) for index in range(run.repeats)]
                moved = sbuf((run.count, run.repeats, PARTITIONS))
                turn(self.balance, tile, cuts, identity, moved)
                for half in range(min(modes.halves, modes.outer)):
                    count = run.count
                    if run.low is not None:
                        count = min(count, modes.count(half) * modes.inner - run.low)
                    if count <= 0:
                        continue
                    part = moved[0:count, :, half * operand.rows : (half + 1) * operand.rows]
                    first = run.row + half * size
                    for columns, data in _columns(part, operand, channels):
                        _store(target, rows, run, first, columns, data)
                    for piece in operand.pieces if parts == 3 else ():
                        if piece.part == 0:
                            minus = sbuf((count, run.repeats, piece.count))
                            data = part[:, :, piece.rows]
                            nisa.activation(dst=minus, op=nl.copy, data=data, scale=-1.0)
                            _store(target, rows, run, first, 2 * channels + piece.low, minus)

    @property
    def dma_may_write(self) -> bool:
        """Whether the spectra of a block are few enough to be written by DMA."""
        return 4 * sum(element_count(tile.shape[1:]) for tile in self.tiles) <= _BY_DMA

    def gathered(self, one: RowTile) -> Tensor | None:
        """Return a tile for the spectra of a tile of rows [(b, i), part, outer, inner].

        ``spread`` moves them from there. None, if they, or all of a block, take too much of SBUF.
        """
        modes = self.modes
        if 8 * modes.total > _GATHERED or not self.dma_may_write:
            return None
        shape = columns_of(one.samples * self.width), 2, modes.outer, modes.inner
        return sbuf(shape, self.dtype)

    def spread(self, gathered: Tensor, one: RowTile, low: int = 0) -> None:
        """Move gathered spectra by DMA, which takes them to any partition in long runs.

        low: the first outer frequency.
        """
        for places, piece, outer in self._places(one, low, gathered.shape[2]):
            for sample, rows in self._samples(one, piece):
                transfer(places[:, sample], gathered[rows, piece.part, outer])

    def put(
        self,
        banks: Sequence[Tensor],
        part: int,
        places: tuple[tuple[int, int], tuple[int, int]],
        one: RowTile,
        marks: Tensor | None,
    ) -> None:
        """Move a sum of banks [(b, i), inner, outer] of one part.

        places: (first, count) of outer and of inner frequencies. marks: of the rows, or None.
        """
        (low, outers), (first, inners) = places
        for target, piece, outer in self._places(one, low, outers):
            for sample, rows in self._samples(one, piece) if piece.part == part else ():
                dst = target[:, sample, :, first : first + inners]
                data = [bank[rows, :, outer].permute((0, 2, 1)) for bank in banks]
                self.balance.move_sum(dst, data, None if marks is None else marks[rows])

    def _places(self, one: RowTile, low: int, outers: int) -> Iterator[tuple[Tensor, Piece, slice]]:
        """Yield where a tile's outer frequencies from ``low`` on belong, of each piece and half.

        These are [i, b, outer, inner], the piece, and which of the frequencies they are.
        """
        modes = self.modes
        for target, operand in zip(self.tiles, self.over, strict=True):
            for piece in operand.pieces:
                if (piece.low, piece.count) != one.cut:
                    continue
                for half in range(min(modes.halves, modes.outer)):
                    start, partition = half * modes.each, half * operand.rows + piece.partition
                    begin, end = max(low, start), min(low + outers, start + modes.count(half))
                    if begin < end:
                        samples = slice(one.first, one.first + one.samples)
                        view = target[partition : partition + piece.count, samples]
                        view = view.reshape_dim(2, (modes.each, modes.inner))
                        places = view[:, :, begin - start : end - start]
                        yield places, piece, slice(begin - low, end - low)

    def _samples(self, one: RowTile, piece: Piece) -> list[tuple[int, slice]]:
        """Return the samples of a tile, and the rows of a piece of each."""
        starts = [sample * self.width for sample in range(one.samples)]
        return [(sample, slice(row, row + piece.count)) for sample, row in enumerate(starts)]


def sum_of(marks: Sequence[Tensor | None]) -> Tensor | None:
    """Return the sum of the marks of all pieces of rows."""
    found = [mark for mark in marks if mark is not None]
    if len(found) < 2:
        return found[0] if found else None
    total = sbuf(found[0].shape)
    nisa.tensor_tensor(dst=total, data1=found[0], data2=found[1], op=nl.add)
    for mark in found[2:]:
        nisa.tensor_tensor(dst=total, data1=total, data2=mark, op=nl.add)
    return total


@dataclass(frozen=True)
class _Run:
    """Columns (b, f) that are transposed: ``repeats`` times ``count`` of them.

    They begin at ``start``, ``step`` apart, and belong to rows of HBM from ``row`` on, ``row_step``
    apart.
    """

    start: int
    count: int
    step: int
    repeats: int
    row: int
    row_step: int
    low: int | None = None  # the first frequency, where a run has those of one sample


def _runs(batch: int, size: int, total: int) -> list[_Run]:
    """Return the runs of a batch with ``size`` frequencies a sample, of ``total`` in HBM."""
    if size == total and size <= HALF:  # several samples, which follow each other in HBM, too
        each = PARTITIONS // size
        width, rest = each * size, batch % each
        found = [
            _Run(first * width, width, width, count, first * width, width)
            for first, count in chunks(batch // each, _TURNED)
        ]
        start = (batch - rest) * size
        return found + [_Run(start, rest * size, 0, 1, start, 0)] * (rest > 0)
    return [
        _Run(first * size + low, high - low, size, count, first * total + low, total, low)
        for low, high in cuts(0, size)
        for first, count in chunks(batch, _TURNED)
    ]


def _columns(data: Tensor, operand: Operand, channels: int) -> Iterator[tuple[int, Tensor]]:
    """Yield the columns of HBM [part, c] and the data of each piece, or of both together."""
    if len(operand.pieces) == 2 and 2 * channels == operand.rows:
        yield 0, data
        return
    for piece in operand.pieces:
        yield piece.part * channels + piece.low, data[:, :, piece.rows]


def _store(target: Tensor, block: Rows, run: _Run, first: int, column: int, data: Tensor) -> None:
    """Store [f, repeats, c] in HBM [B, f, part, c], from row (b, f) ``first`` and a column on."""
    _, total, parts, channels = target.shape
    width = parts * channels
    steps = width, run.row_step * width, 1
    pattern = [[step, count] for step, count in zip(steps, data.shape, strict=True)]
    start = (block.first * total + first) * width + column
    transfer(addressed(target, pattern, start, block.base), data, block.base)
