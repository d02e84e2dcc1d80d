"""Rows of a batch: shared among the programs of a launch, unrolled or looped on the device.

A launch on logical cores of two NeuronCores (LNC = 2) runs its program on both cores, and each
takes its share of the rows. A compiler takes minutes for a launch of 100,000 instructions. A long
batch is therefore a loop on the device, whose body processes as many blocks as its number of
instructions allows: the engines wait for each other at the end of every iteration, so that blocks
overlap only inside an iteration. The rows that the iterations leave follow unrolled. Both programs
must have the same loops with the same number of iterations (error NCC_IXGM002 of the compiler).

``for_rows`` does all of this. A kernel says what blocks share and what a block does (``Work``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Protocol

from nki_sim.hardware import PARTITIONS

from . import chip, counting
from .counting import Count, counted
from .engines import NARROW, clear, element_count, transfer
from .isa import Tensor, nisa, nl
from .pipeline import TURN, Block, Item, Order, in_turn, pipeline
from .tables import load_identity

LAUNCH_INSTRUCTIONS = 30_000  # instructions of a launch, with the body of a loop counted once
# about the instructions of a loop's body, and half of those up to which rows are unrolled: a launch
# may consist of several passes
BODY_INSTRUCTIONS = 4_000
_LITTLE = 8192  # numbers of a batch up to which the data comes after what blocks share
_RAMPED = 3  # blocks, from which on the first and the last are halved


@dataclass(frozen=True)
class HbmRows:
    """Rows of an HBM tensor, of which the first numbers hold data."""

    tensor: Tensor  # HBM [..., pitch], whole, so that its rows can be addressed in a device loop
    columns: int  # how many numbers of a row hold data
    is_made: bool = False  # whether an earlier pass of this launch makes them


@dataclass(frozen=True)
class Share:
    """The rows of this program."""

    first: int  # the first row
    step: int  # rows of an iteration of the device loop
    trips: int  # number of iterations, the same in every program
    rest: int  # rows after the loop

    @property
    def end(self) -> int:
        """The row after those of the loop."""
        return self.first + self.trips * self.step


@dataclass(frozen=True)
class Rows:
    """Rows of one block, which lie on partitions one after the other."""

    base: object  # register with the row at which a device loop's iteration begins, or None
    first: int  # the block's first row, counted from the base
    partitions: int  # number of partitions that hold rows
    each: int  # rows of a partition


# A way to cut ``count`` rows from ``first`` on, counted from a base, into blocks.
Split = Callable[[object, int, int], Sequence[Rows]]


class Work(Protocol):
    """What a launch does with its rows."""

    def setup(self) -> None:
        """Load what all blocks share."""

    def block(self, rows: Rows, number: int) -> Block:
        """Return the block of these rows, the ``number``-th of an iteration."""


def for_rows(
    batch: int,
    work: Work,
    most: int,
    split: Split,
    order: Order | None,
    *,
    opened: int = 1,
    times: int = 1,
    unit: int = 1,
) -> None:
    """Run the blocks of all rows of this program.

    What blocks share is loaded behind the loads of the first blocks, or else before a loop.

    Args:
        batch: the rows of all programs.
        work: what to do with them.
        most: rows of a block, at most, or of blocks that belong together.
        split: how rows are cut into blocks.
        order: how blocks follow each other; None: each ends before the next one begins, and may
            itself consist of blocks in turn.
        opened: the number of these first blocks.
        times: how often the launch does such work, whose loops therefore have shorter bodies.
        unit: what the register of a loop counts for each row.
    """
    share = share_rows(batch, most, work, split, times)

    def blocks(base: object, first: int, count: int) -> Iterator[Block]:
        return (work.block(rows, number) for number, rows in enumerate(split(base, first, count)))

    def body(row: object) -> None:
        _run(blocks(row, 0, share.step), order)

    if share.trips > 0:
        work.setup()
        nl.fori_loop(share.first * unit, share.end * unit, body, share.step * unit)
    rest = blocks(None, share.end, share.rest)
    if share.trips == 0:
        if share.rest == 0:
            return _load_constants(work, split(None, 0, min(batch, most)))
        first = [chain([next(block)], block) for block in islice(rest, opened)]
        work.setup()
        rest = chain(first, rest)
    return _run(rest, order)


def _load_constants(work: Work, blocks: Sequence[Rows]) -> None:
    """Load the constants that all programs share, where this program has no rows."""
    if not counting.CAN_MUTE:
        work.setup()  # they are among what blocks share
        return
    for dtype in count_of(work, blocks).identities:
        load_identity(dtype)


def _run(blocks: Iterator[Block], order: Order | None) -> None:
    pipeline(_items(blocks, order), 2 if order is None else order.begun)


def _items(blocks: Iterator[Block], order: Order | None) -> Iterator[Item]:
    """Yield the items of blocks in their order."""
    if order is not None:
        yield from in_turn(blocks, order)
        return
    for block in blocks:
        yield from block
        yield TURN


def share_rows(batch: int, most: int, work: Work, split: Split, times: int = 1) -> Share:
    """Return this program's share of a batch, with a loop where its blocks are many."""
    programs, program = nl.num_programs(), nl.program_id(0)
    first = batch * program // programs
    count = batch * (program + 1) // programs - first
    trips, step, least = 0, most, batch // programs
    if least >= 2 * most:
        instructions = count_of(work, split(None, 0, most)).instructions
        if times * instructions * least > 2 * BODY_INSTRUCTIONS * most:
            step *= max(1, round(BODY_INSTRUCTIONS / (times * instructions)))
            trips = least // step
    if trips < 2:
        trips = 0
    return Share(first, step, trips, count - trips * step)


