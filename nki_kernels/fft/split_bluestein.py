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
from typing import Any

import numpy as np

from nki_sim.hardware import PARTITIONS

from ..isa import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import LAUNCH_INSTRUCTIONS, share_rows
from ..table_terms import table_spec
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
from .four_step_shared import STORED
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

MAX_SPLIT_CONVOLVED = 2**22
_TILES = 2  # tiles for factors
_LONG = 2**20  # M, beyond which four input tiles would be more than DMA may write


class Convolution(nl.NKIObject):
    """What the passes of a convolution share."""

    job: Job
    rows: int  # rows of Q numbers that hold data: N / Q, rounded up
    chirps: Any  # the chirps of data and of results in HBM, [rows, 2, Q]
    spectrum: Any  # the filter's spectrum in HBM, [C, 2, P A]: k_q = k_c A + k_a
    matrices: Any  # the last pass's matrices in HBM, [pieces, P, 2, 128]
    tiles: Any  # tiles that DMA fills with factors


class Closing(nl.NKIObject):
    """A pair of pieces in the last pass."""

    pair: int
    pieces: Any  # one or two SBUF tiles [P, 2, W]
    matrices: Any  # the matrices of each piece
    chirp: Any  # SBUF [.., 2, W]
    result: Any  # SBUF [.., 2, W]


class Columns(nl.NKIObject):
    """Columns of a pair of pieces that are still to be multiplied by the chirp."""

    closing: Closing
    start: int
    end: int
    banks: Any  # PSUM [.., end - start] of each part


def split_bluestein_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """Return the tables of ``split_bluestein`` for a convolution of length M.

    They are (chirp [rows, 2, Q], chirp [rows, 2, Q], spectrum [C, 2, P A], matrices [pieces, P, 2,
    128], *split_four_step's tables with matrices [pieces, P, 2, P]), computed in float64.

    Args:
        n: length of the transform, at least 1.
        radices: P, r1, ..., C with product M >= 2 n - 1; P is 65 to 128.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        A tuple of float32 arrays.

    Raises:
        ValueError: M is too short, or the radices do not fit.
    """
    m = math.prod(radices)
    if n < 1 or m < 2 * n - 1:
        raise ValueError(f"n = {n}, radices {radices}: n >= 1 and M = {m} >= 2 n - 1 must hold")
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
        parts_by_row(closing[:held].conj().reshape(-1, size)),  # for swapped parts
        parts_by_row(by_row.reshape(last, -1)),
        _closing_matrices(matrices),
        matrices,
        split_twiddles(geometry, -1),
        *four_step_tables(size, radices[1:]),
    )


def _closing_matrices(matrices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
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


def split_bluestein_specs(n: int, radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``split_bluestein_tables(n, radices, ...)``."""
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
    """Transform every row of ``x_re + i x_im``, of any length up to 2^22.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N].
        tables, places: the two results of ``pack(split_bluestein_tables(N, radices, ...))``.
        radices: P, r1, ..., C with product M.

    Returns:
        (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    x, y = [x_re, x_im], [y_im, y_re]  # the inverse works on swapped parts
    tables = unpack(tables, places)
    loaded = RING - 1 if length_of(radices) > _LONG else RING
    split = split_of(radices, tables[4:], loaded)
    tiles = []
    for _ in range(_TILES):
        tiles.append(nl.ndarray((PARTITIONS, 2, STORED), dtype=nl.float32, buffer=nl.sbuf))
    if tables[0].shape[0] < WHOLE_RADIX:
        # VectorE reads the partitions between two pieces, and nothing depends on these.
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
    """Return what the passes share, for a transform that two programs share or one does alone."""
    rows = tables[0].shape[0]
    return Convolution(job, rows, [tables[0], tables[1]], tables[2], tables[3], tiles)


def convolve_row(source: Lines, target: Lines, convolution: Convolution) -> None:
    """Transform one line; the target has real and imaginary part swapped."""
    job = convolution.job
    open_row(source, convolution)
    meet(job.scratch[0], job.is_shared)
    # unless that was done; behind the first pass, which does not need the tables
    hold_plan(job.split)
    filter_rows(convolution)
    meet(job.scratch[0], job.is_shared)
    close_row(target, convolution)


def sides_of(pair: int, geometry: Geometry) -> int:
    """Return the number of pieces of a pair: the last pair may have one."""
    return min(2, pieces_of_pass(geometry) - 2 * pair)


def lanes_of_pair(pair: int, convolution: Convolution) -> int:
    """Return the number of partitions of a pair of pieces."""
    sides = sides_of(pair, convolution.job.split.geometry)
    return (sides - 1) * HALF + convolution.rows


# The first pass.


def open_row(source: Lines, convolution: Convolution) -> None:
    """Apply the chirp, DFTs over p and twiddles, into the first scratch."""
    job = convolution.job
    geometry = job.split.geometry
    pairs = (pieces_of_pass(geometry) + 1) // 2
    share = share_of(pairs, 1, 1, job)
    end = share.first + share.rest
    opened: Any = []
    for pair in range(share.first, end + 1):
        before = opened
        opened = [open_pair(source, pair, convolution)] if pair < end else []
        # VectorE applies the next chirp while the Tensor engine makes these products.
        for weighted in before:
            for side in range(sides_of(pair - 1, geometry)):
                part_side(weighted, 2 * pair - 2 + side, side, convolution)


def part_side(weighted: Any, index: int, side: int, convolution: Convolution) -> None:
    """Apply the DFTs over p and the twiddles to one of a pair of pieces, into the first scratch."""
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
    """Load two pieces, each on half of the partitions, and apply the chirp: SBUF [.., 2, W]."""
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
    """Load a chirp's factors for a pair of pieces: SBUF [.., 2, W]."""
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
    """Multiply rows of half of the array by their matrix; return a PSUM bank for each part."""
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
    """Transform the first scratch's rows, multiply by the filter, and transform back."""
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
    swapped = Lines(spectra.parts, None, 0, size, starts)
    loads = loads_of(swapped, inputs, spread, share.first, share.rest)
    start_loads(loads, RING)
    transform_rows(loads, Results(rows, [], [], 0), split.held[0])


# The last pass.


def close_row(target: Lines, convolution: Convolution) -> None:
    """Apply twiddles, DFTs over k_p and the chirp to the first scratch, into the result."""
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
            # VectorE applies twiddles to the next columns while the Tensor engine has these.
            finish(before, target, convolution)
            before = [columns]
    finish(before, target, convolution)


def closing_of(pair: int, convolution: Convolution) -> Closing:
    """Load a pair of pieces."""
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
    """Multiply some columns of both pieces by twiddles and matrices, and add the products."""
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
    """Apply the chirp to columns, if there are any; store their pair if they are its last."""
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
