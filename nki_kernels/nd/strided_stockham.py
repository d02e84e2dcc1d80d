"""FFT along an axis that is not the last one, without a transposition through HBM.

Mathematics.  The data [A, N, C] is transformed along N = r M, where n = j M + m is an input and K +
r q is an output:

    Z[K, m] = sum_j W_r^(j K) x[j M + m],      X[K + r q] = sum_m W_N^(m (K + r q)) Z[K, m].

The twiddles are part of the second matrix, of which each K has its own. N <= 64 needs the second
stage only.

Layout on the NeuronCore.  Rows of x are loaded as they lie: (part, j, s) is on partitions, where g
<= 64 / r slabs s of M / g rows fill the array, and columns C are on the free axis, so that DMA
moves runs of columns. The data is the stationary operand of the first stage. The products of this
stage therefore have the columns on partitions and the digits on the free axis: one product is a
transform and a transposition. There, a slab K lies as one run (part, m). The second stage
transposes it back and multiplies it as the moving operand, so that (part, q) is on partitions. The
outputs q r + K are stored as they lie, and are in natural order.

    HBM [N, C] -> SBUF [(part, j, s), M/g, C] -> [C, r, 2, M] -> [(part, q), r, C] -> HBM [N, C]

Where there are fewer columns than the array takes, several members (indices of A) lie side by side.
Where members share a transposition that adds products with zero, columns that are not finite are
set aside before (row_guard). NeuronCore-v2 refuses some narrow operands; a narrow operand therefore
reads columns beyond its own.

The input may have fewer than N rows: zeros follow, which are neither stored in HBM nor loaded. The
output may have fewer rows, too: the others are not stored. A long batch is a loop on the device,
over members or over blocks of columns, and two programs share it in the same way (columns.py).

Why it is fast.  It makes three passes of the Tensor engine instead of the four of two Stockham
stages, and DMA moves runs of up to 8 KiB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

import numpy as np

from ..base.arguments import check_dimensions, check_factors, check_shapes, check_tables
from ..base.chip import transposes_mix_rows
from ..base.engines import PARTITIONS, PSUM_BANK, columns_read, hbm, multiply, psum, sbuf
from ..base.isa import Tensor, nki, nl
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Order, Task
from ..base.roots import dft_matrix, roots
from ..base.table_terms import Array, TableSpec, table_spec
from ..base.tables import load_tables
from .column_pass import ColumnPass, Piece, Results, Ring, in_parts
from .columns import ColumnBlock, HbmColumns, for_columns
from .resident_products import real_matrices

MAX_STRIDED_RADIX = 64
MAX_LENGTH = MAX_STRIDED_RADIX**2
_INSTRUCTIONS = 12_000  # instructions of an iteration, which the passes of a launch share
# points of a block of columns in all programs, if the block has more than 128 columns
_POINTS = 2**19
_TOGETHER = 2**16  # points of a block of several members
_HELD = 2**13  # numbers a partition of a block's results
_COLUMNS = 2048  # columns of a block, at most
# numbers a partition of input that are loaded at a time, and those loaded and not yet used
_ROOM = 2816, 11520
_SHARED_ROOM = 2816, 4608  # where passes precede or follow, whose loads may run at once


def slabs_together(radix: int, left: int) -> int:
    """Return how many slabs g of the first stage fill the array: 2 g r <= 128, and g divides M."""
    best = 1
    for g in range(2, PARTITIONS // (2 * radix) + 1):
        if left % g == 0:
            best = g
    return best


def strided_stockham_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return the tables of ``strided_stockham``: one for each radix.

    With one radix there is only the second stage. The first stage is [2 g r, 2 g r], rows (part, j,
    s), columns (K, part, s). The second stage is [2 M, r, P], rows (part, m), columns (part, q),
    then zeros up to P of at least 64.

    Args:
        n, inverse, scale: as for ``stockham_tables``.
        radices: one or two radices with product n, each 2 to 64.
    """
    if len(radices) not in (1, 2) or math.prod(radices) != n:
        raise ValueError(f"radices {radices}: must be one or two with the product n = {n}")
    if any(not 2 <= r <= MAX_STRIDED_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_STRIDED_RADIX}")
    radix, left = (1, n) if len(radices) == 1 else radices
    outputs = np.arange(radix)[:, None] + radix * np.arange(left)  # [K, q]
    w = roots(np.arange(left)[:, None, None] * outputs, n, inverse)  # [m, K, q]
    if len(radices) == 1:
        w *= scale
    # [part, m, K, part', q]
    closing = real_matrices(w).transpose(1, 0, 3, 2, 4).astype(np.float32)
    closing = closing.reshape(2 * left, radix, 2 * left)
    closing = np.pad(closing, ((0, 0), (0, 0), (0, columns_read(2 * left) - 2 * left)))
    if len(radices) == 1:
        return (closing,)
    g = slabs_together(radix, left)
    first = real_matrices(scale * dft_matrix(radix, inverse))
    opening = np.einsum("jabk,st->ajskbt", first, np.eye(g))
    size = 2 * g * radix
    return opening.reshape(size, size).astype(np.float32), closing


