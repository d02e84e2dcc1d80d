"""Walks over areas in block circulant kernels: shared by programs, and loops where they are long.

A long walk is a loop on the device along the longest axis. In wide layers its body would still be
too long. Then one loop runs over several axes at once. A loop may not stand inside another loop, so
that it counts the positions of a grid, and a table in HBM says where each position lies in each
operand. What the equal areas of a loop leave is walked over in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from ..counting import counted
from ..engines import PARTITIONS, sbuf, transfer
from ..isa import nisa, nl
from ..launch import BODY_INSTRUCTIONS
from .circulant_areas import SLOTS, Area, Operand

BODY = BODY_INSTRUCTIONS // 3  # instructions of a loop's body: a launch has several passes


class Work(Protocol):
    """What a pass does with an area."""

    body: ClassVar[int]  # instructions of a loop's body, at most
    is_mirrored: ClassVar[bool]  # whether the last program takes the first part

    @property
    def operands(self) -> Sequence[Operand]:
        """What it reads and writes in HBM."""

    @property
    def grains(self) -> Mapping[int, int]:
        """Positions that programs may not share, by axis; of axes alike the first is taken."""

    def unit(self, area: Area) -> tuple[int, int, int, int]:
        """Return the positions along each axis that are processed at once."""

    def run(self, area: Area) -> None:
        """Do the work of an area."""


def for_area(work: Work, area: Area) -> None:
    """Do this program's share of the work of an area."""
    axes, unit = _cut(work, area)
    grid = _grid(area, axes, unit)
    if grid.positions < (2 if len(axes) == 1 else 1):
        mine = _most_equal_share(work, area)
        if min(mine.sizes) > 0:
            work.run(mine)
        return
    if SLOTS in axes and area.first[SLOTS] == 0 and area.slots > 1:
        for_area(work, area.part(SLOTS, 0, 1))
        for_area(work, area.part(SLOTS, 1, area.slots - 1))
        return
    if len(axes) == 1:
        step = unit[axes[0]]
        loop_along(work, grid.once, axes[0], grid.start * step, grid.positions)
    else:
        _loop_over(work, grid)
    for strip in grid.strips:
        for_area(work, strip)


def loop_along(work: Work, once: Area, axis: int, first: int, trips: int) -> None:
    """Do the work of an area and of those that follow along an axis, by a loop on the device."""
    moved = [operand for operand in work.operands if operand.strides[axis] > 0]

    def body(position: Any) -> None:
        bases = {operand: position * operand.strides[axis] for operand in moved}
        work.run(replace(once, bases=bases))

    step = once.sizes[axis]
    nl.fori_loop(first, first + trips * step, body, step)


