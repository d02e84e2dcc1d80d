"""Bluestein's DFT of any length N <= 2^22 by two transforms split through HBM: one launch.

Mathematics.  As in long_bluestein.py, X = b* . IDFT_M(H . DFT_M(b* . x, zeros)), and M = P Q is
split as in split_four_step.py. The filter H lies in the order [k_p, k_q] in which the forward
passes leave spectra. The inverse passes read this order and go backwards, so that nothing is
interleaved:

    z[k_p, q] = W_M^(q k_p) sum_p W_P^(p k_p) b*[p Q + q] x[p Q + q]
    v[k_p, q] = IDFT_Q over k_q of (H[k_p, k_q] . DFT_Q over q of z)
    y[p Q + q] = b*[p Q + q] sum_k_p W_P^(-p k_p) W_M^(-q k_p) v[k_p, q]

The inverse transform is a forward transform with real and imaginary part swapped. From v on, all
numbers are swapped in this way.

Layout on the NeuronCore.  P is 65 to 128, so N numbers fill at most 64 rows p of Q numbers. Two
pieces of W columns lie on the partitions, each on a half, where VectorE multiplies them by the
chirp. In the first pass the Tensor engine multiplies each half by its piece's matrix, which leaves
k_p on partitions. In the last pass it adds both pieces into one result, where the matrix of each
piece has zeros for the half of the other piece. The twiddles, the gaps in the scratch and the
shares of the two cores are those of split_four_step.py. H multiplies results of the forward
transforms in SBUF, before they are stored.

    HBM [p, q] -> b* -> PSUM [k_p, w] -> twiddle -> HBM [P, Q] -> four-step, H -> HBM [P, Q]
    HBM [P, Q] -> four-step -> HBM [P, Q] -> twiddle -> PSUM [(half, p), w] -> b* -> HBM [p, q]

Why it is fast.  HBM is passed four times, with M >= 2N - 1 numbers in between. VectorE's products
take the longest time; all of its instructions use all partitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..base.arguments import convolved_length, rows_and_length
from ..base.engines import (
    HALF,
    PARTITIONS,
    PSUM_BANK,
    WHOLE_RADIX,
    chunks,
    clear,
    hbm,
    multiply_banks,
    multiply_through_psum,
    sbuf,
    transfer,
)
from ..base.isa import Tensor, nisa, nki
from ..base.launch import Rows, singles
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Order, Task
from ..base.table_terms import Array, TableSpec, table_spec
from .bluestein import check_long, chirp_factors, parts_by_row
from .four_step_tables import four_step_specs, four_step_tables
from .split_four_step import (
    FirstPass,
    Middle,
    Pass,
    PieceByPiece,
    Shared,
    SplitRows,
    checked_geometry,
    lanes_of,
    line_of,
    load_matrices,
    multiply_split,
    split_matrices,
    split_twiddles,
)
from .spread_lines import STORED, Factors, Lines, Place, load_lines, store_lines

MAX_SPLIT_CONVOLVED = 2**22
_TILES = 2  # tiles for factors
_INPUTS = 4  # input tiles
_LONG = 2**20  # M, beyond which four input tiles would be more than DMA may write


def split_bluestein_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return the tables of ``split_bluestein`` for a convolution of length M.

    They are (chirp [rows, 2, Q], chirp [rows, 2, Q], spectrum [C, 2, P A], matrices [pieces, P, 2,
    128], *split_four_step's tables with matrices [pieces, P, 2, P]), computed in float64.

    Args:
        n: length of the transform, at least 1.
        radices: P, r1, ..., C with product M >= 2 n - 1; P is 65 to 128.
        inverse, scale: as for ``stockham_tables``.
    """
    m = check_long(n, radices)
    geometry = checked_geometry(m, radices)
    opening, spectrum, closing = chirp_factors(n, m, inverse, scale)
    count, size, last = geometry.count, geometry.size, radices[-1]
    held = -(-n // size) * size
    by_row = spectrum.reshape(last, size // last, count).transpose(0, 2, 1)
    matrices = split_matrices(geometry, -1)
    return (
        parts_by_row(opening[:held].reshape(-1, size)),
        parts_by_row(closing[:held].conj().reshape(-1, size)),  # for swapped parts
        parts_by_row(by_row.reshape(last, -1)),
        _closing_matrices(matrices),
        matrices,
        split_twiddles(geometry, -1),
        *four_step_tables(size, radices[1:]),
    )


def _closing_matrices(matrices: Array) -> Array:
    """Return [pieces, P, 2, 128]: matrices [pieces, p, 2, k_p] with k_p as rows and p as columns.

    Up to 64 p lie in the half of their piece.
    """
    pieces, count = matrices.shape[:2]
    closing = np.zeros((pieces, count, 2, PARTITIONS), np.float32)
    rows = min(count, WHOLE_RADIX)
    for side in range(2):
        low = side * HALF
        turned = matrices[side::2, :rows].transpose(0, 3, 2, 1)
        closing[side::2, :, :, low : low + rows] = turned
    return closing


def split_bluestein_specs(n: int, radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``split_bluestein_tables(n, radices, ...)``."""
    m, last = math.prod(radices), radices[-1]
    geometry = checked_geometry(m, radices)
    lanes = geometry.lanes
    chirp = table_spec((-(-n // geometry.size), 2, geometry.size))
    return (
        chirp,
        chirp,
        table_spec((last, 2, m // last)),
        table_spec((geometry.pieces, lanes, 2, PARTITIONS)),
        table_spec((geometry.pieces, lanes, 2, lanes)),
        table_spec((lanes, 2, geometry.piece)),
        *four_step_specs(radices[1:]),
    )


@nki.jit
def split_bluestein(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, of any length up to 2^22.

    The arguments and the results are those of ``stockham``, with ``split_bluestein_tables`` and
    radices P, r1, ..., C, whose product is M.
    """
    _, n = rows_and_length(x_re, x_im)
    m = convolved_length(radices, n)
    y_re, y_im = hbm(x_re.shape), hbm(x_re.shape)
    opening, closing, spectrum, matrices, *others = unpack(tables, places, 4)
    shared = Shared(radices, others, _INPUTS - 1 if m > _LONG else _INPUTS)
    tiles = [sbuf((PARTITIONS, 2, STORED)) for _ in range(_TILES)]
    if opening.shape[0] < WHOLE_RADIX:
        # VectorE reads the partitions between two pieces, and nothing depends on these.
        for tile in [*shared.inputs.tiles, *tiles]:
            clear(tile, nisa.engine.gpsimd)
    source = Lines([x_re, x_im], n)
    target = Lines([y_im, y_re], n)  # the inverse works on swapped parts
    chirps = Chirp(opening, tiles, shared), Chirp(closing, tiles, shared)
    Convolution(shared, source, target, *chirps, Factors(spectrum, tiles), matrices).run()
    return y_re, y_im


class Chirp:
    """Factors of data or of results, for pairs of pieces that lie on halves of the partitions."""

    def __init__(self, table: Tensor, tiles: Sequence[Tensor], shared: Shared) -> None:
        """table: HBM [rows, 2, Q]."""
        self.rows = table.shape[0]
        self._table, self._tiles, self._geometry = table, tiles, shared.geometry

    def sides(self, pair: int) -> list[Side]:
        """Return the pieces of a pair: the last pair may have one."""
        pieces = range(2 * pair, min(2 * pair + 2, self._geometry.pieces))
        width, pitch = self._geometry.piece, self._geometry.size
        return [
            Side(piece, slice(side * HALF, side * HALF + self.rows), Place(0, piece * width, pitch))
            for side, piece in enumerate(pieces)
        ]

    def load(self, pair: int, number: int) -> Tensor:
        """Load the factors of a pair: SBUF [.., 2, W]."""
        sides, width = self.sides(pair), self._geometry.piece
        tile = self._tiles[number % len(self._tiles)][0 : sides[-1].held.stop, :, 0:width]
        for side in sides:
            low = side.place.low
            transfer(tile[side.held], self._table[:, :, low : low + width])
        return tile


@dataclass(frozen=True)
class Side:
    """One of a pair of pieces."""

    piece: int
    held: slice  # its partitions
    place: Place  # in a line of rows of Q numbers


@dataclass
class Convolution(SplitRows):
    """The rows of a launch: a block is one convolution, with its passes."""

    opening: Chirp
    closing: Chirp
    spectrum: Factors  # of the filter, [C, 2, P A]: k_q = k_c A + k_a
    matrices: Tensor  # of the last pass, in HBM, [pieces, P, 2, 128]

    def passes(self, rows: Rows, is_shared: bool) -> list[Pass]:
        """Return the passes of a convolution; the transforms back read rows of this program."""
        shared, geometry = self.shared, self.shared.geometry
        source, target = line_of(self.source, rows), line_of(self.target, rows)
        first, second = shared.scratch(is_shared)
        pairs, count, kernel = (geometry.pieces + 1) // 2, geometry.count, shared.kernel
        most, rows_of = kernel.spread.rows, kernel.spread.blocks
        spectra = Middle(kernel, first, second, self._filter)
        back = Middle(kernel, second.swapped(), first)
        opening = OpeningPass(shared, source, first, self.opening)
        closing = ClosingPass(shared, first, target, self.closing, self.matrices)
        return [
            Pass(opening, pairs, 1, singles, Order(1), first.parts[0]),
            Pass(spectra, count, most, rows_of, kernel.order),
            Pass(back, count, most, rows_of, kernel.order, first.parts[0]),
            Pass(closing, pairs, 1, singles, Order(1, 0)),
        ]

    def may_loop(self) -> bool:
        """Whether the passes may be loops on the device."""
        return False

    def _filter(self, results: Tensor, place: Place) -> None:
        """Multiply results [C, 2, rows, n] by the filter's spectrum, in which lines differ."""
        numbers = results.flatten_dims(2, 3)
        size = numbers.shape[2]
        low = place.row * place.pitch + place.low
        factors = self.spectrum.load(low, size, low // size)
        multiply_through_psum(numbers, numbers, factors[0 : numbers.shape[0], :, 0:size])


@dataclass
class OpeningPass(FirstPass):
    """The chirp, the DFTs over p and the twiddles of pairs of pieces, into the scratch."""

    chirp: Chirp

    def block(self, rows: Rows, number: int) -> Block:
        """Open one pair; VectorE applies its chirp while the pair before is multiplied."""
        sides = self.chirp.sides(rows.first)
        tile = self.shared.tile(number)[0 : sides[-1].held.stop]
        for side in sides:
            for part in range(2):
                half = tile[side.held, part].expand_dim(1)
                load_lines(half, self.source, part, side.place)
        multiply_through_psum(tile, tile, self.chirp.load(rows.first, number))
        yield TURN
        for side in sides:
            low = side.held.start
            matrices = load_matrices(
                self.shared.matrices[side.piece, 0 : self.chirp.rows], None, low
            )
            piece = Rows(None, side.piece, 1, 1)
            yield from self.products(tile[side.held], matrices[side.held], piece, low)


@dataclass
class ClosingPass(PieceByPiece):
    """Twiddles, DFTs over k_p and the chirp of pairs of pieces, into the results."""

    chirp: Chirp
    matrices: Tensor

    def block(self, rows: Rows, number: int) -> Block:
        shared, geometry, sides = self.shared, self.shared.geometry, self.chirp.sides(rows.first)
        pieces, matrices = [], []
        for index, side in enumerate(sides):
            tile = shared.tile(2 * number + index)[0 : geometry.lanes]
            for part in range(2):
                view = lanes_of(self.source, part, Rows(None, side.piece, 1, 1), geometry)
                transfer(tile[:, part], view)
            pieces.append(tile)
            matrices.append(load_matrices(self.matrices[side.piece]))
        chirp = self.chirp.load(rows.first, number)
        yield TURN
        result = sbuf((sides[-1].held.stop, 2, geometry.piece))
        for start, count in chunks(geometry.piece, PSUM_BANK):
            columns = slice(start, start + count)
            some = [piece[:, :, columns] for piece in pieces]
            yield self._products(some, matrices, chirp, result, columns)
        yield After(partial(self._store, result, sides))

    def _products(
        self,
        pieces: Sequence[Tensor],
        matrices: Sequence[Tensor],
        chirp: Tensor,
        result: Tensor,
        columns: slice,
    ) -> Task:
        """Multiply columns of pieces by twiddles and matrices, add them, and apply the chirp."""
        for piece in pieces:
            multiply_through_psum(piece, piece, self.shared.held.twiddle[:, :, columns])
        banks = multiply_split(pieces, matrices)
        yield  # VectorE applies twiddles to the next columns while the Tensor engine has these
        banks = [bank[0 : result.shape[0]] for bank in banks]
        multiply_banks(result[:, :, columns], banks, chirp[:, :, columns])

    def _store(self, result: Tensor, sides: Sequence[Side]) -> None:
        """Store a pair of pieces."""
        for side in sides:
            for part in range(2):
                half = result[side.held, part].expand_dim(1)
                store_lines(half, self.target, part, side.place)
