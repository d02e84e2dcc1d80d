"""FFT of lengths that exceed SBUF: one radix of up to 128 is split off, through scratch in HBM.

Mathematics.  N = P Q with P <= 128, n = p Q + q, k = k_p + P k_q:

    y[k_p + P k_q] = sum_q W_Q^(q k_q) W_N^(q k_p) sum_p W_P^(p k_p) x[p Q + q]

Layout on the NeuronCore.  One launch makes three passes over HBM.

1. N numbers lie on L = P G <= 128 partitions (p, g) in the order of HBM, so that G neighbouring
partitions share a p. The Tensor engine multiplies pieces of W columns, q = g N/L + s + w, by W_P^(p
k_p). The matrix has one block for each g, and zeros between different g. Each piece has a matrix of
its own, which contains the twiddles W_N^(k_p (g N/L + s)) of the piece's first columns. The
remaining twiddles W_N^(k_p w), by which VectorE multiplies while it reads PSUM, are therefore the
same for all pieces. The tables have P N / W and P W numbers.

2. The P transforms of length Q run as in four_step.py.

3. The Tensor engine transposes pieces [L, W] to [J, L], once for each of the W / J columns J apart.
ScalarE puts the results side by side: P W / J neighbouring results lie on each partition.

The first and the last pass are:

    HBM [L, N/L] -> PSUM [(k_p, g), w] -> twiddle -> HBM [P, Q] -> four-step -> HBM [P, Q]
    HBM [L, N/L] -> PSUM [j, (k_p, g)] -> SBUF [j, g, i, k_p] -> HBM

Tables pass through SBUF in pieces, so that only HBM has to grow with N. Where P > 64, the scratch
has a gap after each row, because one record of NeuronCore-v2 has half the rate for rows that are a
power of two apart.

A batch is a loop on the device whose transforms use the same scratch, one after the other. Where a
transform has too many instructions for the body of a loop, its passes are loops, and the batch is
unrolled. Two cores each take half of the batch. They share the last transform of an odd batch, and
all transforms whose passes are loops: each core takes half of the pieces and half of the P
transforms, and the cores wait for each other before a pass reads what the other core wrote.

Why it is fast.  Three passes take three times the DMA floor. With P near 128 the transforms in
between are short, of two radices for N <= 2^21, and every descriptor of the other passes moves up
to 4 KiB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ..base.arguments import check_dimensions, check_factors, rows_and_length
from ..base.counting import counted
from ..base.engines import (
    HALF,
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    SPLIT_TERMS,
    addressed,
    chunks,
    evacuate,
    hbm,
    multiply,
    multiply_banks,
    multiply_row_tile,
    psum,
    sbuf,
    transfer,
    transpose,
    transposed_dtype,
)
from ..base.isa import Tensor, nisa, nki, nl
from ..base.launch import Rows, Split, Work, count_of, for_rows, meet, singles
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Item, Order, Task, in_turn, pipeline
from ..base.table_terms import Array, TableSpec, table_spec
from ..base.tables import load_identity, load_tables
from .four_step import FourStep, Transforms
from .four_step_tables import four_step_specs, four_step_tables
from .spread_lines import Inputs, Lines, Place, load_lines, spread_of

MAX_SPLIT_LENGTH = 2**26
_PIECE = 1024  # columns of a piece of the first or the last pass, at most
_GAP = 1024  # numbers of the scratch after a row
_UNROLLED = 20_000  # instructions of a transform, beyond which its passes are loops


@dataclass(frozen=True)
class Geometry:
    """How N = P Q numbers lie on the partitions in the first and the last pass."""

    count: int  # P
    size: int  # Q
    blocks: int  # G
    piece: int  # W, which divides N / L

    @property
    def lanes(self) -> int:
        """L, the partitions that hold numbers."""
        return self.count * self.blocks

    @property
    def columns(self) -> int:
        """N / L, numbers of a lane."""
        return self.size // self.blocks

    @property
    def pieces(self) -> int:
        """Pieces of the first and of the last pass."""
        return self.columns // self.piece

    @property
    def rows(self) -> int:
        """J, which divides W."""
        return _rows_of(self.piece)

    @property
    def gap(self) -> int:
        """Numbers of the scratch after each row of Q."""
        return _GAP // self.piece * self.piece if self.blocks == 1 else 0


def geometry_of(count: int, size: int) -> Geometry | None:
    """Return the geometry for P and Q, or None where no pieces fit the Tensor engine.

    The engine transposes from more than 32 partitions to more than 32 partitions.
    """
    blocks = PARTITIONS // count
    while blocks > 1 and (size % blocks > 0 or size // blocks <= NARROW):
        blocks -= 1
    columns = size // blocks
    piece = min(columns, _PIECE)
    while piece > NARROW and (columns % piece > 0 or _rows_of(piece) <= NARROW):
        piece -= 1
    if piece <= NARROW or count * blocks <= NARROW:
        return None
    return Geometry(count, size, blocks, piece)


def _rows_of(piece: int) -> int:
    """Return the largest divisor of ``piece`` up to 128."""
    rows = min(piece, PARTITIONS)
    while piece % rows > 0:
        rows -= 1
    return rows


def checked_geometry(n: int, radices: tuple[int, ...]) -> Geometry:
    """Return the geometry of a plan; raise ValueError where it has none."""
    if math.prod(radices) != n or len(radices) < 3 or not 2 <= radices[0] <= PARTITIONS:
        raise ValueError(
            f"argument 'radices' is {radices}, allowed are three or more, with the product n = "
            f"{n}, and the first from 2 to {PARTITIONS}"
        )
    found = geometry_of(radices[0], n // radices[0])
    if found is None:
        raise ValueError(
            f"argument 'radices' is {radices}, allowed is a first radix for which a number from "
            f"{NARROW + 1} to {PARTITIONS} divides the numbers on a partition; "
            f"use another first radix"
        )
    return found


def split_four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return the tables of ``split_four_step``: (matrices, twiddles, *those of four_step).

    matrices are [pieces, L, 2, L], rows (p, g), columns (k_p, g), in the layout of ``_by_column``.
    twiddles are [L, 2, W].

    Args:
        n, inverse, scale: as for ``stockham_tables``.
        radices: P, then the radices of a four-step plan for Q = n / P.
    """
    geometry = checked_geometry(n, radices)
    plan = four_step_tables(geometry.size, radices[1:], inverse, scale)
    sign = 1 if inverse else -1
    matrices = _by_column(split_matrices(geometry, sign), geometry)
    return matrices, split_twiddles(geometry, sign), *plan


