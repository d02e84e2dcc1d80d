"""Products of spectra in block circulant kernels, by a matrix of the weight's spectra per slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import ClassVar

from ..base.engines import (
    NARROW,
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
from .circulant_areas import BLOCKS, LOADED, ROWS, SLOTS, STAGED, WIDE, Area, Group, Spectra
from .circulant_transforms import Tools


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
