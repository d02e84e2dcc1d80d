"""Transforms of rows that lie on partitions, by Stockham's stages: the block of a launch.

A block is loaded, passes the stages, and is stored. Where SBUF has room, stages of consecutive
blocks take turns, because a stage reads what the stage before it wrote last. Tables that fit SBUF
beside the states stay there, in the order of the stages; the others are streamed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from ..base.chip import transposes_mix_rows
from ..base.engines import (
    DMA_RUN,
    PARTITIONS,
    SMALLEST_SBUF,
    chunks,
    clear,
    itemsize,
    sbuf,
    transfer,
)
from ..base.isa import Tensor, nisa
from ..base.launch import (
    HbmRows,
    Rows,
    for_rows,
    is_data_first,
    load_rows,
    most_blocks,
    on_partitions,
    row_count,
    rows_in_hbm,
    store_rows,
)
from ..base.pipeline import TURN, Block, Order
from ..base.row_guard import guarded, prepare_guard
from ..base.table_terms import data_dtype
from ..base.tables import Stream, load_identity, load_tables
from .stage_products import (
    Tabled,
    Tools,
    clear_padding,
    into_rows,
    natural_rows,
    new_state,
    transform,
)

_WORKING = 32 << 10  # bytes of a partition for operands and for chunks of tables, in use and ahead
_STATES = 16  # bytes a point of a stage's input and output
_LOADED = 32 << 10  # bytes a partition of input that DMA writes at a time
_AHEAD = 4  # blocks of input that are loaded at a time, if they fit
_COPIED = 2048  # numbers a partition of input that are copied at a time


@dataclass
class RowTransforms:
    """Transforms of the rows of source into target, each a real part or both parts.

    Zeros follow rows that are shorter than the transform; outputs beyond the target's columns are
    not stored.
    """

    source: Sequence[HbmRows]
    target: Sequence[HbmRows]
    transforms: Sequence[Sequence[Tabled]]  # each reads in natural order what the one before made
    each: int  # rows of a partition in a block, at most
    growth: float  # as for ``RowGuard``

    def __post_init__(self) -> None:
        self.stages = [tabled for stages in self.transforms for tabled in stages]
        self.dtype = data_dtype(self.stages[0].table, 3)  # of the states between stages
        self.first, self.last = self.stages[0].stage, self.stages[-1].stage
        self.size = itemsize(self.dtype) * (self.each * self.first.numbers + self.first.padding)
        self.ahead = min(_AHEAD, _LOADED // self.size)
        self.resident = self._resident()
        self.identity: Tensor | None = None  # where it comes before the data

    def run(self) -> None:
        """Transform all rows of this program."""
        if transposes_mix_rows():
            prepare_guard()
        if not is_data_first(self.source[0], self.first.inputs):
            self.identity = load_identity(self.dtype)
        batch, split = row_count(self.source[0].tensor), on_partitions(self.each)
        blocks = most_blocks(batch, split)
        self.inputs = [
            new_state(self.first, PARTITIONS, self.each, self.dtype)
            for _ in range(min(self.ahead, blocks))
        ]
        depth = len(self.stages) if self.is_interleaved else 1
        order = Order(depth, min(self.ahead, 1))
        for_rows(batch, self, PARTITIONS * self.each, split, order)

    def setup(self) -> None:
        """Load the identity and the tables that stay in SBUF."""
        identity = load_identity(self.dtype) if self.identity is None else self.identity
        self.tools = Tools(identity)
        resident = [tabled for tabled, fits in zip(self.stages, self.resident, strict=True) if fits]
        loaded = iter(load_tables([piece for tabled in resident for piece in tabled.pieces()]))
        for tabled in resident:
            tabled.held = tabled.by_piece([next(loaded) for _ in tabled.pieces()])
        streamed = [tabled.chunk * tabled.width for tabled in self.stages if tabled.held is None]
        if streamed:
            self.tools.stream = Stream(max(streamed), self.stages[0].table.dtype)

    def _resident(self) -> list[bool]:
        """Return which tables stay in SBUF; decide whether stages of blocks take turns."""
        longest = DMA_RUN
        for tabled in self.stages:
            stage = tabled.stage
            numbers = self.each * max(stage.outputs, stage.contracted * stage.left)
            longest = max(longest, numbers, self.each * stage.numbers // 2)
        room = SMALLEST_SBUF - _WORKING - _STATES * longest - self.ahead * self.size
        resident = []
        for tabled in self.stages:
            size = tabled.width * tabled.table.shape[-2] * itemsize(tabled.table.dtype)
            resident.append(size <= room)
            room -= size if size <= room else 0
        # Stages that take turns need the results of two blocks. Where bad rows are set aside, a
        # long block is not ready so early.
        more = _STATES * longest * (len(self.stages) - 1)
        least = 3 if transposes_mix_rows() else 2
        self.is_interleaved = self.ahead >= least and all(resident) and room >= more
        return resident

    def block(self, rows: Rows, number: int) -> Block:
        if self.ahead == 1 and number > 0:
            yield TURN  # the block before has to leave the only tile for inputs
        state, x = self._load(rows, number)
        guard = guarded(x, self.growth)
        yield from guard.steps()
        yield TURN
        marks = guard.marks
        # A tile lives as long as it has a name here.
        del x, guard
        for stages, after in pairwise(self.transforms):
            first = after[0].stage
            following = new_state(first, rows.partitions, rows.each, self.dtype)
            middle = natural_rows(first, following, rows.each)
            put = into_rows(stages[-1].stage, partial(row_of, middle))
            tasks = transform(stages, state, rows.each, self.tools, put)
            state = following
            del following, middle, put
            yield from tasks
            yield TURN
            del tasks
        results = Stored(self.target, rows, self.last.outputs, self.last.pair)
        put = into_rows(self.last, results.row, marks)
        stages = self.transforms[-1]
        tasks = transform(stages, state, rows.each, self.tools, put, results.finish)
        del state
        yield from tasks
        if self.tools.stream is not None:
            self.tools.stream.restart()

    def _load(self, rows: Rows, number: int) -> tuple[Tensor, Tensor]:
        """Load a block into a state of the first stage; return it, and as [P, row, part, n]."""
        if self.ahead == 0:
            return self._load_by_parts(rows)
        state = self.inputs[number % self.ahead][0 : rows.partitions]
        clear_padding(self.first, state, rows.each)
        x = natural_rows(self.first, state, rows.each)
        for part, source in enumerate(self.source):
            load_rows(x[:, :, part], source.tensor, rows, source.columns)
        return state, x

    def _load_by_parts(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Do as ``_load``, where DMA may not write so much; GpSimdE copies each part."""
        state = new_state(self.first, rows.partitions, 1, self.dtype)
        x = natural_rows(self.first, state, 1)
        staged = sbuf((rows.partitions, 1, self.first.inputs), self.dtype)
        for part, source in enumerate(self.source):
            held = source.columns
            place = rows_in_hbm(source.tensor, rows, 0, held)
            transfer(staged[:, :, 0:held], place, rows.base)
            if held < self.first.inputs:
                clear(x[:, :, part, held:])
            # The copy proceeds in steps, between which VectorE has its turns on v2.
            for low, count in chunks(held, _COPIED):
                place, data = (t[..., low : low + count] for t in (x[:, :, part], staged))
                nisa.tensor_copy(dst=place, src=data, engine=nisa.engine.gpsimd)
        return state, x


