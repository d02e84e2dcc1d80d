"""Stockham FFT with any radices, stages on the Tensor engine: one launch, natural order.

Mathematics.  N = r1 r2 ... rs. After stage i the state is Z_i[K, m] with K < R_i = r1...ri (the
output index so far, natural order) and m < M_i = N / R_i (the input index still to do). Stage i
splits m = j M_i + m' and contracts j:

    Z_i[K + R_(i-1) k, m'] = sum_j exp(-+2 pi i j (K / R_i + k / r_i)) Z_(i-1)[K, j M_i + m']

so the twiddle is part of the stage's matrix, one matrix a K (exponents reduced exactly in
integers, a scale folded into the first stage). Z_0 is the input and Z_s the output, both in
natural order: Stockham's autosort. With t = K M_i + m' the sum reads Z_(i-1) at j M_i apart and
writes Z_i at k N/r_i + t.

Layout on the NeuronCore.  Transforms lie on partitions, [128, 2, R, N] in SBUF, so that loads
and stores move whole rows. A slab is the contraction of one t; g = 64 // r slabs with
consecutive t fill the array. As in dft_gemm, the Tensor engine transposes the slab's data
(stationary = data, moving = identity) and multiplies it as the stationary operand once more, so
the transforms return to partitions. Four slabs a PSUM bank are interleaved there (column stride
16 bytes), so that the evacuation writes runs of consecutive t at full rate. For r > 64 real and
imaginary part are contracted one after the other.

Tables that fit SBUF beside two states (16 bytes a point) stay there. The others are streamed: read
from HBM for each block of transforms, chunk by chunk, each before the products of the one ahead.
DMA runs ahead of the Tensor engine further, as far as SBUF has room.

Precision.  As in dft_gemm the tables' dtype decides: float32, bfloat16 (the state is bfloat16
between stages too), or refined, pairs of bfloat16 for tables and transposed data. PSUM and HBM
are fp32 throughout.

Why it is fast.  A stage costs 33 ps a point on trn1's Tensor engine for r <= 64, whatever r is,
against 59 ps of the DMA floor: two stages of radix 64 beat four of radix 8. VectorE never
multiplies: twiddles are free. DMA of a streamed table runs behind the products: half a floor, twice
as much if r > 64, and again if its rows are a power of two apart in HBM. The kernel needs 128
transforms to fill the array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..tiles import DMA_RUN, PARTITIONS, PSUM_BANK
from .dft_gemm import (
    PAIRS,
    data_dtype,
    evacuate_operand,
    is_float32,
    load_rows,
    rounded_table,
    store_rows,
    table_spec,
    table_terms,
)

MAX_RADIX = 128
_SBUF = 192 << 10  # bytes of a partition, on the smallest chip
_WORKING = 32 << 10  # of them for operands and for chunks of tables, in use and ahead
_STATES = 16  # bytes a point that input and output of a stage take
MAX_LENGTH = (_SBUF - _WORKING) // _STATES
_STAGED = 32 << 10  # bytes a partition of a table or state that DMA writes at a time
_CHUNK = 2048  # numbers a partition of a table that are streamed, or copied, at a time


def slabs_per_product(radix: int, done: int, left: int) -> int:
    """Slabs g that one product takes: 2 g r <= 128, and g divides M_i, or R_(i-1) if M_i = 1."""
    total = left if left > 1 else done
    best = 1
    for g in range(2, PARTITIONS // (2 * radix) + 1):
        if total % g == 0:
            best = g
    return best


def stockham_tables(
    n: int,
    radices: tuple[int, ...],
    inverse: bool = False,
    scale: float = 1.0,
    dtype: str = "float32",
    refined: bool = False,
) -> tuple[np.ndarray[Any, Any], ...]:
    """One table a stage: [2 g r, matrices, 2 g r], float32 or bfloat16.

    Rows are (part, j, slab) or, in the last stage, (part, slab, j); columns (part, k, slab).
    Refined ones (bfloat16 only) have a leading axis: rounded, and what rounding lost. Computed
    in float64, rounded once. Raises ValueError where the radices do not multiply to n,
    a radix is not in 2..128, or n exceeds what SBUF holds.
    """
    if math.prod(radices) != n or not radices:
        raise ValueError(f"radices {radices}: their product must be n = {n}")
    if any(not 2 <= r <= MAX_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_RADIX}")
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: Stockham in SBUF takes lengths up to {MAX_LENGTH}")
    tables = []
    done = 1
    for r in radices:
        factor = scale if done == 1 else 1.0
        tables.append(stage_table(r, done, n // (done * r), inverse, factor, dtype, refined))
        done *= r
    return tuple(tables)


def stockham_specs(
    radices: tuple[int, ...], dtype: str = "float32", refined: bool = False
) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``stockham_tables(n, radices, ...)``."""
    specs = []
    left, done = math.prod(radices), 1
    for r in radices:
        left //= r
        specs.append(stage_spec(r, done, left, dtype, refined))
        done *= r
    return tuple(specs)


