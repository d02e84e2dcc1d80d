"""Spectral convolution along one axis: the transforms of its samples, before and after the mixing.

Mathematics.  X[b, i, k] = sum_n x[b, i, n] exp(-2 pi i n k / N) for the kept k, and y[b, o, n] =
Re sum_k c_k Y[b, o, k] exp(2 pi i n k / N) / N, with c_0 = c_(N/2) = 1 and all other c_k = 2.

Layout on the NeuronCore.  Rows (b, i) lie on the partitions, several samples side by side. The
Tensor engine transposes them; then they are the stationary operand, of which each column is a row:

    [(b, i), n] -> transposed [n, (b, i)] x F [n, (part, k)] -> PSUM [(b, i), (part, k)]

Engines move each part of each sample to the partitions on which channels are mixed, [(part, i), b,
k]. Mixed spectra arrive as [(part, o), k, b]. They are moved to [o, b, (part, k)], and transposes
bring (part, k) of several samples to the partitions, each into a row tile of its own. Those are
stationary, with the rows of samples that follow each other as their columns:

    [o, b, (part, k)] -> transposed [(g, part, k), (e, o)] x G [(g, part, k), n] -> [(e, o), n]

Why it is fast.  x is read once, y is written once, and both parts of a spectrum are contracted at
once, in up to four row tiles side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..base.engines import (
    HALF,
    PARTITIONS,
    PSUM_BANK,
    addressed,
    chunks,
    clear,
    even_columns,
    multiply,
    multiply_row_tile,
    psum,
    sbuf,
    transfer,
    transpose,
    transposed_dtype,
)
from ..base.isa import Tensor
from ..base.launch import Rows
from ..base.pipeline import After, Beside, Item, Single, Task
from .constants import Loader, Place
from .layer import Layer, row_tile
from .mixing import Mixed
from .products import Balance, columns_of, turn
from .row_tiles import RowTile, RowTiles, sum_of
from .sample_transforms import Analysis, Held, RowSynthesis

_LOADED = 2048  # numbers of a row that are loaded at a time
_STORED = 1024  # numbers of a partition that are stored at a time


class LineAnalysis(Analysis):
    """From rows in HBM to spectra [(half, part, i), b, k] in SBUF."""

    def __init__(self, layer: Layer, source: Tensor, balance: Balance, identity: Tensor) -> None:
        super().__init__(layer, balance, identity)
        self.table = list[Tensor]()  # by chunks of n
        self.runs = chunks(layer.points)
        self.pieces = chunks(layer.points, _LOADED)
        self.rows = RowTiles(layer, source, self.pieces)
        self.columns = chunks(2 * layer.counts[0], PSUM_BANK)

    @property
    def held_bytes(self) -> int:
        """The bytes a partition of rows, and of the table."""
        table = len(self.runs) * 2 * self.layer.counts[0]
        return 4 * (sum(tile.shape[1] for tile in self.rows.ring) + table)

    def setup(self, loader: Loader, tables: Sequence[Tensor]) -> None:
        self.table = loader.by_chunks(tables[0][0])
        self.first = loader.asked

    def load_first(self, rows: Rows) -> None:
        self.rows.load(rows, 0)

    def run(self, rows: Rows, loader: Loader) -> Iterator[Item]:
        ahead, number = len(self.rows.ring), 0
        banks, marks = list[Tensor](), list[Tensor | None]()
        for item in self.rows.run(rows, loader):
            if isinstance(item, Beside):
                yield item
                continue
            one, tile, guard = item
            index = number % len(self.pieces)
            if index == 0:
                banks = [psum((tile.shape[0], count)) for _, count in self.columns]
                marks = []
            marks.append(guard.marks)
            yield self._transform(one, tile, banks, index, marks)
            yield After(partial(self.rows.load, rows, number + ahead))
            number += 1

    def _transform(
        self,
        one: RowTile,
        tile: Tensor,
        banks: Sequence[Tensor],
        index: int,
        marks: Sequence[Tensor | None],
    ) -> Task:
        """Transform a piece of some rows, and add it to the sums of the pieces before it."""
        runs = chunks(one.count)
        turned = turn(self.balance, tile, runs, self.identity)  # [n, (b, i)] of each run
        yield
        first = one.start // PARTITIONS
        for (low, count), bank in zip(self.columns, banks, strict=True):
            for place, moved in enumerate(turned):
                table = self.table[first + place][0 : moved.shape[0], low : low + count]
                multiply(bank, moved, table, index + place > 0)
        if index == len(self.pieces) - 1:
            for (low, _), bank in zip(self.columns, banks, strict=True):
                self._put(bank, low, one, sum_of(marks))

    def _put(self, bank: Tensor, low: int, one: RowTile, marks: Tensor | None) -> None:
        """Move columns (part, k) from ``low`` on to where channels are mixed."""
        kept, high = self.layer.counts[0], low + bank.shape[1]
        for part in range(2):
            begin, end = max(low, part * kept), min(high, (part + 1) * kept)
            if begin < end:
                columns = bank[:, begin - low : end - low].expand_dim(1)
                places = (begin - part * kept, end - begin), (0, 1)
                self.spectra.put([columns], part, places, one, marks)


@dataclass(frozen=True)
class Samples:
    """How the samples of a block share partitions: sample (u G + g) E + e.

    units: values of u. tiles: G, row tiles. together: E, samples whose rows are stored together.
    """

    units: int
    tiles: int
    together: int

    @property
    def of_unit(self) -> int:
        """The number of samples of a unit."""
        return self.tiles * self.together

    def rectangles(self, batch: int) -> Iterator[Rectangle]:
        """Yield all of so many samples, in rectangles."""
        whole, left = divmod(batch, self.of_unit)
        if whole > 0:
            yield Rectangle(0, slice(0, whole), slice(0, self.tiles), self.together)
        tiles, rest = divmod(left, self.together)
        unit, start = slice(whole, whole + 1), whole * self.of_unit
        if tiles > 0:
            yield Rectangle(start, unit, slice(0, tiles), self.together)
        if rest > 0:
            yield Rectangle(start + tiles * self.together, unit, slice(tiles, tiles + 1), rest)


@dataclass(frozen=True)
class Rectangle:
    """Samples that follow each other from ``start`` on, by their places."""

    start: int
    units: slice
    tiles: slice
    together: int

    def of(self, data: Tensor) -> Tensor:
        """Return [P, k, b] as [P, u, e, g, k]."""
        units, tiles = (cut.stop - cut.start for cut in (self.units, self.tiles))
        shape = (units, tiles, self.together)
        end = self.start + units * tiles * self.together
        return data[:, :, self.start : end].reshape_dim(2, shape).permute((0, 2, 4, 3, 1))


_NO_SAMPLES = Samples(0, 0, 0)  # the same object after each iteration of a loop


class LineSynthesis(RowSynthesis):
    """From mixed spectra to rows in HBM."""

    def __init__(self, layer: Layer, target: Tensor, balance: Balance, identity: Tensor) -> None:
        super().__init__(layer, target, balance, identity)
        self.channels = chunks(layer.outputs)
        count = layer.counts[0]
        self.rows = row_tile(2 * min(count, HALF))  # partitions of both parts of a chunk
        self.kept = self.rows // 2  # frequencies of a chunk
        self.pieces = chunks(count, self.kept)
        self.table = list[Tensor]()  # by chunks of frequencies
        self.at = _NO_SAMPLES
        self.mixed = list[Tensor]()  # by chunks of channels

    def held(self, batch: int, inner: int) -> Held:
        """Return what so many samples hold; inner: the inner frequencies, of which there is one."""
        del inner
        pieces, results = len(self.pieces), 2 * (PARTITIONS // self.rows)
        at = self.samples(batch)
        chunks_of_sample = len(self.channels) * pieces
        return Held(
            tables=4 * pieces * self.layer.lengths[0],
            mixed=0,  # where they are cut in order to be transposed, they are held from the start
            turned=4 * at.units * (at.of_unit * chunks_of_sample * self.rows + pieces * PARTITIONS),
            results=4 * results * min(self.layer.lengths[0], _STORED),
        )

    def close(self) -> None:
        self.batch, self.at = 0, _NO_SAMPLES
        self.mixed = list[Tensor]()

    def setup(self, loader: Loader, tables: Sequence[Tensor]) -> None:
        self.table = list[Tensor]()
        for low, count in self.pieces:
            placed = [
                Place(part * self.kept, 0, tables[0][part, low : low + count]) for part in range(2)
            ]
            slots = PARTITIONS // self.rows
            self.table.append(loader.load(placed, self.layer.lengths[0], self.rows, slots))

    def samples(self, batch: int) -> Samples:
        """Return how so many samples share partitions."""
        together = min(PARTITIONS // min(PARTITIONS, self.layer.outputs), batch)
        tiles = min(PARTITIONS // self.rows, -(-batch // together))
        return Samples(-(-batch // (tiles * together)), tiles, together)

    def open(self, batch: int) -> None:
        """Allocate tiles for the mixed spectra of a block."""
        self.at, self.batch = self.samples(batch), batch
        total, pieces = self.at.units * self.at.of_unit, len(self.pieces)
        shape = self.at.units, pieces, self.at.together, self.at.tiles, 2, self.kept
        size = total * pieces * self.rows
        flat = [sbuf((PARTITIONS, size), self.layer.dtype) for _ in self.channels]
        if pieces * self.kept > self.layer.counts[0] or total > batch:
            for tile in flat:
                clear(tile)
        self.mixed = [tile.reshape((PARTITIONS, *shape)) for tile in flat]  # [o, u, chunk, e, ...]

    def put(self, mixed: Mixed) -> None:
        """Move mixed spectra [(part, o), 1, k, b] to where they are transposed."""
        begin, end = mixed.low, mixed.low + mixed.bank.shape[2]
        for piece in self.over[mixed.output].pieces:
            target = self.mixed[piece.low // PARTITIONS][0 : piece.count]
            banks = [one[piece.rows, 0] for one in (mixed.bank, *mixed.others)]
            for chunk, (low, count) in enumerate(self.pieces):
                first, last = max(begin, low), min(end, low + count)
                if first >= last:
                    continue
                cut = [one[:, first - begin : last - begin] for one in banks]
                places = target[:, :, chunk, :, :, piece.part, first - low : last - low]
                for each in self.at.rectangles(self.batch):
                    dst = places[:, each.units, 0 : each.together, each.tiles]
                    data = [each.of(one) for one in cut]
                    self.balance.move_sum(dst, data)

    def run(self, rows: Rows) -> Iterator[Item]:
        for number, (_, channels) in enumerate(self.channels):
            most = max(1, PSUM_BANK // (self.at.together * channels))
            for first, count in chunks(self.at.units, most):
                # [(g, part, k), chunk, u, (e, o)]
                columns = self.at.together * channels
                shape = PARTITIONS, len(self.pieces), count, columns_of(columns)
                turned = sbuf(shape, self.layer.dtype)
                if columns_of(columns) > columns:
                    clear(turned)
                yield Single(partial(self._turn, number, first, turned[..., 0:columns]))
                for unit in range(count):
                    stationary = turned[:, :, unit]
                    yield from self._close(rows, number, first + unit, stationary)

    def _turn(self, number: int, first: int, turned: Tensor) -> None:
        """Transpose the spectra of units to [(g, part, k), chunk, u, (e, o)]."""
        at, channels = self.at, self.channels[number][1]
        held = at.tiles * self.rows
        for chunk in range(len(self.pieces)):
            dtype = transposed_dtype(turned.dtype)
            shape = held, turned.shape[2], at.together, even_columns(channels, dtype)
            bank = psum(shape, dtype)[..., 0:channels]
            for unit in range(turned.shape[2]):
                for each in range(at.together):
                    run = self.mixed[number][0:channels, first + unit, chunk, each]
                    transpose(bank[:, unit, each], run, self.identity)
            place = turned[0:held, chunk].reshape_dim(2, (at.together, channels))
            self.balance.move(place, bank)

    def _close(self, rows: Rows, number: int, unit: int, stationary: Tensor) -> Iterator[Item]:
        """Compute and store the rows of a unit."""
        at, (_, channels) = self.at, self.channels[number]
        left = self.batch - unit * at.of_unit
        tiles = [tile for tile in range(at.tiles) if tile * at.together < left]
        for low, count in chunks(self.layer.lengths[0], _STORED):
            results = [sbuf((stationary.shape[2], count)) for _ in tiles]
            for start, size in chunks(count, PSUM_BANK):
                places = [one[:, start : start + size] for one in results]
                yield Single(partial(self._multiply, stationary, places, low + start))
            for tile, result in zip(tiles, results, strict=True):
                held = min(at.together, left - tile * at.together) * channels
                sample = unit * at.of_unit + tile * at.together
                store = partial(self._store, rows, number, sample, (low, result[0:held]))
                yield Single(store)

    def _multiply(self, stationary: Tensor, places: Sequence[Tensor], low: int) -> None:
        """Multiply the spectra in each row tile by columns of the table from ``low`` on."""
        count = places[0].shape[1]
        banks = [psum(place.shape) for place in places]
        for chunk, table in enumerate(self.table):
            for tile, bank in enumerate(banks):
                start = tile * self.rows
                rows = slice(start, start + self.rows)
                held, moved = stationary[rows, chunk], table[rows, low : low + count]
                multiply_row_tile(bank, held, moved, start, self.rows, chunk > 0)
        for bank, place in zip(banks, places, strict=True):
            self.balance.move(place, bank)

    def _store(self, rows: Rows, number: int, sample: int, part: tuple[int, Tensor]) -> None:
        """Store columns of the rows (e, o) of samples from ``sample`` on."""
        n, (first, _), (low, result) = self.layer.lengths[0], self.channels[number], part
        start = ((rows.first + sample) * self.layer.outputs + first) * n + low
        pattern = [[n, result.shape[0]], [1, result.shape[1]]]
        transfer(addressed(self.target, pattern, start, rows.base), result, rows.base)