def row_of(x: Tensor, row: int) -> Tensor:
    return x[:, row]


class Stored:
    """Results of a block's rows, which are stored several rows at a time.

    They take 4 KiB, so that they leave before the rest of the block is computed. Where bad rows are
    set aside all rows go at once.
    """

    def __init__(self, target: Sequence[HbmRows], rows: Rows, length: int, pair: int) -> None:
        self._target, self._rows, self._length, self._pair = target, rows, length, pair
        most = rows.each if transposes_mix_rows() else max(1, DMA_RUN // length)
        tiles = -(-rows.each // most)
        self._together = -(-rows.each // (tiles * pair)) * pair
        self._tiles: dict[int, Tensor] = {}  # SBUF [P, part, row, n] by the first row

    def row(self, row: int) -> Tensor:
        """Return the place of a row's results, [P, part, n]."""
        first = row // self._together * self._together
        if first not in self._tiles:
            count = min(self._together, self._rows.each - first)
            shape = (self._rows.partitions, len(self._target), count, self._length)
            self._tiles[first] = sbuf(shape)
        return self._tiles[first][:, :, row - first]

    def finish(self, row: int) -> None:
        """Store results up to those of a row, or of a pair of rows, where they are complete."""
        first, end = row // self._together * self._together, row + self._pair
        if end % self._together == 0 or end >= self._rows.each:
            tile = self._tiles.pop(first)
            for part, target in enumerate(self._target):
                store_rows(target.tensor, tile[:, part], self._rows, target.columns, first)
