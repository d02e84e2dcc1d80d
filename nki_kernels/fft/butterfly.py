"""FFT of N = 2 to 2**14 (a power of two) on the Vector engine: one launch, natural order.

Mathematics.  Stockham's autosort. A stage of radix r turns x into y, with N = r m s:

    y[q + s (r p + k')] = w_{rm}^{p k'} sum_k w_r^{k k'} x[q + s (p + m k)],   p < m, q < s

for s = 1, 4, 16, ... All radices are 4, except that the last one is 2 where log2 N is odd. A
radix-4 stage reads four contiguous runs and writes with a stride of 4 numbers at most; no bit
reversal is needed. A twiddle factor may be applied as late as the stage that sums over the index on
which it depends. So three stages form a block of 64. Inside a block, output K of the block so far
is multiplied by w_{rK'}^{pK} with p < r, which are constants (K' is the number of outputs so far, r
the next radix); only at the end of the block comes the table w^{pK} over all p. The direction of
the transform is the sign of w_4 = -+i and of the twiddles, so it is part of the tables, as is the
scale.

Layout on the NeuronCore.  The batch lies on partitions, R transforms on each, so that R N numbers
fill a state of 4096 points (2048 compensated). Both parts lie in one tile [128, 2, R, N]. Each
stage writes a fresh tile, and the tiles rotate. A transform that is larger than a state begins with
one more radix-4 stage, which reads pieces of the row in HBM and leaves four transforms of N/4; the
last pass interleaves their results. No instruction works across partitions, so rows never meet. DMA
writes to a few tiles in turn: 32 KiB of input, whose tiles are free again after the first stage,
and pieces of the tables, repeated over the partitions.

Why it is fast.  VectorE is the limit. It needs two cycles for every addition of two tiles, and each
point takes 2 log2 N additions. Constant twiddles are columns, so ScalarE multiplies by them, and by
-+i, while VectorE adds. For this a stage proceeds by quarters, and the products are a quarter ahead
of their sums. VectorE multiplies only by the tables. It reads an operand in PSUM and one in SBUF at
the same time, so that the intermediate results of a compensated addition are in PSUM, where it has
10 cycles a number in place of 16.

Compensated (Kahan) mode.  Each number is an unevaluated sum hi + lo, so that it has two words in
place of one (butterfly_stages.py). An addition is Knuth's TwoSum of the hi, whose exact error is
added to lo. A product splits both factors after 12 bits, as Dekker does: x = x1 + x2 by a mask, w =
w1 + w2 on the host; then x1 w1 is exact, and x1 w2 + x2 w is added to lo. Roundings of lo are
2**-12 below a rounding of hi; hi + lo is rounded once at the end. Both modes are the same stages.
With one word the kernel is faster than others for N = 2 and 4 only; with two it is more accurate
than any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..base.arguments import rows_and_length
from ..base.engines import PARTITIONS, hbm, sbuf, transfer
from ..base.isa import Tensor, nki
from ..base.launch import Rows, blocks_of, for_rows, load_rows, part_of_rows, store_rows
from ..base.pipeline import TURN, Block, Order, pipeline
from .butterfly_stages import (
    Tables,
    Words,
    butterflies,
    by_table,
    fresh,
    scale,
    transform,
    twiddle,
)
from .butterfly_tables import RUN, Geometry

_PIECE = 256  # points of each quarter of a long row that are loaded at once
_STORED = 512  # the same, of results that are stored at once


@nki.jit
def butterfly(x_re, x_im, tables, places, compensated=False):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, on the Vector engine.

    The tables determine the direction and the scale. The arguments and the results are those of
    ``stockham``, with ``butterfly_tables``, for a power of two from 2 to 16384 (4096
    compensated).

    compensated: whether every number is computed as an unevaluated sum of two.
    """
    batch, n = rows_and_length(x_re, x_im)
    y_re, y_im = hbm(x_re.shape), hbm(x_re.shape)
    work = Butterflies([x_re, x_im], [y_re, y_im], Geometry(n, compensated), tables, places)
    each = max(1, work.geometry.points // n)
    for_rows(batch, work, PARTITIONS * each, partial(blocks_of, most=each), Order(1, 0))
    return y_re, y_im


@dataclass
class Butterflies:
    """What all blocks of rows share."""

    x: Sequence[Tensor]  # HBM [B, N], real and imaginary part
    y: Sequence[Tensor]  # the same of the results
    geometry: Geometry
    packed: Tensor  # HBM, all tables
    places: Any  # of the tables

    def __post_init__(self) -> None:
        run = self.geometry.points
        tiles = 0 if self.geometry.is_long else RUN // run
        self.inputs = [sbuf((PARTITIONS, 2 * run)) for _ in range(tiles)]

    def setup(self) -> None:
        """Load the columns of the tables."""
        self.tables = Tables(self.packed, self.places)

    def block(self, rows: Rows, number: int) -> Block:
        if self.geometry.is_long:
            yield TURN
            self._transform_long(rows)
            return
        tile, n = self.inputs[number % len(self.inputs)], self.geometry.n
        pattern = [[tile.shape[1], rows.partitions], [rows.each * n, 2], [n, rows.each], [1, n]]
        state = tile.ap(pattern)
        for part in range(2):
            load_rows(state[:, part], self.x[part], rows, n)
        yield TURN
        results = transform(Words(state), self.geometry.stages, self.tables)
        for part in range(2):
            result = sbuf((rows.partitions, rows.each, n))
            scale(result, results[:, part], self.tables)
            store_rows(self.y[part], result, rows, n)

    def _transform_long(self, rows: Rows) -> None:
        """Transform rows that exceed a state, one a partition: by a stage, then four of N/4."""
        length = self.geometry.length
        each = self.geometry.points // length
        shape = (rows.partitions, 2, each, length)
        states = [fresh(shape, self.geometry.compensated) for _ in range(4 // each)]
        self._split(rows, states)
        for _ in range(len(states)):
            states.append(transform(states.pop(0), self.geometry.stages, self.tables))
        for first in range(0, length, _STORED):
            legs = _legs(states, first, _STORED)
            for part in range(2):
                row = sbuf((rows.partitions, _STORED, 4))
                for leg, words in enumerate(legs):
                    scale(row[:, :, leg], words[:, part], self.tables)
                place = part_of_rows(self.y[part], rows, 0, 1, 4 * first, 4 * (first + _STORED))
                transfer(place, row.reshape((rows.partitions, 1, 4 * _STORED)), rows.base)

    def _split(self, rows: Rows, states: Sequence[Words]) -> None:
        """Run the radix-4 stage of long rows, from HBM to the states of four transforms."""
        n, length = self.geometry.n, self.geometry.length
        tiles = [sbuf((rows.partitions, 2, 4, _PIECE)) for _ in range(2)]
        pieces = [sbuf((rows.partitions, self.tables.rows, _PIECE)) for _ in range(3)]
        pattern = [[n, rows.partitions], [length, 4], [1, _PIECE]]
        for first in range(0, length, _PIECE):
            tile = tiles[first // _PIECE % 2]
            for part, x in enumerate(self.x):
                source = x.ap(pattern, rows.first * n + first, scalar_offset=rows.base)
                transfer(tile[:, part], source, rows.base)
            legs = _legs(states, first, _PIECE)
            butterflies(Words(tile), legs, self.tables)
            for leg, piece in enumerate(pieces):
                factors = self.tables.factors(piece, leg * length + first, [[1, _PIECE]])
                pipeline([twiddle(legs[1 + leg], factors, by_table)])


def _legs(states: Sequence[Words], first: int, size: int) -> list[Words]:
    """Return numbers [P, 2 parts, size] of each of four transforms, from the first on."""
    each, last = states[0].shape[2], first + size
    return [state[:, :, row, first:last] for state in states for row in range(each)]
