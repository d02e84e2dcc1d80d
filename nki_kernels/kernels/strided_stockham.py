"""FFT along an axis that is not the last one, without a transposition through HBM.

Mathematics.  Data [A, N, C], transformed along N = r M, n = j M + m an input and K + r q an output:

    Z[K, m] = sum_j W_r^(j K) x[j M + m],      X[K + r q] = sum_m W_N^(m (K + r q)) Z[K, m].

The twiddles are part of the second matrix, one a K. N <= 64 takes the second stage alone.

Layout on the NeuronCore.  Rows of x are loaded as they lie: (part, j, s) on partitions, where
g <= 64 / r slabs s of M / g rows fill the array, and columns C on the free axis, so that runs of
columns move. The data is the stationary operand of the first stage, whose products therefore have
the columns on partitions and the digits in the free axis: a transform and a transposition in one.
The second stage transposes a slab m back and multiplies it as the moving operand, so that (part, q)
is on partitions, and q r + K, stored as it lies, is natural order again.

    HBM [N, C] -> SBUF [(part, j, s), M/g, C] -> [C, 2, r, M] -> [(part, q), r, C] -> HBM [N, C]

Input may have fewer than N rows (zeros follow, which are neither stored in HBM nor loaded), and
output, too (the rest is not stored).

Why it is fast.  Three passes of the Tensor engine instead of the four of two Stockham stages, and
DMA that moves runs of up to 2 KiB.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..tiles import PARTITIONS, PSUM_BANK
from .dft_gemm import table_spec
from .old_stages import load_identity
from .real_stockham import load_whole, multiply, transpose

MAX_STRIDED_RADIX = 64
MAX_LENGTH = MAX_STRIDED_RADIX**2
_POINTS = 2**19  # of a block of columns, as long as 128 columns are more
_HELD = 2**14  # numbers a partition of the input, or of the output, of a block
_CHUNK = 4096  # numbers a partition of a table that DMA writes at a time


def slabs_together(radix: int, left: int) -> int:
    """Slabs g of the first stage that fill the array: 2 g r <= 128, and g divides M."""
    best = 1
    for g in range(2, PARTITIONS // (2 * radix) + 1):
        if left % g == 0:
            best = g
    return best


def strided_stockham_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[np.ndarray[Any, Any], ...]:
    """(second stage,) for one radix, (first stage, second stage) for two; float32.

    First stage: [2 g r, 2 g r], rows (part, j, s), columns (part, K, s). Second: [2 M, r, 2 M],
    rows (part, m), columns (part, q). Raises ValueError unless there are one or two radices, each
    2 to 64, with product n.
    """
    if len(radices) not in (1, 2) or math.prod(radices) != n:
        raise ValueError(f"radices {radices}: must be one or two with the product n = {n}")
    if any(not 2 <= r <= MAX_STRIDED_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_STRIDED_RADIX}")
    radix, left = (1, n) if len(radices) == 1 else radices
    sign = 2j * np.pi / n * (1 if inverse else -1)
    outputs = np.arange(radix)[:, None] + radix * np.arange(left)  # [K, q]
    w = np.exp(sign * (np.arange(left)[:, None, None] * outputs % n))  # [m, K, q]
    if len(radices) == 1:
        w *= scale
    closing = _real_matrix(w).reshape(2 * left, radix, 2 * left).astype(np.float32)
    if len(radices) == 1:
        return (closing,)
    g = slabs_together(radix, left)
    j = np.arange(radix)
    first = scale * np.exp(sign * left * (np.outer(j, j) % radix))
    opening = np.einsum("ajbk,st->ajsbkt", _real_matrix(first[:, None])[:, :, 0], np.eye(g))
    size = 2 * g * radix
    return opening.reshape(size, size).astype(np.float32), closing


def strided_stockham_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``strided_stockham_tables(n, radices, ...)``."""
    radix, left = (1, *radices)[-2:]
    closing = table_spec((2 * left, radix, 2 * left))
    if len(radices) == 1:
        return (closing,)
    size = 2 * radix * slabs_together(radix, left)
    return table_spec((size, size)), closing


