"""FFT of lengths that one transform's SBUF cannot hold: radix 2 or 4 through HBM scratch.

Mathematics.  N = P Q with P = 2 or 4, n = p Q + q, k = k_p + P k_q:

    y[k_p + P k_q] = sum_q W_Q^(q k_q) W_N^(q k_p) sum_p W_P^(p k_p) x[p Q + q]

Layout on the NeuronCore.  Three passes over HBM in one launch: VectorE's butterflies and twiddles
on [r1, Q/r1] pieces in natural order; the P transforms of length Q by four_step.py; and an
interleaving of their results, [C, Q/C, P], so that stores are contiguous again. Tables pass
through SBUF in pieces, so nothing grows with N but HBM. With a chirp before and a filter after, a
pass serves Bluestein's transforms, too.

Why it is fast.  It is not: three passes cost three times the DMA floor. It makes every length up
to 2^21 one launch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..tiles import PARTITIONS
from .dft_gemm import table_spec
from .four_step import (
    MAX_LENGTH,
    four_step_specs,
    four_step_tables,
    load_padded,
    load_plan,
    multiply_complex,
    open_block,
    store_rows,
    transform_rows,
)

MAX_SPLIT_LENGTH = 4 * MAX_LENGTH
_PIECE = 512  # columns of a pass at a time


def split_four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """The kernel's tables, float32: (twiddle [P - 1, 2, r1, Q/r1], *four_step's tables).

    radices: P (2 or 4), then those of a four-step plan for Q = n / P. Raises ValueError where it
    is no such plan.
    """
    if math.prod(radices) != n or len(radices) < 3 or radices[0] not in (2, 4):
        raise ValueError(f"radices {radices}: 2 or 4, then two or more, with product n = {n}")
    split, size = radices[0], n // radices[0]
    plan = four_step_tables(size, radices[1:], inverse, scale)
    k, q = np.arange(1, split)[:, None], np.arange(size)[None, :]
    angle = 2 * np.pi / n * (k * q)  # k q < n: no reduction needed
    sign = 1.0 if inverse else -1.0
    twiddle = np.stack([np.cos(angle), sign * np.sin(angle)], 1).astype(np.float32)
    return twiddle.reshape(split - 1, 2, radices[1], -1), *plan


def split_four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``split_four_step_tables(n, radices, ...)``."""
    split, first = radices[0], radices[1]
    size = math.prod(radices[1:])
    twiddle = table_spec((split - 1, 2, first, size // first))
    return twiddle, *four_step_specs(radices[1:])


@nki.jit
def split_four_step(x_re, x_im, tables, places, radices, inverse=False):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N]. tables, places: ``pack(split_four_step_tables(N, radices,
    inverse, ...))``. Returns (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    tables = unpack(tables, places)
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    identity = nl.shared_identity_matrix(PARTITIONS, dtype=nl.float32)
    resident = load_plan(tables[1:], radices[1:], [1, 1])
    source = [x_re, x_im]
    target = [y_re, y_im]
    split_rows(source, target, tables[0], resident, radices, inverse, identity, [], [])
    return y_re, y_im


def split_rows(
    source: Any,
    target: Any,
    twiddle: Any,
    resident: Any,
    radices: Any,
    inverse: bool,
    identity: Any,
    before: Any,
    after: Any,
) -> None:
    """Transform the rows of HBM source into HBM target; either may be shorter than N.

    before, after: HBM tables of factors of the inputs [P, 2, r1, Q/r1] and of the outputs
    [2, C, N/C], or nothing.
    """
    batch = source[0].shape[0]
    split, first, columns = radices[0], radices[1], radices[len(radices) - 1]
    size = twiddle.shape[2] * twiddle.shape[3]
    parted = []
    merged = []
    for _ in range(2):
        parted.append(nl.ndarray((batch * split, size), dtype=nl.float32, buffer=nl.private_hbm))
        merged.append(nl.ndarray((batch * split, size), dtype=nl.float32, buffer=nl.private_hbm))
    for b in range(batch):
        for start in range(0, size // first, _PIECE):
            stop = min(start + _PIECE, size // first)
            pieces = load_pieces(source, b, split, size, first, start, stop, before)
            part_piece(pieces, twiddle, start, stop, inverse, parted, b * split)
    block = [1, 1]
    opened = open_block(parted[0], parted[1], 0, block, radices[1:], [])
    transform_rows(
        parted[0],
        parted[1],
        merged[0],
        merged[1],
        resident,
        radices[1:],
        identity,
        block,
        opened,
        [],
        [],
    )
    for b in range(batch):
        for start in range(0, size // columns, _PIECE):
            stop = min(start + _PIECE, size // columns)
            merge_piece(merged, b, split, columns, start, stop, after, target)


def load_pieces(
    source: Any, b: int, split: int, size: int, rows: int, start: int, stop: int, before: Any
) -> Any:
    """SBUF tiles [r1, 2, F], one a p, of columns start..stop; zeros beyond the data."""
    held = source[0].shape[1]
    pieces = []
    for p in range(split):
        low = min(p * size, held)
        high = min(low + size, held)
        if low == high:
            tile = nl.zeros((rows, 2, stop - start), dtype=nl.float32, buffer=nl.sbuf)
        else:
            re, im = source[0][b, low:high], source[1][b, low:high]
            tile = load_padded(re, im, rows, size // rows, start, stop)
            if len(before) > 0:
                tile = multiply_complex(tile, load_factor(before[0][p], start, stop), 0)
        pieces.append(tile)
    return pieces


def load_factor(table: Any, start: int, stop: int) -> Any:
    """SBUF [P, 2, F] of columns start..stop of factors [2, P, length] in HBM."""
    tile = nl.ndarray((table.shape[1], 2, stop - start), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=table.permute((1, 0, 2))[:, :, start:stop])
    return tile


def part_piece(
    pieces: Any, twiddle: Any, start: int, stop: int, inverse: bool, parted: Any, row: int
) -> None:
    """DFT over p, twiddles, and stores to the rows row + k_p of the scratch."""
    if len(pieces) == 2:
        outputs = [
            combine(pieces[0], pieces[1], nl.add),
            combine(pieces[0], pieces[1], nl.subtract),
        ]
    else:
        even = combine(pieces[0], pieces[2], nl.add)
        odd = combine(pieces[1], pieces[3], nl.add)
        cross = combine(pieces[0], pieces[2], nl.subtract)
        other = combine(pieces[1], pieces[3], nl.subtract)
        outputs = [
            combine(even, odd, nl.add),
            rotate_and_add(cross, other, inverse),
            combine(even, odd, nl.subtract),
            rotate_and_add(cross, other, not inverse),
        ]
    for k in range(len(outputs)):
        result = outputs[k]
        if k > 0:
            result = multiply_complex(result, load_factor(twiddle[k - 1], start, stop), 0)
        for part in range(2):
            length = twiddle.shape[3]
            rows = parted[part][row + k].reshape_dim(0, (twiddle.shape[2], length))
            nisa.dma_copy(dst=rows[:, start:stop], src=result[:, part])


def combine(a: Any, b: Any, op: Any) -> Any:
    """a <op> b of two SBUF tiles."""
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=out, data1=a, data2=b, op=op)
    return out


def rotate_and_add(a: Any, b: Any, is_positive: bool) -> Any:
    """a + i b, or a - i b, of split complex SBUF tiles [P, 2, F]."""
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    real = nl.subtract if is_positive else nl.add
    imaginary = nl.add if is_positive else nl.subtract
    nisa.tensor_tensor(dst=out[:, 0], data1=a[:, 0], data2=b[:, 1], op=real)
    nisa.tensor_tensor(dst=out[:, 1], data1=a[:, 1], data2=b[:, 0], op=imaginary)
    return out


def merge_piece(
    merged: Any, b: int, split: int, rows: int, start: int, stop: int, after: Any, target: Any
) -> None:
    """Interleave columns start..stop of the P transforms of row b and store them."""
    length = merged[0].shape[1] // rows
    tile = nl.ndarray((rows, 2, stop - start, split), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(split):
        loaded = nl.ndarray((rows, 2, stop - start), dtype=nl.float32, buffer=nl.sbuf)
        for part in range(2):
            source = merged[part][b * split + k].reshape_dim(0, (rows, length))
            nisa.dma_copy(dst=loaded[:, part], src=source[:, start:stop])
        nisa.activation(dst=tile[:, :, :, k], op=nl.copy, data=loaded)
    result = tile.flatten_dims(2, 3)
    if len(after) > 0:
        factors = load_factor(after[0], start * split, stop * split)
        result = multiply_complex(result, factors, 0)
    for part in range(2):
        row = target[part][b]
        store_rows(row, result[:, part], start * split, stop * split, length * split)
