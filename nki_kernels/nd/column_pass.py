"""A pass along columns: input by pieces, the first stage, slabs that are transposed back, results.

strided_stockham.py has the mathematics and the layout. The convolution of images is such a pass,
too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, cycle, islice, pairwise

from ..base.engines import (
    HALF,
    PARTITIONS,
    PSUM_BANK,
    clear,
    columns_read,
    evacuate,
    multiply,
    psum,
    sbuf,
    transfer,
    transpose,
)
from ..base.isa import Tensor, nisa, nl
from ..base.pipeline import Task
from ..base.row_guard import marks_of, set_rows_aside
from ..base.tables import load_identity
from .columns import ColumnBlock, Columns, HbmColumns


@dataclass(frozen=True)
class Piece:
    """A part of every slab of a block, which is loaded at a time."""

    block: ColumnBlock
    part: range  # of each slab
    tile: Tensor  # of a ring

    @property
    def count(self) -> int:
        """How much of each slab it has."""
        return len(self.part)


def in_parts(length: int, step: int) -> list[range]:
    """Return parts of a length, of up to ``step``."""
    return [range(first, min(first + step, length)) for first in range(0, length, step)]


class Ring:
    """Data of blocks, loaded piece by piece into a few tiles in turn."""

    def __init__(
        self,
        blocks: Sequence[ColumnBlock],
        length: int,
        steps: Sequence[int],
        tiles: Sequence[Tensor],
        load: Callable[[Piece], None],
    ) -> None:
        """Begin to load; length: that of a slab. steps: the lengths of each block's pieces."""
        ring = cycle(tiles)
        self.pieces = [
            [Piece(block, part, next(ring)) for part in in_parts(length, step)]
            for block, step in zip(blocks, steps, strict=True)
        ]
        self._left, self._load = chain(*self.pieces), load
        self.load_next(len(tiles))

    def load_next(self, count: int = 1) -> None:
        """Load the next pieces, as many as are left; the tiles for them have become free."""
        for piece in islice(self._left, count):
            self._load(piece)

    def use(self, piece: Piece, run: Callable[[Piece], None]) -> Task:
        """Do the work on a piece, and load another one into its tile."""
        run(piece)
        self.load_next()
        yield


@dataclass(frozen=True)
class Results:
    """Results in SBUF of some columns of a block."""

    tile: Tensor  # of the whole block, [(part, p), members, rows, columns]
    place: Columns  # those columns, counted within the block
    # none or, once columns are set aside, one tile [(part, p), columns] that is added to results
    marks: list[Tensor]

    def put(self, bank: Tensor, first: int, is_scalar: bool = True) -> None:
        """Evacuate PSUM [(part, p), rows from ``first`` on, columns]; VectorE adds marks."""
        place, (rows, count, columns) = self.place, bank.shape
        bank = bank.reshape((rows, count, place.members, place.columns))
        here = self.tile[:, place.member : place.member + place.members, first : first + count]
        here = here[..., place.low : place.low + place.columns].permute((0, 2, 1, 3))
        if not self.marks:
            evacuate(bank, here, is_scalar=is_scalar)
            return
        pattern = [[columns, rows], [0, count], [place.columns, place.members], [1, place.columns]]
        marks = self.marks[0].ap(pattern)
        nisa.tensor_tensor(dst=here, data1=bank, data2=marks, op=nl.add)


