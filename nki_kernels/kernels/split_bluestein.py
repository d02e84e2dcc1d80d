"""Bluestein's DFT of any length N <= 2^22 by two transforms split through HBM: one launch.

Mathematics.  As in long_bluestein.py, X = b* . IDFT_M(H . DFT_M(b* . x, zeros)), and M = P Q is
split as in split_four_step.py. The filter H lies in the order [k_p, k_q] in which the forward
passes leave spectra. The inverse passes read this order and go backwards, so that nothing is
interleaved:

    z[k_p, q] = W_M^(q k_p) sum_p W_P^(p k_p) b*[p Q + q] x[p Q + q]
    v[k_p, q] = IDFT_Q over k_q of (H[k_p, k_q] . DFT_Q over q of z)
    y[p Q + q] = b*[p Q + q] sum_k_p W_P^(-p k_p) W_M^(-q k_p) v[k_p, q]

The inverse transform is a forward transform with real and imaginary part exchanged. From v on, all
numbers are exchanged in this way.

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
from typing import Any

import numpy as np

from ..hardware import PARTITIONS
from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import LAUNCH_INSTRUCTIONS, share_rows
from ..tiles import (
    HALF,
    PSUM_BANK,
    SPLIT_TERMS,
    WHOLE_RADIX,
    multiply,
    multiply_banks,
    multiply_row_tile,
    multiply_through_psum,
)
from .bluestein import chirp_factors, parts_by_row
from .four_step import transform_rows
from .four_step_passage import Results
from .four_step_plan import STORED
from .four_step_tables import four_step_specs, four_step_tables
from .split_four_step import (
    Geometry,
    Job,
    Split,
    checked_geometry,
    hold_plan,
    job_of,
    lanes_of,
    load_matrices,
    meet,
    pieces_of_pass,
    scratch_lanes,
    scratch_lines,
    share_of,
    split_matrices,
    split_of,
    split_twiddles,
    tile_of,
)
from .spread_lines import RING, Inputs, Lines, Place, load_lines, loads_of, start_loads, store_lines
from .stockham_stages import length_of
from .table_terms import table_spec

MAX_SPLIT_CONVOLVED = 2**22
_TILES = 2  # for factors
_LONG = 2**20  # convolutions beyond which four input tiles would be more than DMA may write


class Convolution(nl.NKIObject):
    """What the passes of a convolution share."""

    job: Job
    rows: int  # of Q numbers that hold data: N / Q, rounded up
    chirps: Any  # in HBM, of data and of results: [rows, 2, Q]
    spectrum: Any  # of the filter in HBM, [C, 2, P A]: k_q = k_c A + k_a
    matrices: Any  # in HBM, of the last pass: [pieces, P, 2, 128]
    tiles: Any  # that DMA fills with factors


class Closing(nl.NKIObject):
    """A pair of pieces in the last pass."""

    pair: int
    pieces: Any  # SBUF [P, 2, W], one or two
    matrices: Any  # of each
    chirp: Any  # SBUF [.., 2, W]
    result: Any  # SBUF [.., 2, W]


class Columns(nl.NKIObject):
    """Columns of a pair that await their chirp."""

    closing: Closing
    start: int
    end: int
    banks: Any  # PSUM [.., end - start] of each part


def split_bluestein_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The kernel's tables for a convolution of length M = product of ``radices``: P, r1, ..., C.

    (chirp [rows, 2, Q], chirp [rows, 2, Q], spectrum [C, 2, P A], matrices [pieces, P, 2, 128],
    *split_four_step's tables, their matrices as [pieces, P, 2, P]), float32, computed in float64.
    Raises ValueError unless M >= 2n - 1 and P > 64.
    """
    m = math.prod(radices)
    if n < 1 or m < 2 * n - 1:
        raise ValueError(f"n = {n}, radices {radices}: Bluestein takes n >= 1, M = {m} >= 2 n - 1")
    if radices[0] <= WHOLE_RADIX:
        raise ValueError(f"radices {radices}: the first must be 65 to 128")
    geometry = checked_geometry(m, radices)
    opening, spectrum, closing = chirp_factors(n, m, inverse, scale)
    count, size, last = geometry.count, geometry.size, radices[-1]
    held = -(-n // size) * size
    by_row = spectrum.reshape(last, size // last, count).transpose(0, 2, 1)
    matrices = split_matrices(geometry, -1)
    return (
        parts_by_row(opening[:held].reshape(-1, size)),
        parts_by_row(closing[:held].conj().reshape(-1, size)),  # of exchanged parts
        parts_by_row(by_row.reshape(last, -1)),
        _closing_matrices(matrices),
        matrices,
        split_twiddles(geometry, -1),
        *four_step_tables(size, radices[1:]),
    )


def _closing_matrices(matrices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Of [pieces, p, 2, k_p] those with k_p as rows, and up to 64 p in the half of the piece."""
    pieces, count = matrices.shape[:2]
    closing = np.zeros((pieces, count, 2, PARTITIONS), np.float32)
    rows = min(count, WHOLE_RADIX)
    for side in range(2):
        low = side * HALF
        turned = matrices[side::2, :rows].transpose(0, 3, 2, 1)
        closing[side::2, :, :, low : low + rows] = turned
    return closing


def split_bluestein_specs(n: int, radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``split_bluestein_tables(n, radices, ...)``."""
    m, last = math.prod(radices), radices[-1]
    geometry = checked_geometry(m, radices)
    lanes = geometry.lanes
    chirp = table_spec((-(-n // geometry.size), 2, geometry.size))
    return (
        chirp,
        chirp,
        table_spec((last, 2, m // last)),
        table_spec((pieces_of_pass(geometry), lanes, 2, PARTITIONS)),
        table_spec((pieces_of_pass(geometry), lanes, 2, lanes)),
        table_spec((lanes, 2, geometry.piece)),
        *four_step_specs(radices[1:]),
    )


@nki.jit
def split_bluestein(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables, places: ``pack(split_bluestein_tables(N, radices,
    ...))``. Returns (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    x, y = [x_re, x_im], [y_im, y_re]  # the inverse works on exchanged parts
    tables = unpack(tables, places)
    loaded = RING - 1 if length_of(radices) > _LONG else RING
    split = split_of(radices, tables[4:], loaded)
    tiles = []
    for _ in range(_TILES):
        tiles.append(nl.ndarray((PARTITIONS, 2, STORED), dtype=nl.float32, buffer=nl.sbuf))
    if tables[0].shape[0] < WHOLE_RADIX:
        # VectorE reads what lies between two pieces, and nothing depends on that.
        for tile in split.tiles + tiles:
            nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
    share = share_rows(batch - batch % nl.num_programs(), 1, LAUNCH_INSTRUCTIONS)
    if share.trips + share.rest > 0:
        alone = convolution_of(job_of(split, False, 0), tables, tiles)
        if share.trips > 0:
            hold_plan(split)

            def body(row: Any) -> None:
                convolve_row(Lines(x, row, 0, n), Lines(y, row, 0, n), alone)

            nl.fori_loop(share.first, share.first + share.trips, body)
        else:
            at = share.first * n
            convolve_row(Lines(x, None, at, n), Lines(y, None, at, n), alone)
    if batch % nl.num_programs() > 0:
        shared = convolution_of(job_of(split, True, 0), tables, tiles)
        at = (batch - 1) * n
        convolve_row(Lines(x, None, at, n), Lines(y, None, at, n), shared)
    return y_re, y_im


def convolution_of(job: Job, tables: Any, tiles: Any) -> Convolution:
    """What the kernel shares, for transforms that two programs share or one does alone."""
    rows = tables[0].shape[0]
    return Convolution(job, rows, [tables[0], tables[1]], tables[2], tables[3], tiles)


def convolve_row(source: Lines, target: Lines, convolution: Convolution) -> None:
    """Transform one line; the target has real and imaginary part exchanged."""
    job = convolution.job
    open_row(source, convolution)
    meet(job.scratch[0], job.is_shared)
    hold_plan(job.split)  # unless it is, behind the first pass, which does not need it
    filter_rows(convolution)
    meet(job.scratch[0], job.is_shared)
    close_row(target, convolution)


def sides_of(pair: int, geometry: Geometry) -> int:
    """Pieces of a pair: the last one may have one."""
    return min(2, pieces_of_pass(geometry) - 2 * pair)


def lanes_of_pair(pair: int, convolution: Convolution) -> int:
    """Partitions of a pair of pieces."""
    sides = sides_of(pair, convolution.job.split.geometry)
    return (sides - 1) * HALF + convolution.rows


# The first pass.


def open_row(source: Lines, convolution: Convolution) -> None:
    """Chirp, DFTs over p and twiddles, into the first scratch."""
    job = convolution.job
    geometry = job.split.geometry
    pairs = (pieces_of_pass(geometry) + 1) // 2
    share = share_of(pairs, 1, 1, job)
    end = share.first + share.rest
    opened: Any = []
    for pair in range(share.first, end + 1):
        before = opened
        opened = [open_pair(source, pair, convolution)] if pair < end else []
        # VectorE has the next chirp to do while the Tensor engine has these.
        for weighted in before:
            for side in range(sides_of(pair - 1, geometry)):
                part_side(weighted, 2 * pair - 2 + side, side, convolution)


def part_side(weighted: Any, index: int, side: int, convolution: Convolution) -> None:
    """DFTs over p and twiddles of one of a pair of pieces, into the first scratch."""
    split, low = convolution.job.split, side * HALF
    geometry = split.geometry
    target = scratch_lanes(convolution.job.scratch[0], None, geometry)
    matrices = load_matrices(split.tables[0][index, 0 : convolution.rows], None, low)
    x = weighted[low : low + convolution.rows]
    result = nl.ndarray((geometry.lanes, 2, geometry.piece), dtype=nl.float32, buffer=nl.sbuf)
    for start in range(0, geometry.piece, PSUM_BANK):
        end = min(start + PSUM_BANK, geometry.piece)
        banks = open_bank(x[:, :, start:end], matrices, low)
        multiply_banks(result[:, :, start:end], banks, split.twiddle[:, :, start:end])
    for part in range(2):
        view = lanes_of(target, part, index, geometry)
        nisa.dma_copy(dst=view, src=result[:, part], dge_mode=nisa.dge_mode.none)


def open_pair(source: Lines, pair: int, convolution: Convolution) -> Any:
    """Two pieces of data, each on a half of the partitions, times the chirp: SBUF [.., 2, W]."""
    split = convolution.job.split
    geometry, rows = split.geometry, convolution.rows
    tile = tile_of(split, pair, lanes_of_pair(pair, convolution))
    for side in range(sides_of(pair, geometry)):
        low = side * HALF
        place = Place(0, (2 * pair + side) * geometry.piece, geometry.size)
        for part in range(2):
            half = tile[low : low + rows, part].expand_dim(1)
            load_lines(half, source, part, place)
    factors = load_chirp(pair, 0, convolution)
    multiply_through_psum(tile, tile, factors)
    return tile


def load_chirp(pair: int, which: int, convolution: Convolution) -> Any:
    """A chirp's factors for a pair of pieces: SBUF [.., 2, W]."""
    geometry, rows = convolution.job.split.geometry, convolution.rows
    factors = convolution.tiles[pair % len(convolution.tiles)]
    factors = factors[0 : lanes_of_pair(pair, convolution), :, 0 : geometry.piece]
    for side in range(sides_of(pair, geometry)):
        low = side * HALF
        start = (2 * pair + side) * geometry.piece
        nisa.dma_copy(
            dst=factors[low : low + rows],
            src=convolution.chirps[which][:, :, start : start + geometry.piece],
            dge_mode=nisa.dge_mode.none,
        )
    return factors


def open_bank(x: Any, matrices: Any, low: int) -> Any:
    """Rows of a half of the array times their matrix: a PSUM bank for each part."""
    banks = []
    for part in range(2):
        bank = nl.ndarray((matrices.shape[2], x.shape[2]), dtype=nl.float32, buffer=nl.psum)
        for term in range(2):
            matrix = matrices[low : low + x.shape[0], SPLIT_TERMS[part][term]]
            multiply_row_tile(bank, matrix, x[:, term], low, HALF, term > 0)
        banks.append(bank)
    return banks


# The transforms between.


def filter_rows(convolution: Convolution) -> None:
    """Transforms of the first scratch's rows, times the filter, and back."""
    job = convolution.job
    split = job.split
    size, spread = split.geometry.size, split.spread
    first, second = job.scratch[0], job.scratch[1]
    share = share_of(split.geometry.count, spread.rows, 1, job)
    inputs = Inputs(split.tiles, [], [])
    rows = scratch_lines(first, None, size)
    loads = loads_of(rows, inputs, spread, share.first, share.rest)
    start_loads(loads, RING)
    spectra = scratch_lines(second, None, size)
    results = Results(spectra, [convolution.spectrum], convolution.tiles, 0)
    transform_rows(loads, results, split.held[0])
    starts = [spectra.starts[1], spectra.starts[0]]
    exchanged = Lines(spectra.parts, None, 0, size, starts)
    loads = loads_of(exchanged, inputs, spread, share.first, share.rest)
    start_loads(loads, RING)
    transform_rows(loads, Results(rows, [], [], 0), split.held[0])


# The last pass.


def close_row(target: Lines, convolution: Convolution) -> None:
    """Twiddles, DFTs over k_p and chirp of the first scratch, into the result."""
    job = convolution.job
    geometry = job.split.geometry
    pairs = (pieces_of_pass(geometry) + 1) // 2
    share = share_of(pairs, 1, 1, job)
    before: Any = []
    for pair in range(share.first, share.first + share.rest):
        closing = closing_of(pair, convolution)
        for start in range(0, geometry.piece, PSUM_BANK):
            end = min(start + PSUM_BANK, geometry.piece)
            columns = columns_of(closing, start, end, job.split)
            # VectorE has twiddles of the next columns to do while the Tensor engine has these.
            finish(before, target, convolution)
            before = [columns]
    finish(before, target, convolution)


def closing_of(pair: int, convolution: Convolution) -> Closing:
    """Loads of a pair of pieces."""
    job = convolution.job
    geometry, lanes = job.split.geometry, lanes_of_pair(pair, convolution)
    source = scratch_lanes(job.scratch[0], None, geometry)
    pieces, matrices = [], []
    for side in range(sides_of(pair, geometry)):
        index = 2 * pair + side
        tile = tile_of(job.split, index, geometry.lanes)
        for part in range(2):
            view = lanes_of(source, part, index, geometry)
            nisa.dma_copy(dst=tile[:, part], src=view, dge_mode=nisa.dge_mode.none)
        pieces.append(tile)
        matrices.append(load_matrices(convolution.matrices[index], None, 0))
    result = nl.ndarray((lanes, 2, geometry.piece), dtype=nl.float32, buffer=nl.sbuf)
    return Closing(pair, pieces, matrices, load_chirp(pair, 1, convolution), result)


def columns_of(closing: Closing, start: int, end: int, split: Split) -> Columns:
    """Some columns of both pieces times twiddles and matrices, in sum."""
    factors = split.twiddle[:, :, start:end]
    for piece in closing.pieces:
        multiply_through_psum(piece[:, :, start:end], piece[:, :, start:end], factors)
    banks = []
    for part in range(2):
        bank = nl.ndarray((PARTITIONS, end - start), dtype=nl.float32, buffer=nl.psum)
        for side in range(len(closing.pieces)):
            matrices, piece = closing.matrices[side], closing.pieces[side]
            for term in range(2):
                matrix = matrices[0 : piece.shape[0], SPLIT_TERMS[part][term]]
                multiply(bank, matrix, piece[:, term, start:end], side + term > 0)
        banks.append(bank[0 : closing.result.shape[0]])
    return Columns(closing, start, end, banks)


def finish(before: Any, target: Lines, convolution: Convolution) -> None:
    """The chirp of columns, if there are any, and the store of their pair if they end it."""
    for columns in before:
        closing, geometry = columns.closing, convolution.job.split.geometry
        result = closing.result[:, :, columns.start : columns.end]
        chirp = closing.chirp[:, :, columns.start : columns.end]
        multiply_banks(result, columns.banks, chirp)
        if columns.end == geometry.piece:
            for side in range(len(closing.pieces)):
                low = side * HALF
                half = closing.result[low : low + convolution.rows]
                place = Place(0, (2 * closing.pair + side) * geometry.piece, geometry.size)
                for part in range(2):
                    store_lines(half[:, part].expand_dim(1), target, part, place)
