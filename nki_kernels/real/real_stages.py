"""Both stages of the real Stockham kernels as tasks, in both directions.

real_stockham.py has the mathematics: products of the stage on real numbers take slabs, those of the
stage on spectra take slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..base.arguments import check_tables
from ..base.engines import (
    NARROW,
    WHOLE_RADIX,
    clear,
    element_count,
    evacuate,
    multiply_tile,
    padded_columns,
    psum,
    sbuf,
    transpose,
)
from ..base.isa import Tensor
from ..base.pipeline import Task
from ..base.row_guard import mark_of
from ..base.tables import load_tables
from .real_stockham_tables import GROUP, Geometry

_SLOTS = 8  # matrices of slots that are loaded at a time, so that the first ones are soon there


@dataclass
class Stages:
    """Both stages in one direction, with their tables."""

    geometry: Geometry
    tables: Sequence[Tensor]  # those of real_stockham_tables.py, in HBM
    is_inverse: bool
    pairs_rows: bool  # whether row tiles take two rows in the stage on real numbers
    identity: Tensor
    is_scalar: bool  # whether ScalarE, not VectorE, evacuates transposes
    # Tables in SBUF: of the stage on real numbers, of slot 0, and of other slots, some in each.
    held: tuple[Tensor, ...] = ()
    # Tables of the stage on real numbers for each slab from 0 on, where they differ.
    weighted: tuple[Tensor, ...] = ()

    @property
    def spacing(self) -> int:
        """Slabs of that stage before the next number of a run."""
        return self.geometry.left // self.slabs

    @property
    def contracted(self) -> int:
        """Numbers of a slab that the stage on real numbers contracts."""
        return 2 * self.geometry.slots if self.is_inverse else self.geometry.radix

    @property
    def slabs(self) -> int:
        """Slabs of a row that a product of that stage takes."""
        return WHOLE_RADIX // self.geometry.radix if self.pairs_rows else self.geometry.slabs

    def load(self, tiles: int = 3) -> None:
        """Load the tables into SBUF, in the order in which they are needed, by so many tiles."""
        self.held = ()  # the tiles of an earlier call
        least = 3 if self.geometry.slots > 1 else 2
        if len(self.tables) < least:
            check_tables(self.tables, least)
        real = self.tables[-1 if self.pairs_rows else 0]
        spectrum = [self.tables[1]]
        if self.geometry.slots > 1:
            count = self.tables[2].shape[1]
            starts = range(0, count, _SLOTS)
            spectrum += [self.tables[2][:, low : min(low + _SLOTS, count)] for low in starts]
        if self.is_inverse:
            *others, first = load_tables([*spectrum, real], tiles)
        else:
            first, *others = load_tables([real, *spectrum], tiles)
        self.held = first, *others

    def matrices(self, slots: range) -> list[Tensor]:
        """Return the matrices of slots; where slots are paired, those of both slots."""
        if slots[0] == 0:
            return [self.held[1]]
        places = [slot // 2 if self.geometry.pairs_slots else slot - 1 for slot in slots]
        return [self.held[2 + place // _SLOTS][:, place % _SLOTS] for place in places]


# Rows between the stages.


@dataclass(frozen=True)
class FlatRows:
    """Rows that lie one after the other on each partition."""

    tile: Tensor  # SBUF [P, L]; zeros follow the rows, where transposes read them
    rows: int
    size: int  # numbers of a row

    @property
    def each(self) -> Tensor:
        """The rows as [P, rows, size]."""
        return self.tile[:, 0 : self.rows * self.size].reshape_dim(1, (self.rows, self.size))

    def run(self, row: int, first: int, count: int, step: int) -> Tensor:
        """Return ``count`` numbers or more from one of a row's on, every ``step``-th."""
        start = row * self.size + first
        return self.tile[:, start : start + (_read(count) - 1) * step + 1 : step]


def _read(count: int) -> int:
    """Return how many numbers a transpose takes for ``count``; NeuronCore-v2 refuses a few."""
    return count if count > NARROW else NARROW + 1