class ColumnPass:
    """What all blocks of a pass share; with one radix there is only the second stage."""

    def __init__(
        self,
        source: Sequence[HbmColumns],
        target: Sequence[HbmColumns],
        radices: tuple[int, ...],
        tables: Sequence[Tensor],
        room: tuple[int, int],
    ) -> None:
        """Load the identity.

        source, target: the real and the imaginary part. tables: those of the stages, in SBUF.
        room: numbers a partition of input that are loaded at a time, and those of the ring.
        """
        self.source, self.target, self.room = source, target, room
        self.radix, self.left = (1, *radices)[-2:]
        self.n = self.radix * self.left
        self.opening, self.closing = tables[0], tables[-1]
        # Partitions of a part of the input: (j, s), or m without a first stage; rows of N on each.
        self.rows = self.left
        if self.radix > 1:
            self.rows, self.identity = self.opening.shape[0] // 2, load_identity()
        self.length = self.n // self.rows

    def ring(self, blocks: Sequence[ColumnBlock]) -> Ring:
        """Begin to load the input of blocks."""
        columns, (piece, held) = [block.place.count for block in blocks], self.room
        counts = [-(-self.length // max(1, piece // count)) for count in columns]  # of pieces
        steps = [-(-self.length // count) for count in counts]
        # Operands of few columns read numbers behind their own.
        size = max(count * step for count, step in zip(columns, steps, strict=True)) + HALF
        tiles = [sbuf((PARTITIONS, size)) for _ in range(min(sum(counts), held // size))]
        return Ring(blocks, self.length, steps, tiles, self._load)

    def _load(self, piece: Piece) -> None:
        """Load SBUF [(part, j, s), members, rows of the piece, columns], zeros after the data."""
        block, place = piece.block, piece.block.place
        rows, size = 2 * self.rows, piece.count * place.count
        tile = piece.tile[0:rows, 0:size]
        if self.source[0].n // self.length < self.rows:
            clear(tile)
        if self.radix > 1 and block.is_narrow():
            clear(piece.tile[0:rows, size : size + HALF])
        tile = tile.reshape((rows, place.members, piece.count, place.columns))
        for data, held in block.rows(self.source, tile, self.length, piece.part.start):
            transfer(held, data, block.base)

    def store(self, block: ColumnBlock, tile: Tensor) -> None:
        """Store results [(part, p), members, rows, columns] in the rows that the target holds."""
        for place, data in block.rows(self.target, tile, tile.shape[2]):
            transfer(place, data, block.base)

    def new_states(self, block: ColumnBlock, least: int = 0) -> list[Tensor]:
        """Allocate SBUF [columns, (K, part, m)] for each group of a block.

        Zeros follow, which stationary operands read, up to at least so many numbers.
        """
        used = 2 * self.n
        size = max(used + columns_read(2 * self.left) - 2 * self.left, least)
        states = [sbuf((group.count, size)) for group in block.groups()]
        for state in states:
            if size > used:
                clear(state[:, used:size], nisa.engine.gpsimd)
        return states

    def open(self, states: Sequence[Tensor], piece: Piece) -> None:
        """Run the first stage of a piece, into the states of all groups of its block."""
        operand, rows = self._operands(piece), 2 * self.rows
        step = min(piece.count, PSUM_BANK // rows)
        for group, state in zip(piece.block.groups(), states, strict=True):
            results = state[:, 0 : 2 * self.n].reshape((group.count, rows, self.length))
            for numbers in in_parts(piece.count, step):
                bank = psum((columns_read(group.count), rows, len(numbers)))
                for index, row in enumerate(numbers):
                    multiply(bank[:, :, index], operand(group, row), self.opening, False)
                at = piece.part.start + numbers.start
                evacuate(bank[0 : group.count], results[:, :, at : at + len(numbers)])

    def _operands(self, piece: Piece) -> Callable[[Columns, int], Tensor]:
        """Return a function for a row of a group's columns, one run: [(part, j, s), columns].

        GpSimdE brings the rows of several members into an order in which this is one run.
        """
        block, place, rows = piece.block, piece.block.place, 2 * self.rows
        data, of_member, of_row = piece.tile, piece.count * place.columns, place.columns
        if place.members > 1 and piece.count > 1 and 2 * place.columns <= PARTITIONS:
            size, of_member, of_row = piece.count * place.count, place.columns, place.count
            data = sbuf((rows, size + HALF))
            if block.is_narrow():
                clear(data[:, size:])
            loaded = piece.tile[0:rows, 0:size]
            loaded = loaded.reshape((rows, place.members, piece.count, place.columns))
            moved = data[:, 0:size].reshape((rows, piece.count, place.members, place.columns))
            moved = moved.permute((0, 2, 1, 3))
            nisa.tensor_copy(dst=moved, src=loaded, engine=nisa.engine.gpsimd)

        def operand(group: Columns, row: int) -> Tensor:
            low = group.member * of_member + row * of_row + group.low
            return data[0:rows, low : low + columns_read(group.count)]

        return operand

    def transposed(
        self, slabs: Sequence[Sequence[Tensor]], rows: int, columns: int, is_scalar: bool
    ) -> Tensor:
        """Transpose slabs, each a tile [columns, numbers] of every group, to [rows, slab, columns].

        is_scalar: whether ScalarE evacuates them, else VectorE.
        """
        bank = psum((slabs[0][0].shape[1], len(slabs), columns))
        ends = [0, *accumulate(tile.shape[0] for tile in slabs[0][:-1]), columns]
        for index, slab in enumerate(slabs):
            for tile, (low, high) in zip(slab, pairwise(ends), strict=True):
                transpose(bank[:, index, low:high], tile, self.identity)
        return evacuate(bank[0:rows], is_scalar=is_scalar)

    def set_aside(self, state: Tensor, growth: int) -> Tensor:
        """Write zeros to columns that would spoil others; return marks, SBUF [columns, 1]."""
        rows = state[:, 0 : 2 * self.n].reshape((state.shape[0], 1, 2 * self.n))
        return set_rows_aside(rows, float(growth))

    def turned_marks(self, marks: Sequence[Tensor], rows: int) -> Tensor:
        """Bring marks, [columns, 1] of every group, to the free axis: [rows, columns]."""
        ones = list[Tensor]()
        for mark in marks:
            # The operand has ones, and zeros where a NaN would spoil the transposition.
            good, vector = sbuf((mark.shape[0], columns_read(rows))), nisa.engine.vector
            marked = mark.ap([[1, good.shape[0]], [0, good.shape[1]]])
            nisa.tensor_scalar(dst=good, data=marked, op0=nl.equal, operand0=0.0, engine=vector)
            ones.append(good)
        columns = sum(mark.shape[0] for mark in marks)
        return marks_of(self.transposed([ones], rows, columns, False)[:, 0])
