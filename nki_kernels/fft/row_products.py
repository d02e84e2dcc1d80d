"""Products of rows with a table, in natural order in and out: what the DFT-GEMM kernels share.

Layout on the NeuronCore.  A DMA puts R consecutive rows on each partition, so that every descriptor
moves many contiguous numbers (4 KiB where the batch allows). The contraction must lie on
partitions, so the Tensor engine first transposes: stationary = data, moving = identity. Then the
transposed data is the stationary operand once more and the table the moving one. The product
arrives with the rows on partitions again, ready for contiguous stores.

A slab is what one transpose takes, and is one strided run in SBUF. A copy brings the parts of each
row together. A slab then holds g rows, the table is repeated g times along the diagonal, and the
contraction fills up to 128 partitions. A row of more than 128 numbers is a slab of its own. Its
contraction is cut by part, and into pieces of at most 128 numbers, which are accumulated in PSUM.

Rows are independent. Where the chip transposes by a product (v2), or where several rows share a
product with the diagonal blocks, rows that are not finite are set aside (row_guard). From v3 on
transposes are exact, and rows of 20 numbers or more stay apart in products, too: each row begins at
its own 32 or 64 partitions, and row tiles of the array multiply the rows side by side, in less time
than the zeros of a block-diagonal matrix take. Shorter rows would leave too much of the array
empty.

Why blocks overlap.  DMA fills a few tiles in turn. While one block is multiplied, the bad rows of
the next block are overwritten, and the parts of the block after that are brought together: by
GpSimdE, or by ScalarE where GpSimdE shares VectorE's port (v2). ScalarE evacuates the transposes.
VectorE evacuates the results, and marks bad rows as it does so. The transposes of a group of slabs
are issued before the products of the previous group, so that the Tensor engine does not wait. A
small batch is cut into smaller blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..base.arguments import check_matrix
from ..base.chip import transposes_mix_rows
from ..base.engines import (
    DMA_RUN,
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    chunks,
    clear,
    cuts,
    evacuate,
    even_columns,
    multiply,
    multiply_row_tile,
    padded_columns,
    psum,
    sbuf,
    transfer,
    transpose,
    transposed_dtype,
)
from ..base.isa import Tensor, nisa, nl
from ..base.launch import (
    HbmRows,
    Rows,
    for_rows,
    is_data_first,
    load_rows,
    on_partitions,
    row_count,
    store_rows,
)
from ..base.pipeline import TURN, After, Block, Order, Task
from ..base.row_guard import guarded
from ..base.table_terms import PAIRS, data_dtype, evacuate_operand, table_terms
from ..base.tables import load_identity, load_tables

_BLOCKS = 16  # blocks of a batch that is too small for as many blocks of 8 KiB a partition
# Numbers a partition of the blocks of a small batch: enough that an engine takes longer to move
# them than to prepare a copy, and fewer where the batch would be a single block.
_SMALL_BLOCK = 1056  # 8 rows of 66 complex numbers
_LEAST_BLOCK = 512
_INPUTS = 4  # tiles that DMA fills in turn
_SLABS = 3  # tiles that hold slabs: for two blocks ahead, and for the block that is computed
_SHORTEST_TILED = 20  # numbers of a row, from which on a row tile of the array for each is faster


@dataclass(frozen=True)
class Piece:
    """Part of a row that is too long to be contracted at once."""

    part: int
    first: int  # the first number of that part
    end: int  # the number after the last


@dataclass(frozen=True)
class Product:
    """The numbers of a row, and of its product with the table."""

    parts: int  # parts of a row: two of complex data, one of real data
    held: int  # numbers of each part in HBM
    contracted: int  # how many of these are contracted
    has_nyquist: bool  # whether Xr[N/2] takes the place of Xi[0], in half spectra
    result_parts: int  # parts of a result
    result: int  # numbers of each part of a result

    @property
    def numbers(self) -> int:
        """Numbers of a row that are contracted."""
        return self.parts * self.contracted

    @property
    def results(self) -> int:
        """Numbers of a row's result."""
        return self.result_parts * self.result

    def pieces(self) -> Iterator[Piece]:
        """Yield pieces of at most 128 numbers, of about equal length."""
        for part in range(self.parts):
            for cut in cuts(0, self.contracted):
                yield Piece(part, *cut)


