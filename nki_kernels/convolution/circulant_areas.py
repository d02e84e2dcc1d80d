"""Areas of block circulant kernels: boxes of blocks, slots and rows, and walks over them.

Programs share a walk. A long walk is a loop on the device along the longest axis. In wide layers
its body would still be too long. Then one loop runs over several axes at once. A loop may not stand
inside another loop, so that it counts the positions of a grid, and a table in HBM says where each
position lies in each operand. What the equal areas of a loop leave is walked over in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from ..base.counting import counted
from ..base.engines import PARTITIONS, PSUM_BANK, addressed, chunks, sbuf, transfer
from ..base.isa import Tensor, nisa, nl
from ..base.launch import BODY_INSTRUCTIONS
from ..real.real_dft_gemm import contracted_half

LOADED = 4096  # fp32 numbers a partition that one load brings, at most
STAGED = 1024  # the same for loads of the weight's spectra
WIDE = 64  # columns that a stationary operand has at least
# Axes of an area: names of its fields. TOPS are blocks of x, where BLOCKS are those of y.
BLOCKS, SLOTS, ROWS, TOPS = "blocks", "slots", "rows", "tops"
BODY = BODY_INSTRUCTIONS // 3  # instructions of a loop's body: a launch has several passes
_BLOCKS = 64  # blocks that a product takes, at most, with both parts

Pattern = Sequence[Sequence[int]]
Run = Callable[["Area"], None]


def spectrum_rows(k: int) -> int:
    """Return the numbers of a block's spectrum, slots with two parts: k, or k + 1 for odd k."""
    return 2 * contracted_half(k)


def row_pitch(rows: int) -> int:
    """Return the distance of rows of spectra in HBM.

    It avoids large powers of two, at which DMA would run at half its rate.
    """
    return rows + 16 if rows > PSUM_BANK and rows & (rows - 1) == 0 else rows