def stage_table(
    r: int,
    done: int,
    left: int,
    inverse: bool,
    scale: float,
    dtype: str = "float32",
    refined: bool = False,
) -> np.ndarray[Any, Any]:
    """The table of one stage: r, R_(i-1), M_i, and the rest as for ``stockham_tables``."""
    g = slabs_per_product(r, done, left)
    j, k = np.arange(r)[:, None], np.arange(r)[None, :]
    outputs = np.arange(done)[:, None, None]
    # j (K / R_i + k / r) = j (K + R_(i-1) k) / R_i, reduced modulo R_i.
    angle = 2 * np.pi / (done * r) * (j * (outputs + done * k) % (done * r))
    real = scale * np.cos(angle)
    imaginary = scale * np.sin(angle) * (1 if inverse else -1)
    matrix = np.stack([np.stack([real, imaginary], 2), np.stack([-imaginary, real], 2)], 1)
    # [K, part, j, part', k] so far; slabs of one product share K unless m' is used up.
    same = np.eye(g)
    if left > 1:
        full = np.einsum("Kajbk,st->ajsKbkt", matrix, same)
    else:
        full = np.einsum("Gsajbk,st->asjGbkt", matrix.reshape(done // g, g, 2, r, 2, r), same)
    return rounded_table(full.reshape(2 * g * r, -1, 2 * g * r), dtype, refined)


def stage_spec(r: int, done: int, left: int, dtype: str = "float32", refined: bool = False) -> Any:
    """(shape, dtype) of ``stage_table(r, done, left, ...)``."""
    g = slabs_per_product(r, done, left)
    matrices = done if left > 1 else done // g
    return table_spec((2 * g * r, matrices, 2 * g * r), dtype, refined)


@nki.jit
def stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables, places: ``pack(stockham_tables(N, radices, ...))``,
    radices: tuple of ints with product N. Returns (y_re, y_im), float32 HBM [B, N].
    """
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    assert len(places) == len(radices), f"{len(places)} tables for {len(radices)} radices"
    y_re = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    stockham_rows([x_re, x_im], [y_re, y_im], unpack(tables, places), radices)
    return y_re, y_im


def stockham_rows(source: Any, target: Any, tables: Any, radices: Any) -> None:
    """Transform the rows of HBM source into HBM target, each a list of two parts [B, <= N].

    Zeros follow rows of the source that are shorter; the rest of the outputs is not stored.
    """
    batch = source[0].shape[0]
    n = 1
    for radix in radices:
        n *= radix
    dtype = data_dtype(tables[0], 3)
    identity = load_identity(dtype)
    stays = stays_resident(tables, max(DMA_RUN, n))
    resident: Any = []
    start = 0
    while start < batch:
        rows = min(max(1, DMA_RUN // n), max(1, (batch - start) // PARTITIONS))
        stop = start + rows * min(PARTITIONS, (batch - start) // rows)
        state = load_block(source, start, stop, rows, n, dtype)
        if start == 0:
            # Behind the first block: its first stage runs while the last one's table arrives.
            for stage in range(len(radices)):
                resident.append(load_table(tables[stage]) if stays[stage] else [])
        state = run_stages(state, tables, resident, radices, identity)
        for part in range(2):
            store_rows(target[part], state[:, part], start, stop)
        start = stop


def run_stages(state: Any, tables: Any, resident: Any, radices: Any, identity: Any) -> Any:
    """Transform the SBUF state [partitions, 2, rows, N]; returns the tile with the result.

    resident: for each stage ``load_table(...)``, or nothing where its table is streamed. The
    result is float32, states between stages have the dtype of the given one.
    """
    pending: Any = []
    done = 1
    for stage in range(len(radices)):
        radix = radices[stage]
        left = state.shape[3] // (done * radix)
        shape = [radix, radix, done, left, slabs_per_product(radix, done, left)]
        dtype = state.dtype if stage + 1 < len(radices) else nl.float32
        turned = nl.ndarray(state.shape, dtype=dtype, buffer=nl.sbuf)
        for row in range(state.shape[2]):
            pending = run_stage(
                state, turned, row, tables[stage], resident[stage], shape, stage, identity, pending
            )
        state = turned
        done *= radix
    multiply_group(pending)
    return state


def load_block(x: Any, start: int, stop: int, rows: int, n: int, dtype: Any) -> Any:
    """SBUF tile [partitions, 2, rows, N] of a block of transforms, cast to ``dtype``."""
    shape = ((stop - start) // rows, 2, rows, n)
    state = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    for part in range(2):
        if 2 * rows * n * itemsize(state) <= _STAGED:
            load_rows(state[:, part], x[part], start, stop)
        else:
            # What DMA writes may not take so much, so GpSimdE copies one part after the other.
            staged = nl.ndarray((shape[0], rows, n), dtype=dtype, buffer=nl.sbuf)
            load_rows(staged, x[part], start, stop)
            copy_slowly(state[:, part, 0], staged[:, 0], _CHUNK)
    return state


def load_identity(dtype: Any) -> Any:
    """The identity in SBUF, copied like the tables: with it DMA would keep more than it may."""
    identity = nl.ndarray((PARTITIONS, PARTITIONS), dtype=dtype, buffer=nl.sbuf)
    loaded = nl.shared_identity_matrix(PARTITIONS, dtype=dtype)
    nisa.tensor_copy(dst=identity, src=loaded, engine=nisa.engine.gpsimd)
    return identity


def itemsize(x: Any) -> int:
    """Bytes of a number of ``x``, float32 or bfloat16."""
    return 4 if is_float32(x) else 2


def stays_resident(tables: Any, length: int) -> Any:
    """For each stage whether its table stays in SBUF, beside two states of ``length`` points.

    In the order of the stages, each one that still fits stays. The others are streamed.
    """
    room = _SBUF - _WORKING - _STATES * length
    stays = []
    for table in tables:
        terms = table_terms(table, 3)
        depth, count, width = terms[0].shape
        size = len(terms) * piece_count(depth) * count * width * itemsize(table)
        stays.append(size <= room)
        if size <= room:
            room -= size
    return stays


def piece_count(depth: int) -> int:
    """Pieces that a table of ``depth`` rows is contracted in: beyond 128 rows, one a part."""
    return 1 if depth <= PARTITIONS else 2


def load_tables(tables: Any) -> Any:
    """``load_table`` of each stage."""
    resident = []
    for table in tables:
        resident.append(load_table(table))
    return resident


def load_table(table: Any) -> Any:
    """A stage's table, to stay in SBUF: tiles [rows, terms, matrices, columns], one a piece.

    What DMA writes may not stay, so GpSimdE, which is idle, copies it to where it stays.
    """
    terms = table_terms(table, 3)
    depth, count, width = terms[0].shape
    rows = depth // piece_count(depth)
    # Whole rows, if they fit: parts of them, a power of two apart, would come at half the rate.
    step = max(1, _STAGED // (width * itemsize(table)))
    tiles = []
    for piece in range(piece_count(depth)):
        tile = nl.ndarray((rows, len(terms), count, width), dtype=table.dtype, buffer=nl.sbuf)
        for term in range(len(terms)):
            source = terms[term][piece * rows : (piece + 1) * rows]
            for first in range(0, count, step):
                last = min(first + step, count)
                staged = nl.ndarray((rows, last - first, width), dtype=table.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=staged, src=source[:, first:last])
                copy_slowly(tile[:, term, first:last], staged, max(1, _CHUNK // width))
        tiles.append(tile)
    return tiles


def copy_slowly(dst: Any, src: Any, step: int) -> None:
    """Copy SBUF on GpSimdE, ``step`` columns at a time: in between, VectorE has its turns."""
    for first in range(0, src.shape[1], step):
        last = min(first + step, src.shape[1])
        nisa.tensor_copy(dst=dst[:, first:last], src=src[:, first:last], engine=nisa.engine.gpsimd)


def stream_matrices(table: Any, first: int, size: int) -> Any:
    """SBUF tiles as of ``load_table``, of ``size`` matrices from ``first`` on, for use at once."""
    terms = table_terms(table, 3)
    depth, count, width = terms[0].shape
    rows = depth // piece_count(depth)
    last = min(first + size, count)
    tiles = []
    for piece in range(piece_count(depth)):
        tile = nl.ndarray((rows, len(terms), size, width), dtype=table.dtype, buffer=nl.sbuf)
        for term in range(len(terms)):
            source = terms[term][piece * rows : (piece + 1) * rows, first:last]
            nisa.dma_copy(dst=tile[:, term, 0 : last - first], src=source)
        tiles.append(tile)
    return tiles


def run_stage(
    state: Any,
    turned: Any,
    row: int,
    table: Any,
    tiles: Any,
    shape: Any,
    stage: int,
    identity: Any,
    pending: Any,
) -> Any:
    """One stage of one row of transforms; the last group's products stay pending.

    table: the stage's in HBM; tiles: ``load_table(table)``, or nothing to stream it. shape: inputs
    and outputs of a slab, R_(i-1), M_i, and slabs of a product. As many consecutive products share
    a matrix as the number of matrices leaves.
    """
    contracted, produced, done, left, slabs = shape
    terms = table_terms(table, 3)
    depth, count, width = terms[0].shape
    pieces = piece_count(depth)
    products = done * left // slabs
    sharing = products // count
    group = min(PSUM_BANK // (PARTITIONS * pieces), PSUM_BANK // (2 * produced * slabs))
    # Matrices of a chunk: a multiple of the group, so that no group needs two chunks.
    size = group * max(1, _CHUNK // (group * width * pieces * len(terms)))
    is_streamed = len(tiles) == 0
    ahead = stream_matrices(table, 0, size) if is_streamed else []
    for first in range(0, products, group):
        if first == 0 and stage > 0 and pending[2] == row:
            # The stage before has to end first: every product here reads all of its results.
            multiply_group(pending)
            pending = []
        begins_chunk = is_streamed and first % (size * sharing) == 0
        if begins_chunk:
            tiles = ahead
        number = min(group, products - first)
        moved = transpose_group(
            state,
            row,
            contracted,
            done,
            slabs,
            first,
            number,
            identity,
            pieces,
            table.dtype,
            len(terms),
            False,
        )
        if len(pending) > 0:
            multiply_group(pending)
        if begins_chunk and first // sharing + size < count:
            # Not before the last products of the chunk before: two chunks are live at a time.
            ahead = stream_matrices(table, first // sharing + size, size)
        pending = [moved, turned, row, tiles, produced, sharing * slabs, slabs, first, number]
    return pending


def transpose_group(
    state: Any,
    row: int,
    radix: int,
    done: int,
    slabs: int,
    first: int,
    count: int,
    identity: Any,
    pieces: int,
    dtype: Any,
    terms: int,
    is_scalar: bool,
) -> Any:
    """Operands [rows of a product, count, pieces, partitions] of the group's slabs, by term."""
    partitions, _, _, n = state.shape
    left = n // (done * radix)
    shape = (2 * slabs * radix // pieces, count, pieces, partitions)
    bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    split = state[:, :, row].reshape_dim(2, (done, radix, left))
    for product in range(count):
        t = (first + product) * slabs
        for piece in range(pieces):
            if pieces == 2:
                data = split[:, piece, t // left, :, t % left]
            elif left > 1:
                data = split[:, :, t // left, :, t % left : t % left + slabs]
            else:
                data = split[:, :, t : t + slabs, :, 0]
            nisa.nc_matmul(
                dst=bank[:, product, piece, :],
                stationary=data,
                moving=identity[0:partitions, 0:partitions],
                is_moving_onezero=True,
                is_transpose=is_float32(state),
                accumulate=False,
            )
    return evacuate_operand(bank, dtype, terms, is_scalar)


def multiply_group(pending: Any) -> None:
    """Products of a transposed group, interleaved in a PSUM bank, and their evacuation."""
    moved, turned, row, tiles, radix, left, slabs, first, count = pending
    partitions, _, _, n = turned.shape
    spread = turned[:, :, row].reshape_dim(2, (radix, n // radix))
    steps = 2 * len(moved) - 1
    # Sums of several products have a bank each: it may not hold two of them.
    together = count if steps * len(tiles) == 1 else 1
    # Refined, ScalarE alone takes longer than the products. On v2 VectorE would keep it from PSUM.
    is_shared = steps > 1 and nisa.get_nc_version() != nisa.nc_version.gen2
    for low in range(0, count, together):
        shape = (partitions, 2, radix, together * slabs)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for product in range(together):
            t = (first + low + product) * slabs
            matrix = (t // left if left > 1 else t // slabs) % tiles[0].shape[2]  # in its chunk
            for step in range(steps):
                pair = PAIRS[step]
                for piece in range(len(tiles)):
                    nisa.nc_matmul(
                        dst=bank[:, :, :, product * slabs : (product + 1) * slabs],
                        stationary=moved[pair[0]][:, low + product, piece, :],
                        moving=tiles[piece][:, pair[1], matrix, :],
                        accumulate=step + piece > 0,
                    )
        t = (first + low) * slabs
        place = spread[:, :, :, t : t + together * slabs]
        if is_shared and low % 2 == 1:
            nisa.tensor_copy(dst=place, src=bank, engine=nisa.engine.vector)
        else:
            nisa.activation(dst=place, op=nl.copy, data=bank)