def rows_per_slab(numbers: int) -> int:
    """Return how many rows, of so many contracted numbers, one product takes."""
    return max(1, PARTITIONS // numbers)


def with_zeros(numbers: int, parts: int, results: int) -> int:
    """Return how many numbers of each part a row contracts, if zeros may follow.

    There are so many that the results of a slab fit into a PSUM bank.

    Args:
        numbers: how many numbers of each part are data.
        parts: parts of a row.
        results: numbers of its result, of all parts.
    """
    return max(numbers, -(-results * PARTITIONS // (parts * PSUM_BANK)))


@dataclass(frozen=True)
class Slab:
    """How rows lie in the operand that the Tensor engine takes at a time."""

    rows: int  # rows of a slab
    tiles: int  # row tiles of the array, side by side: 1 for all rows together, or 1 for each row
    pitch: int  # numbers from row to row
    pieces: tuple[Piece, ...] = ()  # of a row that is too long

    @property
    def each(self) -> int:
        """Rows of a slab in each row tile."""
        return self.rows // self.tiles

    @property
    def together(self) -> int:
        """Slabs of a group: a PSUM bank for each piece, beside the banks of the group before."""
        return PSUM_BANK // PARTITIONS // (1 if len(self.pieces) <= 2 else 2)

    def count(self, rows: int) -> int:
        """Return how many slabs hold so many rows."""
        return -(-rows // self.rows)


def slab_of(product: Product, per_slab: int) -> Slab:
    """Return the layout of slabs; exactly transposed rows stay apart unless they are short."""
    numbers = product.numbers
    if numbers > PARTITIONS:
        return Slab(1, 1, numbers, tuple(product.pieces()))
    if transposes_mix_rows() or per_slab == 1 or numbers < _SHORTEST_TILED:
        return Slab(per_slab, 1, numbers)
    pitch = NARROW if numbers <= NARROW else 2 * NARROW
    return Slab(PARTITIONS // pitch, PARTITIONS // pitch, pitch)


def block_rows(batch: int, product: Product, slab: Slab) -> int:
    """Return how many rows a partition takes in a block: whole slabs of 8 KiB, or less.

    A small batch has smaller blocks, so that one block is loaded while another is computed.
    """
    rows = -(-batch // (nl.num_programs() * PARTITIONS))
    numbers = max(product.parts * product.held, product.results // 2)
    least = max(_LEAST_BLOCK, min(_SMALL_BLOCK, rows * numbers // 2))
    wanted = min(2 * DMA_RUN, max(least, rows * numbers // _BLOCKS)) // numbers
    slabs = max(1, min(wanted // slab.rows, slab.count(rows)))
    if slabs > slab.together:
        slabs = slabs // slab.together * slab.together
    return slabs * slab.rows


@dataclass(frozen=True)
class Ready:
    """A block whose rows may be multiplied."""

    rows: Rows
    pieces: list[Tensor]  # what is contracted at a time, SBUF [P, rows of whole slabs, numbers]
    marks: Tensor | None  # SBUF [P, rows], added to the results of rows that meet
    result: Tensor  # SBUF [P, result_parts, rows, result]


@dataclass
class RowProducts:
    """Products of the rows of source with a table, which has a copy for every row of a slab."""

    source: Sequence[HbmRows]  # the parts of the rows
    target: Sequence[HbmRows]  # those of the results
    product: Product
    # HBM [numbers contracted, numbers of results], both times the rows of a slab; or two such
    # tables, whose sum is meant
    matrix: Tensor

    def __post_init__(self) -> None:
        check_matrix(self.matrix, self.product.numbers, self.product.results, PARTITIONS)
        self.terms = table_terms(self.matrix, 2)
        self.slab = slab_of(self.product, self.terms[0].shape[0] // self.product.numbers)
        self.dtype = data_dtype(self.matrix, 2)
        self.do_rows_meet = self.slab.tiles < self.slab.rows

    def run(self) -> None:
        """Multiply all rows of this program."""
        product, slab = self.product, self.slab
        batch = row_count(self.source[0].tensor)
        each = block_rows(batch, product, slab)
        self.is_loaded = False
        if not is_data_first(self.source[0], product.contracted):
            self.setup()
            self.is_loaded = True
        shape = (PARTITIONS, product.parts, each, product.held)
        self.inputs = [sbuf(shape, self.dtype) for _ in range(_INPUTS)]
        has_gap = product.numbers < slab.pitch
        self.slabs: list[Tensor] = []  # where the data has to be moved
        if not slab.pieces and (product.parts > 1 or has_gap):
            self.slabs = [sbuf((PARTITIONS, each, slab.pitch), self.dtype) for _ in range(_SLABS)]
        if has_gap:
            for tile in self.slabs:
                clear(tile[:, :, product.numbers :], nisa.engine.gpsimd)
        # One block is loaded, the block before is guarded, and the one before that is multiplied.
        for_rows(batch, self, PARTITIONS * each, on_partitions(each, slab.rows), Order(2))

    def setup(self) -> None:
        """Load the identity and the table by [term][piece], unless they came before the data."""
        if not self.is_loaded:
            self.identity = load_identity(self.dtype)
            self.tables = [self._load_term(term) for term in self.terms]

    def _load_term(self, term: Tensor) -> list[Tensor]:
        """Load a table as it is contracted: in pieces, or that of one row for each row tile."""
        product, slab = self.product, self.slab
        if slab.tiles == 1:
            starts = [piece.part * product.contracted for piece in slab.pieces]
            pieces = [
                term[start + piece.first : start + piece.end]
                for start, piece in zip(starts, slab.pieces, strict=True)
            ]
            return load_tables(pieces or [term])
        # Up to 2 KiB a partition may stay where DMA wrote it.
        table = sbuf((PARTITIONS, product.results), term.dtype)
        one = term[0 : product.numbers, 0 : product.results]
        for low in range(0, PARTITIONS, slab.pitch):
            transfer(table[low : low + product.numbers], one)
        return [table]

    def block(self, rows: Rows, number: int) -> Block:
        product, slab = self.product, self.slab
        data, pieces = self._load(rows, number)
        guard = guarded(data, 2.0 * product.numbers, self.do_rows_meet)
        guard.square()
        yield TURN
        guard.finish()
        yield TURN
        result = sbuf((rows.partitions, product.result_parts, rows.each, product.result))
        ready = Ready(rows, pieces, guard.marks, result)
        for first in range(0, rows.each, slab.together * slab.rows):
            yield self._group(ready, first)
        yield After(partial(self._store, ready))

    def _load(self, rows: Rows, number: int) -> tuple[Tensor, list[Tensor]]:
        """Load rows, and bring the parts of each together.

        Return the data as SBUF [P, rows, parts, contracted], and by ``Ready.pieces``.
        """
        product, slab = self.product, self.slab
        whole = slab.count(rows.each) * slab.rows
        x = self.inputs[number % _INPUTS][0 : rows.partitions]
        for part, source in enumerate(self.source):
            load_rows(x[:, part, 0 : rows.each], source.tensor, rows, source.columns)
        if product.has_nyquist:
            nyquist = x[:, 0, 0 : rows.each, product.held - 1]
            nisa.tensor_copy(dst=x[:, 1, 0 : rows.each, 0], src=nyquist, engine=nisa.engine.gpsimd)
        data = x[:, :, 0 : rows.each, 0 : product.contracted].permute((0, 2, 1, 3))
        if slab.pieces:
            return data, [data[:, :, piece.part, piece.first : piece.end] for piece in slab.pieces]
        slabs = x[:, 0, 0:whole]
        if self.slabs:
            slabs = self.slabs[number % _SLABS][0 : rows.partitions, 0:whole]
            data = _bring_together(slabs, data)
        if rows.each < whole:
            clear(slabs[:, rows.each :], nisa.engine.gpsimd)
        return data, [slabs]

    def _group(self, ready: Ready, first: int) -> Task:
        """Multiply the slabs from a row of each partition on, as many as go together."""
        slab = self.slab
        slabs = min(slab.together, slab.count(ready.rows.each - first))
        operands = [self._transposed(piece, first, slabs) for piece in ready.pieces]
        yield
        # A sum of several products has a bank of its own; single products share a bank as they fit.
        together = 1
        if len(operands) * len(self.tables) == 1:
            together = min(slabs, PSUM_BANK // (slab.each * self.product.results))
        for low, count in chunks(slabs, together):
            rows = (count * slab.each, self.product.result_parts, self.product.result)
            columns = padded_columns(ready.rows.partitions, 0)
            banks = [psum((columns, *rows)) for _ in range(slab.tiles)]
            for index in range(count):
                for tile, bank in enumerate(banks):
                    place = bank[:, index * slab.each : (index + 1) * slab.each]
                    self._multiply_slab(place, operands, low + index, tile)
            for tile, bank in enumerate(banks):
                self._evacuate_rows(bank, ready, first + low * slab.rows + tile, tile)

    def _transposed(self, data: Tensor, first: int, slabs: int) -> list[Tensor]:
        """Transpose slabs of SBUF [P, rows, numbers] to operands [K, slabs, P] of each term."""
        rows, dtype = self.slab.rows, transposed_dtype(data.dtype)
        columns = padded_columns(data.shape[0], 0)
        shape = (rows * data.shape[2], slabs, even_columns(columns, dtype))
        bank = psum(shape, dtype)[:, :, 0:columns]
        for index in range(slabs):
            at = first + index * rows
            transpose(bank[:, index], data[:, at : at + rows], self.identity)
        return evacuate_operand(bank, self.matrix.dtype, len(self.tables), True)

    def _multiply_slab(
        self, bank: Tensor, operands: list[list[Tensor]], index: int, tile: int
    ) -> None:
        """Sum all terms of the product of a slab, or of its row in one of the row tiles."""
        pitch, is_more = self.slab.pitch, False
        for of_data, of_table in PAIRS[: 2 * len(self.tables) - 1]:
            for piece, operand in enumerate(operands):
                data, table = operand[of_data][:, index], self.tables[of_table][piece]
                if self.slab.tiles == 1:
                    multiply(bank, data, table, is_more)
                else:
                    low, end = tile * pitch, tile * pitch + self.product.numbers
                    multiply_row_tile(bank, data[low:end], table[low:end], low, pitch, is_more)
                is_more = True

    def _evacuate_rows(self, bank: Tensor, ready: Ready, row: int, tile: int) -> None:
        """Evacuate rows from one on, of a row tile; add marks where rows meet."""
        step, (partitions, parts, each, n) = self.slab.tiles, ready.result.shape
        count = min(bank.shape[1], -(-(each - row) // step))
        if count < 1:
            return
        end = row + (count - 1) * step + 1
        place = ready.result[:, :, row:end:step].permute((0, 2, 1, 3))
        data, marks = bank[0:partitions, 0:count], ready.marks
        if marks is None:
            # VectorE computes the second term of operands, so ScalarE helps it here.
            evacuate(data, place, is_scalar=len(self.tables) > 1 and tile % 2 == 1)
            return
        repeated = marks.ap([[each, partitions], [step, count], [0, parts], [0, n]], row)
        nisa.tensor_tensor(
            dst=place, data1=data, data2=repeated, op=nl.add, engine=nisa.engine.vector
        )

    def _store(self, ready: Ready) -> None:
        for part, target in enumerate(self.target):
            store_rows(target.tensor, ready.result[:, part], ready.rows, target.columns)


def _bring_together(slabs: Tensor, data: Tensor) -> Tensor:
    """Copy data [P, rows, parts, n] to slabs [P, rows of whole slabs, pitch]; return the copy."""
    _, rows, parts, n = data.shape
    place = slabs[:, 0:rows, 0 : parts * n].reshape_dim(2, (parts, n))
    # GpSimdE would keep VectorE waiting where both share a port.
    if transposes_mix_rows():
        nisa.activation(dst=place, op=nl.copy, data=data)
    else:
        nisa.tensor_copy(dst=place, src=data, engine=nisa.engine.gpsimd)
    return place
