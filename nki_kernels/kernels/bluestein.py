"""DFT of any length N <= 5120 by Bluestein's chirp: one launch, natural order in and out.

Mathematics.  With b[n] = exp(+-pi i n^2 / N) and 2nk = n^2 + k^2 - (k - n)^2,

    X[k] = b*[k] sum_n (x[n] b*[n]) b[k - n],

a convolution with b. Made circular of any length M >= 2N - 1 it is a product of spectra:

    X = b* . IDFT_M(H . DFT_M(b* . x, zeros)),    H = DFT_M(b[-(N-1) .. N-1] wrapped) / M.

n^2 is reduced modulo 2N in integers, so the chirp is exact for any N. A scale is part of H.

Layout on the NeuronCore.  As in stockham: transforms on partitions, R rows each, and M = r1 ... rs
in s stages forward and s stages back, on SBUF states [128, 2, R, length]:

    HBM [B, N] -> s stages (the first times b*, the last times H)
               -> s stages (the last times b*) -> HBM [B, N]

No multiplication is left to do: a stage that is given one matrix a slab takes weights of its
inputs in the rows of its table, weights of its outputs in the columns. The first stage contracts
only those j that hold data, the last one computes only those k that are stored, so neither the
zeros nor the outputs beyond N exist anywhere.

Such a table takes as much SBUF as a state, so beyond M = 4096 most are streamed, as in stockham.

Why it is fast.  The Tensor engine binds: on trn1 33 ps a point of M and stage, less a sixth in
the first stage (fewer transposes) and a third in the last (shorter products). At M = 2N and two
radices near 64 that is 231 ps a point of N, 3.9 times the DMA floor. Two rows a partition keep it
busy where one row's stage has to end before the next one starts. Radices near 90, for M > 8192,
cost 6.5 floors, and streaming their tables 4.5, which run at the same time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..tiles import DMA_RUN, PARTITIONS, PSUM_BANK
from .dft_gemm import as_block, table_spec
from .stockham import (
    MAX_LENGTH,
    load_table,
    multiply_group,
    run_stage,
    stays_resident,
    stockham_specs,
    stockham_tables,
)

MAX_CONVOLVED = MAX_LENGTH // 2  # longest N
_SHARED = 4096  # points of M a partition, up to which it takes several transforms


def convolution_lengths(n: int) -> list[int]:
    """Sensible lengths M >= 2n - 1 for ``bluestein_tables``, the shortest first.

    The next lengths with prime factors up to 13 and up to 5, the next multiples of 32 and 64 with
    factors up to 13 (they fill the Tensor engine), the next power of two, as far as Stockham
    takes them. Raises ValueError unless 1 <= n <= 5120.
    """
    if not 1 <= n <= MAX_CONVOLVED:
        raise ValueError(f"n = {n}: Bluestein takes lengths 1 to {MAX_CONVOLVED}")
    smooth = (2, 3, 5, 7, 11, 13)
    least = max(2 * n - 1, 2)
    found = {_next_smooth(least, smooth, multiple) for multiple in (1, 32, 64)}
    found |= {_next_smooth(least, smooth[:3], 1), _next_smooth(least, smooth[:1], 1)}
    return sorted(m for m in found if m <= MAX_LENGTH)


def _next_smooth(least: int, primes: tuple[int, ...], multiple: int) -> int:
    """The first multiple from ``least`` on that has no other prime factors."""
    m = -(-least // multiple) * multiple
    while True:
        rest = m
        for p in primes:
            while rest % p == 0:
                rest //= p
        if rest == 1:
            return m
        m += multiple


def bluestein_tables(
    n: int, m: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[np.ndarray[Any, Any], ...]:
    """The kernel's tables for a convolution of length m = product of ``radices``.

    One float32 table a stage, forward then back: those of Stockham, except that chirp and filter
    are part of the first and the last stage of either direction. Computed in float64, rounded
    once. Raises ValueError where m < 2n - 1 or Stockham does not take m and radices.
    """
    if n < 1 or m < 2 * n - 1:
        raise ValueError(f"n = {n}, m = {m}: Bluestein takes n >= 1 and m >= 2 n - 1")
    tables = list(stockham_tables(m, radices) + stockham_tables(m, radices, inverse=True))
    chirp = np.exp((1j if inverse else -1j) * np.pi / n * (np.arange(n) ** 2 % (2 * n)))
    wrapped = np.zeros(m, np.complex128)
    wrapped[:n] = chirp.conj()
    wrapped[m - n + 1 :] = chirp.conj()[:0:-1]
    spectrum = scale / m * np.fft.fft(wrapped)
    padded, ones = np.pad(chirp, (0, m - n)), np.ones(m)
    middle = len(radices)
    tables[0] = _weighted_table(n, radices, 0, padded, spectrum if middle == 1 else ones)
    if middle > 1:
        tables[middle - 1] = _weighted_table(n, radices, middle - 1, ones, spectrum)
    tables[-1] = _weighted_table(n, radices, 2 * middle - 1, ones, padded)
    return tuple(tables)


def _weighted_table(
    n: int,
    radices: tuple[int, ...],
    stage: int,
    before: np.ndarray[Any, Any],
    after: np.ndarray[Any, Any],
) -> np.ndarray[Any, Any]:
    """A stage's table [rows, matrices, columns] with weights of its inputs and outputs.

    Input weights need a stage with done = 1, output weights one with left = 1. One matrix a
    product; rows and columns are ordered as in ``stockham_tables``.
    """
    contracted, produced, done, left, slabs = stage_shape(n, radices, stage)
    slab = np.arange(done * left)[:, None, None]
    j, k = np.arange(contracted)[:, None], np.arange(produced)
    inputs, outputs = slab % left + left * j, slab // left + done * k
    period = done * radices[stage % len(radices)]
    sign = -2j if stage < len(radices) else 2j
    matrix = np.exp(sign * np.pi / period * (j * outputs % period))
    matrix = before[inputs] * matrix * after[outputs]
    split = np.stack([matrix.real, matrix.imag, -matrix.imag, matrix.real], 1)
    split = split.reshape(-1, slabs, 2, 2, contracted, produced)
    order = "Gsabjk,st->ajsGbkt" if left > 1 else "Gsabjk,st->asjGbkt"
    full = np.einsum(order, split, np.eye(slabs))
    return full.reshape(2 * slabs * contracted, -1, 2 * slabs * produced).astype(np.float32)


def stage_shape(n: int, radices: Any, stage: int) -> Any:
    """(contracted, produced, done, left, slabs) of a stage, 0 <= stage < 2 len(radices).

    Contracted inputs and produced outputs of a slab (the radix, or less in the first and the last
    stage), R_(i-1) and M_i as in stockham, and the slabs of one product.
    """
    count = len(radices)
    done = 1
    for i in range(stage % count):
        done *= radices[i]
    left = 1
    for i in range(stage % count + 1, count):
        left *= radices[i]
    contracted = radices[stage % count]
    produced = contracted
    if stage == 0:
        contracted = -(-n // left)
    if stage == 2 * count - 1:
        produced = -(-n // done)
    total = left if left > 1 else done
    slabs = 1
    # The contraction fits the array, the product a PSUM bank.
    for g in range(2, min(PARTITIONS // (2 * contracted), PSUM_BANK // (2 * produced)) + 1):
        if total % g == 0:
            slabs = g
    return contracted, produced, done, left, slabs


def bluestein_specs(n: int, radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``bluestein_tables(n, m, radices, ...)``."""
    specs = list(stockham_specs(radices) * 2)
    # Weighted ones have a matrix a product.
    for stage in (0, len(radices) - 1, 2 * len(radices) - 1):
        contracted, produced, done, left, slabs = stage_shape(n, radices, stage)
        shape = (2 * slabs * contracted, done * left // slabs, 2 * slabs * produced)
        specs[stage] = table_spec(shape)
    return tuple(specs)


@nki.jit
def bluestein(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables, places: ``pack(bluestein_tables(N, M, radices,
    ...))``, radices: tuple of ints with product M. Returns (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    stages = 2 * len(radices)
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    assert len(places) == stages, f"{len(places)} tables for {stages} stages"
    tables = unpack(tables, places)
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    identity = nl.shared_identity_matrix(PARTITIONS, dtype=nl.float32)

    stays = stays_resident(tables, rows_per_partition(batch, n, radices) * length_of(radices))
    resident: Any = []
    pending: Any = []
    finished: Any = []
    start = 0
    while start < batch:
        rows = rows_per_partition(batch - start, n, radices)
        stop = start + rows * min(PARTITIONS, (batch - start) // rows)
        state = load_padded(x_re, x_im, start, stop, rows, radices)
        for stage in range(stages):
            if start == 0:
                # One stage's, just in time: the first stages do not wait for the last tables.
                resident.append(load_table(tables[stage]) if stays[stage] else [])
            shape = stage_shape(n, radices, stage)
            length = shape[1] * shape[2] * shape[3]
            turned = nl.ndarray(state.shape[0:3] + (length,), dtype=nl.float32, buffer=nl.sbuf)
            for row in range(rows):
                pending = run_stage(
                    state,
                    turned,
                    row,
                    tables[stage],
                    resident[stage],
                    shape,
                    stage,
                    identity,
                    pending,
                )
            state = turned
            if stage == 0 and len(finished) > 0:
                # The block before has ended within this stage.
                store_outputs(finished, y_re, y_im)
        finished = [state, start, stop]
        start = stop
    multiply_group(pending)
    store_outputs(finished, y_re, y_im)
    return y_re, y_im


def rows_per_partition(left: int, n: int, radices: Any) -> int:
    """Transforms a partition takes in the next block, of ``left`` still to do."""
    # At least two keep the Tensor engine busy between stages, where SBUF has room for them.
    wanted = max(1, min(max(2, DMA_RUN // n), _SHARED // length_of(radices)))
    return min(wanted, max(1, left // PARTITIONS))


def length_of(radices: Any) -> int:
    """Product of the radices."""
    m = 1
    for radix in radices:
        m *= radix
    return m


def load_padded(x_re: Any, x_im: Any, start: int, stop: int, rows: int, radices: Any) -> Any:
    """SBUF state [partitions, 2, rows, length] of a block: what the first stage contracts."""
    n = x_re.shape[1]
    contracted, _, _, left, _ = stage_shape(n, radices, 0)
    shape = ((stop - start) // rows, 2, rows, contracted * left)
    state = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=state[:, 0, :, 0:n], src=as_block(x_re, start, stop, rows))
    nisa.dma_copy(dst=state[:, 1, :, 0:n], src=as_block(x_im, start, stop, rows))
    if contracted * left > n:
        nisa.memset(dst=state[:, :, :, n : contracted * left], value=0.0)
    return state


def store_outputs(finished: Any, y_re: Any, y_im: Any) -> None:
    """Store the first N numbers of each row of a block."""
    state, start, stop = finished
    partitions, _, rows, _ = state.shape
    n = y_re.shape[1]
    y = nl.ndarray((partitions, 2, rows, n), dtype=nl.float32, buffer=nl.sbuf)
    # ScalarE closes the gaps between rows: one long DMA descriptor a part and partition.
    nisa.activation(dst=y, op=nl.copy, data=state[:, :, :, 0:n])
    nisa.dma_copy(dst=as_block(y_re, start, stop, rows), src=y[:, 0])
    nisa.dma_copy(dst=as_block(y_im, start, stop, rows), src=y[:, 1])