def _by_column(matrices: Array, geometry: Geometry) -> Array:
    """Return matrices as [pieces W, numbers]: a piece's begin in the row of its first column.

    So a register that counts columns of a vector's lanes counts the vector's matrices, too.
    """
    pieces, each = len(matrices), _column_numbers(geometry)
    rows = np.zeros((pieces, geometry.piece * each), np.float32)
    rows[:, : matrices[0].size] = matrices.reshape(pieces, -1)
    return rows.reshape(pieces * geometry.piece, each)


def _column_numbers(geometry: Geometry) -> int:
    """Return how many numbers of a matrix belong to each of a piece's columns."""
    return -(-2 * geometry.lanes * geometry.lanes // geometry.piece)


def split_matrices(geometry: Geometry, sign: int) -> Array:
    """Return W_P^(p k) W_N^(k (g N/L + s)), [pieces, L, 2, L]: see ``split_four_step_tables``."""
    count, size, blocks = geometry.count, geometry.size, geometry.blocks
    n = count * size
    p, k = np.arange(count)[:, None], np.arange(count)[None, :]
    starts = np.arange(0, geometry.columns, geometry.piece)
    shape = (len(starts), count, blocks, 2, count, blocks)
    matrices = np.zeros(shape, np.float32)
    for index, start in enumerate(starts):
        for g in range(blocks):
            exponent = k * (p * size + g * geometry.columns + start) % n
            angle = 2 * np.pi / n * exponent
            matrices[index, :, g, 0, :, g] = np.cos(angle)
            matrices[index, :, g, 1, :, g] = sign * np.sin(angle)
    return matrices.reshape(len(starts), geometry.lanes, 2, geometry.lanes)


def split_twiddles(geometry: Geometry, sign: int) -> Array:
    """Return W_N^(k w), the second of ``split_four_step_tables``."""
    k, w = np.arange(geometry.count)[:, None], np.arange(geometry.piece)[None, :]
    angle = 2 * np.pi / (geometry.count * geometry.size) * (k * w)  # k w < N: nothing to reduce
    twiddles = np.stack([np.cos(angle), sign * np.sin(angle)], 1).astype(np.float32)
    return twiddles.repeat(geometry.blocks, 0)


def split_four_step_specs(radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``split_four_step_tables(n, radices, ...)``."""
    geometry = checked_geometry(math.prod(radices), radices)
    matrices = table_spec((geometry.columns, _column_numbers(geometry)))
    twiddles = table_spec((geometry.lanes, 2, geometry.piece))
    return matrices, twiddles, *four_step_specs(radices[1:])


@nki.jit
def split_four_step(x_re, x_im, matrices, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, through scratch in HBM.

    The arguments and the results are those of ``stockham``, with radices P, r1, ..., C.

    matrices: the first of ``split_four_step_tables(N, radices, ...)``; the others are packed.
    """
    batch, n = rows_and_length(x_re, x_im)
    check_factors(radices, n)
    check_dimensions("matrices", matrices, ("pieces L", "2 L"))
    # A register counts columns of the P results; each column has P numbers here.
    shape = (batch, n // radices[0], radices[0])
    y_re, y_im = hbm(shape), hbm(shape)
    shared = Shared(radices, [matrices, *unpack(tables, places)])
    SplitRows(shared, Lines([x_re, x_im], n), Lines([y_re, y_im], n)).run()
    return y_re.reshape((batch, n)), y_im.reshape((batch, n))


class Shared:
    """What all transforms of a launch share."""

    def __init__(self, radices: tuple[int, ...], tables: Sequence[Tensor], tiles: int = 4) -> None:
        """tables: matrices, twiddles, and four_step's; tiles: those that DMA fills, at most."""
        self.geometry = geometry = checked_geometry(math.prod(radices), radices)
        spread = spread_of(radices[1:], geometry.count)
        self.inputs = Inputs(spread, min(tiles, spread.tiles))
        self.kernel = FourStep(spread, tables[2:], self.inputs)
        self.matrices, self._twiddle_table = tables[:2]
        self.held = Held()
        self._scratch: dict[bool, list[Lines]] = {}

    def setup(self) -> None:
        """Load the tables that stay in SBUF."""
        held = self.held = Held()  # those of a count take no room any more
        (held.twiddle,), held.identity = load_tables([self._twiddle_table]), load_identity()
        self.kernel.setup()

    def tile(self, number: int) -> Tensor:
        """Return the tile of the ``number``-th piece, [128, 2, W]; tiles take turns."""
        tiles, width = self.inputs.tiles, self.geometry.piece
        return tiles[number % len(tiles)][:, 0 : 2 * width].reshape_dim(1, (2, width))

    def piece_matrices(self, rows: Rows) -> Tensor:
        """Return a view of Wr and Wi of a piece in HBM, [L, 2, L]."""
        lanes, at = self.geometry.lanes, rows.first * self.geometry.piece
        pattern, table = [[2 * lanes, lanes], [lanes, 2], [1, lanes]], self.matrices
        return addressed(table, pattern, at * table.shape[1], rows.base)

    def scratch(self, is_shared: bool) -> list[Lines]:
        """Return two scratches of P rows of Q numbers, which both programs write, or only this."""
        if is_shared not in self._scratch:
            buffer = nl.shared_hbm if is_shared else nl.private_hbm
            rows, pitch = self.geometry.count, self.geometry.size + self.geometry.gap
            tensors = [nl.ndarray((2 * rows, pitch), nl.float32, buffer) for _ in range(2)]
            self._scratch[is_shared] = [
                Lines([tensor, tensor], self.geometry.size, starts=(0, rows * pitch))
                for tensor in tensors
            ]
        return self._scratch[is_shared]


@dataclass
class Held:
    """Tables in SBUF."""

    twiddle: Tensor = field(init=False)  # [L, 2, W]
    identity: Tensor = field(init=False)  # [128, 128]


@dataclass(frozen=True)
class Pass:
    """A pass over one transform."""

    work: Work
    count: int  # pieces or rows
    most: int  # of a block
    split: Split
    order: Order
    result: Tensor | None = None  # in HBM, which the next pass reads
    unit: int = 1  # what the register of a loop counts for each

    def items(self, is_shared: bool) -> Iterator[Item]:
        """Yield the tasks of all blocks, or of this program's share."""
        programs, program = (nl.num_programs(), nl.program_id(0)) if is_shared else (1, 0)
        first, end = (self.count * each // programs for each in (program, program + 1))
        blocks = enumerate(self.split(None, first, end - first))
        order = replace(self.order, begun=2)
        yield from in_turn((self.work.block(rows, number) for number, rows in blocks), order)
        yield TURN
        if is_shared and self.result is not None:
            meet(self.result)

    def loop(self, times: int) -> None:
        """Run the pass as a loop on the device, in which programs share the blocks."""
        unit = self.unit
        for_rows(self.count, self.work, self.most, self.split, self.order, times=times, unit=unit)
        if self.result is not None:
            meet(self.result)

    @property
    def instructions(self) -> int:
        """About how many instructions the pass takes."""
        block = count_of(self.work, self.split(None, 0, self.most)[:1]).instructions
        return block * -(-self.count // self.most)


@dataclass
class SplitRows:
    """The transforms of a launch: a block is one transform, with its passes."""

    shared: Shared
    source: Lines
    target: Lines

    def run(self) -> None:
        """Transform all rows."""
        batch, programs = self.source.parts[0].shape[0], nl.num_programs()
        if self.may_loop() and self._instructions() > _UNROLLED:
            self.setup()
            for row in range(batch):
                for one in self.passes(Rows(None, row, 1, 1), True):
                    one.loop(batch)
            return
        rest = batch % programs
        if batch > rest:
            for_rows(batch - rest, self, 1, singles, None)
        if rest > 0:
            if batch == rest:
                self.setup()
            pipeline(self.row(Rows(None, batch - 1, 1, 1), True))

    def may_loop(self) -> bool:
        """Whether the passes may be loops on the device."""
        return True

    def _instructions(self) -> int:
        with counted():
            self.setup()
        return sum(one.instructions for one in self.passes(Rows(None, 0, 1, 1), False))

    def setup(self) -> None:
        self.shared.setup()

    def block(self, rows: Rows, number: int) -> Block:
        """Transform one row in this program."""
        return self.row(rows, False)

    def row(self, rows: Rows, is_shared: bool) -> Block:
        """Transform one row, in all programs together or in this one."""
        for one in self.passes(rows, is_shared):
            yield from one.items(is_shared)

    def passes(self, rows: Rows, is_shared: bool) -> list[Pass]:
        """Return the passes of a transform, with scratch between them."""
        shared = self.shared
        source, target = line_of(self.source, rows), line_of(self.target, rows)
        first, second = shared.scratch(is_shared)
        geometry, kernel = shared.geometry, shared.kernel
        middle = Middle(kernel, first, second)
        pieces, rows_of = geometry.pieces, kernel.spread.blocks
        order, most, (a, b) = Order(1), kernel.spread.rows, (first.parts[0], second.parts[0])
        return [
            Pass(FirstPass(shared, source, first), pieces, 1, singles, order, a, geometry.piece),
            Pass(middle, geometry.count, most, rows_of, kernel.order, b),
            Pass(LastPass(shared, second, target), pieces, 1, singles, order, None, geometry.piece),
        ]


class Middle(Transforms):
    """The P transforms of length Q, from one scratch into another."""

    def setup(self) -> None:
        """Do nothing: the tables are loaded before all passes."""


@dataclass
class PieceByPiece:
    """A pass from lines into lines, whose blocks are pieces or pairs of them."""

    shared: Shared
    source: Lines
    target: Lines

    def setup(self) -> None:
        """Do nothing: the tables are loaded before all passes."""


class FirstPass(PieceByPiece):
    """The DFTs over p and the twiddles, piece by piece, into the scratch."""

    def block(self, rows: Rows, number: int) -> Block:
        shared, geometry = self.shared, self.shared.geometry
        source = by_piece(self.source, rows.base)
        tile = shared.tile(number)[0 : geometry.lanes]
        place = Place(0, rows.first * geometry.piece, geometry.columns)
        for part in range(2):
            load_lines(tile[:, part].expand_dim(1), source, part, place)
        matrices = load_matrices(shared.piece_matrices(rows), rows.base)
        yield TURN
        yield from self.products(tile, matrices, rows)

    def products(self, x: Tensor, matrices: Tensor, rows: Rows, half: int | None = None) -> Block:
        """Multiply a piece by its matrix and by the twiddles, and store it.

        half: the first partition of the half of the array that does it, else all of the array.
        """
        geometry = self.shared.geometry
        result = sbuf((geometry.lanes, 2, geometry.piece))
        for low, count in chunks(geometry.piece, PSUM_BANK):
            columns = slice(low, low + count)
            yield self._twiddled(x[:, :, columns], matrices, result, (columns, half))
        yield After(partial(self._store, result, rows))

    def _twiddled(
        self, x: Tensor, matrices: Tensor, result: Tensor, where: tuple[slice, int | None]
    ) -> Task:
        """Multiply columns by the matrix, and by the twiddles."""
        columns, half = where
        banks = multiply_split([x], [matrices], half)
        yield
        multiply_banks(result[:, :, columns], banks, self.shared.held.twiddle[:, :, columns])

    def _store(self, result: Tensor, rows: Rows) -> None:
        for part in range(2):
            place = lanes_of(self.target, part, rows, self.shared.geometry)
            transfer(place, result[:, part], rows.base)


class LastPass(PieceByPiece):
    """The interleaving of the P results of the scratch, piece by piece."""

    def block(self, rows: Rows, number: int) -> Block:
        geometry = self.shared.geometry
        tile = self.shared.tile(number)[0 : geometry.lanes]
        for part in range(2):
            transfer(tile[:, part], lanes_of(self.source, part, rows, geometry), rows.base)
        yield TURN
        each, together = geometry.piece // geometry.rows, PSUM_BANK // geometry.lanes
        for part in range(2):
            result = sbuf((geometry.rows, geometry.blocks, each, geometry.count))
            for low, count in chunks(each, together):
                yield self._interleaved(tile[:, part], range(low, low + count), result)
            yield After(partial(self._store, result, part, rows))

    def _interleaved(self, tile: Tensor, columns: range, result: Tensor) -> Task:
        """Rearrange columns i of SBUF [(k_p, g), (j, i)] to SBUF [j, g, i, k_p]."""
        geometry = self.shared.geometry
        rows, each = geometry.rows, geometry.piece // geometry.rows
        bank = psum((rows, len(columns), geometry.lanes), transposed_dtype(nl.float32))
        for index, column in enumerate(columns):
            data = tile[:, column : column + (rows - 1) * each + 1 : each]
            transpose(bank[:, index], data, self.shared.held.identity)
        yield
        numbers = bank.reshape_dim(2, (geometry.count, geometry.blocks)).permute((0, 3, 1, 2))
        evacuate(numbers, result[:, :, columns.start : columns.stop])

    def _store(self, result: Tensor, part: int, rows: Rows) -> None:
        """Store SBUF [j, g, (i, k_p)]; neighbouring results lie on a partition."""
        geometry = self.shared.geometry
        step = geometry.piece * geometry.count  # results of a piece in a block g
        run = step // geometry.rows
        pattern = [[run, geometry.rows], [geometry.columns * geometry.count, geometry.blocks]]
        target = by_piece(self.target, rows.base)
        place = target.view(part, [*pattern, [1, run]], rows.first * step)
        transfer(place, result.flatten_dims(2, 3), target.base)


def line_of(lines: Lines, rows: Rows) -> Lines:
    """Return one line, as lines that begin with it."""
    return replace(lines, base=rows.base, skip=lines.skip + rows.first * lines.held)


def by_piece(lines: Lines, base: object) -> Lines:
    """Return a line for a loop over pieces, whose register counts the columns of its tensors."""
    return lines if base is None else replace(lines, base=base, dimension=1)


def lanes_of(lines: Lines, part: int, rows: Rows, geometry: Geometry) -> Tensor:
    """Return a view of a piece of one part of a scratch, [L, W]."""
    pattern = [[geometry.columns + geometry.gap, geometry.lanes], [1, geometry.piece]]
    return by_piece(lines, rows.base).view(part, pattern, rows.first * geometry.piece)


def load_matrices(source: Tensor, base: object = None, low: int = 0) -> Tensor:
    """Load Wr and Wi from HBM [K, 2, M], and make -Wi: SBUF [128, 3, M], from partition ``low`` on.

    base: the register in the source's address, or None.
    """
    rows, _, columns = source.shape
    tile = sbuf((PARTITIONS, 3, columns))
    held = tile[low : low + rows]
    transfer(held[:, 0:2], source, base)
    nisa.activation(dst=held[:, 2], op=nl.copy, data=held[:, 1], scale=-1.0)
    return tile


def multiply_split(
    x: Sequence[Tensor], matrices: Sequence[Tensor], half: int | None = None
) -> list[Tensor]:
    """Return sums of split complex SBUF [K, 2, n] times matrices, a PSUM bank for each part.

    half: the first partition of the half of the array that does it, else all of the array.
    """
    banks = [psum((matrices[0].shape[2], x[0].shape[2])) for _ in range(2)]
    for part, bank in enumerate(banks):
        for index, (one, matrix) in enumerate(zip(x, matrices, strict=True)):
            for term in range(2):
                stationary = matrix[0 : one.shape[0], SPLIT_TERMS[part][term]]
                if half is None:
                    multiply(bank, stationary, one[:, term], index + term > 0)
                else:
                    multiply_row_tile(bank, stationary, one[:, term], half, HALF, term > 0)
    return banks
