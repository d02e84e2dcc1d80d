"""Rows of a batch, shared among the programs of a launch and walked block by block.

A launch on logical cores of two NeuronCores (LNC = 2) runs its program on both cores, and each
takes its share of the rows. A compiler takes minutes for a launch of 100,000 instructions. A long
batch is therefore a loop on the device, whose body processes as many blocks as its number of
instructions allows: the engines wait for each other at the end of every iteration, so that blocks
overlap only inside an iteration. The rows that the iterations leave follow unrolled. Both programs
must have the same loops with the same number of iterations (error NCC_IXGM002 of the compiler).
"""

from __future__ import annotations

from typing import Any

from nki_sim.hardware import PARTITIONS

from .isa import nisa, nl
from .tiles import element_count

LAUNCH_INSTRUCTIONS = 30_000  # instructions of a launch, with the body of a loop counted once
# instructions of a loop's body, because a launch may consist of several passes
_BODY_INSTRUCTIONS = 4_000
_SHORT_PART = 880  # numbers that a DMA engine moves while it prepares a copy, on v2
_RAMPED = 3  # blocks, from which on the first and the last are halved


class HbmRows(nl.NKIObject):
    """Rows of an HBM tensor, of which the first numbers hold data."""

    tensor: Any  # HBM [..., pitch], whole, so that its rows can be addressed in a device loop
    columns: int  # how many numbers of a row hold data
    is_made: bool = False  # whether an earlier pass of this launch makes them


class Share(nl.NKIObject):
    """The rows of this program."""

    first: int  # the first row
    step: int  # rows of an iteration of the device loop
    trips: int  # number of iterations, the same in every program
    rest: int  # rows after the loop


class Rows(nl.NKIObject):
    """Rows of one block, which lie on partitions one after the other."""

    base: Any  # register with the row at which a device loop's iteration begins, or None
    first: int  # the block's first row, counted from the base
    partitions: int  # number of partitions that hold rows
    each: int  # rows of a partition


def share_rows(batch: int, block: int, instructions: int) -> Share:
    """Return this program's share of a batch, in blocks of ``block`` rows.

    instructions: how many instructions a block takes.
    """
    programs, program = nl.num_programs(), nl.program_id(0)
    first = batch * program // programs
    count = batch * (program + 1) // programs - first
    step = block * max(1, _BODY_INSTRUCTIONS // instructions)
    trips = batch // programs // step
    if trips < 2:
        trips = 0
    return Share(first, step, trips, count - trips * step)


def blocks_of(base: Any, first: int, count: int, most: int) -> Any:
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


def ramped(blocks: Any, together: int) -> Any:
    """Return blocks of which the first and the last are halved, if their rows allow this.

    Nothing overlaps the first load and the last store. together: rows that may not be parted.
    """
    found: Any = []
    for index in range(len(blocks)):
        rows = blocks[index]
        is_end = index == 0 or index + 1 == len(blocks)
        if len(blocks) < _RAMPED or not is_end or rows.each % (2 * together) != 0:
            found.append(rows)
            continue
        each = rows.each // 2
        found.append(Rows(rows.base, rows.first, rows.partitions, each))
        found.append(Rows(rows.base, rows.first + each * rows.partitions, rows.partitions, each))
    return found


def row_count(x: Any) -> int:
    """Return the number of rows of HBM x [..., N]."""
    return element_count(x.shape[0 : len(x.shape) - 1])


def rows_in_hbm(x: Any, rows: Rows, low: int, high: int) -> Any:
    """Return columns low..high of a block's rows in HBM x, [partitions, each, high - low]."""
    return part_of_rows(x, rows, 0, rows.each, low, high)


def part_of_rows(x: Any, rows: Rows, row: int, count: int, low: int, high: int) -> Any:
    """Return the same view for ``count`` rows of each partition, from number ``row`` on."""
    last = len(x.shape) - 1
    pitch = x.shape[last]
    pattern = [[rows.each * pitch, rows.partitions], [pitch, count], [1, high - low]]
    offset = (rows.first + row) * pitch + low
    # The register counts rows of all dimensions before the last, so it moves by the step of the
    # last of these dimensions.
    return x.ap(pattern, offset, scalar_offset=rows.base, indirect_dim=last - 1)


def rows_together(base: Any, partitions: int, rows: int, size: int) -> int:
    """Return how many rows a DMA loads, with ``size`` numbers of each on every partition.

    Fewer copies cost the DMA engines less time. But rows together may be a power of two apart, and
    then come at little more than half the rate on NeuronCore-v2. There, each DMA loads one row if
    an engine's part of it takes longer than the engine needs to prepare a copy. At an address in a
    register, each DMA costs a microsecond of GpSimdE.
    """
    if base is not None or nisa.get_nc_version() != nisa.nc_version.gen2:
        return rows
    # An engine needs 21 ns for each partition, and at this rate 0.42 ns for a number.
    of_engine = max(4, partitions // 16) * (size + 50)
    return rows if of_engine <= _SHORT_PART else 1


def descriptors(base: Any) -> Any:
    """Return who writes a transfer's descriptors: the host, where no register is in its address."""
    return nisa.dge_mode.none if base is None else nisa.dge_mode.unknown


def load_rows(tile: Any, x: Any, rows: Rows, columns: int) -> None:
    """Load ``columns`` numbers of each row of HBM x into SBUF [partitions, each, n], then zeros."""
    n = tile.shape[2]
    if columns < n:
        nisa.memset(dst=tile[:, :, columns:n], value=0.0)
    source = rows_in_hbm(x, rows, 0, columns)
    nisa.dma_copy(dst=tile[:, :, 0:columns], src=source, dge_mode=descriptors(rows.base))


def store_rows(y: Any, tile: Any, rows: Rows, columns: int) -> None:
    """Store ``columns`` numbers of each row of SBUF [partitions, each, n] in HBM y [..., N]."""
    target = rows_in_hbm(y, rows, 0, columns)
    nisa.dma_copy(dst=target, src=tile[:, :, 0:columns], dge_mode=descriptors(rows.base))
