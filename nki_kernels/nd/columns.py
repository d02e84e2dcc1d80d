"""Columns of [A, N, C]: shared among the programs of a launch, unrolled or looped on the device.

This file does for columns what launch.py does for rows. A long batch is a loop on the device,
either over members (indices of A) or over blocks of columns, and the remainder follows unrolled. A
block is cut into chunks, whose results fit into a PSUM bank, and a chunk into groups, each of which
is the stationary operand of one product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..base.counting import counted
from ..base.engines import NARROW, PARTITIONS, PSUM_BANK, element_count
from ..base.isa import Tensor, nl
from ..base.launch import Share
from ..base.pipeline import Block, Order, in_turn, pipeline


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
        """Return the groups of a chunk."""
        return self.cut(max(1, PARTITIONS // self.columns), _group_width(self.columns))


@dataclass(frozen=True)
class ColumnBlock:
    """Columns that are loaded and stored together."""

    base: object  # the register with which a device loop counts, or None
    dimension: int  # what the register counts: 0 for members, 1 for columns
    place: Columns  # counted from the base

    def chunks(self) -> list[Columns]:
        """Return chunks, counted within the block: whole members or parts of one."""
        columns, width = self.place.columns, _group_width(self.place.columns)
        whole = Columns(0, self.place.members, 0, columns)
        if columns > PSUM_BANK:
            return whole.cut(1, width * (PSUM_BANK // width))
        if 2 * columns <= PARTITIONS:  # one product takes several members
            return whole.cut(PSUM_BANK // PARTITIONS * (PARTITIONS // columns), columns)
        return whole.cut(PSUM_BANK // columns, columns)

    def groups(self) -> list[Columns]:
        """Return the groups of all chunks."""
        return [group for chunk in self.chunks() for group in chunk.groups()]

    def of_group(self, group: Columns) -> ColumnBlock:
        """Return the block of a group alone."""
        member, low = self.place.member + group.member, self.place.low + group.low
        return replace(self, place=Columns(member, group.members, low, group.columns))

    def is_narrow(self) -> bool:
        """Return whether a group is too narrow for a stationary operand."""
        return any(group.count <= NARROW for group in self.groups())

    def rows(
        self, parts: Sequence[HbmColumns], tile: Tensor, run: int, first: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the block's rows in HBM with their places in a tile, those rows that there are.

        tile: SBUF [(part, p), members, count, columns]; p has ``count`` rows from the ``first`` of
        its run on. run: consecutive rows of each p.
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
        place, pitch = self.place, element_count(x.tensor.shape[x.axis + 1 :])
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


def for_columns(
    x: HbmColumns,
    work: Callable[[Sequence[ColumnBlock]], Iterator[Block]],
    size: tuple[int, int],
    instructions: int,
    order: Order,
    period: int = 1,
) -> None:
    """Run the blocks of all columns of this program; a loop runs along the side with more blocks.

    Args:
        x: where the columns are, for their number.
        work: what to do with blocks that follow each other, as blocks of tasks.
        size: columns of a block, at most: of one member, though at least 128, and of several.
        instructions: instructions of an iteration, at most.
        order: how the blocks of tasks follow each other.
        period: iterations begin with a member whose number is a multiple of this.
    """
    totals = x.members, x.columns
    programs = _programs(*totals)
    spans, leasts, mosts = zip(*map(_span, totals, programs), strict=True)
    steps = _block_size(mosts, size)
    blocks = [-(-most // step) for most, step in zip(mosts, steps, strict=True)]
    along = 0 if blocks[0] >= blocks[1] else 1

    def run(base: object, first: int, count: int) -> None:
        sides = list(spans)
        sides[along] = first, count
        places = Columns(*sides[0], *sides[1]).cut(*steps)
        pipeline(in_turn(work([ColumnBlock(base, along, place) for place in places]), order))

    (first, count), least, step = spans[along], leasts[along], steps[along]
    share = Share(first, step, 0, count)
    if least >= 2 * step:
        with counted() as found:
            run(None, 0, step)
        most = step * max(1, instructions // found.instructions)
        period = period if along == 0 else 1
        share = _looped(share, least, most, period, totals[along])
    if share.trips > 0:
        nl.fori_loop(share.first, share.end, lambda base: run(base, 0, share.step), share.step)
    if share.rest > 0:
        run(None, share.end, share.rest)


def _looped(share: Share, least: int, most: int, period: int, total: int) -> Share:
    """Return a share with a loop of equal iterations, if there are two or more.

    least: members or columns of any program, at least. most: those of an iteration, at most.
    """
    unit = share.step if period == 1 else period
    units, together = least // unit, max(1, most // unit)
    if units < 2 * together:
        return share
    first, end = share.first // period * period, share.first + share.rest
    if end < total:
        end = end // period * period
    each = units // -(-units // together)
    trips = units // each
    return Share(first, each * unit, trips, end - first - trips * each * unit)


def _programs(members: int, columns: int) -> tuple[int, int]:
    """Return how many programs share the members, and how many the columns.

    Programs share the members, or the columns where one program would have much less than the
    other.
    """
    programs = nl.num_programs()
    if members % programs == 0 or members >= 8 * programs or columns < PARTITIONS // 2:
        return programs, 1
    return 1, programs


def _span(total: int, programs: int) -> tuple[tuple[int, int], int, int]:
    """Return (first, count) of this program, the least count of any program, and the largest."""
    program = nl.program_id(0) % programs
    first = total * program // programs
    count = total * (program + 1) // programs - first
    return (first, count), total // programs, -(-total // programs)


def _block_size(counts: Sequence[int], size: tuple[int, int]) -> tuple[int, int]:
    """Return members and columns of a block: columns of one member, or several whole members."""
    (members, columns), (most, together) = counts, size
    if columns > max(PARTITIONS, most):
        width = _group_width(columns)
        return 1, width * max(1, most // width)
    each = max(1, PARTITIONS // columns)
    return min(members, each * max(1, together // (each * columns))), columns
