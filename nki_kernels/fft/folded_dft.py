"""DFT of any length N from 129 to 2047, as products of half its size: one launch.

Mathematics.  Cosines are even in n and sines are odd. So with the even and odd parts of a row,

    E[n] = x[n] + x[N - n],  O[n] = x[n] - x[N - n]      (E[n] = O[n] = x[n] where n = -n mod N)
    A[k] = sum_n cos(2 pi n k / N) E[n],  B[k] = sum_n sin(2 pi n k / N) O[n]      n, k = 0 .. N/2

the transform is X[k] = A[k] -+ i B[k] and X[N - k] = A[k] +- i B[k]. These are four real products
with matrices of (N/2)^2 numbers, in place of four products with N^2. In real and imaginary parts,
where O and B have the imaginary part first,

    S = A + B = (Xr[k], Xi[N - k]),  D = A - B = (Xr[N - k], Xi[k])

(S and D change places with exp(+...), whose sines are negative). A scale is part of the matrices.

Layout on the NeuronCore.  n and k are cut into chunks of at most 128, which lie on partitions:

    HBM [B, N] -> SBUF [rows, 2, N] -> transposed: x[n], and x[N - n] in descending order of n
        -> its product with the reversal matrix J, in ascending order -> E, O [n, part, rows]
        -> A, B, summed over the chunks of n -> S, D [k, part, rows]
        -> transposed by products with I for k, with J for N - k -> SBUF [rows, 2, N] -> HBM

The matrices are the stationary operand and the rows are the moving operand, so that both folds add
numbers on equal partitions. Only the product with J reverses an order, because access patterns
cannot. Each accumulation has a PSUM bank of its own. Up to N = 255 a block takes two rows of each
partition; beyond, it takes one.

Rows are columns of every operand except in the first transposes. On NeuronCore-v2 these transposes
are products, which mix rows: there bad rows are set aside before (row_guard.py).

Why blocks overlap.  While one block is multiplied, the next block is transposed and folded, the
previous block is transposed back, and the block after the next is guarded. The tasks of these jobs
are spread over each other, so that no engine waits for the engine before it. ScalarE evacuates the
transposes and A. VectorE computes E, O, S and D, each from one operand in PSUM and one in SBUF. The
two parts of results have tiles of their own, so that one is stored while the other is made.

Why it is fast.  With c chunks, a row moves 4 c^2 columns of products, at 4 cycles each, and 10 c
columns of transposes and reversals, at 2 cycles each, over the Tensor engine. At N = 997, where c =
4, the modelled time is 2.3 times the DMA floor on trn1; Bluestein's two transforms of 2 N points
take 5 times the floor. Up to N = 2047 the matrices stay in SBUF.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product, starmap

import numpy as np

from ..base.arguments import check_tables, rows_and_length
from ..base.engines import (
    PARTITIONS,
    PSUM_BANK,
    cuts,
    element_count,
    evacuate,
    hbm,
    multiply,
    padded_columns,
    psum,
    sbuf,
    transpose,
)
from ..base.isa import Tensor, nisa, nki, nl
from ..base.launch import HbmRows, Rows, blocks_of, for_rows, load_rows, store_rows
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Order, Task, early
from ..base.row_guard import guarded, mark_of
from ..base.table_terms import Array, TableSpec
from ..base.tables import load_few_tables, load_identity

MIN_LENGTH, MAX_LENGTH = 129, 2047
_INPUTS = 3  # tiles that DMA fills in turn: for two blocks ahead, and for the one that is folded
_DMA_WRITTEN = 56 << 10  # bytes a partition of input and tables that may stay where DMA wrote them
_SPAN = PSUM_BANK // PARTITIONS  # chunks of results in a PSUM bank


@dataclass(frozen=True)
class Chunk:
    """Values of n or k on partitions; values from ``paired`` to ``last`` have a partner N - n."""

    low: int
    end: int  # the value after the last one
    paired: int
    last: int  # the value after the last one with a partner


def chunks_of(n: int) -> list[Chunk]:
    """Return 0 .. N/2 in chunks of at most 128, of about equal size."""
    found = cuts(0, n // 2 + 1)
    return [Chunk(low, end, max(low, 1), min(end, (n + 1) // 2)) for low, end in found]


def folded_dft_tables(n: int, inverse: bool = False, scale: float = 1.0) -> tuple[Array, ...]:
    """Return the tables of ``folded_dft``, float32.

    The first is J followed by zeros, [128, 129]. Then follows a table for each chunk of n, with
    scale * cos a and scale * +-sin a of a = 2 pi n k / N, [n, 2, N // 2 + 1]. The tables are
    computed in float64 with n k mod N, and rounded once.

    Args:
        n: length of the transform, 129 to 2047.
        inverse, scale: as for ``stockham_tables``.
    """
    if not MIN_LENGTH <= n <= MAX_LENGTH:
        raise ValueError(f"n = {n}: the folded DFT accepts lengths {MIN_LENGTH} to {MAX_LENGTH}")
    index = np.arange(n // 2 + 1)
    exponent = np.outer(index, index) % n
    angle = 2 * np.pi / n * exponent
    # The odd part of a number without a partner is not zero, so its sine has to be.
    sine = np.where(2 * exponent % n == 0, 0.0, np.sin(angle))
    matrices = scale * np.stack([np.cos(angle), -sine if inverse else sine], 1)
    reversal = np.eye(PARTITIONS, PARTITIONS + 1)
    reversal[:, :PARTITIONS] = reversal[::-1, :PARTITIONS]
    tables = [reversal] + [matrices[chunk.low : chunk.end] for chunk in chunks_of(n)]
    return tuple(table.astype(np.float32) for table in tables)


def folded_dft_specs(n: int) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``folded_dft_tables(n, ...)``."""
    chunks = [((chunk.end - chunk.low, 2, n // 2 + 1), "float32") for chunk in chunks_of(n)]
    return ((PARTITIONS, PARTITIONS + 1), "float32"), *chunks


@nki.jit
def folded_dft(x_re, x_im, tables, places):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, by products of half its size.

    The arguments and the results are those of ``stockham``, with ``folded_dft_tables``, for N from
    129 to 2047.
    """
    _, n = rows_and_length(x_re, x_im)
    y_re, y_im = hbm(x_re.shape), hbm(x_re.shape)
    source, target = [HbmRows(x_re, n), HbmRows(x_im, n)], [HbmRows(y_re, n), HbmRows(y_im, n)]
    FoldedDft(source, target, n, unpack(tables, places)).run()
    return y_re, y_im


@dataclass(frozen=True)
class Folded:
    """Sums and differences, SBUF [n or k, part, each, columns]: E and O, or S and D."""

    sums: Tensor
    differences: Tensor


@dataclass(frozen=True)
class Span:
    """Results in a PSUM bank, of a part of one row of each partition."""

    part: int
    row: int
    first: int  # the first chunk
    is_mirrored: bool  # whether they are those of N - k


@dataclass
class FoldedDft:
    """What all blocks of a launch share."""

    source: Sequence[HbmRows]
    target: Sequence[HbmRows]
    n: int
    hbm_tables: Sequence[Tensor]  # J, and the table of each chunk of n

    def run(self) -> None:
        """Transform all rows of this program."""
        self.chunks = chunks_of(self.n)
        check_tables(self.hbm_tables, 1 + len(self.chunks))
        most = 2 if len(self.chunks) == 1 else 1
        shape = (PARTITIONS, 2, most, self.n)
        self.inputs = [sbuf(shape) for _ in range(_INPUTS)]
        batch = self.source[0].tensor.shape[0]
        order = Order(4, spread=early)
        for_rows(batch, self, PARTITIONS * most, partial(blocks_of, most=most), order, opened=2)

    def setup(self) -> None:
        self.identity = load_identity()
        written = [*self.inputs, *self.hbm_tables[1:]]
        are_few = 4 * sum(element_count(tile.shape[1:]) for tile in written) <= _DMA_WRITTEN
        self.reversal, *self.tables = load_few_tables(self.hbm_tables, are_few)

    def block(self, rows: Rows, number: int) -> Block:
        x = self.inputs[number % _INPUTS][0 : rows.partitions, :, 0 : rows.each]
        for part, source in enumerate(self.source):
            load_rows(x[:, part], source.tensor, rows, source.columns)
        # No sum exceeds sqrt(2 N) times the norm.
        guard = guarded(x.permute((0, 2, 1, 3)), 2.0 * self.n)
        yield TURN
        yield After(guard.finish)  # VectorE folds the block before first
        yield TURN
        folded: list[Folded] = []
        for chunk in self.chunks:
            yield self._fold(x, chunk, folded)
        yield TURN
        made: list[Folded] = []
        for chunk in self.chunks:
            yield self._multiply(folded, chunk, made)
        yield TURN
        del folded
        spans = range(rows.each), range(0, len(self.chunks), _SPAN), (False, True)
        for part, target in enumerate(self.target):
            result = sbuf((rows.partitions, rows.each, self.n))
            for span in starmap(partial(Span, part), product(*spans)):
                yield self._finish(made, span, result, guard.marks)
            yield After(partial(store_rows, target.tensor, result, rows, target.columns))

    def _fold(self, x: Tensor, chunk: Chunk, folded: list[Folded]) -> Task:
        """Add E and O of a chunk of n from SBUF x [P, part, each, N]; O has imaginary first."""
        low, end = self.n - chunk.last + 1, self.n - chunk.paired + 1
        partners = self._transposed(x[..., low:end])
        chosen = self._transposed(x[..., chunk.low : chunk.end])
        yield
        mirrored = psum(chosen.shape)
        reversal = self._reversal(partners.shape[0], chosen.shape[0], chunk)
        multiply(mirrored, reversal, partners, False, is_stationary_onezero=True)
        even, odd = sbuf(chosen.shape), sbuf(chosen.shape)
        nisa.tensor_tensor(dst=even, data1=chosen, data2=mirrored, op=nl.add)
        for part in range(2):
            place, data = odd[:, 1 - part], chosen[:, part]
            nisa.tensor_tensor(dst=place, data1=data, data2=mirrored[:, part], op=nl.subtract)
        folded.append(Folded(even, odd))

    def _reversal(self, rows: int, columns: int, chunk: Chunk) -> Tensor:
        """Return J for so many numbers of a chunk, with a column of zeros where one has no partner.

        The numbers are partners in descending order, or k in ascending order.
        """
        low = PARTITIONS - (chunk.last - chunk.low)
        return self.reversal[0:rows, low : low + columns]

    def _transposed(self, x: Tensor) -> Tensor:
        """Bring columns of x, [P, part, each, columns], onto partitions of SBUF."""
        partitions, parts, each, columns = x.shape
        bank = psum((columns, parts, each, padded_columns(partitions, PARTITIONS)))
        for part in range(parts):
            for row in range(each):
                transpose(bank[:, part, row], x[:, part, row], self.identity)
        return evacuate(bank)

    def _multiply(self, folded: Sequence[Folded], chunk: Chunk, made: list[Folded]) -> Task:
        """Add S and D of a chunk of k, from E and O of all chunks of n."""
        cosines = evacuate(self._sum([chunks.sums for chunks in folded], 0, chunk))
        yield
        sines = self._sum([chunks.differences for chunks in folded], 1, chunk)
        sums, differences = sbuf(sines.shape), sbuf(sines.shape)
        nisa.tensor_tensor(dst=sums, data1=cosines, data2=sines, op=nl.add)
        nisa.tensor_tensor(dst=differences, data1=cosines, data2=sines, op=nl.subtract)
        made.append(Folded(sums, differences))

    def _sum(self, operands: Sequence[Tensor], function: int, chunk: Chunk) -> Tensor:
        """Return a chunk of k of products with cosines or sines, summed over n, in PSUM."""
        bank = psum((chunk.end - chunk.low, *operands[0].shape[1:]))
        for index, (table, operand) in enumerate(zip(self.tables, operands, strict=True)):
            multiply(bank, table[:, function, chunk.low : chunk.end], operand, index > 0)
        return bank

    def _finish(
        self, made: Sequence[Folded], span: Span, result: Tensor, marks: Tensor | None
    ) -> Task:
        """Make a span of SBUF result [P, each, N] from S and D."""
        chunks, n = self.chunks[span.first : span.first + _SPAN], self.n
        low, end = chunks[0].low, chunks[-1].end
        if span.is_mirrored:
            low, end = n - chunks[-1].last + 1, n - chunks[0].paired + 1
        bank = psum((made[0].sums.shape[-1], end - low))
        for chunk, folded in zip(chunks, made[span.first :], strict=False):
            is_sum = span.is_mirrored == (span.part == 1)
            data = (folded.sums if is_sum else folded.differences)[:, span.part, span.row]
            if not span.is_mirrored:
                transpose(bank[:, chunk.low - low : chunk.end - low], data, self.identity)
                continue
            at, count = n - chunk.last + 1 - low, chunk.last - chunk.paired
            reversal = self._reversal(data.shape[0], count, chunk)
            multiply(bank[:, at : at + count], data, reversal, False, is_moving_onezero=True)
        yield
        y = result[:, span.row, low:end]
        evacuate(bank[0 : y.shape[0]], y, marks=mark_of(marks, span.row))
