"""Four-step FFT: one transform spread over all partitions. For lengths and batches that Stockham
with a transform a partition cannot hold. One launch, natural order.

Mathematics (Bailey).  N = A C, n = a C + c, k = k_a + A k_c:

    Y[k_c, k_a] = sum_c W_C^(c k_c) W_N^(c k_a) sum_a W_A^(a k_a) x[a, c]

1. transforms of length A = r1 r2 ... over a, 2. the twiddle W_N^(c k_a), 3. DFTs of length
C <= 128 over c; the transpose of the fourth step costs nothing here.

Layout on the NeuronCore.  x is loaded with a1, the top digit of a, on partitions, so every
partition reads N / r1 contiguous numbers. For r1 <= 64 real and imaginary part lie side by side
on partitions and one product contracts both. The data is the stationary operand, so the product
lands with c on partitions, [c, 2, k1, a'], which is Stockham's state of C transforms: its stages
do the rest of A. VectorE multiplies by the twiddle (12 cycles a point and 128 lanes). The last
DFT takes the matrix as stationary and k_a as moving columns: its result [k_c, k_a] is y in
natural order, N / C contiguous numbers a partition.

    HBM [r1, N/r1] -> PSUM [c, (part, k1)] -> stages in SBUF -> twiddle -> PSUM [k_c, k_a] -> HBM

While one transform is twiddled and closed, the next one is opened: their instructions alternate,
so that VectorE's twiddles and the Tensor engine's stages overlap.

Why it is fast.  HBM is read and written once for every N <= 2^19, the Tensor engine needs about
22 + 33 + 45 ps a point for (64, r2, 128) on trn1, and one transform alone fills the array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .nki_api import nisa, nki, nl
from .stockham import (
    MAX_RADIX,
    _stage_table,
    load_tables,
    multiply_group,
    slabs_per_product,
    transpose_group,
)

MAX_LENGTH = 2**19  # two states and the last stage's table take 24 N / C bytes of a partition
_PARTITIONS = 128
_BANK = 512  # fp32 numbers of a PSUM bank, a partition
_CHUNK = 2048  # fp32 numbers a partition that DMA loads or stores at a time


def four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The kernel's tables, float32: (first, stages, twiddle, last).

    radices: r1, ..., C with product n, at least two. first: [2 r1, 2 r1], the split DFT of r1
    times ``scale``. stages: Stockham's tables of the radices between. twiddle: [2, C, A]. last:
    [3, C, C], Wr, Wi and -Wi. Raises ValueError where the plan is not one.
    """
    if math.prod(radices) != n or len(radices) < 2:
        raise ValueError(f"radices {radices}: two or more with product n = {n}")
    if any(not 2 <= r <= MAX_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_RADIX}")
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: the four-step kernel takes lengths up to {MAX_LENGTH}")
    first, last = radices[0], radices[-1]
    length = n // last
    stages = []
    done = first
    for r in radices[1:-1]:
        stages.append(_stage_table(r, done, length // (done * r), inverse, 1.0))
        done *= r
    opening = _stage_table(first, 1, 2, inverse, scale)
    # A table of one slab: (part, j) by (part, k), whatever number of slabs would fit.
    slabs = opening.shape[0] // (2 * first)
    opening = opening[::slabs, 0, ::slabs]
    sign = 1 if inverse else -1
    c, k = np.arange(last)[:, None], np.arange(length)[None, :]
    angle = 2 * np.pi / n * (c * k)  # c k < n: no reduction needed
    twiddle = np.stack([np.cos(angle), sign * np.sin(angle)]).astype(np.float32)
    angle = 2 * np.pi / last * (c * c.T % last)
    real, imaginary = np.cos(angle), sign * np.sin(angle)
    closing = np.stack([real, imaginary, -imaginary]).astype(np.float32)
    return opening, tuple(stages), twiddle, closing


@nki.jit
def four_step(x_re, x_im, tables, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables: ``four_step_tables(N, radices, ...)``. Returns
    (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    assert length_of(radices) == n, f"the product of radices {radices} is not {n}"
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    identity = nl.shared_identity_matrix(_PARTITIONS, dtype=nl.float32)
    resident = load_plan(tables, radices)
    transform_rows(x_re, x_im, y_re, y_im, resident, radices, identity, [], [])
    return y_re, y_im


def load_plan(tables: Any, radices: Any) -> Any:
    """The tables in SBUF: [first matrix, stages' tables, twiddles, last matrix]."""
    opening, stages, twiddle, closing = tables
    columns = radices[len(radices) - 1]
    last = nl.ndarray((columns, 3, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=last, src=closing.permute((1, 0, 2)))
    first = load_opening(opening, radices[0])
    middle = load_tables(stages, radices[1 : len(radices) - 1])
    return [first, middle, load_factors(twiddle), last]


def transform_rows(
    x_re: Any,
    x_im: Any,
    y_re: Any,
    y_im: Any,
    resident: Any,
    radices: Any,
    identity: Any,
    before: Any,
    after: Any,
) -> None:
    """Transform the rows of HBM x into HBM y.

    Rows of x may be shorter than the transform (zeros follow), rows of y too (the rest is not
    stored). ``before`` and ``after`` hold an SBUF tile [r1, 2, N/r1] or [C, 2, N/C] of factors
    of the inputs or outputs in natural order, or nothing. With ``before`` the first matrix must
    have two pieces.
    """
    first, middle, factors, last = resident
    batch = x_re.shape[0]
    n = length_of(radices)
    openings = opening_work(n, radices)
    closings = closing_work(n // radices[len(radices) - 1])
    opened: Any = []
    twiddled: Any = []
    target = [y_re, y_im, after]
    for b in range(batch + 1):
        # Transform b opens while transform b - 1 closes.
        state = opened
        closed = 0
        pending: Any = []
        if b < batch:
            opened = start_transform(x_re, x_im, b, radices, len(first), before)
            for step in range(len(openings)):
                pending = open_step(opened, openings[step], first, middle, identity, pending)
                due = (step + 1) * len(closings) // len(openings)
                if b > 0 and due > closed:
                    work = closings[closed:due]
                    twiddled = close_steps(state, work, factors, twiddled, last, target, b - 1)
                    closed = due
            if len(pending) > 0:
                multiply_group(pending)
        else:
            twiddled = close_steps(state, closings, factors, twiddled, last, target, b - 1)
    close_piece(twiddled, last, target)


def length_of(radices: Any) -> int:
    """Product of the radices."""
    n = 1
    for radix in radices:
        n *= radix
    return n


def load_opening(opening: Any, radix: int) -> Any:
    """SBUF pieces of the first matrix: one of 2r rows, or one a part where 2r exceeds 128."""
    pieces = 1 if 2 * radix <= _PARTITIONS else 2
    rows = 2 * radix // pieces
    tiles = []
    for piece in range(pieces):
        tile = nl.ndarray((rows, 2 * radix), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=opening[piece * rows : (piece + 1) * rows])
        tiles.append(tile)
    return tiles


def load_factors(table: Any) -> Any:
    """Complex factors [2, P, F] of HBM in SBUF as [P, 2, F], staged: DMA must not occupy it."""
    _, partitions, length = table.shape
    factors = nl.ndarray((partitions, 2, length), dtype=nl.float32, buffer=nl.sbuf)
    source = table.permute((1, 0, 2))
    for start in range(0, length, _CHUNK):
        stop = min(start + _CHUNK, length)
        staged = nl.ndarray((partitions, 2, stop - start), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=staged, src=source[:, :, start:stop])
        nisa.activation(dst=factors[:, :, start:stop], op=nl.copy, data=staged)
    return factors


def opening_work(n: int, radices: Any) -> Any:
    """Steps that bring a transform from x to its state: [stage, radix, done, first, count]."""
    columns = radices[len(radices) - 1]
    length = n // columns
    work = []
    group = max(1, _BANK // (2 * radices[0]))
    for low in range(0, length // radices[0], group):
        work.append([0, radices[0], 1, low, min(group, length // radices[0] - low)])
    done = radices[0]
    for stage in range(1, len(radices) - 1):
        radix = radices[stage]
        products = length // (radix * slabs_per_product(radix, done, length // (done * radix)))
        group = 4 if 2 * radix <= _PARTITIONS else 2
        for low in range(0, products, group):
            work.append([stage, radix, done, low, min(group, products - low)])
        done *= radix
    return work


def closing_work(length: int) -> Any:
    """Pieces of k_a that close together: at most a PSUM bank."""
    work = []
    for low in range(0, length, _BANK):
        work.append([low, min(low + _BANK, length)])
    return work


def start_transform(x_re: Any, x_im: Any, b: int, radices: Any, pieces: int, before: Any) -> Any:
    """Loads of transform b, and the states of its stages: [data, state, state, ...]."""
    n = length_of(radices)
    columns = radices[len(radices) - 1]
    row = n // radices[0]
    step = max(1, _CHUNK // columns) * columns
    data = []
    for start in range(0, row, step):
        stop = min(start + step, row)
        if len(before) > 0:
            data.append(load_weighted(x_re[b], x_im[b], radices[0], row, start, stop, before[0]))
        else:
            re = x_re[b].reshape_dim(0, (radices[0], row))[:, start:stop]
            im = x_im[b].reshape_dim(0, (radices[0], row))[:, start:stop]
            data.append(load_digits(re, im, pieces))
    opened = [data]
    for _ in range(len(radices) - 1):
        shape = (columns, 2, 1, n // columns)
        opened.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return opened


def load_weighted(
    re: Any, im: Any, radix: int, row: int, start: int, stop: int, factors: Any
) -> Any:
    """SBUF tiles of numbers start..stop of every row, zeros after the data, times factors."""
    raw = load_padded(re, im, radix, row, start, stop)
    product = multiply_complex(raw, factors[:, :, start:stop])
    return [product[:, 0], product[:, 1]]


def load_padded(re: Any, im: Any, rows: int, length: int, start: int, stop: int) -> Any:
    """SBUF [rows, 2, stop - start]: HBM numbers as rows of ``length``, zeros after the last."""
    full = re.shape[0] // length
    rest = re.shape[0] - full * length
    raw = nl.ndarray((rows, 2, stop - start), dtype=nl.float32, buffer=nl.sbuf)
    if full < rows:
        nisa.memset(raw, 0.0)
    for part in range(2):
        source = re if part == 0 else im
        if full > 0:
            held = source[0 : full * length].reshape_dim(0, (full, length))
            nisa.dma_copy(dst=raw[0:full, part], src=held[:, start:stop])
        if rest > start:
            end = min(rest, stop)
            tail = source[full * length + start : full * length + end].expand_dim(0)
            nisa.dma_copy(dst=raw[full : full + 1, part, 0 : end - start], src=tail)
    return raw


def load_digits(re: Any, im: Any, pieces: int) -> Any:
    """SBUF tiles of HBM rows [r, F]: both parts on the partitions of one tile, or a tile each."""
    radix, size = re.shape
    if pieces == 1:
        tile = nl.ndarray((2 * radix, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile[0:radix], src=re)
        nisa.dma_copy(dst=tile[radix : 2 * radix], src=im)
        return [tile]
    real = nl.ndarray((radix, size), dtype=nl.float32, buffer=nl.sbuf)
    imaginary = nl.ndarray((radix, size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=real, src=re)
    nisa.dma_copy(dst=imaginary, src=im)
    return [real, imaginary]


def open_step(opened: Any, work: Any, first: Any, middle: Any, identity: Any, pending: Any) -> Any:
    """One step of the work: contract top digits, or a group of a Stockham stage."""
    stage, radix, done, low, count = work
    if stage == 0:
        contract_top_digit(opened[0], opened[1], radix, low, count, first)
        return pending
    if low == 0 and len(pending) > 0:
        multiply_group(pending)
        pending = []
    state, turned = opened[stage], opened[stage + 1]
    left = state.shape[3] // (done * radix)
    slabs = slabs_per_product(radix, done, left)
    tiles = middle[stage - 1]
    moved = transpose_group(state, 0, radix, done, slabs, low, count, identity, len(tiles))
    if len(pending) > 0:
        multiply_group(pending)
    return [moved, turned, 0, tiles, radix, left, slabs, low, count]


def contract_top_digit(data: Any, state: Any, radix: int, low: int, count: int, first: Any) -> None:
    """Products of ``count`` values of a' from ``low`` on, with c on partitions."""
    columns, _, _, length = state.shape
    spread = state[:, :, 0].reshape_dim(2, (radix, length // radix))
    bank = nl.ndarray((columns, 2, radix, count), dtype=nl.float32, buffer=nl.psum)
    step = max(1, _CHUNK // columns)
    for digit in range(count):
        chunk = (low + digit) // step
        at = (low + digit) % step * columns
        for piece in range(len(first)):
            nisa.nc_matmul(
                dst=bank[:, :, :, digit],
                stationary=data[chunk][piece][:, at : at + columns],
                moving=first[piece],
                accumulate=piece > 0,
            )
    nisa.activation(dst=spread[:, :, :, low : low + count], op=nl.copy, data=bank)


def close_steps(
    opened: Any, work: Any, factors: Any, twiddled: Any, last: Any, target: Any, b: int
) -> Any:
    """Twiddle the pieces of transform b; each closes after the twiddles of the next have begun."""
    state = opened[len(opened) - 1]
    for piece in range(len(work)):
        low, high = work[piece]
        product = multiply_complex(state[:, :, 0, low:high], factors[:, :, low:high])
        if len(twiddled) > 0:
            close_piece(twiddled, last, target)
        twiddled = [product, b, low, high, state.shape[3]]
    return twiddled


def close_piece(twiddled: Any, last: Any, target: Any) -> None:
    """DFT over the partitions and store of the outputs k_a in low..high of transform b."""
    product, b, low, high, length = twiddled
    y_re, y_im, after = target
    columns = product.shape[0]
    result = nl.ndarray((columns, 2, high - low), dtype=nl.float32, buffer=nl.sbuf)
    for part in range(2):
        bank = nl.ndarray((columns, high - low), dtype=nl.float32, buffer=nl.psum)
        # yr = Wr vr - Wi vi and yi = Wi vr + Wr vi: W is symmetric.
        one = 0 if part == 0 else 1
        other = 2 if part == 0 else 0
        nisa.nc_matmul(dst=bank, stationary=last[:, one], moving=product[:, 0], accumulate=False)
        nisa.nc_matmul(dst=bank, stationary=last[:, other], moving=product[:, 1], accumulate=True)
        nisa.activation(dst=result[:, part], op=nl.copy, data=bank)
    if len(after) > 0:
        result = multiply_complex(result, after[0][:, :, low:high])
    store_rows(y_re[b], result[:, 0], low, high, length)
    store_rows(y_im[b], result[:, 1], low, high, length)


def store_rows(y: Any, tile: Any, low: int, high: int, length: int) -> None:
    """Columns low..high of the rows of ``length`` that y [n] holds; the last one may be short."""
    full = y.shape[0] // length
    rest = y.shape[0] - full * length
    if full > 0:
        rows = y[0 : full * length].reshape_dim(0, (full, length))
        nisa.dma_copy(dst=rows[:, low:high], src=tile[0:full])
    if rest > low:
        end = min(rest, high)
        tail = y[full * length + low : full * length + end].expand_dim(0)
        nisa.dma_copy(dst=tail, src=tile[full : full + 1, 0 : end - low])


def multiply_complex(x: Any, w: Any) -> Any:
    """Product of two split complex SBUF tiles [P, 2, F] on VectorE."""
    partitions, _, size = x.shape
    product = nl.ndarray((partitions, 2, size), dtype=nl.float32, buffer=nl.sbuf)
    by_real = nl.ndarray((partitions, 2, size), dtype=nl.float32, buffer=nl.sbuf)
    by_imaginary = nl.ndarray((partitions, 2, size), dtype=nl.float32, buffer=nl.sbuf)
    real = w[:, 0:1].broadcast(1, 2)
    imaginary = w[:, 1:2].broadcast(1, 2)
    nisa.tensor_tensor(dst=by_real, data1=x, data2=real, op=nl.multiply)
    nisa.tensor_tensor(dst=by_imaginary, data1=x, data2=imaginary, op=nl.multiply)
    nisa.tensor_tensor(
        dst=product[:, 0], data1=by_real[:, 0], data2=by_imaginary[:, 1], op=nl.subtract
    )
    nisa.tensor_tensor(dst=product[:, 1], data1=by_imaginary[:, 0], data2=by_real[:, 1], op=nl.add)
    return product
