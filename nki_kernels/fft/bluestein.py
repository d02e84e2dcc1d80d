"""DFT of any length N <= 5120 by Bluestein's chirp: one launch, natural order in and out.

Mathematics.  With b[n] = exp(+-pi i n^2 / N) and 2nk = n^2 + k^2 - (k - n)^2,

    X[k] = b*[k] sum_n (x[n] b*[n]) b[k - n],

which is a convolution with b. Made circular, of any length M >= 2N - 1, this convolution is a
product of spectra:

    X = b* . IDFT_M(H . DFT_M(b* . x, zeros)),    H = DFT_M(b[-(N-1) .. N-1] wrapped) / M.

n^2 is reduced modulo 2N in integers, so that the chirp is exact for any N. A scale of the transform
is part of H. Both chirps and H contain powers of two, which keep intermediate numbers from
overflowing where the result does not.

Layout on the NeuronCore.  As in stockham, transforms lie on partitions, R rows on each. M = r1 ...
rs gives s stages forward and s stages back, on SBUF states [128, 2, R, length]:

    HBM [B, N] -> s stages (the first times b*, the last times H)
               -> s stages (the last times b*) -> HBM [B, N]

No separate multiplication is left to do: where a stage has one matrix for each slab, the rows of
its table contain the weights of its inputs, and the columns contain the weights of its outputs. The
first stage contracts only those j that hold data, and the last stage computes only those k that are
stored, so neither the zeros nor the outputs beyond N exist anywhere.

Such a table takes as much SBUF as a state. Beyond M = 4096 most tables are therefore streamed, as
in stockham.

Why it is fast.  The Tensor engine is the limit: as modelled for trn1, it takes 33 ps for each point
of M and each stage, a sixth less in the first stage (fewer transposes) and a third less in the last
stage (shorter products). At M = 2N and two radices near 64 this makes 231 ps for each point of N,
3.9 times the DMA floor. Two rows on each partition keep the engine busy; with one row, each stage
would have to end before the next one starts. Radices near 90, for M > 8192, cost 6.5 floors, and
streaming their tables costs 4.5, at the same time.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.arguments import check_tables, convolved_length, rows_and_length
from ..base.engines import DMA_RUN, PARTITIONS, PSUM_BANK, WHOLE_RADIX, hbm
from ..base.isa import nki
from ..base.launch import HbmRows
from ..base.packing import unpack
from ..base.table_terms import Array, TableSpec
from .row_transforms import RowTransforms
from .stage import (
    MAX_LENGTH,
    Stage,
    check_radices,
    slab_matrices,
    slabs_within,
    stage_of,
    stage_spec,
    stage_table,
)
from .stage_products import Tabled

MAX_CONVOLVED = MAX_LENGTH // 2  # longest N
HEADROOM = 4.0  # factor by which numbers on the way back are smaller than the results
_SHARED = 4096  # points of M up to which a partition takes several transforms


def convolution_lengths(n: int) -> list[int]:
    """Return sensible lengths M >= 2n - 1 for ``bluestein_tables``, the shortest first.

    They are the next lengths with prime factors up to 13 and up to 5, the next multiples of 32 and
    64 with factors up to 13 (these multiples fill the Tensor engine), and the next power of two, as
    far as Stockham takes them. Raises ValueError unless 1 <= n <= 5120.
    """
    if not 1 <= n <= MAX_CONVOLVED:
        raise ValueError(f"n = {n}: Bluestein accepts lengths 1 to {MAX_CONVOLVED}")
    smooth = (2, 3, 5, 7, 11, 13)
    least = max(2 * n - 1, 2)
    found = {_next_smooth(least, smooth, multiple) for multiple in (1, 32, 64)}
    found |= {_next_smooth(least, smooth[:3], 1), _next_smooth(least, smooth[:1], 1)}
    return sorted(m for m in found if m <= MAX_LENGTH)


def _next_smooth(least: int, primes: tuple[int, ...], multiple: int) -> int:
    """Return the first multiple from ``least`` on that has no other prime factors."""
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
) -> tuple[Array, ...]:
    """Return the tables of ``bluestein`` for a convolution of length m.

    They are Stockham's tables, except that chirp and filter are part of the first and the last
    stage of either direction. They are computed in float64 and rounded once.

    Args:
        n: length of the transform, at least 1.
        m: length of the convolution, at least 2 n - 1.
        radices: radices of the convolution, with product m.
        inverse, scale: as for ``stockham_tables``.

    Returns:
        One float32 array for each stage, forward then back.
    """
    if n < 1 or m < 2 * n - 1:
        raise ValueError(f"n = {n}, m = {m}: Bluestein accepts n >= 1 and m >= 2 n - 1")
    check_radices(m, radices)
    opening, spectrum, closing = chirp_factors(n, m, inverse, scale)
    ones = np.ones(m)
    middle = len(radices)
    tables = []
    for index, stage in enumerate(stages_of(n, radices)):
        if _is_weighted(index, middle):
            before = opening if index == 0 else ones
            after = {middle - 1: spectrum, 2 * middle - 1: closing / HEADROOM}.get(index, ones)
            tables.append(_weighted_table(stage, index < middle, before, after))
        else:
            tables.append(stage_table(stage, index >= middle, 1.0))
    return tuple(tables)


def check_long(n: int, radices: tuple[int, ...]) -> int:
    """Return the length M of a long convolution; raise ValueError unless its kernels accept it."""
    m = math.prod(radices)
    if n < 1 or m < 2 * n - 1:
        raise ValueError(f"n = {n}, radices {radices}: n >= 1 and M = {m} >= 2 n - 1 must hold")
    if radices[0] <= WHOLE_RADIX:
        raise ValueError(f"radices {radices}: the first must be 65 to 128")
    return m


def chirp_factors(n: int, m: int, inverse: bool, scale: float) -> tuple[Array, Array, Array]:
    """Return b* / s, H s / HEADROOM and b* HEADROOM, complex128 [m]; the chirps are 0 from n on.

    In the forward transform, numbers may be sqrt(n) times as large as the data; in the inverse
    transform they may be a little larger than the result. These powers of two, which round nothing,
    keep them from overflowing.
    """
    exponent = np.arange(n, dtype=np.int64) ** 2 % (2 * n)
    chirp = np.zeros(m, np.complex128)
    chirp[:n] = np.exp((1j if inverse else -1j) * np.pi / n * exponent)
    wrapped = chirp.conj()
    wrapped[m - n + 1 :] = wrapped[n - 1 : 0 : -1]
    s = 2.0 ** math.isqrt(n).bit_length()
    return chirp / s, s / HEADROOM * scale / m * np.fft.fft(wrapped), chirp * HEADROOM


def parts_by_row(values: Array) -> Array:
    """Return complex [rows, numbers] as float32 [rows, 2, numbers], real part first."""
    return np.stack([values.real, values.imag], 1).astype(np.float32)


def _is_weighted(index: int, middle: int) -> bool:
    return index in (0, middle - 1, 2 * middle - 1)


def _weighted_table(stage: Stage, is_forward: bool, before: Array, after: Array) -> Array:
    """Return a stage's table with weights of its inputs and outputs, one matrix for each product.

    A stage with weights of its inputs has done = 1; a stage with weights of its outputs has left =
    1. Rows and columns are ordered as in ``stockham_tables``.
    """
    done, left, slabs = stage.done, stage.left, stage.slabs
    period = len(before) // left
    if left > 1:
        # A product takes the slabs m' = s left / g + t of one K.
        order: Any = np.arange(done * left).reshape(done, slabs, -1).swapaxes(1, 2)
    else:
        order = np.arange(done)
    slab = order.reshape(-1, slabs)[:, :, None, None]
    j, k = np.arange(stage.contracted)[:, None], np.arange(stage.produced)
    inputs, outputs = slab % left + left * j, slab // left + done * k
    sign = -2j if is_forward else 2j
    matrix = np.exp(sign * np.pi / period * (j * outputs % period))
    matrix = before[inputs] * matrix * after[outputs]
    return slab_matrices(stage, matrix).astype(np.float32)


def stages_of(n: int, radices: tuple[int, ...]) -> list[Stage]:
    """Return the stages forward and back.

    The first stage contracts, and the last stage makes, fewer numbers than a whole transform would.
    """
    count = len(radices)
    stages = [stage_of(radices, index % count) for index in range(2 * count)]
    first = stages[0]
    stages[0] = replace(first, contracted=-(-n // first.left))
    # The factor is for complete sums, because partial sums may be larger.
    last = stages[-1]
    stages[-1] = replace(last, produced=-(-n // last.done), factor=HEADROOM)
    for index, stage in enumerate(stages):
        widest = -(-stage.produced * PARTITIONS // PSUM_BANK)
        stages[index] = replace(stage, slabs=slabs_within(PARTITIONS, stage, widest))
    return stages


def bluestein_specs(n: int, radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``bluestein_tables(n, m, radices, ...)``."""
    return tuple(
        stage_spec(stage, matrices=stage.products if _is_weighted(index, len(radices)) else None)
        for index, stage in enumerate(stages_of(n, radices))
    )


@nki.jit
def bluestein(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, of any length up to 5120.

    The arguments and the results are those of ``stockham``, with ``bluestein_tables(N, M,
    radices, ...)`` and radices whose product is M.
    """
    _, n = rows_and_length(x_re, x_im)
    m = convolved_length(radices, n)
    y_re, y_im = hbm(x_re.shape), hbm(x_re.shape)
    made, unpacked = stages_of(n, radices), unpack(tables, places)
    check_tables(unpacked, len(made))
    stages = [Tabled(stage, table) for stage, table in zip(made, unpacked, strict=True)]
    transforms = [stages[: len(radices)], stages[len(radices) :]]
    # At least two rows keep the Tensor engine busy between stages, where SBUF has room for them.
    each = max(1, min(max(2, DMA_RUN // n), _SHARED // m))
    source, target = [HbmRows(x_re, n), HbmRows(x_im, n)], [HbmRows(y_re, n), HbmRows(y_im, n)]
    # The filter's spectrum may enlarge a norm by 4 sqrt(M), reduced by the headroom.
    RowTransforms(source, target, transforms, each, m).run()
    return y_re, y_im
