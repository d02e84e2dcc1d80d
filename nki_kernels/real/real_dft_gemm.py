"""DFT of real data and its inverse, any length N <= 256, as matrix products: one launch.

Mathematics.  X[k] = sum_n exp(-+2 pi i n k / N) x[n] for k = 0 .. N/2 is one real product of rows,
[Xr Xi] = x W with W = [cos, -+sin], contracted over N numbers. The inverse of a half spectrum is
the product in the other direction: x[n] = sum_k w_k (cos(2 pi n k / N) Xr[k] -+ sin(...) Xi[k]),
where w_k is 1 for k = 0 and k = N/2, whose imaginary parts are ignored, and 2 for the other k. So
Xr[N/2] takes the place of Xi[0], and this contraction has N numbers, too (N + 1 if N is odd).

Layout on the NeuronCore.  The blocks, slabs and guard are those of row_products: g <= 128 / N
transforms make a slab, which the Tensor engine transposes and multiplies, as the stationary
operand, by g copies of the matrix or, from v3 on, each transform in its own row tile of the array.
Rows of real data are slabs as they are loaded; the two parts of a spectrum are brought together
first. A contraction of more than 128 numbers is cut in two, by number or, for spectra, by part.

    HBM [B, N] -> SBUF [128, R, N] -> PSUM [gN, 128] -> SBUF -> PSUM [128, g (N+2)] -> SBUF -> HBM

Why it is fast.  The matrix products are a quarter of those of a complex DFT: half the rows, half
the columns. The limit is DMA, which moves half the bytes.
"""

from __future__ import annotations

import numpy as np

from ..base.arguments import rows_and_length
from ..base.engines import PARTITIONS, hbm
from ..base.isa import nki
from ..base.launch import HbmRows
from ..base.roots import dft_matrix
from ..base.table_terms import Array, TableSpec, table_spec
from ..fft.dft_gemm import MAX_LENGTH, dft_gemm_rows


def contracted_half(n: int) -> int:
    """Return how many numbers of each part of a half spectrum the inverse contracts."""
    return (n + 1) // 2


def transforms_per_slab(n: int) -> int:
    """Return how many transforms of length ``n`` one product takes, at least 1."""
    return max(1, PARTITIONS // (2 * contracted_half(n)))


def real_dft_gemm_matrix(n: int, inverse: bool = False, scale: float = 1.0) -> Array:
    """Return the table of ``real_dft_gemm``.

    Args:
        n: length of the transform, 1 to 256.
        inverse, scale: as for ``stockham_tables``.

    Returns:
        [gN, 2g (N//2+1)], float32; the columns are (transform, part, k).
    """
    w = scale * _roots(n, inverse)
    one = np.stack([w.real, w.imag], 1).reshape(n, -1)
    return np.kron(np.eye(transforms_per_slab(n)), one).astype(np.float32)


def inverse_real_dft_gemm_matrix(n: int, inverse: bool = True, scale: float = 1.0) -> Array:
    """Return the table of ``inverse_real_dft_gemm``.

    Args:
        n, inverse, scale: as for ``real_dft_gemm_matrix``.

    Returns:
        A float32 array; its rows are (transform, part, k), its columns (transform, n).
    """
    w = scale * _roots(n, inverse).T
    half = contracted_half(n)
    one = 2 * np.stack([w.real[:half], -w.imag[:half]])
    one[0, 0] /= 2
    one[1, 0] = w.real[n // 2] if n % 2 == 0 else 0
    return np.kron(np.eye(transforms_per_slab(n)), one.reshape(2 * half, n)).astype(np.float32)


def _roots(n: int, inverse: bool) -> Array:
    """Return exp(-+2 pi i n k / N), [N, N//2+1]."""
    if not 1 <= n <= MAX_LENGTH:
        raise ValueError(f"n = {n}: DFT-GEMM accepts lengths 1 to {MAX_LENGTH}")
    return dft_matrix(n, inverse, n, n // 2 + 1)


def real_dft_gemm_spec(n: int) -> TableSpec:
    """Return the (shape, dtype) of ``real_dft_gemm_matrix(n, ...)``."""
    g = transforms_per_slab(n)
    return table_spec((g * n, 2 * g * (n // 2 + 1)))


def inverse_real_dft_gemm_spec(n: int) -> TableSpec:
    """Return the (shape, dtype) of ``inverse_real_dft_gemm_matrix(n, ...)``."""
    g = transforms_per_slab(n)
    return table_spec((2 * g * contracted_half(n), g * n))


@nki.jit
def real_dft_gemm(x, matrix):  # type: ignore[no-untyped-def]
    """Compute half spectra, frequencies 0 to N/2, of the rows of real ``x``.

    Args:
        x: float32 HBM [B, N], 1 <= N <= 256.
        matrix: ``real_dft_gemm_matrix(N, ...)``.

    Returns:
        (y_re, y_im), float32 HBM [B, N // 2 + 1].
    """
    batch, n = rows_and_length(x)
    half = n // 2 + 1
    y_re, y_im = hbm((batch, half)), hbm((batch, half))
    target = [HbmRows(y_re, half), HbmRows(y_im, half)]
    dft_gemm_rows([HbmRows(x, n)], target, n, matrix)
    return y_re, y_im


@nki.jit
def inverse_real_dft_gemm(x_re, x_im, matrix, n):  # type: ignore[no-untyped-def]
    """Compute real rows from half spectra ``x_re + i x_im``.

    Args:
        x_re, x_im: the half spectra, float32 HBM [B, n // 2 + 1].
        matrix: ``inverse_real_dft_gemm_matrix(n, ...)``.
        n: length of the rows, 1 to 256.

    Returns:
        y, float32 HBM [B, n].
    """
    batch, half = rows_and_length(x_re, x_im)
    y = hbm((batch, n))
    source = [HbmRows(x_re, half), HbmRows(x_im, half)]
    dft_gemm_rows(source, [HbmRows(y, n)], n, matrix)
    return y
