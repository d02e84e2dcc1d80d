"""Loops on the device over several axes at once, for block circulant kernels of wide layers.

A loop may not stand inside another loop, and a register cannot compute. So one loop counts the
positions of a grid, and a table in HBM says where each position lies in each tensor.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..tiles import PARTITIONS
from .circulant_areas import BLOCKS, GRID, ROWS, SLOTS, Area, part_of, size_of

TENSORS = 3  # tensors that work on an area reads or writes
_NONE = -1
WALKED = 2000  # instructions of a loop's body, beyond which the loop takes another axis


class Grid(nl.NKIObject):
    """An area cut into units along up to three axes, and the strips that the units leave."""

    counts: Any  # positions of this program along each axis
    steps: Any  # [tensor][axis]: numbers in HBM from one position to the next
    shared: int  # the axis that programs share
    first: int  # this program's first position along the shared axis
    once: Any  # the area at the first position
    strips: Any  # areas of both programs together, because both need the same loops


def longest_axes(counts: Any) -> Any:
    """Return the axes blocks, slots and rows in descending order of their counts."""
    left = [counts[0], counts[1], counts[2]]
    axes: Any = []
    for _ in range(3):
        longest = SLOTS
        for other in (ROWS, BLOCKS):
            if left[other] > left[longest]:
                longest = other
        left[longest] = _NONE
        axes.append(longest)
    return axes


def equal_part(count: int, most: int) -> int:
    """Return the largest divisor of ``count`` up to ``most``; equal parts leave no strip."""
    for part in range(min(count, most), 1, -1):
        if count % part == 0:
            return part
    return 1


def cut_into_grid(area: Any, axes: Any, unit: Any, steps: Any) -> Any:
    """Cut an area into a grid of units along some axes.

    The programs share the first axis along which both have the same number of units. unit: [blocks,
    slots, rows] of a position. steps: for each tensor, the numbers in HBM from one block, slot and
    row to the next.
    """
    grid = Grid([1, 1, 1], [[0, 0, 0], [0, 0, 0], [0, 0, 0]], 0, 0, area, [])
    for index in range(len(axes) - 1, -1, -1):
        axis = axes[index]
        if size_of(area, axis) % (nl.num_programs() * unit[axis]) == 0:
            grid.shared = index
    whole = area
    for index in range(len(axes)):
        axis = axes[index]
        programs = nl.num_programs() if index == grid.shared else 1
        count = size_of(area, axis) // (programs * unit[axis])
        taken = programs * count * unit[axis]
        grid.counts[index] = count
        for tensor in range(TENSORS):
            grid.steps[tensor][index] = unit[axis] * steps[tensor][axis]
        if taken < size_of(area, axis):
            strip = part_of(whole, axis, taken, size_of(area, axis) - taken)
            grid.strips.append(strip)
        whole = part_of(whole, axis, 0, taken)
        grid.once = part_of(grid.once, axis, 0, unit[axis])
    grid.first = nl.program_id(0) * grid.counts[grid.shared]
    return grid


def positions_of(grid: Any) -> int:
    """Return the number of positions of a grid."""
    number = 1
    for count in grid.counts:
        number *= count
    return number


def table_of(grid: Any) -> Any:
    """Return where each position lies in each tensor, int32 HBM [positions, tensors].

    The offsets are counted from the start of the area.
    """
    inner, innermost = grid.counts[1], grid.counts[2]
    each = inner * innermost
    table = nl.ndarray((positions_of(grid), TENSORS), dtype=nl.int32, buffer=nl.private_hbm)
    for low in range(0, grid.counts[0], PARTITIONS):
        rows = min(PARTITIONS, grid.counts[0] - low)
        tile = nl.ndarray((rows, each, TENSORS), dtype=nl.int32, buffer=nl.sbuf)
        for tensor in range(TENSORS):
            steps = grid.steps[tensor]
            nisa.iota(
                dst=tile[:, :, tensor],
                pattern=[[steps[1], inner], [steps[2], innermost]],
                offset=low * steps[0] + grid.first * steps[grid.shared],
                channel_multiplier=steps[0],
            )
        part = table[low * each : (low + rows) * each].reshape_dim(0, (rows, each))
        nisa.dma_copy(dst=part, src=tile, dge_mode=nisa.dge_mode.none)
    return table


def area_at(table: Any, position: Any, area: Any) -> Any:
    """Return the area at a position of a grid, which the register ``position`` counts.

    Its base has a register for each tensor.
    """
    place = nl.ndarray((1, TENSORS), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=place, src=table.ap([[TENSORS, 1], [1, TENSORS]], scalar_offset=position))
    bases = []
    for tensor in range(TENSORS):
        bases.append(place[:, tensor : tensor + 1])
    return Area(bases, GRID, area.block, area.blocks, area.slot, area.slots, area.row, area.rows)


def based_on(area: Any, tensor: int) -> Any:
    """Return a copy of an area for one tensor; in a grid, with the register for this tensor."""
    base = area.base[tensor] if area.axis == GRID else area.base
    return Area(
        base,
        area.axis,
        area.block,
        area.blocks,
        area.slot,
        area.slots,
        area.row,
        area.rows,
    )
