"""Spectral convolution along two axes: the transforms of its samples, before and after the mixing.

Mathematics.  X[b, i, j, k] = sum_hw x[b, i, h, w] exp(-2 pi i (h j / H + w k / W)) for the kept j
and k, and y[b, o, h, w] = Re sum_jk c_k Y[b, o, j, k] exp(2 pi i (h j / H + w k / W)) / (H W), with
c_0 = c_(W/2) = 1 and all other c_k = 2. Both are products along one axis after the other.

Layout on the NeuronCore.  A plane is a row, with (b, i) on the partitions. Along each axis runs of
up to 128 numbers are transposed. They are the stationary operand, so that results lie on the
partitions of their rows again:

    x [(b, i), h, w] -> transposed [(lines h, w), (b, i)] x [cos, sin] -> [(b, i), (part, k), h]
        -> transposed [(part, h), (b, i)] for each k x [cos, sin] -> [(b, i), (part, j), k]

Mixed spectra arrive as [(part, o), k, j, b]. A transposition brings j of several samples to the
partitions. The sum over j has two terms, Y times the cosines and i Y times the sines, so that both
parts of a result are columns of the operand and become partitions, as the sum over k needs them:

    [(part, o), k, (g, j)] -> transposed [(g, j), (o, part, k)] x [cos, sin] -> [(o, part, k), h]
        x G [(part, k), w] -> [(b, o), w]

A product may write its columns anywhere in a PSUM bank. So transpositions of two free dimensions
happen there, and results leave PSUM in runs, because engines take twice as long for others.

Why it is fast.  x is read once, y is written once. The first products leave only the kept k, and
everything after them is small, up to the last product.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

from ..base.engines import (
    PARTITIONS,
    PSUM_BANK,
    addressed,
    chunks,
    clear,
    multiply,
    multiply_row_tile,
    psum,
    sbuf,
    transfer,
    transpose,
)
from ..base.isa import Tensor, nisa
from ..base.launch import Rows
from ..base.pipeline import TURN, After, Beside, Item, Single, Task
from .constants import Loader, Place
from .layer import Layer, Operand, Piece, row_tile
from .mixing import Mixed
from .products import Balance, columns_of, slack, spread_bank, turn
from .row_tiles import RowTile, RowTiles, sum_of
from .sample_transforms import Analysis, Held, RowSynthesis

_LOADED = 1024  # numbers of a row that are loaded at a time
_STATE = 16 << 10  # bytes a partition up to which two tiles of rows are held between transforms
_LINES = 64  # lines h of a plane that are transformed back at once
_ROWS = 64  # rows of results, so that their sums overlap with those of the next ones
_QUAD = 4  # lines that lie side by side: engines read at full speed up to 16 bytes apart
_STORED = 1024  # numbers of a plane that are stored at a time
_RUNS = 8  # runs that are transposed in a task
MOST_SIGNED, MOST_LAST = 128, 64  # frequencies of the first and of the last axis that fit


class PlaneAnalysis(Analysis):
    """From planes in HBM to spectra [(half, part, i), b, (j, k)] in SBUF."""

    def __init__(self, layer: Layer, source: Tensor, balance: Balance, identity: Tensor) -> None:
        super().__init__(layer, balance, identity)
        self.opening = list[Tensor]()  # along w, by chunks of w
        self.closing = list[Tensor]()  # along h, by runs of columns
        self.needed = 0  # jobs of the loader that are done before the first transform along h
        height, width = layer.lengths
        self.lines = max(1, PARTITIONS // width)  # of a run
        self.runs = [(0, self.lines * width)] if width <= PARTITIONS else chunks(width)
        most = max(self.lines, _LOADED // width // self.lines * self.lines)
        self.pieces = [(low * width, count * width) for low, count in chunks(height, most)]
        self.rows = RowTiles(layer, source, self.pieces)
        self.columns = _column_runs(height)
        # [(b, i), k, (part, h)], of two tiles of rows in turn
        size = layer.counts[1] * 2 * height
        tiles = 2 if 4 * size <= _STATE else 1
        shape = PARTITIONS, size + slack()
        self.states = [sbuf(shape, layer.dtype) for _ in range(tiles)]
        if slack() > 0:
            for tile in self.states:
                clear(tile[:, size:])

    @property
    def held_bytes(self) -> int:
        signed, last = self.layer.counts
        tables = 2 * last * max(self.lines, len(self.runs)) + 2 * signed * len(self.columns)
        return 4 * (sum(tile.shape[1] for tile in (*self.rows.ring, *self.states)) + tables)

    def setup(self, loader: Loader, tables: Sequence[Tensor]) -> None:
        (last, signed), (_, width) = tables, self.layer.lengths
        if width > PARTITIONS:
            self.opening = loader.by_chunks(last[0])
        else:
            self.opening = loader.by_blocks(last, self.lines)
        self.first = loader.asked  # what is needed at once
        self.closing = [
            loader.load(
                [
                    Place(piece.partition, 0, signed[piece.part, piece.range])
                    for piece in run.pieces
                ],
                signed.shape[2],
            )
            for run in self.columns
        ]
        self.needed = loader.asked

    def load_first(self, rows: Rows) -> None:
        self.rows.load(rows, 0)

    def run(self, rows: Rows, loader: Loader) -> Iterator[Item]:
        ahead, last = len(self.rows.ring), len(self.pieces) - 1
        number = 0
        marks = list[Tensor | None]()
        waiting = deque[Task]()  # along h, of rows whose last lines may not be finished
        for item in self.rows.run(rows, loader):
            if isinstance(item, Beside):
                yield item
                continue
            one, tile, guard = item
            state = self.states[number // len(self.pieces) % len(self.states)]
            for cut in chunks(one.count // self.layer.lengths[1], self._lines_in_task()):
                yield self._open(one, tile, cut, state)
                if waiting:
                    yield waiting.popleft()
            yield After(partial(self.rows.load, rows, number + ahead))
            marks.append(guard.marks)
            if number % len(self.pieces) == last:
                yield from self._finished(waiting)
                loader.finish_to(self.needed)
                is_end = one.first + one.samples == rows.each
                waiting += self._closings(state, one, sum_of(marks), is_end)
                marks = []
                if len(self.states) == 1:  # which the next tile overwrites
                    yield from self._finished(waiting)
            number += 1
        yield from self._finished(waiting)

    @staticmethod
    def _finished(waiting: deque[Task]) -> Iterator[Item]:
        """Yield all tasks that wait, after those before them are finished."""
        if waiting:
            yield TURN
            yield from waiting
            waiting.clear()

    def _lines_in_task(self) -> int:
        """Return how many lines are transformed along w at once."""
        if len(self.runs) > 1:
            return max(1, _RUNS // len(self.runs))  # each sum has a bank of its own
        columns = self.lines * 2 * self.layer.counts[1]
        return self.lines * max(1, min(_RUNS, PSUM_BANK // columns))

    def _open(self, one: RowTile, tile: Tensor, cut: tuple[int, int], state: Tensor) -> Task:
        """Transform lines along w."""
        (first, count), (height, width) = cut, self.layer.lengths
        if len(self.runs) == 1:
            runs = [(low * width, size * width) for low, size in chunks(count, self.lines)]
        else:
            runs = [(line * width + low, size) for line in range(count) for low, size in self.runs]
        runs = [(first * width + low, size) for low, size in runs]
        turned = turn(self.balance, tile, runs, self.identity)
        yield
        last, held = self.layer.counts[1], tile.shape[0]
        line = one.start // width + first
        view = state[0:held, 0 : last * 2 * height].reshape_dim(1, (last, 2, height))
        view = view.permute((0, 2, 1, 3))  # [(b, i), part, k, h]
        if len(self.runs) == 1:
            bank = psum((held, 2 * last, count))  # h last, as in the state
            for moved, (low, size) in zip(turned, chunks(count, self.lines), strict=True):
                table = self.opening[0][0 : moved.shape[0], 0 : size * 2 * last]
                dst = bank[:, :, low : low + size].permute((0, 2, 1))
                multiply(dst, moved, table, False)
            place = view[..., line : line + count]
            self.balance.move(place, bank.reshape_dim(1, (2, last)))
            return
        for index in range(count):
            bank = psum((held, 2 * last))
            for term, table in enumerate(self.opening):
                moved = turned[index * len(self.runs) + term]
                multiply(bank, moved, table[0 : moved.shape[0]], term > 0)
            self.balance.move(view[..., line + index], bank.reshape_dim(1, (2, last)))

    def _closings(
        self, state: Tensor, one: RowTile, marks: Tensor | None, is_last: bool
    ) -> Iterator[Task]:
        """Yield the transforms along h of all frequencies k."""
        signed, last = self.layer.counts
        most = max(1, min(_RUNS // len(self.columns), PSUM_BANK // (2 * signed)))
        # DMA would be late for the last rows, for which the engines wait anyway.
        gathered = None if is_last else self.spectra.gathered(one)
        for cut in chunks(last, most):
            yield self._close(state, one, cut, marks, gathered)

    def _close(
        self,
        state: Tensor,
        one: RowTile,
        cut: tuple[int, int],
        marks: Tensor | None,
        gathered: Tensor | None,
    ) -> Task:
        """Transform columns of some frequencies k along h."""
        (first, count), signed, height = cut, self.layer.counts[0], self.layer.lengths[0]
        held = self.rows.held(one)
        found = list[list[Tensor]]()
        for run in self.columns:
            low = run.pieces[0].part * height + run.pieces[0].low
            runs = [(k * 2 * height + low, run.rows) for k in range(first, first + count)]
            found.append(turn(self.balance, state[0:held], runs, self.identity))
        yield
        banks = [psum((held, 2 * signed, count)) for _ in found]  # k last, as in the spectra
        for bank, turned, table in zip(banks, found, self.closing, strict=True):
            for index, moved in enumerate(turned):
                multiply(bank[:, :, index], moved, table[0 : moved.shape[0]], False)
        if gathered is not None:
            dst = gathered[..., first : first + count]
            data = [bank.reshape_dim(1, (2, signed)) for bank in banks]
            self.balance.move_sum(dst, data, marks)
            if first + count == self.layer.counts[1]:
                self.spectra.spread(gathered, one)
            return
        for part in range(2):
            columns = slice(part * signed, (part + 1) * signed)
            places = (0, signed), (first, count)
            data = [bank[:, columns].permute((0, 2, 1)) for bank in banks]
            self.spectra.put(data, part, places, one, marks)


def _column_runs(height: int) -> list[Operand]:
    """Return the runs of columns (part, h) that are transposed, each up to 128 numbers."""
    if 2 * height <= PARTITIONS:
        pieces = tuple(Piece(part, 0, height, part * height) for part in range(2))
        return [Operand(pieces, 2 * height)]
    return [
        Operand((Piece(part, low, count, 0),), count)
        for part in range(2)
        for low, count in chunks(height)
    ]


class PlaneSynthesis(RowSynthesis):
    """From mixed spectra to planes in HBM."""

    def __init__(self, layer: Layer, target: Tensor, balance: Balance, identity: Tensor) -> None:
        super().__init__(layer, target, balance, identity)
        signed, last = layer.counts
        self.rows = row_tile(signed)  # partitions of the frequencies j of a sample
        self.pair = row_tile(2 * last)  # partitions of both parts of the frequencies k
        self.kept = self.pair // 2
        self.beside = PARTITIONS // self.pair  # outputs beside each other
        self.groups = -(-layer.outputs // self.beside)
        self.tiles = self.units = 0  # samples beside each other, and how often
        self.mixed = dict[tuple[int, int], Tensor]()  # by operand and first k, [(part, o), k, b, j]
        self.turned = list[Tensor]()
        self.opening = list[Tensor]()  # along h, cosines and sines
        self.closing = list[Tensor]()  # along w, one

    def held(self, batch: int, inner: int) -> Held:
        tiles, (height, width) = PARTITIONS // self.rows, self.layer.lengths
        padded = -(-batch // tiles) * tiles * self.rows
        count = min(self.groups, PARTITIONS // tiles)
        columns = max(min(_ROWS, batch * count), count * tiles)
        lines = -(-min(height, _LINES) // _QUAD) * _QUAD
        stored = self.beside * max(width, min(_STORED, height * width))
        return Held(
            tables=4 * (width + 2 * height),
            mixed=4 * padded * len(self.over) * inner,
            turned=8 * padded * self.groups,
            results=2 * 4 * (lines * columns_of(columns) + stored),  # of two transforms
        )

    def close(self) -> None:
        self.batch = self.tiles = self.units = 0
        self.mixed, self.turned = dict[tuple[int, int], Tensor](), list[Tensor]()

    def setup(self, loader: Loader, tables: Sequence[Tensor]) -> None:
        last, signed = tables
        placed = [Place(part * self.kept, 0, last[part]) for part in range(2)]
        self.closing = [loader.load(placed, last.shape[2], self.pair, self.beside)]
        slots = PARTITIONS // self.rows
        self.opening = [
            loader.load([Place(0, 0, signed[part])], signed.shape[2], self.rows, slots)
            for part in range(2)
        ]

    def open(self, batch: int) -> None:
        """Allocate tiles for the mixed spectra of a block."""
        self.batch = batch
        self.tiles = min(PARTITIONS // self.rows, batch)  # samples beside each other
        self.units = -(-batch // self.tiles)
        last = self.layer.counts[1]
        # [(g, j), unit, (o, part, k)], and the same times i
        size = self.units * self.groups * PARTITIONS
        self.turned = [sbuf((PARTITIONS, size), self.layer.dtype) for _ in range(2)]
        outputs = self.groups * self.beside
        for tile in self.turned:
            view = tile.reshape((PARTITIONS, self.units, outputs, 2 * self.kept))
            for part in range(2):
                columns = view[..., part * self.kept : (part + 1) * self.kept]
                _clear_rest(columns, 3, last)
            _clear_rest(view, 2, self.layer.outputs)

    def put(self, mixed: Mixed) -> None:
        """Move mixed spectra [(part, o), k, j, b] to where they are transposed."""
        rows, inner, outer, batch = mixed.bank.shape
        place = mixed.output, mixed.first
        if place not in self.mixed:
            shape = PARTITIONS, inner, self.units * self.tiles, self.rows
            tile = sbuf(shape, self.layer.dtype)
            _clear_rest(tile, 3, self.layer.counts[0])
            _clear_rest(tile, 2, batch)
            self.mixed[place] = tile
        dst = self.mixed[place][0:rows, :, 0:batch, mixed.low : mixed.low + outer]
        data = [bank.permute((0, 1, 3, 2)) for bank in (mixed.bank, *mixed.others)]
        self.balance.move_sum(dst, data)

    def run(self, rows: Rows) -> Iterator[Item]:
        groups = chunks(self.groups, PARTITIONS // self.tiles)
        units = max(1, _ROWS // groups[0][1] // self.tiles)
        waiting = list[Item]()  # sums over k, among the next sums over j
        for cut in groups:
            for span in chunks(self.units, units):
                for lines in chunks(self.layer.lengths[0], _LINES):
                    transform = Transform(self, rows, span, cut, lines)
                    yield from transform.opening(waiting)
                    waiting = list(transform.closing())
        yield from waiting

    def follow(self, first: int, count: int) -> Iterator[Item]:
        """Yield the transpositions of some frequencies k."""
        for place in sorted(self.mixed):
            operand = self.over[place[0]]
            if not first <= place[1] < first + count:
                continue
            tile = self.mixed.pop(place)
            for low, held in chunks(tile.shape[1], PSUM_BANK // operand.rows):
                for span in chunks(self.units, PSUM_BANK // (operand.rows * held)):
                    data = tile[:, low : low + held]
                    turn = partial(self._turn, operand, data, span, place[1] + low)
                    yield Single(turn)

    def _turn(self, operand: Operand, data: Tensor, units: tuple[int, int], low: int) -> None:
        """Transpose spectra to [(g, j), (o, part, k)], and, times i, to the other tile."""
        (first, count), kept = units, data.shape[1]
        held = self.tiles * self.rows
        # k last, as in the results
        bank = spread_bank((held, count, operand.rows, kept), data.dtype)
        for unit in range(count):
            start = (first + unit) * self.tiles
            for index in range(kept):
                run = data[0 : operand.rows, index, start : start + self.tiles].flatten_dims(1, 2)
                transpose(bank[:, unit, :, index], run, self.identity)
        shape = (self.units, self.groups * self.beside, 2, self.kept)
        straight, turned = (tile.reshape((PARTITIONS, *shape))[0:held] for tile in self.turned)
        span = slice(first, first + count)
        for piece in operand.pieces:
            part = bank[:, :, piece.rows]  # [(g, j), u, o, k]
            at = piece.range, slice(low, low + kept)
            self.balance.move(straight[:, span, at[0], piece.part, at[1]], part)
            factor = -1.0 if piece.part == 1 else 1.0
            self.balance.move(turned[:, span, at[0], 1 - piece.part, at[1]], part, factor=factor)


class Transform:
    """The sums over j and over k for some units, groups of outputs, and lines h."""

    def __init__(
        self,
        shared: PlaneSynthesis,
        rows: Rows,
        units: tuple[int, int],
        groups: tuple[int, int],
        lines: tuple[int, int],
    ) -> None:
        self.shared, self.layer, self.rows = shared, shared.layer, rows
        self.units, self.lines = units, lines
        self.first, self.count = groups
        self.sample = units[0] * shared.tiles
        self.samples = min(units[1] * shared.tiles, shared.batch - self.sample)
        # [(o, part, k), h // 4, (b, group), h % 4]
        self.columns = self.samples * self.count
        runs = -(-lines[1] // _QUAD)
        shape = PARTITIONS, runs, columns_of(self.columns), _QUAD
        self.state = sbuf(shape, self.layer.dtype)
        if columns_of(self.columns) > self.columns:
            clear(self.state)

    def opening(self, waiting: list[Item]) -> Iterator[Item]:
        """Yield the sums over j, with others that wait in between."""
        first, count = self.units
        tasks = [
            Single(partial(self._open, unit, group))
            for unit in range(first, first + count)
            for group in range(self.count)
        ]
        share = -(-len(waiting) // len(tasks))
        for task in tasks:
            yield task
            yield from waiting[0:share]
            del waiting[0:share]

    def closing(self) -> Iterator[Item]:
        """Yield the sums over k, and stores."""
        width, (_, height) = self.layer.lengths[1], self.lines
        together = max(1, PSUM_BANK // width)  # lines in a bank
        for low, count in chunks(height, max(together, _STORED // width // together * together)):
            results = [
                sbuf((columns_of(self.columns), count, width)) for _ in range(self.shared.beside)
            ]
            for line, size in chunks(count, together):
                for start, held in chunks(width, PSUM_BANK):
                    places = [one[:, line : line + size, start : start + held] for one in results]
                    yield Single(partial(self._close, places, low + line, start))
            yield Single(partial(self._store, results, low))

    def _open(self, unit: int, group: int) -> None:
        """Sum over j for a group of outputs, of all samples beside each other."""
        shared, (line, height) = self.shared, self.lines
        first = (unit - self.units[0]) * shared.tiles
        left = min(shared.tiles, self.samples - first)
        banks = [psum((PARTITIONS, height)) for _ in range(left)]
        low = (unit * shared.groups + self.first + group) * PARTITIONS
        columns = slice(low, low + PARTITIONS)
        for term, (tile, table) in enumerate(zip(shared.turned, shared.opening, strict=True)):
            for sample, bank in enumerate(banks):
                start = sample * shared.rows
                rows = slice(start, start + shared.rows)
                held, moved = tile[rows, columns], table[rows, line : line + height]
                multiply_row_tile(bank, held, moved, start, shared.rows, term > 0)
        for sample, bank in enumerate(banks):
            column = (first + sample) * self.count + group
            for low, count, size in _quads(height):
                place = self.state[:, low // _QUAD : low // _QUAD + count, column, 0:size]
                data = bank[:, low : low + count * size].reshape_dim(1, (count, size))
                shared.balance.move(place, data)

    def _close(self, places: Sequence[Tensor], low: int, start: int) -> None:
        """Sum over k for lines from ``low`` on and w from ``start`` on, of all outputs."""
        shared = self.shared
        _, count, size = places[0].shape
        banks = [psum(place.shape) for place in places]
        for line in range(count):
            for tile, bank in enumerate(banks):
                partition = tile * shared.pair
                rows = slice(partition, partition + shared.pair)
                moved = shared.closing[0][rows, start : start + size]
                held = self.state[rows, (low + line) // _QUAD, :, (low + line) % _QUAD]
                multiply_row_tile(bank[:, line], held, moved, partition, shared.pair, False)
        for bank, place in zip(banks, places, strict=True):
            shared.balance.move(place, bank)

    def _store(self, results: Sequence[Tensor], low: int) -> None:
        """Store lines [(b, group), h, w] from ``low`` on, of the outputs of each group."""
        shared, (height, width) = self.shared, self.layer.lengths
        points, outputs, beside = height * width, self.layer.outputs, shared.beside
        start = (self.lines[0] + low) * width
        for place, result in enumerate(results):
            output = self.first * beside + place
            count = min(self.count, -(-(outputs - output) // beside))
            if count <= 0:
                continue
            # All samples together, where groups follow each other in HBM from one to the next.
            pieces = [(sample, 1) for sample in range(self.samples)]
            if count * beside == outputs:
                pieces = [(0, self.samples)]
            flat = result.flatten_dims(1, 2)
            for sample, held in pieces:
                plane = (self.rows.first + self.sample + sample) * outputs + output
                pattern = [[beside * points, held * count], [1, flat.shape[1]]]
                base, row = self.rows.base, sample * self.count
                target = addressed(shared.target, pattern, plane * points + start, base)
                transfer(target, flat[row : row + held * count], base)


def _quads(height: int) -> list[tuple[int, int, int]]:
    """Return lines as (first, number of runs, lines of a run); the last run may be short."""
    whole = height // _QUAD * _QUAD
    cuts = [(0, height // _QUAD, _QUAD), (whole, 1, height - whole)]
    return [cut for cut in cuts if cut[1] * cut[2] > 0]


def _clear_rest(view: Tensor, dim: int, used: int) -> None:
    """Write zeros from number ``used`` of a dimension on."""
    if used < view.shape[dim]:
        cut = [slice(None)] * len(view.shape)
        cut[dim] = slice(used, None)
        clear(view[tuple(cut)], nisa.engine.gpsimd)
