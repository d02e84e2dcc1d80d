"""Columns of [A, N, C]: shared among the programs of a launch, unrolled or looped on the device.

This file does for columns what launch.py does for rows. A long batch is a loop on the device,
either over members (indices of A) or over blocks of columns, and the remainder follows unrolled. A
block is cut into chunks, whose results fit into a PSUM bank, and a chunk into groups, each of which
is the stationary operand of one product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from nki_sim.hardware import PARTITIONS

from ..counting import counted
from ..engines import NARROW, PSUM_BANK, element_count
from ..isa import nl
from ..launch import Share
from ..pipeline import Block, Order, in_turn, pipeline
from ..tensor import Tensor


@dataclass(frozen=True)
class HbmColumns:
    """Data [A, N, C] in HBM, whose rows may have a gap behind them."""

    tensor: Tensor  # HBM [..., N, ...], whole, so that it can be addressed in a device loop
    axis: int  # the axis of the tensor whose size is N
    columns: int  # C, those columns of a row that hold data

    @property
    def members(self) -> int:
        """A of [A, N, C]."""
        return element_count(self.tensor.shape[: self.axis])

    @property
    def n(self) -> int:
        """N of [A, N, C]."""
        return self.tensor.shape[self.axis]

    @property
    def pitch(self) -> int:
        """Numbers from one row to the next."""
        return element_count(self.tensor.shape[self.axis + 1 :])


@dataclass(frozen=True)
class Columns:
    """Some columns of one member, or all columns of several members."""

    member: int  # the first member
    members: int
    low: int  # the first column
    columns: int  # columns of each member

    @property
    def count(self) -> int:
        """Columns of all members together."""
        return self.members * self.columns

    def cut(self, members: int, columns: int) -> list[Columns]:
        """Return parts of up to so many members and columns."""
        end, high = self.member + self.members, self.low + self.columns
        return [
            Columns(member, min(members, end - member), low, min(columns, high - low))
            for member in range(self.member, end, members)
            for low in range(self.low, high, columns)
        ]

    def groups(self) -> list[Columns]:
        """Return the groups of a chunk, each the stationary operand of one product."""
        return self.cut(max(1, PARTITIONS // self.columns), _group_width(self.columns))


@dataclass(frozen=True)
class ColumnBlock:
    """Columns that are loaded and stored together."""

    base: Any  # the register with which a device loop counts, or None
    dimension: int  # what the register counts: 0 for members, 1 for columns
    place: Columns  # counted from the base

    def chunks(self) -> list[Columns]:
        """Return chunks, counted within the block: whole members or parts of one."""
        columns = self.place.columns
        whole = Columns(0, self.place.members, 0, columns)
        if columns > PSUM_BANK:
            width = _group_width(columns)
            return whole.cut(1, width * (PSUM_BANK // width))
        if 2 * columns <= PARTITIONS:  # one product takes several members
            return whole.cut(PSUM_BANK // PARTITIONS * (PARTITIONS // columns), columns)
        return whole.cut(PSUM_BANK // columns, columns)

    def groups(self) -> list[Columns]:
        """Return the groups of all chunks."""
        return [group for chunk in self.chunks() for group in chunk.groups()]

    def is_narrow(self) -> bool:
        """Return whether a group is too narrow for a stationary operand."""
        return any(group.count <= NARROW for group in self.groups())

    def rows(
        self, parts: Sequence[HbmColumns], tile: Tensor, run: int, first: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield rows of the block in HBM with their places in a tile, those rows that there are.

        Args:
            parts: the real and the imaginary part in HBM.
            tile: SBUF [(part, p), members, count, columns], where p has ``count`` rows of its run.
            run: consecutive rows of each p.
            first: the first of these rows, counted within each run.
        """
        count = tile.shape[2]
        for part, x in enumerate(parts):
            at, full = part * tile.shape[0] // 2, x.n // run
            tail = min(count, x.n - full * run - first)
            if full > 0:
                yield self._in_hbm(x, first, full, run, count), tile[at : at + full]
            if tail > 0:
                last = tile[at + full : at + full + 1, :, 0:tail]
                yield self._in_hbm(x, full * run + first, 1, run, tail), last

    def _in_hbm(self, x: HbmColumns, first: int, partitions: int, run: int, count: int) -> Tensor:
        """Return a view of rows in HBM, [partitions, members, count, columns]."""
        place, pitch = self.place, x.pitch
        pattern = [[run * pitch, partitions], [x.n * pitch, place.members]]
        pattern += [[pitch, count], [1, place.columns]]
        offset = (place.member * x.n + first) * pitch + place.low
        # The register counts members or columns of several dimensions, so it moves by the step of
        # the last of these dimensions.
        dimension = x.axis - 1 if self.dimension == 0 else len(x.tensor.shape) - 1
        return x.tensor.ap(pattern, offset, scalar_offset=self.base, indirect_dim=dimension)