def radix_pairs(n: int) -> list[tuple[int, int]]:
    """Both radices of a length, the likeliest first: the last one as large as possible."""
    lasts = [r for r in range(MAX_STRIDED_RADIX, 1, -1) if n % r == 0 and n > r]
    return [(n // last, last) for last in lasts if n // last <= MAX_STRIDED_RADIX]


def _real_matrix(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Complex [i, K, o] as the real matrices [part, i, K, part', o]."""
    real = np.stack([w.real, w.imag], 2)
    imaginary = np.stack([-w.imag, w.real], 2)
    return np.stack([real, imaginary])


@nki.jit
def strided_stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform ``x_re + i x_im`` along the middle axis.

    x_re, x_im: float32 HBM [A, N, C]. tables, places: ``pack(strided_stockham_tables(N, radices,
    ...))``. Returns (y_re, y_im), float32 HBM [A, N, C].
    """
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    y_re = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    tables = unpack(tables, places)
    transform_columns([x_re, x_im], [y_re, y_im], tables, radices, load_identity(nl.float32))
    return y_re, y_im


def transform_columns(source: Any, target: Any, tables: Any, radices: Any, identity: Any) -> None:
    """Transform HBM source [A, held, C] into HBM target [A, kept, C], each a list of two parts."""
    radix = radices[0] if len(radices) == 2 else 1
    left = radices[len(radices) - 1]
    opening = load_whole(tables[0]) if radix > 1 else []
    closing = load_chunks(tables[len(tables) - 1])
    blocks = blocks_of(source[0].shape[0], source[0].shape[2], radix, left, _POINTS)
    ahead = load_columns(source, blocks[0], radix, left)
    for index in range(len(blocks)):
        block = blocks[index]
        state = ahead
        if radix > 1:
            state = open_columns(state, opening, radix, left)
        if index + 1 < len(blocks):
            ahead = load_columns(source, blocks[index + 1], radix, left)
        result = close_columns(state, closing, radix, left, identity, block)
        store_columns(target, result, block, radix, left)


def load_chunks(table: Any) -> Any:
    """The second stage's table in SBUF, copied by GpSimdE: what DMA writes may not stay."""
    depth, count, width = table.shape
    tile = nl.ndarray(table.shape, dtype=nl.float32, buffer=nl.sbuf)
    step = max(1, _CHUNK // width)
    for first in range(0, count, step):
        last = min(first + step, count)
        staged = nl.ndarray((depth, last - first, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=staged, src=table[:, first:last])
        nisa.tensor_copy(dst=tile[:, first:last], src=staged, engine=nisa.engine.gpsimd)
    return tile


def blocks_of(members: int, columns: int, radix: int, left: int, points: int) -> Any:
    """Blocks of columns, of about ``points``: [first member, members, first column, columns].

    A group is what a product takes, at most 128 columns in all, and a block has some of them.
    """
    groups = -(-columns // PARTITIONS)
    width = -(-columns // groups)
    # What a column takes of a partition: M / g numbers before, r after.
    held = max(radix, left // slabs_together(radix, left) if radix > 1 else 1)
    together = max(1, min(PSUM_BANK, points // (radix * left), _HELD // held) // PARTITIONS)
    blocks = []
    if groups == 1:
        step = max(1, PARTITIONS // columns)
        for member in range(0, members, step):
            blocks.append([member, min(step, members - member), 0, columns])
        return blocks
    for member in range(members):
        for low in range(0, columns, together * width):
            blocks.append([member, 1, low, min(together * width, columns - low)])
    return blocks


def load_columns(source: Any, block: Any, radix: int, left: int) -> Any:
    """SBUF tile [(part, j, s), members, M / g, columns] of a block, zeros after the data."""
    member, members, low, columns = block
    rows = radix * slabs_together(radix, left) if radix > 1 else left
    length = radix * left // rows
    held = source[0].shape[1]
    tile = nl.ndarray((2 * rows, members, length, columns), dtype=nl.float32, buffer=nl.sbuf)
    full = held // length
    rest = held - full * length
    if full < rows:
        nisa.memset(dst=tile, value=0.0)
    for part in range(2):
        for index in range(members):
            data = source[part][member + index]
            at = part * rows
            if full > 0:
                whole = data[0 : full * length].reshape_dim(0, (full, length))
                nisa.dma_copy(dst=tile[at : at + full, index], src=whole[:, :, low : low + columns])
            if rest > 0:
                tail = data[full * length : held, low : low + columns].expand_dim(0)
                nisa.dma_copy(dst=tile[at + full : at + full + 1, index, 0:rest], src=tail)
    return tile


def open_columns(tile: Any, table: Any, radix: int, left: int) -> Any:
    """First stage: SBUF [columns of a group, 2, r g, M / g] for each group of columns."""
    states = []
    for group in column_groups(tile.shape[1], tile.shape[3]):
        states.append(open_group(tile, group, table, radix, left))
    return states


def open_group(tile: Any, group: Any, table: Any, radix: int, left: int) -> Any:
    """First stage of a group: SBUF [columns, 2, r g, M / g]."""
    together = slabs_together(radix, left)
    length = left // together
    step = min(length, PSUM_BANK // (2 * radix * together))
    members, low, width = group
    shape = (members * width, 2, radix * together, length)
    state = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    for first in range(0, length, step):
        count = min(step, length - first)
        shape = (members * width, 2, radix * together, count)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for index in range(count):
            data = tile[:, :, first + index, low : low + width]
            multiply(bank[:, :, :, index], data, table, False)
        nisa.activation(dst=state[:, :, :, first : first + count], op=nl.copy, data=bank)
    return state


def column_groups(members: int, columns: int) -> Any:
    """[members, first column, columns] of the products that a block's columns take."""
    groups = -(-columns // PARTITIONS)
    width = -(-columns // groups)
    found = []
    for low in range(0, columns, width):
        found.append([members, low, min(width, columns - low)])
    return found


def close_columns(state: Any, table: Any, radix: int, left: int, identity: Any, block: Any) -> Any:
    """Second stage: SBUF [(part, q), r, columns of the block, member by member]."""
    columns = block[1] * block[3]
    result = nl.ndarray((2 * left, radix, columns), dtype=nl.float32, buffer=nl.sbuf)
    step = max(1, PSUM_BANK // columns)
    pending: Any = []
    for first in range(0, radix, step):
        count = min(step, radix - first)
        if radix > 1:
            moved = turn_slabs(state, first, count, radix, left, columns, identity)
        else:
            moved = state.reshape((2 * left, 1, columns))
        if len(pending) > 0:
            make_outputs(pending, table, result)
        pending = [moved, first, count]
    make_outputs(pending, table, result)
    return result


def turn_slabs(
    states: Any, first: int, count: int, radix: int, left: int, columns: int, identity: Any
) -> Any:
    """Operands [(part, m), count, columns] of slabs K from first on, by the Tensor engine."""
    bank = nl.ndarray((2 * left, count, columns), dtype=nl.float32, buffer=nl.psum)
    for index in range(count):
        low = 0
        for state in states:
            width = state.shape[0]
            slabs = state.flatten_dims(2, 3).reshape_dim(2, (radix, left))
            transpose(bank[:, index, low : low + width], slabs[:, :, first + index], identity)
            low += width
    moved = nl.ndarray(bank.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=moved, src=bank, engine=nisa.engine.vector)
    return moved


def make_outputs(pending: Any, table: Any, result: Any) -> None:
    """Products of a group of slabs and their evacuation; ScalarE and VectorE take turns."""
    moved, first, count = pending
    bank = nl.ndarray(moved.shape, dtype=nl.float32, buffer=nl.psum)
    for index in range(count):
        nisa.nc_matmul(
            dst=bank[:, index],
            stationary=table[:, first + index],
            moving=moved[:, index],
            accumulate=False,
        )
    place = result[:, first : first + count]
    if first // count % 2 == 0:
        nisa.activation(dst=place, op=nl.copy, data=bank)
    else:
        nisa.tensor_copy(dst=place, src=bank, engine=nisa.engine.vector)


def store_columns(target: Any, result: Any, block: Any, radix: int, left: int) -> None:
    """Store the outputs q r + K of a block that the target holds."""
    member, members, low, columns = block
    kept = target[0].shape[1]
    full = kept // radix
    rest = kept - full * radix
    for part in range(2):
        for index in range(members):
            data = target[part][member + index]
            tile = result[:, :, index * columns : (index + 1) * columns]
            at = part * left
            if full > 0:
                whole = data[0 : full * radix].reshape_dim(0, (full, radix))
                nisa.dma_copy(dst=whole[:, :, low : low + columns], src=tile[at : at + full])
            if rest > 0:
                tail = data[full * radix : kept, low : low + columns].expand_dim(0)
                nisa.dma_copy(dst=tail, src=tile[at + full : at + full + 1, 0:rest])