def most_blocks(batch: int, split: Split) -> int:
    """Return the largest number of blocks of a program without a loop.

    The program with a row less may have a block more, because its rows divide less evenly.
    """
    programs = nl.num_programs()
    return max(len(split(None, 0, rows)) for rows in (batch // programs, -(-batch // programs)))


def count_of(work: Work, blocks: Sequence[Rows]) -> Count:
    """Return what blocks issue, with the identities that their setup loads."""
    if not counting.CAN_MUTE:
        return Count(counting.TYPICAL * len(blocks))
    with counted() as shared:
        work.setup()
    with counted() as count:
        for number, rows in enumerate(blocks):
            pipeline(work.block(rows, number))
    return replace(count, identities=shared.identities)


# Blocks of rows on partitions.


def on_partitions(each: int, together: int = 2) -> Split:
    """Return blocks of 128 partitions with up to ``each`` rows, the first and the last halved.

    together: rows of a partition that may not be parted.
    """
    return lambda base, first, count: ramped(blocks_of(base, first, count, each), together)


def blocks_of(base: object, first: int, count: int, most: int) -> list[Rows]:
    """Return ``count`` rows as blocks of up to 128 partitions with up to ``most`` rows each.

    The last rows are one block where they divide evenly, else a block of 128 partitions and one
    more.
    """
    blocks = []
    end = first + count
    while first < end:
        left = end - first
        each = -(-left // PARTITIONS)
        if each > most or left % each != 0:
            each = min(most, max(1, left // PARTITIONS))
        partitions = min(PARTITIONS, left // each)
        blocks.append(Rows(base, first, partitions, each))
        first += partitions * each
    return blocks


def ramped(blocks: Sequence[Rows], together: int) -> list[Rows]:
    """Return blocks of which the first and the last are halved, if their rows allow this.

    Nothing overlaps the first load and the last store. together: rows that may not be parted.
    """
    found: list[Rows] = []
    for index, rows in enumerate(blocks):
        is_end = index == 0 or index + 1 == len(blocks)
        if len(blocks) < _RAMPED or not is_end or rows.each % (2 * together) != 0:
            found.append(rows)
            continue
        each = rows.each // 2
        second = rows.first + each * rows.partitions
        found += [replace(rows, each=each), replace(rows, first=second, each=each)]
    return found


def whole(base: object, first: int, count: int) -> list[Rows]:
    """Return all rows as one block."""
    return [Rows(base, first, 1, count)] if count > 0 else []


def singles(base: object, first: int, count: int) -> list[Rows]:
    """Return each row as a block."""
    return [Rows(base, row, 1, 1) for row in range(first, first + count)]


# Rows in HBM.


def rows_of_arrays(*arrays: Tensor) -> list[Tensor]:
    """Return arrays of HBM [B, n1, n2, ...], whole, as views of rows [B, n1 n2 ...].

    A row of the batch has as many numbers in the view as in the array, so that the register of a
    device loop means the same in both.
    """
    return [
        x if len(x.shape) == 2 else x.reshape((x.shape[0], element_count(x.shape[1:])))
        for x in arrays
    ]


def row_count(x: Tensor) -> int:
    """Return the number of rows of HBM x [..., N]."""
    return element_count(x.shape[:-1])


def is_data_first(rows: HbmRows, n: int) -> bool:
    """Return whether rows of n numbers are loaded before what blocks share.

    A small amount of data would only wait for it, unless its rows are checked before they are
    transposed. Where an earlier pass makes the data, the rest would have to wait for that pass.
    """
    if rows.is_made:
        return False
    batch = row_count(rows.tensor)
    if chip.transposes_mix_rows():
        return batch > 1
    return batch > NARROW and batch * n > _LITTLE


def rows_in_hbm(x: Tensor, rows: Rows, low: int, high: int) -> Tensor:
    """Return columns low..high of a block's rows in HBM x, [partitions, each, high - low]."""
    return part_of_rows(x, rows, 0, rows.each, low, high)


def part_of_rows(x: Tensor, rows: Rows, row: int, count: int, low: int, high: int) -> Tensor:
    """Return the same view for ``count`` rows of each partition, from number ``row`` on."""
    pitch = x.shape[-1]
    pattern = [[rows.each * pitch, rows.partitions], [pitch, count], [1, high - low]]
    offset = (rows.first + row) * pitch + low
    # The register counts rows of all dimensions before the last, so it moves by the step of the
    # last of these dimensions.
    return x.ap(pattern, offset, scalar_offset=rows.base, indirect_dim=len(x.shape) - 2)


def load_rows(tile: Tensor, x: Tensor, rows: Rows, columns: int) -> None:
    """Load ``columns`` numbers of each row of HBM x into SBUF [partitions, each, n], then zeros."""
    n = tile.shape[2]
    if columns < n:
        clear(tile[:, :, columns:n])
    transfer(tile[:, :, 0:columns], rows_in_hbm(x, rows, 0, columns), rows.base)


def store_rows(y: Tensor, tile: Tensor, rows: Rows, columns: int, row: int = 0) -> None:
    """Store ``columns`` numbers of each row of SBUF [partitions, count, n] in HBM y [..., N].

    row: the number of the first of these rows on each partition, of the block's.
    """
    target = part_of_rows(y, rows, row, tile.shape[1], 0, columns)
    transfer(target, tile[:, :, 0:columns], rows.base)


def meet(*tensors: Tensor) -> None:
    """Wait until both programs have written their shares of tensors in shared HBM."""
    if nl.num_programs() > 1:
        for tensor in tensors:
            nisa.core_barrier(tensor, (0, 1))
