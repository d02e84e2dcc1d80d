"""Spectral convolution along three axes: the transforms of its samples, and the way back.

Mathematics.  X[b, i, j, l, k] = sum_dhw x[b, i, d, h, w] exp(-2 pi i (d j / D + h l / H + w k /
W)) for the kept j, l and k, and y[b, o, d, h, w] = Re sum_jlk c_k Y[b, o, j, l, k] exp(2 pi i (d j
/ D + h l / H + w k / W)) / (D H W), with c_0 = c_(W/2) = 1 and all other c_k = 2. Both are products
along one axis after the other.

Layout on the NeuronCore.  Planes of one sample lie on the partitions, (i, d), with all h and w of a
plane side by side. Data is the stationary operand of every product, so that the columns of one
product are the partitions that the next one contracts. Only x itself is transposed:

    [(i, d), h, w] -> transposed [(line, w), (i, d)] x F -> [(i, d), part, k, h]
        x F [(i, d), (i, part, j)] -> [(k, h), part, j, (b, i)]
        x F [(k, h), (k, part, l)] -> [(b, i), k, part, l], for each j

Several lines h of a plane, channels i and frequencies k share a product, whose matrix has a block
for each of them. Engines move the spectra to where channels are mixed, [(half, part, i), b, (j, l,
k)]. Mixed spectra arrive as [(part, o), k, (j, l), b]. Transpositions bring l to the partitions,
and the same steps lead back:

    [(part, o), b, j, k, l] -> transposed [(k, l), part, (o, j)]
        x G [(k, l), (k, h)] -> [(o, j), h, part, k]
        x G [(o, j), (o, d)] -> [(h, part, k), (o, d)]
        x G [(part, k), w] -> [(o, d), h, w]

A sum of the inverse has two terms, Y times the cosines and i Y times the sines, so that both parts
of a result stay beside each other. The last product contracts both at once, for lines h that share
a row tile of the array.

Why it is fast.  x is read once and y is written once, in runs of whole lines. Each product takes
only what is kept along the axes before. No row is set aside where transposes mix rows, because all
rows of a tile belong to one sample, of which every result depends on every number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..base import chip
from ..base.engines import (
    PARTITIONS,
    PSUM_BANK,
    addressed,
    chunks,
    clear,
    multiply,
    multiply_row_tile,
    padded_columns,
    psum,
    sbuf,
    transfer,
    transpose,
)
from ..base.isa import Tensor, nisa
from ..base.launch import Rows
from ..base.pipeline import TURN, After, Beside, Item, Single, Task
from .constants import Loader, Place
from .layer import Layer, row_tile, slot
from .mixing import Mixed, Weight
from .products import Balance, columns_of, slack, turn
from .row_tiles import RowTile
from .sample_transforms import Analysis, Synthesis

_OTHERS = 40 << 10  # bytes a partition of planes, tables, and transposed runs
LONGEST = PARTITIONS  # points along an axis that fit
MOST_LAST = 64  # frequencies of the last axis that fit
_LOADED = 1024  # numbers of a plane that are loaded at a time
_RING = 16 << 10  # bytes a partition of planes that are loaded ahead
_BETWEEN = 32 << 10  # bytes a partition of samples between the last two transforms
_STATES = 24 << 10  # bytes a partition up to which the sums over l of two units are held
_SPREAD = 6 << 10  # bytes a partition of spectra that DMA moves together
_RUNS = 8  # runs that are transposed in a task


class Slabs:
    """Planes (i, d) of one sample at a time, which DMA loads into a ring of tiles."""

    def __init__(self, layer: Layer, source: Tensor, pieces: Sequence[tuple[int, int]]) -> None:
        self.layer, self.source, self.pieces = layer, source, pieces
        self.depth = layer.lengths[0]
        self.channels = min(layer.inputs, PARTITIONS // self.depth)  # of a tile
        longest = max(count for _, count in pieces)
        count = max(2, min(6, _RING // (4 * longest)))
        self.ring = [sbuf((PARTITIONS, longest + slack())) for _ in range(count)]
        for tile in self.ring if slack() > 0 else ():
            clear(tile[:, longest:])

    def of(self, groups: Sequence[RowTile]) -> list[tuple[RowTile, RowTile]]:
        """Return the tiles of groups, the pieces of planes one after the other."""
        return [
            (group, RowTile(sample, 1, group.low + low, count, *piece))
            for group in groups
            for sample in range(group.first, group.first + group.samples)
            for low, count in chunks(group.channels, self.channels)
            for piece in self.pieces
        ]

    def load(self, rows: Rows, one: RowTile, number: int) -> None:
        """Load a tile into the place of this number."""
        size = self.layer.points // self.depth
        plane = ((rows.first + one.first) * self.layer.inputs + one.low) * self.depth
        held = one.channels * self.depth
        pattern = [[size, held], [1, one.count]]
        source = addressed(self.source, pattern, plane * size + one.start, rows.base)
        tile = self.ring[number % len(self.ring)]
        transfer(tile[0:held, 0 : one.count], source, rows.base)

    def tile(self, one: RowTile, number: int) -> Tensor:
        """Return a tile in SBUF [(i, d), n], of which the first numbers are those of the piece."""
        return self.ring[number % len(self.ring)][0 : one.channels * self.depth]


class VolumeAnalysis(Analysis):
    """From volumes in HBM to spectra [(half, part, i), b, (j, l, k)] in SBUF."""

    def __init__(self, layer: Layer, source: Tensor, balance: Balance, identity: Tensor) -> None:
        super().__init__(layer, balance, identity)
        self.opening = list[Tensor]()  # along w, one
        self.middle = list[Tensor]()  # along d, cosines and sines
        self.closing = list[Tensor]()  # along h, cosines and sines
        self.needed = 0  # jobs of the loader that are done before the first transform along d
        _, height, width = layer.lengths
        first, _, last = layer.counts
        self.lines = PARTITIONS // width  # of a run
        most = max(self.lines, _LOADED // width // self.lines * self.lines)
        pieces = [(low * width, count * width) for low, count in chunks(height, most)]
        self.slabs = Slabs(layer, source, pieces)
        self.groups = chunks(last, PARTITIONS // height)  # of frequencies k
        # [(i, d), (part, k, h)], of two tiles in turn
        self.size = 2 * last * height
        self.states = [_new_tile(self.size) for _ in range(2)]
        self.width = slot(min(layer.inputs, PARTITIONS))
        each = 4 * len(self.groups) * 2 * first
        fitting = max(1, _BETWEEN // (each * self.width))
        self.together = min(PARTITIONS // self.width, fitting)  # samples
        self.columns = self.together * self.width
        self.gathers = 2 if 2 * each * self.columns <= _BETWEEN else 1
        # bytes a partition of what lives as long as the spectra of a block are made
        self.work_bytes = self.gathers * each * self.columns

    def setup(self, loader: Loader, tables: Sequence[Tensor]) -> None:
        last, second, first = tables
        self.opening = loader.by_blocks(last, self.lines)
        self.first = loader.asked  # what is needed at once
        self.middle = loader.by_blocks(first, self.slabs.channels)
        self.closing = loader.by_blocks(second, self.groups[0][1])
        self.needed = loader.asked

    @property
    def held_bytes(self) -> int:
        """The bytes a partition of planes, of what lies between their transforms, and of tables."""
        return _OTHERS + 8 * self.size

    def groups_of(self, rows: Rows) -> list[RowTile]:
        """Return the samples and channels that are transformed along the second axis together."""
        return [
            RowTile(first, samples, *cut, 0, 0)
            for first, samples in chunks(rows.each, self.together)
            for cut in chunks(self.layer.inputs)
        ]

    def load_first(self, rows: Rows) -> None:
        self.slabs.load(rows, self.slabs.of(self.groups_of(rows))[0][1], 0)

    def run(self, rows: Rows, loader: Loader) -> Iterator[Item]:
        tiles, ahead = self.slabs.of(self.groups_of(rows)), len(self.slabs.ring)
        for number in range(1, min(ahead, len(tiles))):
            self.slabs.load(rows, tiles[number][1], number)
            loader.begin()
        gathers = min(self.gathers, len(self.groups_of(rows)))
        gathered = [self._new_gathered() for _ in range(gathers)]
        waiting = deque[tuple[int, Single]]()  # with the number of their planes
        planes = turns = 0
        for number, (group, one) in enumerate(tiles):
            while waiting and waiting[0][0] <= planes - len(self.states):
                yield waiting.popleft()[1]  # whose state is overwritten
            state = self.states[planes % len(self.states)]
            tasks = [self._open(one, number, cut, state) for cut in self._cuts(one)]
            share = -(-len(waiting) // len(tasks))
            for task in tasks:
                yield task
                for _ in range(min(share, len(waiting))):
                    yield waiting.popleft()[1]
            if number + ahead < len(tiles):
                yield After(
                    partial(self.slabs.load, rows, tiles[number + ahead][1], number + ahead)
                )
            if number > 0:
                yield Beside(loader.advance)
            if (number + 1) % len(self.slabs.pieces) > 0:
                continue
            loader.finish_to(self.needed)
            target = gathered[turns % len(gathered)]
            waiting.append((planes, Single(partial(self._continue, group, one, state, target))))
            is_last = number + 1 == len(tiles)
            if is_last or tiles[number + 1][0] != group:
                closings = self._closings(group, target, is_last)
                waiting += [(planes, close) for close in closings]
                turns += 1
            planes += 1
        yield TURN
        for _, item in waiting:
            yield item

    def _new_gathered(self) -> Tensor:
        """Return a tile [(k, h), (group, part, j, b, i)]."""
        size = len(self.groups) * 2 * self.layer.counts[0] * self.columns
        tile = _new_tile(size)
        used = chunks(self.layer.inputs)[-1][1]
        # Numbers without a meaning are read, too: beyond channels, and beyond narrow operands.
        if columns_of(self.width) > self.width:
            clear(tile, nisa.engine.gpsimd)
        elif used < self.width:
            channels = tile[:, 0:size].reshape_dim(1, (size // self.width, self.width))
            clear(channels[..., used:], nisa.engine.gpsimd)
        return tile

    def _cuts(self, one: RowTile) -> list[tuple[int, int]]:
        """Return (first, count) of the lines of a piece that are transformed at once."""
        width = self.layer.lengths[2]
        columns = self.lines * 2 * self.layer.counts[2]
        return chunks(one.count // width, self.lines * max(1, min(_RUNS, PSUM_BANK // columns)))

    def _open(self, one: RowTile, number: int, cut: tuple[int, int], state: Tensor) -> Task:
        """Transform lines along w."""
        (first, count), (_, height, width) = cut, self.layer.lengths
        tile, last = self.slabs.tile(one, number), self.layer.counts[2]
        held, lines = tile.shape[0], chunks(count, self.lines)
        runs = [((first + low) * width, size * width) for low, size in lines]
        turned = turn(self.balance, tile, runs, self.identity, columns=columns_of(held))
        yield
        line = one.start // width + first
        view = state[0:held, 0 : self.size].reshape_dim(1, (2, last, height))
        bank = psum((columns_of(held), count, 2 * last))
        for moved, (low, size) in zip(turned, lines, strict=True):
            table = self.opening[0][0 : moved.shape[0], 0 : size * 2 * last]
            multiply(bank[:, low : low + size].flatten_dims(1, 2), moved, table, False)
        place = view.permute((0, 3, 1, 2))[:, line : line + count]  # [(i, d), h, part, k]
        self.balance.move(place, bank[0:held].reshape_dim(2, (2, last)))

    def _continue(self, group: RowTile, one: RowTile, state: Tensor, target: Tensor) -> None:
        """Transform the planes of a tile along d."""
        depth, height, _ = self.layer.lengths
        first, _, last = self.layer.counts
        held, results = one.channels * depth, one.channels * 2 * first
        shape = len(self.groups), 2 * first, self.columns
        view = target[:, 0 : target.shape[1] - _rest()].reshape_dim(1, shape)
        column = (one.first - group.first) * self.width + one.low - group.low
        for index, (low, count) in enumerate(self.groups):
            used = count * height
            bank = psum((columns_of(used), results))
            for part, table in enumerate(self.middle):
                start = (part * last + low) * height
                columns = state[0:held, start : start + bank.shape[0]]
                multiply(bank, columns, table[0:held, 0:results], part > 0)
            place = view[0:used, index, :, column : column + one.channels].permute((0, 2, 1))
            self.balance.move(place, bank[0:used].reshape_dim(1, (one.channels, 2 * first)))

    def _closings(self, group: RowTile, gathered: Tensor, is_last: bool) -> list[Single]:
        """Return the transforms along h of a group, for some frequencies j each."""
        first, second, last = self.layer.counts
        each = _SPREAD // (8 * second * last)
        cuts = chunks(first, max(1, each))
        # DMA spares the engines little where samples are few, and would be late for the last ones.
        is_worth = each > 0 and group.samples > 2
        by_dma = [is_worth and self.spectra.dma_may_write] * len(cuts)
        by_dma[-1] &= not is_last
        return [
            Single(partial(self._close, group, gathered, *one))
            for one in zip(cuts, by_dma, strict=True)
        ]

    def _close(self, group: RowTile, gathered: Tensor, cut: tuple[int, int], by_dma: bool) -> None:
        """Transform some frequencies j along h, and move them to their channels."""
        first, second, last = self.layer.counts
        held = group.samples * self.width
        moved = sbuf((held, 2, cut[1] * second, last)) if by_dma else None
        for number in range(cut[1]):
            j = cut[0] + number
            for index, (low, count) in enumerate(self.groups):
                bank = self._sum(gathered, held, index, j)
                if moved is not None:
                    place = moved[:, :, number * second : (number + 1) * second, low : low + count]
                    self.balance.move(place, bank[0:held].permute((0, 2, 3, 1)))
                    continue
                for part in range(2):
                    places = (j * second, second), (low, count)
                    self.spectra.put([bank[:, :, part]], part, places, group, None)
        if moved is not None:
            self.spectra.spread(moved, group, cut[0] * second)

    def _sum(self, gathered: Tensor, held: int, index: int, j: int) -> Tensor:
        """Return the sums over h for some k and a frequency j, PSUM [(b, i), k, part, l]."""
        first, second, _ = self.layer.counts
        count = self.groups[index][1]
        used = count * self.layer.lengths[1]
        bank = psum((columns_of(held), count, 2, second))
        for part, table in enumerate(self.closing):
            start = ((2 * index + part) * first + j) * self.columns
            columns = gathered[0:used, start : start + bank.shape[0]]
            moved = table[0:used, 0 : count * 2 * second]
            multiply(bank.flatten_dims(1, 3), columns, moved, part > 0)
        return bank


@dataclass(frozen=True)
class _Unit:
    """Outputs of a sample that are transformed back together."""

    sample: int
    low: int  # the first output
    count: int


class VolumeSynthesis(Synthesis):
    """From mixed spectra to volumes in HBM."""

    def __init__(self, layer: Layer, target: Tensor, balance: Balance, identity: Tensor) -> None:
        super().__init__(layer, target, balance, identity)
        (depth, height, width), (first, second, last) = layer.lengths, layer.counts
        self.groups = chunks(last, min(PARTITIONS // second, PSUM_BANK // height))
        self.outputs = min(layer.outputs, PARTITIONS // first, PSUM_BANK // depth)  # of a unit
        self.rows = row_tile(2 * last)  # partitions of the lines that share a row tile
        most = min(self.rows // (2 * last), PSUM_BANK // width)
        self.lines = max(n for n in range(1, most + 1) if height % n == 0)  # these lines
        self.tiles = PARTITIONS // self.rows  # row tiles side by side
        self.blocks = height // self.lines
        rounds = max(1, PSUM_BANK // (self.lines * width))
        self.spans = chunks(self.blocks, rounds * self.tiles)  # blocks of lines that leave together
        self.sample_bytes = 4 * len(self.over) * layer.frequencies
        of_pair = 8 * self.blocks * self.rows
        self.pairs = 2 if 2 * of_pair <= _STATES else 1
        span, planes = self.spans[0][1], self.outputs * depth
        of_task = 4 * (-(-span // self.tiles) * planes + span * self.lines * width)
        turned = 12 * len(self.groups) * layer.outputs * first
        # bytes a partition of what lives longer than a task, and of two tasks
        self.work_bytes = turned + self.pairs * of_pair + 2 * of_task
        self.mixed = dict[int, Tensor]()  # by operand, [(part, o), (b, j, k, l)]
        self.opening = list[Tensor]()  # along h, cosines and sines
        self.middle = list[Tensor]()  # along d, cosines and sines
        self.closing = list[Tensor]()  # along w, one

    def most_samples(self, analysis: Analysis, weight: Weight, batch: int, keeps: bool) -> int:
        """Return how many samples fit into SBUF at once, which may be more than there are."""
        del batch, keeps
        free = chip.core().sbuf_partition_bytes - weight.held_bytes - analysis.held_bytes
        spectra = 4 * analysis.modes.each * analysis.modes.inner * len(analysis.spectra.over)
        mixed = self.sample_bytes
        return min(
            (free - analysis.work_bytes) // spectra,
            free // (spectra + mixed),
            (free - self.work_bytes) // mixed,
        )

    def close(self) -> None:
        self.batch, self.mixed = 0, dict[int, Tensor]()

    def setup(self, loader: Loader, tables: Sequence[Tensor]) -> None:
        last, first, second = tables
        self.opening = loader.by_blocks(second, self.groups[0][1])
        self.middle = loader.by_blocks(first, self.outputs)
        _, kept, width = last.shape
        placed = [
            Place((2 * line + part) * kept, line * width, last[part])
            for line in range(self.lines)
            for part in range(2)
        ]
        self.closing = [loader.load(placed, self.lines * width, self.rows, self.tiles)]

    def open(self, batch: int) -> None:
        """Begin a block; its tiles are allocated when they are needed."""
        self.batch = batch

    def put(self, mixed: Mixed) -> None:
        """Move mixed spectra [(part, o), k, (j, l), b] to where they are transposed."""
        first, second, last = self.layer.counts
        rows, inner, outer, batch = mixed.bank.shape
        size = batch * self.layer.frequencies
        if mixed.output not in self.mixed:
            self.mixed[mixed.output] = _new_tile(size)
        tile = self.mixed[mixed.output][0:rows, 0:size].reshape_dim(1, (batch, first, last, second))
        tile = tile[:, :, :, mixed.first : mixed.first + inner].permute((0, 3, 2, 4, 1))
        for low, count in _whole_runs(mixed.low, outer, second):
            each = min(count, second)  # of the second axis
            j, start = low // second, low % second
            dst = tile[:, :, j : j + count // each, start : start + each]  # [(part, o), k, j, l, b]
            start = low - mixed.low
            data = [
                bank[:, :, start : start + count].reshape_dim(2, (count // each, each))
                for bank in (mixed.bank, *mixed.others)
            ]
            order = 0, 4, 2, 1, 3
            dst, data = dst.permute(order), [one.permute(order) for one in data]
            self.balance.move_sum(dst, data)

    def run(self, rows: Rows) -> Iterator[Item]:
        units = [
            _Unit(sample, *cut)
            for sample in range(self.batch)
            for cut in chunks(self.layer.outputs, self.outputs)
        ]
        # [(k, l), (group, term, o, j)]
        turned = _new_tile(3 * len(self.groups) * self.layer.outputs * self.layer.counts[0])
        if _rest() > 0 and self.groups[-1][1] < self.groups[0][1]:
            clear(turned)  # a stationary operand reads columns of a group with fewer partitions
        pairs = [self._new_states() for _ in range(self.pairs)]
        yield from self._opening(units[0], turned, pairs[0])
        for number, unit in enumerate(units):
            following = list[Item]()  # the first steps of the next unit, among the last of this one
            if number + 1 < len(units):
                other = pairs[(number + 1) % self.pairs]
                following += self._opening(units[number + 1], turned, other)
            share = -(-len(following) // len(self.spans)) if self.pairs > 1 else 0
            for span in self.spans:
                yield self._close(rows, unit, pairs[number % self.pairs], span)
                yield from following[0:share]
                del following[0:share]
            yield from following

    def _new_states(self) -> list[Tensor]:
        """Return a tile [(o, j), block, (line, part, k)], and one for the same times i."""
        found = [sbuf((PARTITIONS, self.blocks, self.rows)) for _ in range(2)]
        used = self.lines * 2 * self.layer.counts[2]
        for tile in found if used < self.rows else ():
            clear(tile[:, :, used:], nisa.engine.gpsimd)
        return found

    def _opening(self, unit: _Unit, turned: Tensor, states: Sequence[Tensor]) -> Iterator[Item]:
        """Yield the transpositions of a sample, with its first unit, and the sums over l."""
        if unit.low == 0:
            for index, _ in enumerate(self.groups):
                for place, operand in enumerate(self.over):
                    for cut in chunks(self.layer.counts[0], PSUM_BANK // operand.rows):
                        turn = partial(self._turn, unit.sample, turned, (index, place), cut)
                        yield Single(turn)
        for index, _ in enumerate(self.groups):
            yield Single(partial(self._open, unit, turned, states, index))

    def _terms(self, turned: Tensor) -> Tensor:
        """Return a view [(k, l), group, term, o, j]: real part, imaginary part, and -1 times it."""
        shape = len(self.groups), 3, self.layer.outputs, self.layer.counts[0]
        return turned[:, 0 : 3 * shape[0] * shape[2] * shape[3]].reshape_dim(1, shape)

    def _turn(
        self, sample: int, turned: Tensor, places: tuple[int, int], cut: tuple[int, int]
    ) -> None:
        """Transpose spectra of some j to [(k, l), term, o, j]."""
        first, second, last = self.layer.counts
        (low, kept), operand = self.groups[places[0]], self.over[places[1]]
        data, used = self.mixed[places[1]][0 : operand.rows], kept * second
        wide = padded_columns(used, operand.rows)
        bank = psum((wide, cut[1], operand.rows))
        for index in range(cut[1]):
            start = ((sample * first + cut[0] + index) * last + low) * second
            transpose(bank[:, index], data[:, start : start + wide], self.identity)
        view = self._terms(turned)[0:used, places[0], :, :, cut[0] : cut[0] + cut[1]]
        for piece in operand.pieces:
            part = bank[0:used, :, piece.rows].permute((0, 2, 1))
            self.balance.move(view[:, piece.part, piece.range], part)
            if piece.part == 1:
                self.balance.move(view[:, 2, piece.range], part, factor=-1.0)

    def _open(self, unit: _Unit, turned: Tensor, states: Sequence[Tensor], index: int) -> None:
        """Sum over l for some k, to [(o, j), block, line, part, k] and the same times i."""
        (first, second, last), height = self.layer.counts, self.layer.lengths[1]
        (low, kept), held = self.groups[index], unit.count * first
        size, rows = self.layer.outputs * first, kept * second
        views = [
            state[0:held, :, 0 : self.lines * 2 * last].reshape_dim(2, (self.lines, 2, last))
            for state in states
        ]
        for part, terms in enumerate(((0, 2), (1, 0))):  # times the cosines and the sines
            bank = psum((columns_of(held), kept, height))
            for place, (term, table) in enumerate(zip(terms, self.opening, strict=True)):
                start = (index * 3 + term) * size + unit.low * first
                columns = turned[0:rows, start : start + bank.shape[0]]
                moved = table[0:rows, 0 : kept * height]
                multiply(bank.flatten_dims(1, 2), columns, moved, place > 0)
            data = bank[0:held].reshape_dim(2, (self.blocks, self.lines)).permute((0, 2, 3, 1))
            straight, other = (
                view[:, :, :, place, low : low + kept]
                for view, place in zip(views, (part, 1 - part), strict=True)
            )
            self.balance.move(straight, data)
            self.balance.move(other, data, factor=-1.0 if part == 1 else 1.0)

    def _close(
        self, rows: Rows, unit: _Unit, states: Sequence[Tensor], span: tuple[int, int]
    ) -> Task:
        """Sum over j, then over k, for some lines, and store them."""
        depth, first = self.layer.lengths[0], self.layer.counts[0]
        held, planes = unit.count * first, unit.count * depth
        rounds = chunks(span[1], self.tiles)
        # [(tile, line, part, k), round, (o, d)]
        flat = sbuf((PARTITIONS, len(rounds) * planes + _rest()))
        if any(columns_of(count) > count for _, count in chunks(planes)):
            clear(flat)
        for index, (low, count) in enumerate(rounds):
            bank = psum((count * self.rows, planes))
            for term, (state, table) in enumerate(zip(states, self.middle, strict=True)):
                start = span[0] + low
                columns = state[0:held, start : start + count].flatten_dims(1, 2)
                multiply(bank, columns, table[0:held, 0:planes], term > 0)
            start = index * planes
            self.balance.move(flat[0 : bank.shape[0], start : start + planes], bank)
        yield
        for cut in chunks(planes):
            result = self._lines(flat, planes, span[1], cut)
            self._store(rows, unit, cut, span[0], result)

    def _lines(self, flat: Tensor, planes: int, blocks: int, cut: tuple[int, int]) -> Tensor:
        """Sum over k for some planes (o, d), to [(o, d), block, (line, w)]."""
        size = self.closing[0].shape[1]
        result = sbuf((cut[1], blocks, size))
        rounds = chunks(blocks, self.tiles)
        tiles = min(self.tiles, blocks)
        columns = columns_of(cut[1])
        banks = [psum((columns, -(-(blocks - tile) // self.tiles), size)) for tile in range(tiles)]
        for index, (_, count) in enumerate(rounds):
            start = index * planes + cut[0]
            for tile in range(count):
                low = tile * self.rows
                slots = slice(low, low + self.rows)
                held, moved = flat[slots, start : start + columns], self.closing[0][slots]
                multiply_row_tile(banks[tile][:, index], held, moved, low, self.rows, False)
        for tile, bank in enumerate(banks):
            self.balance.move(result[:, tile :: self.tiles], bank[0 : cut[1]])
        return result

    def _store(
        self, rows: Rows, unit: _Unit, cut: tuple[int, int], block: int, result: Tensor
    ) -> None:
        """Store blocks of lines of some planes."""
        (depth, height, width), outputs = self.layer.lengths, self.layer.outputs
        plane = ((rows.first + unit.sample) * outputs + unit.low) * depth + cut[0]
        data = result.flatten_dims(1, 2)
        pattern = [[height * width, cut[1]], [1, data.shape[1]]]
        start = plane * height * width + block * self.lines * width
        transfer(addressed(self.target, pattern, start, rows.base), data, rows.base)


def _new_tile(size: int) -> Tensor:
    """Return a tile of so many numbers, which a stationary operand may exceed."""
    tile = sbuf((PARTITIONS, size + _rest()))
    if _rest() > 0:
        clear(tile[:, size:], nisa.engine.gpsimd)
    return tile


def _rest() -> int:
    """Return how many numbers a stationary operand of one column reads beyond it."""
    return columns_of(1) - 1


def _whole_runs(low: int, count: int, size: int) -> list[tuple[int, int]]:
    """Return (first, count) of runs of multiples of a size, or of what lies between two of them."""
    found, end = list[tuple[int, int]](), low + count
    while low < end:
        left = end - low
        inside = size - low % size
        taken = left // size * size if low % size == 0 and left >= size else min(inside, left)
        found.append((low, taken))
        low += taken
    return found
