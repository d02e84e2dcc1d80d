"""Four-step FFT: one transform spread over all partitions. For lengths and batches that Stockham
with a transform a partition cannot hold. One launch, natural order.

Mathematics (Bailey).  N = A C, n = a C + c, k = k_a + A k_c:

    Y[k_c, k_a] = sum_c W_C^(c k_c) W_N^(c k_a) sum_a W_A^(a k_a) x[a, c]

1. transforms of length A = r1 r2 ... over a, 2. the twiddle W_N^(c k_a), 3. DFTs of length
C <= 128 over c; the transpose of the fourth step costs nothing here.

Layout on the NeuronCore.  A block is g h transforms. They are loaded with a1, the top digit of a,
on partitions, so every descriptor reads N / r1 contiguous numbers. For r1 <= 64 real and
imaginary part of g transforms lie side by side on partitions, and one product contracts both
parts of one of them: its matrix has zeros for the others. The data is the stationary operand, so
the product of h transforms at once lands with (h, c) on partitions, [h c, 2, g, k1, a'], which is
Stockham's state of h C transforms: its stages do the rest of A. VectorE multiplies by the twiddle
(12 cycles a point and 128 lanes). The last DFT takes h copies of its matrix on a diagonal as
stationary and k_a as moving columns: its result [h k_c, g, k_a] is y in natural order, N / C
contiguous numbers a descriptor.

    HBM [r1, N/r1] -> PSUM [h c, (part, k1)] -> stages -> twiddle -> PSUM [h k_c, k_a] -> HBM

While one block is twiddled and closed, the next one is opened: their instructions alternate, so
that VectorE's twiddles and the Tensor engine's stages overlap.

Why it is fast.  HBM is read and written once for every N <= 2^19, in rows of 512 bytes and more
where the planner may choose r1 and C; the Tensor engine needs about 22 + 33 + 45 ps a point for
three radices on trn1, against 59 ps of the DMA floor; and one transform alone fills the array.
As everywhere on the Tensor engine, a NaN or infinity spreads to the transforms of its block.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..tiles import PARTITIONS, PSUM_BANK, factor_views
from .dft_gemm import table_spec
from .old_stages import (
    MAX_RADIX,
    load_tables,
    multiply_group,
    slabs_per_product,
    stage_spec,
    stage_table,
    transpose_group,
)

MAX_LENGTH = 2**19  # two states and the last stage's table take 24 N / C bytes of a partition
_ROW = 8192  # fp32 numbers a partition of the data that DMA loads at a time
_CHUNK = 2048  # of a table
_BLOCK = 2**17  # points of a block, at most, unless it is one transform


def four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The kernel's tables, float32: (first, *stages, twiddle, last).

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
        stages.append(stage_table(r, done, length // (done * r), inverse, 1.0))
        done *= r
    opening = stage_table(first, 1, 2, inverse, scale)
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
    return opening, *stages, twiddle, closing


def four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``four_step_tables(n, radices, ...)``."""
    first, *middle, last = radices
    length = math.prod(radices[:-1])
    stages = []
    done = first
    for r in middle:
        stages.append(stage_spec(r, done, length // (done * r)))
        done *= r
    opening = table_spec((2 * first, 2 * first))
    return opening, *stages, table_spec((2, last, length)), table_spec((3, last, last))


@nki.jit
def four_step(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables, places: ``pack(four_step_tables(N, radices, ...))``.
    Returns (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    assert length_of(radices) == n, f"the product of radices {radices} is not {n}"
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    identity = nl.shared_identity_matrix(PARTITIONS, dtype=nl.float32)
    block = block_of(batch, radices)
    # Short data first, as the tables are many times as much; long data does not fit beside them
    # in what DMA may fill.
    opened: Any = []
    if n <= _BLOCK:
        opened = open_block(x_re, x_im, 0, block, radices, [])
    resident = load_plan(unpack(tables, places), radices, block)
    if n > _BLOCK:
        opened = open_block(x_re, x_im, 0, block, radices, [])
    transform_rows(x_re, x_im, y_re, y_im, resident, radices, identity, block, opened, [], [])
    return y_re, y_im


def block_of(left: int, radices: Any) -> Any:
    """[g, h]: g h of the ``left`` transforms are done at once, h of them fill the c partitions."""
    columns = radices[len(radices) - 1]
    h = min(left, PARTITIONS // columns)
    g = max(1, PARTITIONS // (2 * radices[0]))
    return [max(1, min(g, left // h, _BLOCK // (h * length_of(radices)))), h]


def load_plan(tables: Any, radices: Any, block: Any) -> Any:
    """The tables in SBUF: [first matrices, stages' tables, twiddles, last matrix]."""
    stages = len(radices) - 2
    twiddle, closing = tables[stages + 1], tables[stages + 2]
    first = load_opening(tables[0], radices[0], block[0])
    middle = load_tables(tables[1 : stages + 1])
    factors = load_factors(twiddle, block[1])
    columns = radices[len(radices) - 1]
    rows = block[1] * columns
    last = nl.ndarray((rows, 3, rows), dtype=nl.float32, buffer=nl.sbuf)
    if block[1] > 1:
        nisa.memset(last, 0.0)
    for low in range(0, rows, columns):
        diagonal = last[low : low + columns, :, low : low + columns]
        nisa.dma_copy(dst=diagonal, src=closing.permute((1, 0, 2)))
    return [first, middle, factors, last]


def transform_rows(
    x_re: Any,
    x_im: Any,
    y_re: Any,
    y_im: Any,
    resident: Any,
    radices: Any,
    identity: Any,
    block: Any,
    opened: Any,
    before: Any,
    after: Any,
) -> None:
    """Transform the rows of HBM x into HBM y.

    block: ``block_of(...)`` that ``resident`` was loaded for, opened: ``open_block`` of the first
    block. Rows of x may be shorter than the transform (zeros follow), rows of y too (the rest is
    not stored). ``before`` and ``after`` hold an SBUF tile [r1, 2, N/r1] or [C, 2, N/C] of factors
    of the inputs or outputs in natural order, or nothing. With ``before`` the first matrix must
    have two pieces, with either the block must be [1, 1].
    """
    first, middle, factors, last = resident
    batch = x_re.shape[0]
    length = length_of(radices) // radices[len(radices) - 1]
    state: Any = []
    closings: Any = []
    twiddled: Any = []
    target = [y_re, y_im, after]
    start = 0
    while start < batch:
        # This block opens while the one before closes.
        following = opened[0]
        openings = opening_work(length, radices, following[0])
        closed = 0
        pending: Any = []
        for step in range(len(openings)):
            pending = open_step(opened, openings[step], first, middle, identity, pending)
            due = ((step + 1) * len(closings) + len(openings) // 2) // len(openings)
            if due > closed:
                twiddled = close_steps(state, closings[closed:due], factors, twiddled, last, target)
                closed = due
        if len(pending) > 0:
            multiply_group(pending)
        state = [opened[len(opened) - 1], start, following]
        closings = closing_work(length, following[0])
        start += following[0] * following[1]
        if start < batch:
            shrunk = smaller_block(batch - start, block)
            opened = open_block(x_re, x_im, start, shrunk, radices, before)
    twiddled = close_steps(state, closings, factors, twiddled, last, target)
    for part in range(2):
        close_part(twiddled[0], part, last, target)


def smaller_block(left: int, block: Any) -> Any:
    """``block``, or what is left of it."""
    h = min(left, block[1])
    return [max(1, min(block[0], left // h)), h]


def length_of(radices: Any) -> int:
    """Product of the radices."""
    n = 1
    for radix in radices:
        n *= radix
    return n


def load_opening(opening: Any, radix: int, copies: int) -> Any:
    """The first matrix in SBUF, as pieces that are accumulated: a list of them for each copy.

    A copy has the rows of one of the transforms on the partitions, and zeros for the others.
    """
    if 2 * radix > PARTITIONS:
        pieces = []
        for part in range(2):
            tile = nl.ndarray((radix, 2 * radix), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=opening[part * radix : (part + 1) * radix])
            pieces.append(tile)
        return [pieces]
    found = []
    for copy in range(copies):
        tile = nl.ndarray((2 * radix * copies, 2 * radix), dtype=nl.float32, buffer=nl.sbuf)
        if copies > 1:
            nisa.memset(tile, 0.0)
        nisa.dma_copy(dst=tile[2 * radix * copy : 2 * radix * (copy + 1)], src=opening)
        found.append([tile])
    return found


def load_factors(table: Any, copies: int) -> Any:
    """Complex factors [2, P, F] of HBM in SBUF as [copies P, 2, F], which DMA must not occupy."""
    _, partitions, length = table.shape
    rows = copies * partitions
    factors = nl.ndarray((rows, 2, length), dtype=nl.float32, buffer=nl.sbuf)
    source = table.permute((1, 0, 2))
    for start in range(0, length, _CHUNK):
        stop = min(start + _CHUNK, length)
        staged = nl.ndarray((rows, 2, stop - start), dtype=nl.float32, buffer=nl.sbuf)
        for low in range(0, rows, partitions):
            nisa.dma_copy(dst=staged[low : low + partitions], src=source[:, :, start:stop])
        nisa.activation(dst=factors[:, :, start:stop], op=nl.copy, data=staged)
    return factors


def opening_work(length: int, radices: Any, rows: int) -> Any:
    """Steps that bring a block from x to its state: [stage, row, radix, done, first, count]."""
    work = []
    group = max(1, PSUM_BANK // (2 * radices[0]))
    for row in range(rows):
        for low in range(0, length // radices[0], group):
            count = min(group, length // radices[0] - low)
            work.append([0, row, radices[0], 1, low, count])
    done = radices[0]
    for stage in range(1, len(radices) - 1):
        radix = radices[stage]
        products = length // (radix * slabs_per_product(radix, done, length // (done * radix)))
        group = 4 if 2 * radix <= PARTITIONS else 2
        for row in range(rows):
            for low in range(0, products, group):
                work.append([stage, row, radix, done, low, min(group, products - low)])
        done *= radix
    return work


def closing_work(length: int, rows: int) -> Any:
    """Steps that close a block: [first row, row after the last, low k_a, high k_a, part]."""
    work = []
    together = max(1, PSUM_BANK // length)
    for row in range(0, rows, together):
        for low in range(0, length, PSUM_BANK):
            for part in range(2):
                work.append(
                    [row, min(row + together, rows), low, min(low + PSUM_BANK, length), part]
                )
    return work


def open_block(x_re: Any, x_im: Any, start: int, block: Any, radices: Any, before: Any) -> Any:
    """Loads of a block, and the states of its stages: [block, data, state, state, ...]."""
    g, h = block
    n = length_of(radices)
    radix, columns = radices[0], radices[len(radices) - 1]
    row = n // radix
    step = max(1, _ROW // (h * columns)) * columns
    data = []
    for low in range(0, row, step):
        high = min(low + step, row)
        if len(before) > 0:
            re, im = x_re[start], x_im[start]
            data.append(load_weighted(re, im, radix, row, low, high, before[0]))
        else:
            data.append(load_digits(x_re, x_im, start, block, radix, low, high))
    opened = [block, data]
    for _ in range(len(radices) - 1):
        shape = (h * columns, 2, g, n // columns)
        opened.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return opened


def load_weighted(
    re: Any, im: Any, radix: int, row: int, start: int, stop: int, factors: Any
) -> Any:
    """SBUF tiles of numbers start..stop of every row, zeros after the data, times factors."""
    raw = load_padded(re, im, radix, row, start, stop)
    product = multiply_complex(raw, factors, start).expand_dim(2)
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


def load_digits(
    x_re: Any, x_im: Any, start: int, block: Any, radix: int, low: int, high: int
) -> Any:
    """SBUF tiles [(g, part, a1), h, high - low] of a block, or [a1, h, ...] a part."""
    g, h = block
    row = x_re.shape[1] // radix
    pieces = 1 if 2 * radix <= PARTITIONS else 2
    tiles = []
    for _ in range(pieces):
        shape = (2 * g * radix // pieces, h, high - low)
        tiles.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    # One transform a DMA: together their rows would be a power of two apart, at half the rate.
    for copy in range(g):
        for member in range(h):
            for part in range(2):
                source = x_re if part == 0 else x_im
                digits = source[start + copy * h + member].reshape_dim(0, (radix, row))
                at = 0 if pieces == 2 else (2 * copy + part) * radix
                tile = tiles[part % pieces]
                nisa.dma_copy(dst=tile[at : at + radix, member], src=digits[:, low:high])
    return tiles


def open_step(opened: Any, work: Any, first: Any, middle: Any, identity: Any, pending: Any) -> Any:
    """One step of the work: contract top digits, or a group of a Stockham stage."""
    stage, row, radix, done, low, count = work
    if stage == 0:
        contract_top_digit(opened[1], opened[2], row, radix, low, count, first[row])
        return pending
    if low == 0 and len(pending) > 0 and pending[2] == row:
        # The stage before has to end first: every product here reads all of its results.
        multiply_group(pending)
        pending = []
    state, turned = opened[stage + 1], opened[stage + 2]
    left = state.shape[3] // (done * radix)
    slabs = slabs_per_product(radix, done, left)
    tiles = middle[stage - 1]
    moved = transpose_group(
        state, row, radix, done, slabs, low, count, identity, len(tiles), nl.float32, 1, True
    )
    if len(pending) > 0:
        multiply_group(pending)
    return [moved, turned, row, tiles, radix, left, slabs, low, count]


def contract_top_digit(
    data: Any, state: Any, row: int, radix: int, low: int, count: int, first: Any
) -> None:
    """Products of ``count`` values of a' from ``low`` on, with (h, c) on partitions."""
    partitions, _, _, length = state.shape
    spread = state[:, :, row].reshape_dim(2, (radix, length // radix))
    columns = partitions // data[0][0].shape[1]
    step = max(1, _ROW // partitions)
    # Sums of several products have a bank each: it may not hold two of them.
    together = count if len(first) == 1 else 1
    for begin in range(low, low + count, together):
        bank = nl.ndarray((partitions, 2, radix, together), dtype=nl.float32, buffer=nl.psum)
        for digit in range(together):
            chunk = (begin + digit) // step
            at = (begin + digit) % step * columns
            for piece in range(len(first)):
                tile = data[chunk][piece]
                nisa.nc_matmul(
                    dst=bank[:, :, :, digit],
                    stationary=tile[:, :, at : at + columns],
                    moving=first[piece][0 : tile.shape[0]],
                    accumulate=piece > 0,
                )
        nisa.activation(dst=spread[:, :, :, begin : begin + together], op=nl.copy, data=bank)


def close_steps(state: Any, work: Any, factors: Any, twiddled: Any, last: Any, target: Any) -> Any:
    """Twiddle pieces of a block; each closes while the next one is twiddled.

    twiddled: the piece before, which awaits its closing, or nothing.
    """
    tile, start, block = state
    partitions, _, _, length = tile.shape
    for step in range(len(work)):
        top, bottom, low, high, part = work[step]
        if part == 0:
            product = multiply_complex(tile[:, :, top:bottom, low:high], factors, low)
            result = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
            piece = [product, result, start + top * block[1], block[1], low, high, length]
            twiddled.append(piece)
        if len(twiddled) > 1:
            close_part(twiddled[0], part, last, target)
        if part == 1:
            twiddled = twiddled[len(twiddled) - 1 :]
    return twiddled


def close_part(piece: Any, part: int, last: Any, target: Any) -> None:
    """DFT over the partitions, real or imaginary part of it, and store of its outputs."""
    product, result, start, h, low, high, length = piece
    after = target[2]
    partitions, _, rows, size = product.shape
    bank = nl.ndarray((partitions, rows, size), dtype=nl.float32, buffer=nl.psum)
    # yr = Wr vr - Wi vi and yi = Wi vr + Wr vi: W is symmetric.
    matrices = [0, 2] if part == 0 else [1, 0]
    for term in range(2):
        nisa.nc_matmul(
            dst=bank,
            stationary=last[0:partitions, matrices[term], 0:partitions],
            moving=product[:, term],
            accumulate=term > 0,
        )
    nisa.activation(dst=result[:, part], op=nl.copy, data=bank)
    if len(after) == 0:
        store_part(target[part], result[:, part], start, h, low, high, length)
    elif part == 1:
        weighted = multiply_complex(result[:, :, 0], after[0], low).expand_dim(2)
        store_part(target[0], weighted[:, 0], start, h, low, high, length)
        store_part(target[1], weighted[:, 1], start, h, low, high, length)


def store_part(y: Any, tile: Any, start: int, h: int, low: int, high: int, length: int) -> None:
    """Store [(h, k_c), rows, high - low] as the outputs k_a in low..high of rows from start on."""
    partitions, rows, _ = tile.shape
    columns = partitions // h
    if y.shape[1] < length * columns:
        store_rows(y[start], tile[:, 0], low, high, length)
    else:
        # One row a DMA: together they would be a power of two apart, at half the rate.
        for row in range(rows):
            first = start + row * h
            outputs = y[first : first + h].reshape_dim(1, (columns, length)).flatten_dims(0, 1)
            nisa.dma_copy(dst=outputs[:, low:high], src=tile[:, row])


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


def multiply_complex(x: Any, factors: Any, low: int) -> Any:
    """Split complex SBUF [P, 2, ...] times factors, from their column ``low`` on, on VectorE."""
    product = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    by_real = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    by_imaginary = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    views = factor_views(factors, low, x.shape)
    nisa.tensor_tensor(dst=by_real, data1=x, data2=views[0], op=nl.multiply)
    nisa.tensor_tensor(dst=by_imaginary, data1=x, data2=views[1], op=nl.multiply)
    nisa.tensor_tensor(
        dst=product[:, 0], data1=by_real[:, 0], data2=by_imaginary[:, 1], op=nl.subtract
    )
    nisa.tensor_tensor(dst=product[:, 1], data1=by_imaginary[:, 0], data2=by_real[:, 1], op=nl.add)
    return product
