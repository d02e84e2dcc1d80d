"""Stockham FFT of real data, two rows in one complex transform: one launch, natural order.

Mathematics.  For real rows a and b, Z = DFT(a + i b) holds both spectra, as A[N-n] = conj A[n]:

    A[n] = (Z[n] + conj Z[N-n]) / 2,    B[n] = (Z[n] - conj Z[N-n]) / (2i),    n = 0 .. N/2.

Separating them costs nothing in Stockham's last stage. Its slab K (see stockham.py; R = N / r
slabs) makes Z[K + R k], and the mirrored numbers come from slab R - K with the same factors:
conj w(j, N - n) = w(j, n). With the state S = S0 + i S1,

    A[K + R k] = 1/2 sum_j w(j, K + R k) (S0[K, j] + S0[R-K, j] + i (S1[K, j] - S1[R-K, j]))
    B[K + R k] = 1/2 sum_j w(j, K + R k) (S1[K, j] + S1[R-K, j] - i (S0[K, j] - S0[R-K, j]))

so the pair of slabs (K, R - K) is one contraction of 4 r numbers, whose outputs n <= N/2 are 4 r
numbers again. Slabs 0 and R/2 are their own partners, and there S0 belongs to a, S1 to b.

The inverse, real data from half spectra, is the mirror image: the first stage makes a pair of
slabs (m, M - m) of the state of DFT(A + i B) from the same slabs of both half spectra, where
Z[N-n] = conj A[n] + i conj B[n]. Imaginary parts of A[0] and A[N/2] are ignored.

Layout on the NeuronCore.  As in stockham: pairs of rows on partitions, the parts of the state are
the two rows. A partition's rows are consecutive in HBM.

    HBM [B, N] -> stages -> pairs of slabs -> HBM [B, N/2+1], and back

Why it is fast.  Half the matrix products of a complex transform and half its DMA. A pair fills
the array for the radix 32, which the paired stage therefore takes at most.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .nki_api import nisa, nki, nl
from .stockham import (
    MAX_RADIX,
    _stage_table,
    copy_slowly,
    load_identity,
    load_table,
    multiply_group,
    run_stage,
    slabs_per_product,
)

MAX_LENGTH = 4096
MAX_PAIRED_RADIX = 32
_PARTITIONS = 128
_BANK = 512  # fp32 numbers of a PSUM bank, a partition
_RUN = 512  # fp32 numbers of each of two rows, of a 4 KiB DMA descriptor
_CHUNK = 2048  # numbers a partition that are copied at a time


def real_stockham_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The tables of ``real_stockham``, float32: (Stockham's stages, pairs, edges).

    The last radix is that of the paired stage. pairs: none or one, [4 r, pairs, 4 r], edges: one
    or two, [2 r, columns], see ``_forward_table``. inverse: the sign of the exponent, True for exp(+...).
    Raises ValueError where the radices do not multiply to n, or a radix or n is too large.
    """
    _check(n, radices, radices[-1])
    r = radices[-1]
    done = n // r
    stages = _stage_tables(n, radices[:-1], 1, inverse)
    slabs = [np.array([k, done - k]) for k in range(1, (done + 1) // 2)]
    count = (r + 1) // 2
    pairs = [_forward_table(n, r, pair, count, inverse, scale) for pair in slabs]
    edges = [_forward_table(n, r, np.array([0]), r // 2 + 1, inverse, scale)]
    if done % 2 == 0:
        edges.append(_forward_table(n, r, np.array([done // 2]), count, inverse, scale))
    return stages, (np.stack(pairs, 1),) if pairs else (), tuple(edges)


def inverse_real_stockham_tables(
    n: int, radices: tuple[int, ...], inverse: bool = True, scale: float = 1.0
) -> tuple[Any, ...]:
    """The tables of ``inverse_real_stockham``: as above, with the first radix paired."""
    _check(n, radices, radices[0])
    r = radices[0]
    left = n // r
    pair = _backward_table(r, 2, (r + 1) // 2, [], inverse, scale)
    whole = [0] + ([r // 2] if r % 2 == 0 else [])
    edges = [_backward_table(r, 1, r // 2 + 1, whole, inverse, scale, shift=1)]
    if left % 2 == 0:
        middle = [(r - 1) // 2] if r % 2 else []
        edges.append(_backward_table(r, 1, (r + 1) // 2, middle, inverse, scale))
    return _stage_tables(n, radices[1:], r, inverse), (pair[:, None],), tuple(edges)


def _check(n: int, radices: tuple[int, ...], paired: int) -> None:
    if math.prod(radices) != n or not radices:
        raise ValueError(f"radices {radices}: their product must be n = {n}")
    if any(not 2 <= r <= MAX_RADIX for r in radices) or paired > MAX_PAIRED_RADIX:
        rule = f"each must be 2 to {MAX_RADIX}, that of the paired stage at most {MAX_PAIRED_RADIX}"
        raise ValueError(f"radices {radices}: {rule}")
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: real Stockham takes lengths up to {MAX_LENGTH}")


def _stage_tables(n: int, radices: tuple[int, ...], done: int, inverse: bool) -> tuple[Any, ...]:
    tables = []
    for r in radices:
        tables.append(_stage_table(r, done, n // (done * r), inverse, 1.0))
        done *= r
    return tuple(tables)


def _forward_table(
    n: int, r: int, slabs: np.ndarray[Any, Any], count: int, inverse: bool, scale: float
) -> np.ndarray[Any, Any]:
    """Rows (part, slab, j), columns (real or imaginary, row, k, slab), k < count; float32."""
    done = n // r
    outputs = slabs[None, :] + done * np.arange(count)[:, None]  # [k, slab]
    sign = 2j if inverse else -2j
    w = scale * np.exp(sign * np.pi / n * (np.arange(r)[:, None, None] * outputs % n))
    if len(slabs) == 1:
        # [part, j, row, k, slab]: either row is transformed for itself.
        coefficients = np.einsum("pa,jkt->pjakt", np.eye(2), w)[:, None]
    else:
        same = np.array([[1.0, -1.0], [-1.0, 1.0]])  # [slab, output slab]
        ones = np.ones((2, 2))
        factor = np.array([[ones, -1j * same], [1j * same, ones]]) / 2  # [part, row, slab, slab]
        coefficients = np.einsum("past,jkt->psjakt", factor, w)
    split = np.stack([coefficients.real, coefficients.imag], 3)
    rows = 2 * len(slabs) * r
    return split.reshape(rows, -1).astype(np.float32)


def _backward_table(
    r: int, slabs: int, count: int, whole: list[int], inverse: bool, scale: float, shift: int = 0
) -> np.ndarray[Any, Any]:
    """Rows (real or imaginary, row, j, slab), j < count; columns (part, k, slab); float32.

    whole: those j that are their own mirror image. shift: 1 for slab 0, whose mirror image of j
    is r - j and not r - 1 - j.
    """
    j, k = np.arange(count)[:, None], np.arange(r)[None, :]
    sign = 2j if inverse else -2j
    direct = scale * np.exp(sign * np.pi / r * (j * k % r))
    mirrored = scale * np.exp(sign * np.pi / r * ((r - 1 + shift - j) * k % r))
    rows = np.array([1, 1j])
    # [c, a, j, slab, k, output slab]
    table = np.zeros((2, 2, count, slabs, r, slabs), np.complex128)
    for s in range(slabs):
        for t in range(slabs):
            if s == t:
                table[:, :, :, s, :, t] += np.einsum("c,a,jk->cajk", [1, 1j], rows, direct)
            if s != t or slabs == 1:
                table[:, :, :, s, :, t] += np.einsum("c,a,jk->cajk", [1, -1j], rows, mirrored)
    for own in whole:
        table[0, :, own] = np.einsum("a,k->ak", rows, direct[own])[:, None, :, None]
        table[1, :, own] = 0
    if slabs == 2 and r % 2 == 1:
        # The last j of the second slab lies beyond N/2.
        table[:, :, count - 1, 1] = 0
    split = np.stack([table.real, table.imag], 4)
    return split.reshape(4 * count * slabs, -1).astype(np.float32)


@nki.jit
def real_stockham(x, tables, radices):  # type: ignore[no-untyped-def]
    """Spectra of the rows of real ``x``: n = 0 .. N/2.

    x: float32 HBM [B, N]. tables: ``real_stockham_tables(N, radices, ...)``. Returns (y_re, y_im),
    float32 HBM [B, N // 2 + 1].
    """
    batch, n = x.shape
    half = n // 2 + 1
    y_re = nl.ndarray((batch, half), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, half), dtype=nl.float32, buffer=nl.shared_hbm)
    stages, pairs, edges = tables
    identity = load_identity(nl.float32)
    radix = radices[len(radices) - 1]
    width = padded_half(n, radix)
    resident: Any = []
    start = 0
    while start < batch:
        count, rows = block_of(batch - start, n)
        state = load_rows(x, start, count, rows)
        if start == 0:
            resident = load_all(stages, pairs, edges)
        state, pending = run_stages(state, stages, resident[0], radices, 1, identity)
        shape = (state.shape[0], 2, 2, rows, width)
        y = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        waiting: Any = []
        for row in range(rows):
            if len(pending) > 0 and pending[2] == row:
                multiply_group(pending)
                pending = []
            for item in paired_work(n // radix, radix):
                moved = transpose_slabs(state[:, :, row], radix, item, identity)
                if len(pending) > 0:
                    multiply_group(pending)
                    pending = []
                if len(waiting) > 0:
                    separate(waiting, resident)
                waiting = [moved, y[:, :, :, row], radix, n // radix, half, item]
        separate(waiting, resident)
        for part in range(2):
            store_rows(y_re if part == 0 else y_im, y[:, part, :, :, 0:half], start, count, rows)
        start += count
    return y_re, y_im


def load_all(stages: Any, pairs: Any, edges: Any) -> Any:
    """Tables in SBUF: [those of the stages, of the pairs, of the edges]."""
    middle = []
    for table in stages:
        middle.append(load_table(table))
    paired = []
    for table in pairs:
        paired.append(load_table(table)[0])
    single = []
    for table in edges:
        tile = nl.ndarray(table.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=table)
        single.append(tile)
    return [middle, paired, single]


def padded_half(n: int, radix: int) -> int:
    """N // 2 + 1, or as much as whole slabs of an odd radix take."""
    return n // 2 + 1 if radix % 2 == 0 else (radix + 1) // 2 * (n // radix)


def block_of(left: int, n: int) -> Any:
    """(rows of x, pairs a partition) of the next block, of ``left`` rows still to do."""
    if left == 1:
        return 1, 1
    rows = min(max(1, _RUN // n), max(1, left // (2 * _PARTITIONS)))
    return 2 * rows * min(_PARTITIONS, left // (2 * rows)), rows


def load_rows(x: Any, start: int, count: int, rows: int) -> Any:
    """SBUF state [partitions, 2, rows, N] of ``count`` rows; a single one is paired with zeros."""
    n = x.shape[1]
    partitions = max(1, count // (2 * rows))
    state = nl.ndarray((partitions, 2, rows, n), dtype=nl.float32, buffer=nl.sbuf)
    if count == 1:
        nisa.memset(dst=state[:, 1], value=0.0)
        nisa.dma_copy(dst=state[:, 0, 0], src=x[start : start + 1])
    else:
        block = x[start : start + count].reshape_dim(0, (partitions, 2, rows))
        nisa.dma_copy(dst=state, src=block)
    return state


def store_rows(y: Any, tile: Any, start: int, count: int, rows: int) -> None:
    """Store SBUF [partitions, 2, rows, length] as ``count`` rows of y."""
    if count == 1:
        nisa.dma_copy(dst=y[start : start + 1], src=tile[:, 0, 0])
    else:
        partitions = tile.shape[0]
        nisa.dma_copy(
            dst=y[start : start + count].reshape_dim(0, (partitions, 2, rows)), src=tile
        )


def run_stages(
    state: Any, stages: Any, resident: Any, radices: Any, done: int, identity: Any
) -> Any:
    """Stockham's stages with tables; returns the state and the products that are pending.

    radices: all of the plan; the stages are its first ones, or with done > 1 its last ones.
    """
    pending: Any = []
    skipped = 0 if done == 1 else 1
    for stage in range(len(stages)):
        radix = radices[skipped + stage]
        left = state.shape[3] // (done * radix)
        shape = [radix, radix, done, left, slabs_per_product(radix, done, left)]
        turned = nl.ndarray(state.shape, dtype=nl.float32, buffer=nl.sbuf)
        for row in range(state.shape[2]):
            pending = run_stage(
                state, turned, row, stages[stage], resident[stage], shape, stage, identity, pending
            )
        state = turned
        done *= radix
    return state, pending


def paired_work(slabs: int, radix: int) -> Any:
    """Groups of slabs: [-1, first K of pairs (K, slabs - K), count] or [edge, K, 1]."""
    work = [[0, 0, 1]]
    if slabs % 2 == 0:
        work.append([1, slabs // 2, 1])
    last = (slabs + 1) // 2
    group = min(4, _BANK // (4 * (radix + 1)))
    for first in range(1, last, group):
        work.append([-1, first, min(group, last - first)])
    return work


def transpose_slabs(state: Any, radix: int, item: Any, identity: Any) -> Any:
    """Operands [rows of a product, count, partitions] of slabs of the state [partitions, 2, N]."""
    edge, first, count = item
    partitions, _, n = state.shape
    slabs = n // radix
    split = state.reshape_dim(2, (slabs, radix))
    width = 4 * radix if edge < 0 else 2 * radix
    bank = nl.ndarray((width, count, partitions), dtype=nl.float32, buffer=nl.psum)
    for product in range(count):
        slab = first + product
        if edge < 0:
            data = split[:, :, slab : slabs - slab + 1 : slabs - 2 * slab]
        else:
            data = split[:, :, slab]
        transpose(bank[:, product], data, identity, partitions)
    return evacuate(bank)


def transpose(dst: Any, data: Any, identity: Any, partitions: int) -> None:
    """Data [partitions, ...] to PSUM [..., partitions]."""
    nisa.nc_matmul(
        dst=dst,
        stationary=data,
        moving=identity[0:partitions, 0:partitions],
        is_moving_onezero=True,
        is_transpose=True,
        accumulate=False,
    )


def evacuate(bank: Any) -> Any:
    """A PSUM bank in SBUF, by VectorE."""
    moved = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=moved, src=bank, engine=nisa.engine.vector)
    return moved


def separate(waiting: Any, resident: Any) -> None:
    """Products of transposed slabs, and their evacuation into y [partitions, 2, 2, length]."""
    moved, y, radix, slabs, half, item = waiting
    edge, first, count = item
    partitions = y.shape[0]
    if edge >= 0:
        numbers = (half - 1 - first) // slabs + 1
        bank = nl.ndarray((partitions, 2, 2, numbers), dtype=nl.float32, buffer=nl.psum)
        multiply(bank, moved[:, 0], resident[2][edge])
        nisa.activation(dst=y[:, :, :, first:half:slabs], op=nl.copy, data=bank)
        return
    numbers = (radix + 1) // 2
    shape = (partitions, 2, 2, numbers, 2 * count)
    bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    for product in range(count):
        # K ascends in the first half of the bank, and R - K in the second.
        place = bank[:, :, :, :, product : 2 * count - product : 2 * count - 1 - 2 * product]
        multiply(place, moved[:, product], resident[1][0][:, 0, first + product - 1])
    lower = y[:, :, :, 0 : numbers * slabs].reshape_dim(3, (numbers, slabs))
    nisa.activation(
        dst=lower[:, :, :, :, first : first + count], op=nl.copy, data=bank[:, :, :, :, 0:count]
    )
    others = radix // 2
    upper = y[:, :, :, 0 : others * slabs].reshape_dim(3, (others, slabs))
    last = slabs - first
    nisa.activation(
        dst=upper[:, :, :, :, last - count + 1 : last + 1],
        op=nl.copy,
        data=bank[:, :, :, 0:others, count : 2 * count],
    )


def multiply(dst: Any, stationary: Any, moving: Any) -> None:
    """One product into PSUM."""
    nisa.nc_matmul(dst=dst, stationary=stationary, moving=moving, accumulate=False)