def _most_equal_share(work: Work, area: Area) -> Area:
    """Return this program's share of an area, along the longest axis of equal shares if any."""

    def largest(axis: int) -> float:
        grain, programs = work.grains[axis], nl.num_programs()
        return -(-area.sizes[axis] // (grain * programs)) * grain / area.sizes[axis]

    axis = min(_longest_first(work, area), key=largest)
    return share_of(area, axis, work.grains[axis], work.is_mirrored)


def share_of(area: Area, axis: int, grain: int = 1, is_mirrored: bool = False) -> Area:
    """Return the part of an area, along an axis, that this program takes."""
    programs, program = nl.num_programs(), nl.program_id(0)
    if is_mirrored:
        program = programs - 1 - program
    size = area.sizes[axis]
    alone = 1 if axis == SLOTS and area.first[SLOTS] == 0 else 0  # slot 0 is in no grain
    grains = -(-(size - alone) // grain)
    first = 0 if program == 0 else alone + grains * program // programs * grain
    end = min(size, alone + grains * (program + 1) // programs * grain)
    return area.part(axis, first, end - first)


def instructions(work: Work, area: Area, most: float = math.inf) -> int:
    """Return how many instructions an area takes, counted up to a number."""
    with counted(most) as count:
        work.run(area)
    return count.instructions


def unit_of(work: Work, area: Area) -> Area:
    """Return the first positions of an area that are processed at once."""
    units = zip(work.unit(area), area.sizes, strict=True)
    return replace(area, sizes=tuple(min(unit, size) for unit, size in units))


def _cut(work: Work, area: Area) -> tuple[list[int], list[int]]:
    """Return the axes of a loop on the device, and the positions that its body takes along each.

    The axes are the longest one, and others if the body is too long. Along the last of them the
    body grows until it is as long as it may be.
    """
    unit, axes, once = list(work.unit(area)), list[int](), area
    for axis in _longest_first(work, area):
        size = area.sizes[axis]
        if axes and (size < 2 * unit[axis] or instructions(work, once, work.body) < work.body):
            continue
        axes.append(axis)
        once = once.part(axis, 0, min(unit[axis], size))
    last = axes[-1]
    count = area.sizes[last] // unit[last]
    if len(axes) > 1:
        unit[last] *= equal_part(count, work.body // instructions(work, once))
    elif count > 1:
        two = instructions(work, once.part(last, 0, 2 * unit[last]))
        unit[last] *= max(1, work.body // max(1, two - instructions(work, once)))
    return axes, unit


def _longest_first(work: Work, area: Area) -> list[int]:
    """Return the axes along which an area may be cut, those with the most units first."""
    unit = work.unit(area)
    return sorted(work.grains, key=lambda axis: area.sizes[axis] / unit[axis], reverse=True)


def equal_part(count: int, most: int) -> int:
    """Return the largest divisor of ``count`` up to ``most``; equal parts leave no strip."""
    return max(part for part in range(1, max(1, min(count, most)) + 1) if count % part == 0)


@dataclass(frozen=True)
class _Grid:
    """Equal areas along one to three axes, and the strips that they leave of a larger area."""

    once: Area  # the area at the first position of both programs
    axes: Sequence[int]
    counts: Sequence[int]  # positions of a program along each axis
    shared: int  # the number of the axis that programs share
    strips: Sequence[Area]  # of both programs together, because both need the same loops

    @property
    def positions(self) -> int:
        """Positions of a program."""
        return math.prod(self.counts)

    @property
    def start(self) -> int:
        """This program's first position along the shared axis."""
        return int(nl.program_id(0)) * self.counts[self.shared]


def _grid(area: Area, axes: Sequence[int], unit: Sequence[int]) -> _Grid:
    """Cut an area into units along axes.

    The programs share the first axis along which both have the same number of units.
    """
    programs = nl.num_programs()
    even = [area.sizes[axis] % (programs * unit[axis]) == 0 for axis in axes]
    shared = even.index(True) if any(even) else 0
    once, whole = area, area
    counts, strips = list[int](), list[Area]()
    for index, axis in enumerate(axes):
        sharing = programs if index == shared else 1
        count = area.sizes[axis] // (sharing * unit[axis])
        taken = sharing * count * unit[axis]
        if taken < area.sizes[axis]:
            strips.append(whole.part(axis, taken, area.sizes[axis] - taken))
        whole = whole.part(axis, 0, taken)
        once = once.part(axis, 0, unit[axis])
        counts.append(count)
    return _Grid(once, axes, counts, shared, strips)


def _loop_over(work: Work, grid: _Grid) -> None:
    """Do the work of a grid's positions, by a loop on the device."""
    moved = [each for each in work.operands if any(each.strides[axis] for axis in grid.axes)]
    table, number = _table(moved, grid), len(moved)

    def body(position: Any) -> None:
        place = sbuf((1, number), nl.int32)
        transfer(place, table.ap([[number, 1], [1, number]], scalar_offset=position), position)
        bases = {each: place[:, i : i + 1] for i, each in enumerate(moved)}
        work.run(replace(grid.once, bases=bases))

    nl.fori_loop(0, grid.positions, body)


def _table(operands: Sequence[Operand], grid: _Grid) -> Tensor:
    """Return where each position lies in each operand, int32 HBM [positions, operands].

    The offsets are counted from the start of the grid.
    """
    outermost, inner, innermost = (*grid.counts, 1)[:3]
    each = inner * innermost
    shape = (grid.positions, len(operands))
    table = nl.ndarray(shape, dtype=nl.int32, buffer=nl.private_hbm)
    for low in range(0, outermost, PARTITIONS):
        rows = min(PARTITIONS, outermost - low)
        tile = sbuf((rows, each, len(operands)), nl.int32)
        for index, operand in enumerate(operands):
            steps = [grid.once.sizes[axis] * operand.strides[axis] for axis in grid.axes]
            outer, *rest = (*steps, 0)[:3]
            nisa.iota(
                dst=tile[:, :, index],
                pattern=[[rest[0], inner], [rest[1], innermost]],
                offset=low * outer + grid.start * steps[grid.shared],
                channel_multiplier=outer,
            )
        part = table[low * each : (low + rows) * each].reshape_dim(0, (rows, each))
        transfer(part, tile)
    return table