def strided_stockham_specs(radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``strided_stockham_tables(n, radices, ...)``."""
    radix, left = (1, *radices)[-2:]
    closing = table_spec((2 * left, radix, columns_read(2 * left)))
    if len(radices) == 1:
        return (closing,)
    size = 2 * radix * slabs_together(radix, left)
    return table_spec((size, size)), closing


def radix_pairs(n: int) -> list[tuple[int, int]]:
    """Return pairs of radices of a length, the likeliest first: those with a large last radix."""
    lasts = [r for r in range(MAX_STRIDED_RADIX, 1, -1) if n % r == 0 and n > r]
    return [(n // last, last) for last in lasts if n // last <= MAX_STRIDED_RADIX]


@nki.jit
def strided_stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform ``x_re + i x_im`` along the middle axis.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [A, N, C].
        tables, places: the two results of ``pack(strided_stockham_tables(N, radices, ...))``.
        radices: a tuple of one or two ints with product N.

    Returns:
        (y_re, y_im), float32 HBM [A, N, C].
    """
    check_shapes(("A", "N", "C"), x_re, x_im)
    check_factors(radices, x_re.shape[1])
    y_re, y_im = hbm(x_re.shape), hbm(x_re.shape)
    columns = x_re.shape[2]
    source = [HbmColumns(x_re, 1, columns), HbmColumns(x_im, 1, columns)]
    target = [HbmColumns(y_re, 1, columns), HbmColumns(y_im, 1, columns)]
    transform_columns(source, target, radices, unpack(tables, places))
    return y_re, y_im


def transform_columns(
    source: Sequence[HbmColumns],
    target: Sequence[HbmColumns],
    radices: tuple[int, ...],
    tables: Sequence[Tensor],
    passes: int = 1,
) -> None:
    """Transform the columns of source [A, held, C] into target [A, kept, C], each of two parts.

    passes: passes of the launch, which share its instructions and what DMA may write.
    """
    if len(radices) > 2 or max(radices) > MAX_STRIDED_RADIX:
        raise ValueError(
            f"argument 'radices' is {radices}, allowed are one or two up to {MAX_STRIDED_RADIX}"
        )
    check_tables(tables, len(radices))
    check_dimensions("tables", tables[-1], ("2 M", "r", "P"))
    room = _ROOM if passes == 1 else _SHARED_ROOM
    transform = _Transform(source, target, radices, load_tables(tables), room)
    for_columns(source[0], transform.blocks, transform.size(), _INSTRUCTIONS // passes, Order(1, 0))


class _Transform(ColumnPass):
    """What all blocks of a transform share."""

    def size(self) -> tuple[int, int]:
        """Return how many columns a block has at most, of one member and of several."""
        most, held = _COLUMNS, _HELD // self.radix
        if self.radix > 1:
            loaded = (self.room[1] - self.room[0] // 4) // self.length
            most = min(PSUM_BANK, loaded, held, _POINTS // (self.n * nl.num_programs()))
        return most, min(_TOGETHER // self.n, _COLUMNS, held)

    def blocks(self, blocks: Sequence[ColumnBlock]) -> Iterator[Block]:
        """Yield blocks of tasks; loads run as far ahead as the ring of pieces reaches."""
        ring = self.ring(blocks)
        for block, pieces in zip(blocks, ring.pieces, strict=True):
            yield self._block(block, pieces, ring)

    def _block(self, block: ColumnBlock, pieces: Sequence[Piece], ring: Ring) -> Block:
        """One block, from HBM to HBM."""
        tile = sbuf((2 * self.left, block.place.members, self.radix, block.place.columns))
        results = [Results(tile, chunk, []) for chunk in block.chunks()]
        if self.radix == 1:
            for piece in pieces:
                yield ring.use(piece, partial(self._close_piece, results))
        else:
            states = self.new_states(block)
            for piece in pieces:
                yield ring.use(piece, partial(self.open, states))
            yield TURN
            left = iter(states)
            for result in results:
                yield from self._close(result, list(islice(left, len(result.place.groups()))))
        yield After(partial(self.store, block, tile))

    def _close_piece(self, results: Sequence[Results], piece: Piece) -> None:
        """Run the second stage on rows that are its operands as they are loaded."""
        low = 0
        for number, result in enumerate(results):
            data = piece.tile[0 : 2 * self.left, low : low + result.place.count].expand_dim(1)
            self._outputs(data, 0, result, number % 2 == 0)
            low += result.place.count

    def _close(self, results: Results, states: Sequence[Tensor]) -> Block:
        """Run the second stage of a chunk, with a state for each group."""
        place, radix = results.place, self.radix
        if transposes_mix_rows() and place.members > 1 and 2 * place.columns <= PARTITIONS:
            yield self._set_aside(results, states)
        step = min(radix, PSUM_BANK // place.count)
        for number, slabs in enumerate(in_parts(radix, step)):
            yield self._close_slabs(results, states, slabs, number % 2 == 0)

    def _set_aside(self, results: Results, states: Sequence[Tensor]) -> Task:
        """Set columns aside that would spoil others, and mark their results."""
        marks = [self.set_aside(state, self.left) for state in states]
        results.marks.append(self.turned_marks(marks, 2 * self.left))
        yield

    def _close_slabs(
        self, results: Results, states: Sequence[Tensor], slabs: range, is_scalar: bool
    ) -> Task:
        """Transpose some slabs of a chunk, and multiply them.

        VectorE evacuates transposed slabs or, where it adds marks to results, ScalarE.
        """
        left, read = 2 * self.left, self.closing.shape[2]
        tiles = [[state[:, K * left : K * left + read] for state in states] for K in slabs]
        data = self.transposed(tiles, left, results.place.count, bool(results.marks))
        yield
        self._outputs(data, slabs.start, results, is_scalar)

    def _outputs(self, data: Tensor, first: int, results: Results, is_scalar: bool) -> None:
        """Multiply slabs K from ``first`` on, SBUF [(part, m), K, columns]."""
        rows, count, columns = data.shape
        bank = psum((self.closing.shape[2], count, columns))
        for index in range(count):
            multiply(bank[:, index], self.closing[:, first + index], data[:, index], False)
        results.put(bank[0:rows], first, is_scalar)
