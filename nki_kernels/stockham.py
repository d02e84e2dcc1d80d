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

Precision.  As in dft_gemm the tables' dtype decides: float32, bfloat16 (the state is bfloat16
between stages too), or refined, pairs of bfloat16 for tables and transposed data. PSUM and HBM
are fp32 throughout.

Why it is fast.  A stage costs 33 ps a point on trn1's Tensor engine for r <= 64, whatever r is,
against 59 ps of the DMA floor: two stages of radix 64 beat four of radix 8. VectorE never
multiplies: twiddles are free. It needs 128 transforms to fill the array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .dft_gemm import (
    PAIRS,
    data_dtype,
    evacuate_operand,
    is_float32,
    rounded_table,
    table_terms,
)
from .nki_api import nisa, nki, nl

MAX_RADIX = 128
MAX_LENGTH = 4096  # two states and the last table take 24 bytes a point of an SBUF partition
_PARTITIONS = 128
_BANK = 512  # fp32 numbers of a PSUM bank, a partition
_RUN = 1024  # fp32 numbers of a 4 KiB DMA descriptor
_CHUNK = 2048  # numbers a partition of a table that GpSimdE copies at a time


def slabs_per_product(radix: int, done: int, left: int) -> int:
    """Slabs g that one product takes: 2 g r <= 128, and g divides M_i, or R_(i-1) if M_i = 1."""
    total = left if left > 1 else done
    best = 1
    for g in range(2, _PARTITIONS // (2 * radix) + 1):
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
        tables.append(_stage_table(r, done, n // (done * r), inverse, factor, dtype, refined))
        done *= r
    return tuple(tables)


def _stage_table(
    r: int,
    done: int,
    left: int,
    inverse: bool,
    scale: float,
    dtype: str = "float32",
    refined: bool = False,
) -> np.ndarray[Any, Any]:
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


@nki.jit
def stockham(x_re, x_im, tables, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables: ``stockham_tables(N, radices, ...)``, radices: tuple
    of ints with product N. Returns (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    assert len(tables) == len(radices), f"{len(tables)} tables for {len(radices)} radices"
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    dtype = data_dtype(tables[0], 3)
    identity = load_identity(dtype)
    resident: Any = []
    start = 0
    while start < batch:
        rows = min(max(1, _RUN // n), max(1, (batch - start) // _PARTITIONS))
        stop = start + rows * min(_PARTITIONS, (batch - start) // rows)
        state = load_block(x_re, x_im, start, stop, rows, dtype)
        if start == 0:
            # Behind the first block: its first stage runs while the last one's table arrives.
            resident = load_tables(tables, radices)
        state = run_stages(state, resident, radices, identity)
        nisa.dma_copy(dst=as_block(y_re, start, stop, rows), src=state[:, 0])
        nisa.dma_copy(dst=as_block(y_im, start, stop, rows), src=state[:, 1])
        start = stop
    return y_re, y_im


def run_stages(state: Any, resident: Any, radices: Any, identity: Any) -> Any:
    """Transform the SBUF state [partitions, 2, rows, N]; returns the tile with the result.

    resident: ``load_tables(...)``. The result is float32, states between stages have the dtype
    of the given one. Swapping the parts before and after inverts the direction.
    """
    pending: Any = []
    done = 1
    for stage in range(len(radices)):
        dtype = state.dtype if stage + 1 < len(radices) else nl.float32
        turned = nl.ndarray(state.shape, dtype=dtype, buffer=nl.sbuf)
        for row in range(state.shape[2]):
            pending = run_stage(
                state, turned, row, resident[stage], radices[stage], done, identity, pending
            )
        state = turned
        done *= radices[stage]
    multiply_group(pending)
    return state


def as_block(x: Any, start: int, stop: int, rows: int) -> Any:
    """Rows start..stop of an HBM tensor [B, N] as [partitions, rows, N]."""
    return x[start:stop].reshape_dim(0, ((stop - start) // rows, rows))


def load_block(
    x_re: Any, x_im: Any, start: int, stop: int, rows: int, dtype: Any = nl.float32
) -> Any:
    """SBUF tile [partitions, 2, rows, N] of a block of transforms, cast to ``dtype``."""
    n = x_re.shape[1]
    shape = ((stop - start) // rows, 2, rows, n)
    state = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=state[:, 0], src=as_block(x_re, start, stop, rows))
    nisa.dma_copy(dst=state[:, 1], src=as_block(x_im, start, stop, rows))
    return state


def load_identity(dtype: Any) -> Any:
    """The identity in SBUF, copied like the tables: with it DMA would keep more than it may."""
    identity = nl.ndarray((_PARTITIONS, _PARTITIONS), dtype=dtype, buffer=nl.sbuf)
    loaded = nl.shared_identity_matrix(_PARTITIONS, dtype=dtype)
    nisa.tensor_copy(dst=identity, src=loaded, engine=nisa.engine.gpsimd)
    return identity


def load_tables(tables: Any, radices: Any) -> Any:
    """The stages' tables in SBUF: per stage, tiles [rows, terms, matrices, columns], one a piece.

    What DMA writes may not stay, so GpSimdE, which is idle, copies it to where it stays.
    """
    resident = []
    for stage in range(len(radices)):
        terms = table_terms(tables[stage], 3)
        dtype = terms[0].dtype
        depth, count, width = terms[0].shape
        pieces = 1 if depth <= _PARTITIONS else 2
        rows = depth // pieces
        step = max(1, _CHUNK // width)
        tiles = []
        for piece in range(pieces):
            tile = nl.ndarray((rows, len(terms), count, width), dtype=dtype, buffer=nl.sbuf)
            for term in range(len(terms)):
                # Whole rows: parts of them, a power of two apart, would come at half the rate.
                staged = nl.ndarray((rows, count, width), dtype=dtype, buffer=nl.sbuf)
                source = terms[term][piece * rows : (piece + 1) * rows]
                nisa.dma_copy(dst=staged, src=source)
                for first in range(0, count, step):
                    last = min(first + step, count)
                    nisa.tensor_copy(
                        dst=tile[:, term, first:last],
                        src=staged[:, first:last],
                        engine=nisa.engine.gpsimd,
                    )
            tiles.append(tile)
        resident.append(tiles)
    return resident


def run_stage(
    state: Any,
    turned: Any,
    row: int,
    tiles: Any,
    radix: int,
    done: int,
    identity: Any,
    pending: Any,
) -> Any:
    """One stage of one row of transforms; the last group's products stay pending."""
    n = state.shape[3]
    left = n // (done * radix)
    slabs = slabs_per_product(radix, done, left)
    products = n // (radix * slabs)
    group = _BANK // (_PARTITIONS * len(tiles))
    for first in range(0, products, group):
        count = min(group, products - first)
        if first == 0 and len(pending) > 0 and pending[2] == row:
            # The stage before has to end first: every product here reads all of its results.
            multiply_group(pending)
            pending = []
        moved = transpose_group(
            state,
            row,
            radix,
            done,
            slabs,
            first,
            count,
            identity,
            len(tiles),
            tiles[0].dtype,
            tiles[0].shape[1],
        )
        if len(pending) > 0:
            multiply_group(pending)
        pending = [moved, turned, row, tiles, radix, left, slabs, first, count]
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
    dtype: Any = nl.float32,
    terms: int = 1,
    is_scalar: bool = False,
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
    bank = nl.ndarray((partitions, 2, radix, count * slabs), dtype=nl.float32, buffer=nl.psum)
    for product in range(count):
        t = (first + product) * slabs
        matrix = t // left if left > 1 else t // slabs
        for step in range(2 * len(moved) - 1):
            pair = PAIRS[step]
            for piece in range(len(tiles)):
                nisa.nc_matmul(
                    dst=bank[:, :, :, product * slabs : (product + 1) * slabs],
                    stationary=moved[pair[0]][:, product, piece, :],
                    moving=tiles[piece][:, pair[1], matrix, :],
                    accumulate=step + piece > 0,
                )
    t = first * slabs
    spread = turned[:, :, row].reshape_dim(2, (radix, n // radix))
    nisa.activation(dst=spread[:, :, :, t : t + count * slabs], op=nl.copy, data=bank)
