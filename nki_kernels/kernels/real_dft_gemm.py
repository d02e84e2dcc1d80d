"""DFT of real data and its inverse, any length N <= 256, as matrix products: one launch.

Mathematics.  X[k] = sum_n exp(-+2 pi i n k / N) x[n] for k = 0 .. N/2 is one real product of
rows, [Xr Xi] = x W with W = [cos, -+sin], contracted over N numbers. The inverse of a half
spectrum is the product the other way: x[n] = sum_k w_k (cos(2 pi n k / N) Xr[k] -+ sin(...) Xi[k])
with w_k = 2, and 1 for k = 0 and k = N/2, whose imaginary parts are ignored. So Xr[N/2] takes the
place of Xi[0], and this contraction takes N numbers, too (N + 1 if N is odd).

Layout on the NeuronCore.  As in dft_gemm: transforms lie on partitions, g <= 128 / N of them make
a slab, which the Tensor engine transposes and multiplies as the stationary operand by g copies of
the matrix. Contractions above 128 are cut in two, by number or, of spectra, by part.

    HBM [B, N] -> SBUF [128, R, N] -> PSUM [gN, 128] -> SBUF -> PSUM [128, g (N+2)] -> SBUF -> HBM

Why it is fast.  The matrix products are a quarter of a complex DFT's: half the rows, half the
columns. DMA, which moves half the bytes, is left as the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..tiles import DMA_RUN, PARTITIONS, PSUM_BANK
from .dft_gemm import MAX_LENGTH, load_rows, store_rows, table_spec
from .real_stockham import evacuate, multiply, transpose


def contracted_half(n: int) -> int:
    """Numbers of each part of a half spectrum that the inverse contracts."""
    return (n + 1) // 2


def transforms_per_slab(n: int) -> int:
    """Transforms of length ``n`` that one product takes, at least 1."""
    return max(1, PARTITIONS // (2 * contracted_half(n)))


def real_dft_gemm_matrix(n: int, inverse: bool = False, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """The table of ``real_dft_gemm``: [gN, 2g (N//2+1)], columns (transform, part, k), float32.

    inverse: the sign of the exponent, True for exp(+...). Raises ValueError unless 1 <= n <= 256.
    """
    w = scale * _roots(n, inverse)
    one = np.stack([w.real, w.imag], 1).reshape(n, -1)
    return np.kron(np.eye(transforms_per_slab(n)), one).astype(np.float32)


def inverse_real_dft_gemm_matrix(
    n: int, inverse: bool = True, scale: float = 1.0
) -> np.ndarray[Any, Any]:
    """The table of ``inverse_real_dft_gemm``: rows (transform, part, k), columns (transform, n).

    Otherwise as ``real_dft_gemm_matrix``.
    """
    w = scale * _roots(n, inverse).T
    half = contracted_half(n)
    one = 2 * np.stack([w.real[:half], -w.imag[:half]])
    one[0, 0] /= 2
    one[1, 0] = w.real[n // 2] if n % 2 == 0 else 0
    return np.kron(np.eye(transforms_per_slab(n)), one.reshape(2 * half, n)).astype(np.float32)


def _roots(n: int, inverse: bool) -> np.ndarray[Any, Any]:
    """exp(-+2 pi i n k / N), [N, N//2+1], exponents reduced exactly."""
    if not 1 <= n <= MAX_LENGTH:
        raise ValueError(f"n = {n}: DFT-GEMM takes lengths 1 to {MAX_LENGTH}")
    products = np.outer(np.arange(n), np.arange(n // 2 + 1)) % n
    w: np.ndarray[Any, Any] = np.exp((2j if inverse else -2j) * np.pi / n * products)
    return w


def real_dft_gemm_spec(n: int) -> Any:
    """(shape, dtype) of ``real_dft_gemm_matrix(n, ...)``."""
    g = transforms_per_slab(n)
    return table_spec((g * n, 2 * g * (n // 2 + 1)))


def inverse_real_dft_gemm_spec(n: int) -> Any:
    """(shape, dtype) of ``inverse_real_dft_gemm_matrix(n, ...)``."""
    g = transforms_per_slab(n)
    return table_spec((2 * g * contracted_half(n), g * n))


@nki.jit
def real_dft_gemm(x, matrix):  # type: ignore[no-untyped-def]
    """Spectra of the rows of real ``x``: n = 0 .. N/2.

    x: float32 HBM [B, N], 1 <= N <= 256. matrix: ``real_dft_gemm_matrix(N, ...)``. Returns (y_re,
    y_im), float32 HBM [B, N // 2 + 1].
    """
    batch, n = x.shape
    y_re = nl.ndarray((batch, n // 2 + 1), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n // 2 + 1), dtype=nl.float32, buffer=nl.shared_hbm)
    real_dft_gemm_rows(x, [y_re, y_im], matrix, n)
    return y_re, y_im


def real_dft_gemm_rows(x: Any, target: Any, matrix: Any, n: int) -> None:
    """Half spectra of the rows of HBM x [B, <= N], zeros after them, into the parts of target."""
    batch = x.shape[0]
    half = n // 2 + 1
    identity = nl.shared_identity_matrix(PARTITIONS, dtype=nl.float32)
    pieces = load_pieces(matrix, PARTITIONS)
    pending: Any = []
    start = 0
    while start < batch:
        rows = block_rows(batch - start, n)
        partitions = min(PARTITIONS, (batch - start) // rows)
        stop = start + rows * partitions
        data = nl.ndarray((partitions, rows, n), dtype=nl.float32, buffer=nl.sbuf)
        load_rows(data, x, start, stop)
        y = nl.ndarray((partitions, 2, rows, half), dtype=nl.float32, buffer=nl.sbuf)
        row = 0
        while row < rows:
            count = group_rows(rows - row, n)
            moved = turn_rows(data, row, count, identity)
            if len(pending) > 0:
                make_spectra(pending, pieces)
            pending = [moved, y, row, count, target, start, stop]
            row += count
        start = stop
    make_spectra(pending, pieces)


@nki.jit
def inverse_real_dft_gemm(x_re, x_im, matrix, n):  # type: ignore[no-untyped-def]
    """Real rows of half spectra ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, n // 2 + 1]. matrix: ``inverse_real_dft_gemm_matrix(n, ...)``.
    Returns y, float32 HBM [B, n].
    """
    batch, half = x_re.shape
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    assert half == n // 2 + 1, f"half spectra of {half} numbers for N = {n}"
    y = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    inverse_real_dft_gemm_rows([x_re, x_im], y, matrix, n)
    return y


def inverse_real_dft_gemm_rows(source: Any, y: Any, matrix: Any, n: int) -> None:
    """Real rows of half spectra, the two parts of HBM source, into HBM y [B, <= N]."""
    batch, half = source[0].shape
    identity = nl.shared_identity_matrix(PARTITIONS, dtype=nl.float32)
    pieces = load_pieces(matrix, matrix.shape[0] // part_count(n))
    pending: Any = []
    start = 0
    while start < batch:
        rows = block_rows(batch - start, n)
        partitions = min(PARTITIONS, (batch - start) // rows)
        stop = start + rows * partitions
        data = nl.ndarray((partitions, 2, rows, half), dtype=nl.float32, buffer=nl.sbuf)
        for part in range(2):
            load_rows(data[:, part], source[part], start, stop)
        if n % 2 == 0:
            nisa.tensor_copy(
                dst=data[:, 1, :, 0], src=data[:, 0, :, half - 1], engine=nisa.engine.vector
            )
        result = nl.ndarray((partitions, rows, n), dtype=nl.float32, buffer=nl.sbuf)
        row = 0
        while row < rows:
            count = group_rows(rows - row, n)
            moved = turn_spectra(data, n, row, count, identity)
            if len(pending) > 0:
                make_rows(pending, pieces)
            pending = [moved, result, row, count, y, start, stop]
            row += count
        start = stop
    make_rows(pending, pieces)


def block_rows(left: int, n: int) -> int:
    """Transforms a partition takes in the next block, of ``left`` still to do."""
    group = group_rows(left, n)
    wanted = max(group, DMA_RUN // n // group * group)
    return min(wanted, max(1, -(-left // PARTITIONS)))


def group_rows(left: int, n: int) -> int:
    """Transforms a partition sends through one PSUM bank: whole slabs, or one partial slab."""
    per_slab = transforms_per_slab(n)
    if left < per_slab:
        return left
    pieces = part_count(n)
    width = 2 * per_slab * (n // 2 + 1)
    slabs = min(PSUM_BANK // (pieces * PARTITIONS), PSUM_BANK // width, left // per_slab)
    return slabs * per_slab


def part_count(n: int) -> int:
    """2 where real and imaginary part of a spectrum are contracted one after the other, else 1."""
    return 1 if 2 * contracted_half(n) <= PARTITIONS else 2


def load_pieces(matrix: Any, step: int) -> Any:
    """The table in SBUF in pieces of ``step`` rows, as the contraction takes them."""
    total, width = matrix.shape
    pieces = []
    for first in range(0, total, step):
        length = min(step, total - first)
        piece = nl.ndarray((length, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=piece, src=matrix[first : first + length])
        pieces.append(piece)
    return pieces


def turn_rows(data: Any, row: int, count: int, identity: Any) -> Any:
    """Operands [numbers, slabs, partitions] of transforms row..row+count, a tile a piece."""
    partitions, _, n = data.shape
    per_slab = min(count, transforms_per_slab(n))
    slabs = count // per_slab
    tiles = []
    for first in range(0, n, PARTITIONS):
        length = min(PARTITIONS, n - first)
        shape = (per_slab * length, slabs, partitions)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for slab in range(slabs):
            at = row + slab * per_slab
            held = data[:, at : at + per_slab, first : first + length]
            transpose(bank[:, slab], held, identity)
        tiles.append(evacuate(bank, False))
    return tiles


def turn_spectra(data: Any, n: int, row: int, count: int, identity: Any) -> Any:
    """As ``turn_rows``, of half spectra."""
    partitions = data.shape[0]
    half = contracted_half(n)
    per_slab = min(count, transforms_per_slab(n))
    slabs = count // per_slab
    tiles = []
    parts = part_count(n)
    for part in range(parts):
        shape = (2 * per_slab * half // parts, slabs, partitions)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for slab in range(slabs):
            at = row + slab * per_slab
            if parts == 1:
                held = data[:, :, at : at + per_slab, 0:half].permute((0, 2, 1, 3))
            else:
                held = data[:, part, at, 0:half]
            transpose(bank[:, slab], held, identity)
        tiles.append(evacuate(bank, False))
    return tiles


def slabs_of_a_bank(moved: Any) -> int:
    """Slabs whose products share a PSUM bank: it may hold one sum of several products only."""
    return int(moved[0].shape[1]) if len(moved) == 1 else 1


def multiply_slabs(moved: Any, pieces: Any, first: int, slabs: int, width: int) -> Any:
    """PSUM [partitions, slabs, width]: products from slab ``first`` on, summed over the pieces."""
    bank = nl.ndarray((moved[0].shape[2], slabs, width), dtype=nl.float32, buffer=nl.psum)
    for slab in range(slabs):
        for piece in range(len(moved)):
            tile = moved[piece]
            table = pieces[piece][0 : tile.shape[0], 0:width]
            multiply(bank[:, slab], tile[:, first + slab], table, piece > 0)
    return bank


def make_spectra(pending: Any, pieces: Any) -> None:
    """Products of a group, their evacuation by ScalarE, and the store after a block's last."""
    moved, y, row, count, target, start, stop = pending
    partitions, _, rows, half = y.shape
    slabs = moved[0].shape[1]
    together = slabs_of_a_bank(moved)
    held = together * (count // slabs)
    for first in range(0, slabs, together):
        bank = multiply_slabs(moved, pieces, first, together, 2 * half * (count // slabs))
        low = row + first * (count // slabs)
        nisa.activation(
            dst=y[:, :, low : low + held].permute((0, 2, 1, 3)),
            op=nl.copy,
            data=bank.reshape((partitions, held, 2, half)),
        )
    if row + count == rows:
        for part in range(2):
            store_rows(target[part], y[:, part], start, stop)


def make_rows(pending: Any, pieces: Any) -> None:
    """As ``make_spectra``, of real rows."""
    moved, result, row, count, y, start, stop = pending
    partitions, rows, n = result.shape
    slabs = moved[0].shape[1]
    together = slabs_of_a_bank(moved)
    held = together * (count // slabs)
    for first in range(0, slabs, together):
        bank = multiply_slabs(moved, pieces, first, together, n * (count // slabs))
        low = row + first * (count // slabs)
        nisa.activation(
            dst=result[:, low : low + held],
            op=nl.copy,
            data=bank.reshape((partitions, held, n)),
        )
    if row + count == rows:
        store_rows(y, result, start, stop)