def _group_width(columns: int) -> int:
    """Return how many columns of a member one product takes as stationary operand."""
    return -(-columns // -(-columns // PARTITIONS))


# The blocks of a launch.


@dataclass(frozen=True)
class Size:
    """The size of blocks, and of the body of a loop over them."""

    most: int  # columns of a block from one member, at most, though at least 128
    together: int  # columns of a block from several members, at most
    instructions: int  # instructions of an iteration
    period: int = 1  # iterations begin with a member whose number is a multiple of this


# What a launch does with blocks that follow each other: blocks of tasks.
Work = Callable[[Sequence[ColumnBlock]], Iterator[Block]]


@dataclass(frozen=True)
class _Side:
    """The members, or the columns, of this program."""

    first: int
    count: int
    least: int  # how many any program has at least
    most: int  # how many any program has at most


def for_columns(x: HbmColumns, work: Work, size: Size, order: Order) -> None:
    """Run the blocks of all columns of this program; a loop runs along the side with more blocks.

    Args:
        x: where the columns are, for their number.
        work: what to do with them.
        size: the size of blocks and iterations.
        order: how the blocks of tasks follow each other.
    """
    sides = _sides(x.members, x.columns)
    steps = _block_size(sides, size)
    counts = [-(-side.most // step) for side, step in zip(sides, steps, strict=True)]
    along = 0 if counts[0] >= counts[1] else 1

    def run(base: Any, first: int, count: int) -> None:
        spans = [(side.first, side.count) for side in sides]
        spans[along] = first, count
        places = Columns(*spans[0], *spans[1]).cut(*steps)
        blocks = [ColumnBlock(base, along, place) for place in places]
        pipeline(in_turn(work(blocks), order))

    side, step = sides[along], steps[along]
    share = Share(side.first, step, 0, side.count)
    if side.least >= 2 * step:
        with counted() as count:
            run(None, 0, step)
        most = max(1, size.instructions // count.instructions)  # steps of an iteration
        period = size.period if along == 0 else 1
        share = _looped(side, step * most, step, period, x.members) or share
    if share.trips > 0:
        nl.fori_loop(share.first, share.end, lambda base: run(base, 0, share.step), share.step)
    if share.rest > 0:
        run(None, share.end, share.rest)


def _looped(side: _Side, most: int, unit: int, period: int, members: int) -> Share | None:
    """Return a loop over up to ``most`` members or columns each, or None with less than two."""
    if side.least < 2 * most:
        return None
    first, end = side.first // period * period, side.first + side.count
    if end < members:
        end = end // period * period
    unit = -(-unit // period) * period
    units, most = side.least // period * period // unit, max(1, most // unit)
    step = units // -(-units // most) * unit
    trips = side.least // period * period // step
    return Share(first, step, trips, end - first - trips * step)


def _sides(members: int, columns: int) -> list[_Side]:
    """Return this program's members and its columns.

    Programs share the members, or the columns where one program would have much less than the
    other.
    """
    programs = nl.num_programs()
    if members % programs == 0 or members >= 8 * programs or columns < PARTITIONS // 2:
        return [_side(members, programs), _side(columns, 1)]
    return [_side(members, 1), _side(columns, programs)]


def _side(total: int, programs: int) -> _Side:
    """Return this program's share of ``total`` members or columns among ``programs``."""
    program = nl.program_id(0) % programs
    first = total * program // programs
    count = total * (program + 1) // programs - first
    return _Side(first, count, total // programs, -(-total // programs))


def _block_size(sides: Sequence[_Side], size: Size) -> tuple[int, int]:
    """Return members and columns of a block: columns of one member, or several whole members."""
    members, columns = sides[0].most, sides[1].most
    if columns > max(PARTITIONS, size.most):
        width = _group_width(columns)
        return 1, width * max(1, size.most // width)
    each = max(1, PARTITIONS // columns)
    return min(members, each * max(1, size.together // (each * columns))), columns


class Loads:
    """Loads in the order of their use, as many ahead as there are tiles for them."""

    def __init__(self, loads: Iterable[Callable[[], None]], ahead: int) -> None:
        self._left = iter(loads)
        self.issue(ahead)

    def issue(self, count: int = 1) -> None:
        """Issue the next loads, as many as are left; the tiles for them have become free."""
        for load in islice(self._left, count):
            load()