def tail_of(count: int, step: int = 1) -> int:
    """Return how many numbers must follow a tile's last run of ``count``, every ``step``-th."""
    return (_read(count) - count) * step


def flat_rows(tile: Tensor, rows: int, size: int) -> FlatRows:
    """Return rows in SBUF [P, L], with zeros behind them."""
    end = rows * size
    if end < tile.shape[1]:
        clear(tile[:, end:])
    return FlatRows(tile, rows, size)


def new_state(stages: Stages, partitions: int, rows: int) -> FlatRows:
    """Allocate rows between the stages, each by (slot, part, m)."""
    geometry = stages.geometry
    size, tail = geometry.state_place(geometry.slots), tail_of(2 * geometry.left)
    if stages.is_inverse:
        tail = tail_of(2 * geometry.slots * geometry.slabs, geometry.left // geometry.slabs)
    return flat_rows(sbuf((partitions, rows * size + tail)), rows, size)


def new_spectra(geometry: Geometry, partitions: int, rows: int) -> FlatRows:
    """Allocate spectra by slots."""
    size = geometry.slot_place(geometry.slots)
    tail = max(tail_of(geometry.edge), tail_of(4 * geometry.run))
    return flat_rows(sbuf((partitions, rows * size + tail)), rows, size)


# Products that share a PSUM bank, and the puts that take their results out of it.


@dataclass(frozen=True)
class Products:
    """Products by the whole array or by one of its row tiles."""

    matrices: list[Tensor]  # SBUF [K, columns], one for each
    shape: tuple[int, ...]  # of the bank on each partition
    place: Callable[[Tensor, int], Tensor]  # returns the place of a product's results in the bank
    put: Callable[[Tensor], object]  # takes all results out of the bank


def mirrored(matrices: list[Tensor], runs: Sequence[Tensor], mark: Tensor | None) -> Products:
    """Return products with columns (part, q, run) and a put into both runs [P, part, q, product].

    The second run has the products in reverse order.
    """
    count = len(matrices)

    def place(bank: Tensor, index: int) -> Tensor:
        last = 2 * count - 1 - index
        return bank[:, :, :, index : last + 1 : last - index]

    def put(bank: Tensor) -> None:
        evacuate(bank[:, :, :, 0:count], runs[0], marks=mark)
        evacuate(bank[:, :, 0 : runs[1].shape[2], count:], runs[1], marks=mark)

    return Products(matrices, (2, matrices[0].shape[1] // 4, 2 * count), place, put)


def parted(matrix: Tensor, outputs: Sequence[Tensor], mark: Tensor | None) -> Products:
    """Return one product, whose columns belong to one output after the other."""

    def put(bank: Tensor) -> None:
        low = 0
        for output in outputs:
            high = low + element_count(output.shape[1:])
            evacuate(bank[:, low:high], output, marks=mark)
            low = high

    return Products([matrix], (matrix.shape[1],), lambda bank, _: bank, put)


def products(stages: Stages, data: Sequence[Tensor], tiles: Sequence[Products]) -> Task:
    """Transpose runs of data [P, K or more]; multiply each, in the array or in its row tiles."""
    partitions, rows = data[0].shape
    depth = rows if len(tiles) > 1 else tiles[0].matrices[0].shape[0]
    bank = psum((rows, len(data), padded_columns(partitions, depth)))
    for index, run in enumerate(data):
        transpose(bank[:, index], run, stages.identity)
    moved = evacuate(bank, is_scalar=stages.is_scalar)
    del bank
    yield
    banks = [psum((moved.shape[2], *tile.shape)) for tile in tiles]
    for index in range(len(data)):
        operand = moved[0:depth, index]
        for number, (tile, made) in enumerate(zip(tiles, banks, strict=True)):
            matrix = tile.matrices[index]
            multiply_tile(tile.place(made, index), operand, matrix, number, len(tiles), False)
    for tile, made in zip(tiles, banks, strict=True):
        tile.put(made[0:partitions])


# Stages.


def slab_tasks(
    stages: Stages, source: FlatRows, target: Tensor, marks: Tensor | None = None
) -> Iterator[Task]:
    """Yield the tasks of the stage on real numbers, into SBUF [P, rows, ...].

    The source has real rows, and the target states; in the other direction it is the reverse.
    """
    slabs, spacing = stages.slabs, stages.spacing
    _, rows, size = target.shape
    target = target.reshape_dim(2, (size // spacing, spacing))
    tiles = 2 if stages.pairs_rows else 1
    for row in range(0, rows, tiles):
        mine = range(row, min(row + tiles, rows))
        for first in range(0, spacing, GROUP):
            last = min(first + GROUP, spacing)
            count = len(mine) * stages.contracted * slabs
            data = [source.run(row, m, count, spacing) for m in range(first, last)]
            tables = stages.weighted or (stages.held[0],) * spacing
            matrices = [table[0:count] for table in tables[first:last]]
            # [P, column, product], which evacuations write at full rate
            shape, made = (matrices[0].shape[1], last - first), list[Products]()
            for each in mine:
                dst, mark = target[:, each, :, first:last], mark_of(marks, each)
                put = partial(evacuate, dst=dst, marks=mark)
                made.append(Products(matrices, shape, lambda bank, index: bank[:, :, index], put))
            yield products(stages, data, made)


def slot_tasks(
    stages: Stages, source: FlatRows, row: int, put: Callable[[range], Products]
) -> Iterator[Task]:
    """Yield the tasks of the stage on spectra for one row.

    The source has states, or in the other direction spectra by slots. put: returns the products of
    some slots.
    """
    geometry = stages.geometry
    place = geometry.slot_place if stages.is_inverse else geometry.state_place
    for tiles in geometry.slot_groups():
        data = []
        for slot in tiles[0]:
            first = place(slot)
            data.append(source.run(row, first, place(slot + len(tiles)) - first, 1))
        yield products(stages, data, [put(slots) for slots in tiles])


def into_spectrum(stages: Stages, y: Tensor, mark: Tensor | None) -> Callable[[range], Products]:
    """Return the put of slots into a spectrum [P, part, n] in natural order."""
    geometry = stages.geometry
    radix, run = geometry.radix, geometry.run
    runs = y[:, :, 0 : run * radix].reshape_dim(2, (run, radix))
    second = runs[:, :, 0 : geometry.left // 2]  # of an odd M, one less than of the first run

    def put(slots: range) -> Products:
        if slots[0] == 0:
            return parted(stages.matrices(slots)[0], edge_outputs(geometry, y), mark)
        low, high, step = slots[0], slots[-1], slots.step
        both = [
            runs[:, :, :, low : high + 1 : step],
            second[:, :, :, radix - high : radix - low + 1 : step],
        ]
        return mirrored(stages.matrices(slots), both, mark)

    return put


def edge_outputs(geometry: Geometry, y: Tensor) -> list[Tensor]:
    """Return slot 0's outputs in spectra [..., part, n]: complex, if any, then real."""
    step, pairs = geometry.step, geometry.multiples - geometry.own
    last = step * (geometry.multiples - 1)
    real = y[..., 0 : last * (geometry.own - 1) + 1 : last]
    return [y[..., step : step * pairs + 1 : step], real] if pairs > 0 else [real]


def into_slots(
    stages: Stages, target: Tensor, place: Callable[[int], int], mark: Tensor | None = None
) -> Callable[[range], Products]:
    """Return the put of slots into SBUF [P, ...] by slots; place: where each slot begins there."""

    def put(slots: range) -> Products:
        matrices, first = stages.matrices(slots), place(slots[0])
        size = place(slots[0] + 1) - first
        if slots[0] == 0:
            return parted(matrices[0], [target[:, first : first + size]], mark)
        low = slots[0] % slots.step * size  # behind the slot of the other row tile
        pitch = slots.step * size
        whole = target[:, first - low : first - low + len(slots) * pitch]
        results = whole.reshape_dim(1, (len(slots), pitch))[:, :, low : low + size]
        shape, put = results.shape[1:], partial(evacuate, dst=results, marks=mark)
        return Products(matrices, shape, lambda bank, index: bank[:, index], put)

    return put