def blocks_together(k: int) -> int:
    """Return how many blocks one product transforms, at least 1."""
    return max(1, PARTITIONS // spectrum_rows(k))


def chunk_size(blocks: int) -> int:
    """Return how many blocks a product takes: all, or equal parts of at most 64."""
    return -(-blocks // -(-blocks // _BLOCKS))


@dataclass(frozen=True)
class Area:
    """A box of positions along four axes; registers of a loop may move it."""

    blocks: int
    slots: int
    rows: int
    tops: int = 1
    block: int = 0  # the first of the blocks
    slot: int = 0
    row: int = 0
    top: int = 0
    # for operands that an iteration moves, the register with the numbers by which it does so
    bases: Mapping[Operand, Any] = field(default_factory=dict)

    def size(self, axis: str) -> int:
        """Return the number of positions along an axis."""
        return int(getattr(self, axis))

    def first(self, axis: str) -> int:
        """Return the first position along an axis, whose field has the singular of its name."""
        return int(getattr(self, axis[:-1]))

    def part(self, axis: str, first: int, count: int) -> Area:
        """Return ``count`` positions along an axis, from ``first`` on."""
        changed: dict[str, Any] = {axis[:-1]: self.first(axis) + first, axis: count}
        return replace(self, **changed)

    def cut(self, axis: str, step: int) -> Iterator[Area]:
        """Return parts with ``step`` positions along an axis, the last one with what is left."""
        return (self.part(axis, *part) for part in chunks(self.size(axis), step))


@dataclass(eq=False)
class Operand:
    """A tensor in HBM, in which the positions of an area have their places."""

    tensor: Tensor
    strides: Mapping[str, int]  # numbers from one position of an axis to the next

    def view(self, area: Area, pattern: Pattern, more: int) -> Tensor:
        """Return a view with a pattern, ``more`` numbers after an area's first position."""
        places = (area.first(axis) * stride for axis, stride in self.strides.items())
        offset = more + sum(places)
        last = len(self.tensor.shape) - 1  # registers count numbers
        return addressed(self.tensor, pattern, offset, area.bases.get(self), last)

    def load(self, tile: Tensor, area: Area, pattern: Pattern, more: int = 0) -> None:
        """Load a tile from a view."""
        transfer(tile, self.view(area, pattern, more), area.bases.get(self))

    def store(self, tile: Tensor, area: Area, pattern: Pattern, more: int = 0) -> None:
        """Store a tile in a view."""
        transfer(self.view(area, pattern, more), tile, area.bases.get(self))


@dataclass(frozen=True)
class Group:
    """Slots that are multiplied together: ``side`` runs of consecutive slots."""

    area: Area
    side: int

    @property
    def together(self) -> int:
        """Slots of a run."""
        return self.area.slots // self.side

    @property
    def is_first(self) -> bool:
        """Whether it is slot 0, whose parts are two real frequencies."""
        return self.area.slot == 0


class Spectra(Operand):
    """Spectra in HBM, [blocks, 2h, pitch]."""

    def __init__(self, tensor: Tensor, blocks: str | None, rows: str | None) -> None:
        """Take the axes along which an area has some of the blocks and rows; None: all."""
        self.blocks, self.height, self.pitch = tensor.shape
        self.size, self.chunk = self.height * self.pitch, chunk_size(self.blocks)
        strides = {blocks: self.size, SLOTS: self.pitch, rows: 1}
        super().__init__(tensor, {axis: stride for axis, stride in strides.items() if axis})

    def slots(self, group: Group, blocks: int, rows: int) -> Pattern:
        """Return the pattern of a group's slots, [side, part, blocks, together, rows]."""
        sides = [group.together * self.pitch, group.side]
        parts, lines = [self.size // 2, 2], [self.pitch, group.together]
        return [sides, parts, [self.size, blocks], lines, [1, rows]]


# Walks.


class Work(Protocol):
    """What a pass does with an area. Its fields have the operands."""

    is_mirrored: ClassVar[bool]  # whether the last program takes the first part

    @property
    def grains(self) -> Mapping[str, int]:
        """Positions of an axis that programs do not share, where they are several."""

    def unit(self, area: Area) -> Mapping[str, int]:
        """Return the positions of an area that are processed at once, by the axes to cut."""

    def run(self, area: Area) -> None:
        """Do the work of an area."""


def for_area(work: Work, area: Area, depth: int = 0) -> None:
    """Do this program's share of the work of an area.

    depth: how many areas it is a strip of. Strips of strips are many, and so their bodies short.
    """
    grid = _grid(area, _parts(work, area, BODY // max(1, depth)))
    if grid.positions < (2 if len(grid.axes) == 1 else 1):
        mine = _most_equal_share(work, area)
        if min(mine.blocks, mine.slots, mine.rows, mine.tops) > 0:
            work.run(mine)
    elif SLOTS in grid.axes and area.slot == 0 and area.slots > 1:
        # Slot 0 has another form than those that follow.
        for_area(work, area.part(SLOTS, 0, 1), depth)
        for_area(work, area.part(SLOTS, 1, area.slots - 1), depth)
    else:
        operands = [each for each in vars(work).values() if isinstance(each, Operand)]
        if len(grid.axes) == 1:
            axis = grid.axes[0]
            first = grid.start * grid.once.size(axis)
            loop_along(work.run, operands, axis, grid.once, first, grid.positions)
        else:
            _loop_over(work.run, operands, grid)
        for strip in grid.strips:
            for_area(work, strip, depth + 1)


def loop_along(
    run: Run, operands: Sequence[Operand], axis: str, once: Area, first: int, trips: int
) -> None:
    """Run an area and those that follow along an axis, by a loop on the device."""

    def body(position: Any) -> None:
        moved = [operand for operand in operands if axis in operand.strides]
        bases = {operand: position * operand.strides[axis] for operand in moved}
        run(replace(once, bases=bases))

    step = once.size(axis)
    nl.fori_loop(first, first + trips * step, body, step)


def instructions(run: Run, area: Area, most: float = math.inf) -> int:
    """Return how many instructions an area takes, counted up to a number."""
    with counted(most) as count:
        run(area)
    return count.instructions


# Shares of programs.


def share_of(area: Area, axis: str, grain: int = 1, is_mirrored: bool = False) -> Area:
    """Return the part of an area, along an axis, that this program takes: whole grains."""
    programs, program = nl.num_programs(), nl.program_id(0)
    if is_mirrored:
        program = programs - 1 - program
    size = area.size(axis)
    alone = 1 if axis == SLOTS and area.slot == 0 else 0  # slot 0 is in no grain
    grains = -(-(size - alone) // grain)
    first = 0 if program == 0 else alone + grains * program // programs * grain
    end = min(size, alone + grains * (program + 1) // programs * grain)
    return area.part(axis, first, end - first)


def _most_equal_share(work: Work, area: Area) -> Area:
    """Return this program's share of an area, along the longest axis of equal shares if any."""

    def largest(axis: str) -> float:
        grain = work.grains.get(axis, 1)
        return -(-area.size(axis) // (grain * nl.num_programs())) * grain / area.size(axis)

    axis = min(_longest_first(area, work.unit(area)), key=largest)
    return share_of(area, axis, work.grains.get(axis, 1), work.is_mirrored)


def _longest_first(area: Area, unit: Mapping[str, int]) -> list[str]:
    """Return the axes along which an area may be cut, those with the most units first."""
    return sorted(unit, key=lambda axis: area.size(axis) / unit[axis], reverse=True)


# Grids.


@dataclass(frozen=True)
class _Grid:
    """Equal areas along one to three axes, and the strips that they leave of a larger area."""

    once: Area  # the area at the first position of both programs
    axes: Sequence[str]
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


def _grid(area: Area, parts: Mapping[str, int]) -> _Grid:
    """Cut an area into parts that take a loop's body each, of so many positions of some axes.

    The programs share the first axis along which both have the same number of parts.
    """
    programs = nl.num_programs()
    even = [area.size(axis) % (programs * part) == 0 for axis, part in parts.items()]
    shared = even.index(True) if any(even) else 0
    once, whole, counts, strips = area, area, list[int](), list[Area]()
    for index, (axis, part) in enumerate(parts.items()):
        sharing = programs if index == shared else 1
        counts.append(area.size(axis) // (sharing * part))
        taken = sharing * counts[-1] * part
        if taken < area.size(axis):
            strips.append(whole.part(axis, taken, area.size(axis) - taken))
        whole, once = whole.part(axis, 0, taken), once.part(axis, 0, part)
    return _Grid(once, list(parts), counts, shared, strips)


def _parts(work: Work, area: Area, most: int) -> dict[str, int]:
    """Return the axes of a loop on the device, with the positions that its body takes of each.

    The axes are the longest one, and others if the body is too long. Along the last of them the
    body grows until it is as long as it may be.
    """
    unit, found, once = work.unit(area), dict[str, int](), area
    for axis in _longest_first(area, unit):
        size = area.size(axis)
        if found and (size < 2 * unit[axis] or instructions(work.run, once, most) < most):
            continue
        found[axis], last = unit[axis], axis
        once = once.part(axis, 0, min(unit[axis], size))
    count = area.size(last) // unit[last]
    if len(found) > 1:
        found[last] *= equal_part(count, most // instructions(work.run, once))
    elif count > 1:
        two = instructions(work.run, once.part(last, 0, 2 * unit[last]))
        found[last] *= max(1, most // max(1, two - instructions(work.run, once)))
    return found


def equal_part(count: int, most: int) -> int:
    """Return the largest divisor of ``count`` up to ``most``; equal parts leave no strip."""
    return max(part for part in range(1, max(1, min(count, most)) + 1) if count % part == 0)


def _loop_over(run: Run, operands: Sequence[Operand], grid: _Grid) -> None:
    """Run a grid's positions, by a loop on the device."""
    moved = [operand for operand in operands if not operand.strides.keys().isdisjoint(grid.axes)]
    table, number = _table(moved, grid), len(moved)

    def body(position: Any) -> None:
        place = sbuf((1, number), nl.int32)
        transfer(place, table.ap([[number, 1], [1, number]], scalar_offset=position), position)
        bases = {operand: place[:, i : i + 1] for i, operand in enumerate(moved)}
        run(replace(grid.once, bases=bases))

    nl.fori_loop(0, grid.positions, body)


def _table(operands: Sequence[Operand], grid: _Grid) -> Tensor:
    """Return where each position lies in each operand, int32 HBM [positions, operands].

    The offsets are counted from the start of the grid.
    """
    outermost, inner, innermost = (*grid.counts, 1)[:3]
    each = inner * innermost
    shape = (grid.positions, len(operands))
    table: Tensor = nl.ndarray(shape, dtype=nl.int32, buffer=nl.private_hbm)
    for low, rows in chunks(outermost):
        tile = sbuf((rows, each, len(operands)), nl.int32)
        for index, operand in enumerate(operands):
            steps = [grid.once.size(axis) * operand.strides.get(axis, 0) for axis in grid.axes]
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
