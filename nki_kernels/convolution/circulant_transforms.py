"""Transforms of block circulant kernels: rows [b, (j n)] to spectra [(j part slot), b] and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import ClassVar

from ..base.chip import transposes_mix_rows
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
from ..base.pipeline import Task, pipeline
from ..base.row_guard import marks_of, set_rows_aside
from .circulant_areas import (
    BLOCKS,
    LOADED,
    ROWS,
    STAGED,
    WIDE,
    Area,
    Operand,
    Pattern,
    Spectra,
    blocks_together,
    for_area,
)

Move = Callable[[Tensor, Area, Pattern, int], None]


@dataclass(frozen=True)
class Tools:
    """What all passes of a launch use, in SBUF."""

    k: int  # numbers of a block
    identity: Tensor
    there: Sequence[Tensor]  # transform of a slab to spectra, in pieces of at most 128 rows
    back: Sequence[Tensor]  # its inverse, in such pieces
    masks: Tensor  # signs of matrices, see product_masks
    loaded: Sequence[Tensor]  # three tiles into which loads go in turn
    staged: Sequence[Tensor]  # two tiles for loads of the weight's spectra

    @property
    def together(self) -> int:
        """Blocks of a slab."""
        return blocks_together(self.k)

    @property
    def most_blocks(self) -> int:
        """Blocks of a row that are in SBUF at once, in whole slabs."""
        return max(1, LOADED // (self.k * self.together)) * self.together

    def loads(self, turn: int) -> Iterator[Tensor]:
        """Yield the loaded tiles in turn, for ever, from number ``turn`` on."""
        return cycle([*self.loaded[turn:], *self.loaded[:turn]])


@dataclass(frozen=True)
class RowTile:
    """Rows of an area on partitions: row ``low`` + t P + p lies on partition p, in part t."""

    low: int
    partitions: int
    parts: int


@dataclass(frozen=True)
class Transform:
    """Rows of blocks and their spectra, both in HBM."""

    tools: Tools
    numbers: Operand  # [rows, blocks, k]
    spectra: Spectra
    split: int  # pieces into which a row is cut
    tiles: int  # tiles of 128 rows that are taken at once
    turn: int = 0  # the first of the tiles into which its loads go in turn
    bias: Operand | None = None  # [1, blocks, k], to be added to rows that are made
    is_mirrored: ClassVar[bool] = False
    grains: ClassVar[Mapping[str, int]] = {}

    @property
    def pitch(self) -> int:
        """Numbers of a whole row."""
        return self.spectra.blocks * self.tools.k

    def unit(self, area: Area) -> Mapping[str, int]:
        """Return the blocks and rows that are transformed at once."""
        step = min(area.rows * self.split, PARTITIONS * self.tiles) // self.split
        return {BLOCKS: min(area.blocks, self.tools.most_blocks), ROWS: step}

    def row_tiles(self, area: Area, columns: int) -> Iterator[RowTile]:
        """Yield tiles [P, parts, columns] of an area's rows; only the last may have P < 128."""
        low, rows = 0, area.rows * self.split
        while low < rows:
            partitions = min(PARTITIONS, rows - low)
            parts = min(max(1, LOADED // columns), (rows - low) // partitions)
            yield RowTile(low, partitions, parts)
            low += partitions * parts

    def in_numbers(self, area: Area, tile: RowTile) -> tuple[Area, Pattern]:
        """Return where a tile's rows begin, and their pattern in HBM, [P, parts, blocks k]."""
        columns = [1, area.blocks * self.tools.k]
        pattern = [[self.pitch, tile.partitions], [PARTITIONS * self.pitch, tile.parts], columns]
        if self.split > 1:
            pattern = [[self.pitch // self.split, self.split], [self.pitch, area.rows], columns]
        return area.part(ROWS, tile.low, tile.partitions), pattern

    def move(self, move: Move, area: Area, slab: int, top: int, tile: Tensor) -> None:
        """Load or store slabs of spectra, from number ``slab`` on: a tile [lines, slabs, rows].

        The last slab may have fewer blocks. top: the first of the lines (block, part, slot) of each
        slab.
        """
        together, of = self.tools.together, self.spectra
        lines, slabs, _ = tile.shape
        full = min(slabs, area.blocks // together - slab)
        rows = [[of.blocks // self.split * of.size, self.split], [1, area.rows]]
        runs = [(0, full, lines), (full, slabs - full, area.blocks % together * of.height)]
        for first, count, height in runs:
            if count > 0:
                pattern = [[of.pitch, height], [together * of.size, count], *rows]
                more = (slab + first) * together * of.size + top * of.pitch
                move(tile[0:height, first : first + count], area, pattern, more)


class ToSpectra(Transform):
    """The transform from rows to spectra."""

    def run(self, area: Area) -> None:
        """Make the spectra of an area, as many rows and blocks at a time as fit.

        A tile is loaded, and its bad rows are set aside, while the tile before it is transformed.
        """
        pipeline(self._tasks(area))

    def _tasks(self, area: Area) -> Iterator[Task]:
        """Yield a task for each tile of rows of each box of rows and blocks."""
        loads = self.tools.loads(self.turn)
        for rows in area.cut(ROWS, PARTITIONS * self.tiles):
            for box in rows.cut(BLOCKS, self.tools.most_blocks):
                slabs = -(-box.blocks // self.tools.together)
                moved = list[Tensor]()
                for tile in self.row_tiles(box, slabs * self.tools.together * self.tools.k):
                    yield self._tile(box, tile, slabs, moved, next(loads))

    def _tile(
        self, box: Area, tile: RowTile, slabs: int, moved: list[Tensor], memory: Tensor
    ) -> Task:
        """Load a tile; yield; bring its numbers to ``moved``, and store these if they are all."""
        data, marks = self._load(box, tile, slabs, memory)
        yield
        count = box.rows * self.split
        if tile.low == 0:
            moved += [sbuf((piece.shape[0], slabs, count)) for piece in self.tools.there]
        for part in range(tile.parts):
            mark = None if marks is None else (marks, part)
            self._turn(moved, data[:, part], tile.low + part * PARTITIONS, mark)
        if tile.low + tile.parts * tile.partitions == count:
            self._store(box, moved)

    def _load(
        self, box: Area, tile: RowTile, slabs: int, memory: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Load rows [P, parts, columns]; return them, with marks [128, parts, P] where rows mix."""
        held, columns = box.blocks * self.tools.k, slabs * self.tools.together * self.tools.k
        data = memory[0 : tile.partitions, 0 : tile.parts * columns]
        data = data.reshape((tile.partitions, tile.parts, columns))
        if held < columns:
            clear(data[:, :, held:columns])
        numbers = data[:, :, 0:held]
        self.numbers.load(numbers, *self.in_numbers(box, tile))
        if not transposes_mix_rows():
            return data, None
        return data, turned_marks(set_rows_aside(numbers.expand_dim(2), 1.0), self.tools.identity)

    def _turn(
        self, moved: Sequence[Tensor], data: Tensor, low: int, mark: tuple[Tensor, int] | None
    ) -> None:
        """Transpose rows [P, columns] to [a slab's numbers, slabs, rows], from row ``low`` on."""
        partitions, slabs = data.shape[0], moved[0].shape[1]
        group, width, top = PSUM_BANK // partitions, data.shape[1] // slabs, 0
        for piece in moved:
            length = piece.shape[0]
            for first, number in chunks(slabs, group):
                bank = psum((length, number, partitions))
                for slab in range(number):
                    left = (first + slab) * width + top
                    transpose(bank[:, slab], data[:, left : left + length], self.tools.identity)
                result = piece[:, first : first + number, low : low + partitions]
                if mark is None:
                    evacuate(bank, result, is_scalar=False)
                    continue
                marks, part = mark
                pitch = marks.shape[1] * partitions
                pattern = [[pitch, length], [0, number], [1, partitions]]
                repeated = marks.ap(pattern, part * partitions)
                nisa.tensor_tensor(dst=result, data1=bank, data2=repeated, op=nl.add)
            top += length

    def _store(self, box: Area, moved: Sequence[Tensor]) -> None:
        """Transform slabs of numbers, and store their spectra."""
        _, slabs, count = moved[0].shape
        number = max(1, PSUM_BANK // count)
        group = max(1, 4 * PSUM_BANK // count)
        total = self.tools.there[0].shape[1]
        height = total if total <= PARTITIONS else total // 2
        for slab, held in chunks(slabs, group):
            for top in range(0, total, height):
                made = sbuf((height, held, count))
                for first, taken in chunks(held, number):
                    bank = psum((height, taken, count))
                    for index, piece in enumerate(moved):
                        data = piece[:, slab + first : slab + first + taken]
                        table = self.tools.there[index][:, top : top + height]
                        multiply(bank, table, data, index > 0)
                    evacuate(bank, made[:, first : first + taken])
                self.move(self.spectra.store, box, slab, top, made)


def turned_marks(marks: Tensor, identity: Tensor) -> Tensor:
    """Bring marks of rows [P, parts] to the free axis of all partitions, [128, parts, P]."""
    partitions, parts = marks.shape
    good = sbuf((partitions, parts, PARTITIONS))
    repeated = marks.ap([[parts, partitions], [1, parts], [0, PARTITIONS]])
    nisa.tensor_scalar(
        dst=good, data=repeated, op0=nl.equal, operand0=0.0, engine=nisa.engine.vector
    )
    bank = psum((PARTITIONS, parts, partitions))
    for index in range(parts):
        transpose(bank[:, index], good[:, index], identity)
    turned: Tensor = marks_of(bank)
    return turned


class ToRows(Transform):
    """The inverse transform, from spectra to rows."""

    def run(self, area: Area) -> None:
        """Make the rows of an area, as many at a time as fit."""
        loads = self.tools.loads(self.turn)
        for blocks in area.cut(BLOCKS, self.tools.most_blocks):
            added = None if self.bias is None else self._repeated(self.bias, blocks)
            for box in blocks.cut(ROWS, PARTITIONS * self.tiles):
                self._restore(box, added, loads)

    def _repeated(self, bias: Operand, area: Area) -> Tensor:
        """Repeat the bias of an area's blocks on partitions (piece, row), by a product.

        DMA would have to move it once for each partition.
        """
        split, width = self.split, area.blocks * self.tools.k
        rows = PARTITIONS if split == 1 else area.rows
        one = sbuf((split, PARTITIONS))
        clear(one)
        own = self.tools.identity.ap([[PARTITIONS, split], [1, split], [0, rows]])
        evacuate(own, one[:, 0 : split * rows], is_scalar=False)
        result = sbuf((PARTITIONS, width))
        for (low, count), staged in zip(
            chunks(width, STAGED), cycle(self.tools.staged), strict=False
        ):
            row = staged[0:split, 0:count]
            bias.load(row, area, [[self.pitch // split, split], [1, count]], low)
            for first, taken in chunks(count, PSUM_BANK):
                bank = psum((PARTITIONS, taken))
                multiply(bank, one, row[:, first : first + taken], False)
                evacuate(bank, result[:, low + first : low + first + taken])
        return result

    def _restore(self, area: Area, added: Tensor | None, loads: Iterator[Tensor]) -> None:
        """Make and store the rows of an area."""
        count, numbers = area.rows * self.split, area.blocks * self.tools.k
        slabs = -(-area.blocks // self.tools.together)
        group = max(1, LOADED // (len(self.tools.back) * count))
        tiles = list(self.row_tiles(area, numbers))
        made = [sbuf((tile.partitions, tile.parts, numbers)) for tile in tiles]
        for slab, held in chunks(slabs, group):
            data = self._load(area, slab, held, next(loads))
            for tile, result in zip(tiles, made, strict=True):
                for part in range(tile.parts):
                    low = tile.low + part * PARTITIONS
                    self._multiply(data, low, result[:, part], slab, added)
        for tile, result in zip(tiles, made, strict=True):
            self.numbers.store(result, *self.in_numbers(area, tile))

    def _load(self, area: Area, slab: int, slabs: int, memory: Tensor) -> Tensor:
        """Load spectra of slabs, [lines, pieces, slabs, rows], with zeros for missing blocks."""
        pieces, count = len(self.tools.back), area.rows * self.split
        lines, size = self.tools.back[0].shape[0], slabs * count
        if NARROW // 2 < count % PARTITIONS <= NARROW:
            clear(memory[0:lines, pieces * size : pieces * size + WIDE])
        if (slab + slabs) * self.tools.together > area.blocks:
            clear(memory[0:lines, size - count : size])
        data = memory[0:lines, 0 : pieces * size].reshape((lines, pieces, slabs, count))
        for piece in range(pieces):
            self.move(self.spectra.load, area, slab, piece * lines, data[:, piece])
        return data

    def _multiply(
        self, data: Tensor, low: int, result: Tensor, slab: int, added: Tensor | None
    ) -> None:
        """Make rows [P, numbers] from row ``low`` on, from spectra of slabs from ``slab`` on."""
        lines, pieces, slabs, count = data.shape
        partitions, numbers = result.shape
        width = self.tools.back[0].shape[1]
        columns = partitions if partitions <= NARROW // 2 or partitions > NARROW else WIDE
        number = max(1, PSUM_BANK // width) if pieces == 1 else 1
        for first, taken in chunks(slabs, number):
            bank = psum((columns, taken, width))
            for inner in range(taken):
                for piece, table in enumerate(self.tools.back):
                    at = (piece * slabs + first + inner) * count + low
                    part = data.ap([[LOADED + WIDE, lines], [1, columns]], at)
                    multiply(bank[:, inner], part, table, piece > 0)
            left = (slab + first) * width
            right = min(left + taken * width, numbers)
            made = bank.reshape((columns, taken * width))[0:partitions, 0 : right - left]
            if added is None:
                evacuate(made, result[:, left:right])
                continue
            bias = added[0:partitions, left:right]
            nisa.tensor_tensor(dst=result[:, left:right], data1=made, data2=bias, op=nl.add)


def transform(work: ToSpectra | ToRows) -> None:
    """Do this program's share of a transform; its areas have the blocks of one piece of a row."""
    rows, blocks, _ = work.numbers.tensor.shape
    for_area(work, Area(blocks // work.split, 1, rows))
