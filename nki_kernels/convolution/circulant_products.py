"""Products of spectra in block circulant kernels: by the weight's, or summed over rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import ClassVar

from ..base.engines import (
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    chunks,
    clear,
    evacuate,
    multiply,
    psum,
    sbuf,
    transpose,
)
from ..base.isa import Tensor, nisa, nl
from .circulant_areas import (
    BLOCKS,
    BODY,
    LOADED,
    ROWS,
    SLOTS,
    STAGED,
    TOPS,
    WIDE,
    Area,
    Group,
    Spectra,
    equal_part,
    for_area,
    instructions,
    loop_along,
    share_of,
)
from .circulant_transforms import Tools

_ROWS = 1024  # rows whose spectra are multiplied and summed at once
_SUMS = 8192  # fp32 numbers a partition that hold sums


# Products by the weight.


@dataclass(frozen=True)
class Matrices:
    """A stationary matrix for each of some slots: SBUF [K, slots, columns], zeros past ``used``."""

    tile: Tensor
    used: int


@dataclass(frozen=True)
class Product:
    """Spectra in HBM times spectra of the weight, over areas of the result."""

    tools: Tools
    source: Spectra
    weights: Spectra
    target: Spectra
    side: int  # slots side by side, at most
    is_turned: bool  # whether matrices are transposed, for spectra of dx from spectra of dy
    is_mirrored: ClassVar[bool] = False

    @property
    def grains(self) -> Mapping[str, int]:
        """Blocks of the result are shared in whole chunks, and many slots in whole sides."""
        side = self.side if self.target.height >= 8 * self.side else 1
        return {SLOTS: side, BLOCKS: self.target.chunk}

    @property
    def pieces(self) -> int:
        """Chunks of the blocks that are contracted."""
        return -(-self.source.blocks // self.source.chunk)

    def step(self, area: Area) -> int:
        """Return how many rows are multiplied at once."""
        return max(1, min(area.rows, PSUM_BANK, LOADED // self.pieces))

    def unit(self, area: Area) -> Mapping[str, int]:
        """Return the slots, rows and blocks that are multiplied at once."""
        side = min(self.side, area.slots)
        return {SLOTS: side, ROWS: self.step(area), BLOCKS: self.target.chunk}

    def groups(self, area: Area) -> Iterator[Group]:
        """Yield the slots of an area that are multiplied together, as many as fit."""
        widest, rows = max(self.source.chunk, self.target.chunk), self.step(area)
        while area.slots > 0:
            side = min(self.side, area.slots)
            columns = max(WIDE, rows, 2 * side * widest)
            most = min(LOADED // (self.pieces * columns), STAGED // (2 * widest))
            slots = side * max(1, min(most, area.slots // side))
            if area.slot == 0:
                side = slots = 1
            yield Group(area.part(SLOTS, 0, slots), side)
            area = area.part(SLOTS, slots, area.slots - slots)

    def span(self, group: Group) -> int:
        """Return how many blocks of the result have their matrices loaded at once.

        They are whole chunks. Long runs of DMA are faster.
        """
        wide, together = self.target.chunk, group.together
        if self.is_turned:
            return wide
        columns = max(WIDE, 2 * group.side * wide)
        held = min(
            STAGED // (2 * together * wide), 4 * LOADED // (self.pieces * together * columns)
        )
        return wide * max(1, held)

    def run(self, area: Area) -> None:
        """Make the products of an area, group by group, as many rows at a time as fit."""
        loads, staged, step = self.tools.loads(0), cycle(self.tools.staged), self.step(area)
        for group in self.groups(area):
            span, loaded = self.span(group), list[Tensor]()
            is_shared = area.blocks > span and area.rows <= step
            if is_shared:
                loaded = self._load(group, group.area, next(loads))
            for box in group.area.cut(BLOCKS, span):
                matrices = self._matrices(group, box, staged)
                for rows in box.cut(ROWS, step):
                    if not is_shared:
                        loaded = self._load(group, rows, next(loads))
                    parts = rows.cut(BLOCKS, self.target.chunk)
                    for chunk, own in zip(parts, matrices, strict=True):
                        self._multiply(group, chunk, own, loaded)

    def _load(self, group: Group, area: Area, memory: Tensor) -> list[Tensor]:
        """Load a group's slots of all blocks, [(u part block), slots, rows] for each chunk."""
        of, size, loaded = self.source, group.together * area.rows, list[Tensor]()
        for first, held in chunks(of.blocks, of.chunk):
            at = len(loaded) * size
            tile = memory[0 : 2 * group.side * held, at : at + size]
            loaded.append(tile.reshape((tile.shape[0], group.together, area.rows)))
            of.load(loaded[-1], area, of.slots(group, held, area.rows), first * of.size)
        return loaded

    def _multiply(
        self, group: Group, area: Area, matrices: Sequence[Matrices], loaded: Sequence[Tensor]
    ) -> None:
        """Multiply a group's slots, sum over all contracted chunks, and store the results."""
        count, together = area.rows, group.together
        columns, used = matrices[0].tile.shape[2], matrices[0].used
        made = sbuf((used, together, count))
        # A sum of several products needs a bank of its own.
        number = max(1, PSUM_BANK // count) if len(loaded) == 1 else 1
        for first, taken in chunks(together, number):
            bank = psum((columns, taken, count))
            for index in range(taken):
                for piece, data in enumerate(loaded):
                    matrix = matrices[piece].tile[:, first + index]
                    multiply(bank[:, index], matrix, data[:, first + index], piece > 0)
            is_scalar = first // number % 2 == 1
            evacuate(bank[0:used], made[:, first : first + taken], is_scalar=is_scalar)
        self.target.store(made, area, self.target.slots(group, area.blocks, count))

    # Matrices.

    def _matrices(self, group: Group, area: Area, staged: Iterator[Tensor]) -> list[list[Matrices]]:
        """Make the matrices of a group's slots, [chunk of an area's blocks][contracted chunk]."""
        parts = list(area.cut(BLOCKS, self.target.chunk))
        found: list[list[Matrices]] = [[] for _ in parts]
        for first, held in chunks(self.source.blocks, self.source.chunk):
            if self.is_turned:
                weights = self._stage(group, area, next(staged), (area.blocks, held), first)
                found[0].append(self._turned(self._masked(group, weights, 0, held)))
                continue
            more = first * self.weights.size
            weights = self._stage(group, area, next(staged), (held, area.blocks), more)
            for own, chunk in zip(found, parts, strict=True):
                low = chunk.block - area.block
                own.append(self._masked(group, weights, low, chunk.blocks))
        return found

    def _stage(
        self, group: Group, area: Area, memory: Tensor, blocks: tuple[int, int], more: int
    ) -> Tensor:
        """Load weights of so many blocks j and i: SBUF [(u taken j), made, slots, i].

        The part that they hold is taken + made. more: numbers in HBM from the area's start on.
        """
        of, together, (held, width) = self.weights, group.together, blocks
        rows, size, half = 2 * group.side * held, 2 * together * width, of.size // 2
        tile = memory[0:rows, 0:size].reshape((rows, 2, together, width))
        lines, rest = [of.size, held], [[of.pitch, together], [1, width]]
        for own in range(group.side):
            at = more + own * together * of.pitch
            for taken in range(2):
                row = (2 * own + taken) * held
                part = tile[row : row + held]
                if taken == 0 or group.is_first:
                    of.load(part, area, [lines, [half, 2], *rest], at)
                    continue
                for made in range(2):
                    of.load(part[:, made], area, [lines, *rest], at + (1 - made) * half)
        return tile

    def _masked(self, group: Group, staged: Tensor, low: int, width: int) -> Matrices:
        """Make matrices with columns (u part i), from ``width`` columns of staged weights.

        Masks give each number its sign, and put zeros where a row belongs to another slot.
        """
        rows, _, together, total = staged.shape
        side, masks = group.side, self.tools.masks
        tile, used = _columns(rows, together, 2 * side * width), 2 * side * width
        pitch = masks.shape[1]
        # The last chunk of blocks has masks of its own, where it is shorter.
        first = pitch // 2 if rows != 2 * side * self.weights.chunk else 0
        first += 0 if group.is_first else 2
        if side > together:
            mask = masks.ap([[pitch, rows], [2, side], [1, 2], [0, width]], first)
            for slot in range(together):
                made = tile[:, slot, 0:used].reshape_dim(1, (side, 2, width))
                pattern = [[STAGED, rows], [0, side], [together * total, 2], [1, width]]
                data = staged.ap(pattern, slot * total + low)
                nisa.tensor_tensor(dst=made, data1=data, data2=mask, op=nl.multiply)
            return Matrices(tile, used)
        for column in range(2 * side):
            nisa.activation(
                dst=tile[:, :, column * width : (column + 1) * width],
                op=nl.copy,
                data=staged[:, column % 2, :, low : low + width],
                scale=masks[0:rows, first + column : first + column + 1],
            )
        return Matrices(tile, used)

    def _turned(self, matrices: Matrices) -> Matrices:
        """Transpose matrices [(u part j), slots, (u part i)]."""
        height, together, columns = matrices.tile.shape
        result = _columns(matrices.used, together, height)
        for first, taken in chunks(together, PSUM_BANK // height):
            bank = psum((columns, taken, height))
            for index in range(taken):
                transpose(bank[:, index], matrices.tile[:, first + index], self.tools.identity)
            made = result[:, first : first + taken, 0:height]
            evacuate(bank[0 : matrices.used], made, is_scalar=False)
        return Matrices(result, height)


def _columns(rows: int, slots: int, used: int) -> Tensor:
    """Allocate stationary matrices [rows, slots, columns], with zeros behind the used columns."""
    tile = sbuf((rows, slots, max(used, WIDE) if used <= NARROW else used))
    if used < tile.shape[2]:
        clear(tile[:, :, used:])
    return tile


# Gradients of the weight.


@dataclass(frozen=True)
class Sums:
    """Spectra in HBM whose products are summed over rows: conj X times dY."""

    tools: Tools
    of_x: Spectra  # [q, 2h, pitch]
    of_y: Spectra  # [p, 2h, pitch]
    target: Spectra  # [q, 2h, pitch of p]
    side: int  # slots side by side, at most
    is_mirrored: ClassVar[bool] = True  # products give the first program more work

    @property
    def grains(self) -> Mapping[str, int]:
        """Blocks are shared in whole chunks."""
        return {TOPS: self.of_x.chunk, BLOCKS: self.of_y.chunk}

    def unit(self, area: Area) -> Mapping[str, int]:
        """Return the slots and blocks that are summed at once, over all rows."""
        pair = area.part(BLOCKS, 0, min(area.blocks, self.of_y.chunk))
        pair = pair.part(TOPS, 0, min(area.tops, self.of_x.chunk))
        group = next(self.groups(pair, self.step(pair)))
        slots = group.side * equal_part(area.slots // group.side, group.together)
        return {SLOTS: slots, TOPS: self.of_x.chunk, BLOCKS: self.of_y.chunk}

    def chunks(self, area: Area) -> int:
        """Return how many chunks an area's blocks of x have."""
        return -(-area.tops // self.of_x.chunk)

    def step(self, area: Area) -> int:
        """Return how many rows are summed at once: fewer where there are many blocks."""
        pairs = self.chunks(area) * -(-area.blocks // self.of_y.chunk)
        return PARTITIONS * max(1, _ROWS // (PARTITIONS * pairs))

    def groups(self, area: Area, step: int) -> Iterator[Group]:
        """Yield the slots of an area that are summed together, as many as fit, by ``step`` rows."""
        rows, wide = min(area.rows, step), self.of_y.chunk
        while area.slots > 0:
            side = 1 if area.slot == 0 else min(self.side, area.slots)
            columns = max(rows, 4 * side * max(self.of_x.chunk, wide))
            most = min(LOADED // columns, _SUMS // (2 * side * wide * self.chunks(area)))
            slots = side * max(1, min(most, area.slots // side)) if area.slot > 0 else 1
            yield Group(area.part(SLOTS, 0, slots), side)
            area = area.part(SLOTS, slots, area.slots - slots)

    def run(self, area: Area) -> None:
        """Sum an area's slots over its rows, one group of slots after the other."""
        for left in area.cut(BLOCKS, self.of_y.chunk):
            is_short = area.rows <= self.step(left)
            for box in [left] if is_short else left.cut(TOPS, self.of_x.chunk):
                for group in self.groups(box, self.step(box)):
                    sums = self.zeros(group.area)
                    self.add(group.area, sums, self.step(box))
                    self.store(group.area, sums)

    def zeros(self, area: Area) -> list[Tensor]:
        """Allocate zeros, SBUF [j, part, slots, i], for each chunk of blocks of x."""
        sums = []
        for top in area.cut(TOPS, self.of_x.chunk):
            sums.append(sbuf((top.tops, 2, area.slots, area.blocks)))
            clear(sums[-1])
        return sums

    def store(self, area: Area, sums: Sequence[Tensor]) -> None:
        """Store the sums of an area in HBM."""
        of = self.target
        for top, tile in zip(area.cut(TOPS, self.of_x.chunk), sums, strict=True):
            parts, lines = [of.size // 2, 2], [of.pitch, area.slots]
            of.store(tile, top, [[of.size, top.tops], parts, lines, [1, area.blocks]])

    def add(self, area: Area, sums: Sequence[Tensor], step: int) -> None:
        """Add products of an area's slots, ``step`` rows at a time, to their sums."""
        for group in self.groups(area, step):
            for rows in group.area.cut(ROWS, step):
                right = self._turned(self.of_y, group, rows, rows.blocks)
                for top, total in zip(rows.cut(TOPS, self.of_x.chunk), sums, strict=True):
                    left = self._turned(self.of_x, group, top, top.tops)
                    self._correlate(group, left, right, total, group.area.slot - area.slot)

    def _turned(self, of: Spectra, group: Group, area: Area, blocks: int) -> list[Tensor]:
        """Load a group's slots as tiles [<= 128 rows, (slots, u, part, block)].

        Those of y have a third part, minus the real part.
        """
        height, size = 2 * blocks * group.side, group.together * area.rows
        memory = self.tools.loaded[0 if of is self.of_y else 1]
        tile = memory[0:height, 0:size].reshape((height, group.together, area.rows))
        clear(memory[0:height, size : size + WIDE])
        of.load(tile, area, of.slots(group, blocks, area.rows))
        parts = 3 if of is self.of_y else 2
        lows = chunks(area.rows, PARTITIONS)
        return [self._turned_rows(tile, *rows, group.side, parts) for rows in lows]

    def _turned_rows(self, loaded: Tensor, low: int, length: int, side: int, parts: int) -> Tensor:
        """Transpose rows from ``low`` on of [(u part block), slots, rows] to [rows, slots, u, ...].

        64 zeros follow at the end, because stationary operands must be wide.
        """
        height, together, count = loaded.shape
        width, columns = height // (2 * side), length if length > NARROW else WIDE
        total = together * side * parts * width
        memory = sbuf((length, total + WIDE))
        clear(memory[:, total : total + WIDE])
        tile = memory[:, 0:total].reshape((length, together, side, parts * width))
        for first, number in chunks(together, PSUM_BANK // height):
            bank = psum((columns, number, height))
            for index in range(number):
                at = (first + index) * count + low
                data = loaded.ap([[LOADED + WIDE, height], [1, columns]], at)
                transpose(bank[:, index], data, self.tools.identity)
            result = tile[:, first : first + number]
            made = bank[0:length].reshape_dim(2, (side, 2 * width))
            evacuate(made, result[:, :, :, 0 : 2 * width], is_scalar=False)
            if parts == 3:
                minus = result[:, :, :, 2 * width : 3 * width]
                evacuate(made[:, :, :, 0:width], minus, factor=-1.0)
        return tile

    def _correlate(
        self, group: Group, left: list[Tensor], right: list[Tensor], sums: Tensor, first: int
    ) -> None:
        """Add to sums [j, part, slots, i]: over rows of (Xr, Xi) with (Yr, Yi) and (Yi, -Yr)."""
        side, together = group.side, group.together
        held, _, _, width = sums.shape
        columns = held if held > NARROW else WIDE
        parts = 1 if group.is_first else 2  # parts that one sum makes
        for index in range(side * together):
            own, slot = index // together, index % together
            for half in range(2 if group.is_first else 1):
                bank = psum((columns, parts, width))
                for number, (x, y) in enumerate(zip(left, right, strict=True)):
                    length, _, _, row = x.shape
                    pitch = together * side * row + WIDE
                    for part in range(half, half + parts):
                        at = (slot * side + own) * row + part * held
                        data = x.ap([[pitch, length], [1, columns]], at)
                        other = y[:, slot, own, part * width : (part + parts) * width]
                        multiply(bank, data, other, number + part - half > 0)
                total = sums[:, half : half + parts, first + index]
                nisa.tensor_tensor(dst=total, data1=total, data2=bank[0:held], op=nl.add)


def sum_spectra(sums: Sums, area: Area) -> None:
    """Compute this program's share of an area's sums, by loops over many rows or other axes."""
    step, wide = sums.step(area), sums.of_y.chunk
    if area.rows > 4 * step:
        most = -(-area.slots // nl.num_programs())
        loops = -(-most // max(1, _SUMS // (2 * wide * sums.chunks(area))))
        slots = -(-most // loops)
        own = area.part(SLOTS, 0, slots).part(ROWS, 0, step)
        own = own.part(BLOCKS, 0, min(wide, area.blocks))
        once = instructions(lambda area: sums.add(area, sums.zeros(area), step), own)
        total = once * loops * -(-area.blocks // wide)
        unit = area
        for axis, count in sums.unit(area).items():
            unit = unit.part(axis, 0, min(count, area.size(axis)))
        # A loop over rows has shorter runs of DMA. It pays where a unit of all rows is long.
        if total <= 2 * instructions(sums.run, unit, total):
            _sum_by_rows(sums, area, slots, step * max(1, 3 * BODY // (2 * once)))
            return
    for_area(sums, area)


def _sum_by_rows(sums: Sums, area: Area, slots: int, rows: int) -> None:
    """Compute the sums of so many slots at a time by a loop, of which an iteration has ``rows``.

    Both programs have the same loops, though one may have a slot less.
    """
    step, most = sums.step(area), -(-area.slots // nl.num_programs())
    mine = share_of(area, SLOTS)
    for left in mine.cut(BLOCKS, sums.of_y.chunk):
        for low in range(0, most, slots):
            held = max(0, min(slots, mine.slots - low))
            _sum_over_rows(sums, left.part(SLOTS, low, held), step, rows)


def _sum_over_rows(sums: Sums, area: Area, step: int, rows: int) -> None:
    """Compute the sums of an area, which may have no slot, by a loop over its rows."""
    made = sums.zeros(area) if area.slots > 0 else []

    def add(part: Area) -> None:
        sums.add(part, made, step)

    trips = area.rows // rows if area.rows >= 2 * rows else 0
    if trips > 0:
        loop_along(add, [sums.of_x, sums.of_y], ROWS, area.part(ROWS, 0, rows), 0, trips)
    if area.rows > trips * rows:
        add(area.part(ROWS, trips * rows, area.rows - trips * rows))
    if area.slots > 0:
        sums.store(area, made)
