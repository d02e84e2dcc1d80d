"""DFT of any length N <= 256 as matrix products: one launch, natural order in and out.

Mathematics.  y[b, k] = sum_n x[b, n] W[n, k] with W[n, k] = exp(-+2 pi i n k / N). Split into real
and imaginary parts, this is one real product of rows: [yr yi] = [xr xi] M with M = [[Wr, Wi], [-Wi,
Wr]], contracted over 2N numbers. A scale (1/N of an inverse) is part of M.

Layout on the NeuronCore.  The blocks, slabs and guard are those of row_products: a slab is what the
Tensor engine transposes, and then multiplies, as the stationary operand, by the table. Up to N = 64
a slab holds g = 64 // N transforms, and M is repeated g times along the diagonal or, from v3 on,
each transform has its own row tile of the array, unless it is short. A longer transform is a slab
of its own, whose contraction is cut by part, and into pieces of at most 128 numbers.

    HBM [B, N] -> SBUF [128, 2, R, N] -> [128, R, 2, N] -> PSUM [2gN, 128] -> SBUF
        -> PSUM [128, 2gN] -> SBUF [128, 2, R, N] -> HBM

Precision.  The table's dtype decides. With a bfloat16 table, DMA rounds the data on its way in, and
every matmul runs at four times the fp32 rate; PSUM and HBM stay fp32. A refined table consists of
two tables, W = W_hi + W_lo, on a leading axis. Then the data is transposed in fp32 and split in the
same way, d = d_hi + d_lo, as it leaves PSUM, and the product is d_hi W_hi + d_hi W_lo + d_lo W_hi,
summed in PSUM; the term that is dropped is 2^-16 of the result. (Correcting the result by the
transform of x - inverse(X) would not do: a bfloat16 inverse has errors as large as the errors that
it should find.)

Why it is fast.  The matmuls cost 8N fp32 cycles a transform against 2N loaded numbers, which on
trn1 is about the time that DMA needs for 16 bytes a point (docs/benchmarks.md has modelled times).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.arguments import rows_and_length
from ..base.engines import PARTITIONS, hbm
from ..base.isa import Tensor, nki
from ..base.launch import HbmRows
from ..base.roots import dft_matrix
from ..base.table_terms import Array, TableSpec, rounded_table, table_spec
from .row_products import Product, RowProducts

MAX_LENGTH = 256


def transforms_per_slab(n: int) -> int:
    """Return how many transforms of length n one product takes: 2 * g * n <= 128, at least 1."""
    return max(1, PARTITIONS // (2 * n))


def dft_gemm_matrix(
    n: int,
    inverse: bool = False,
    scale: float = 1.0,
    dtype: str = "float32",
    refined: bool = False,
) -> Array:
    """Return the table of ``dft_gemm``: g copies of scale * [[Wr, Wi], [-Wi, Wr]].

    It is computed in float64 with the exponent reduced exactly (n k mod N), and rounded once.

    Args:
        n: length of the transform, 1 to 256.
        inverse, scale: as for ``stockham_tables``.
        dtype: "float32" or "bfloat16".
        refined: with "bfloat16" only, whether to return the rounded table and what rounding lost.

    Returns:
        [2gN, 2gN], or refined [2, 2gN, 2gN].
    """
    if not 1 <= n <= MAX_LENGTH:
        raise ValueError(f"n = {n}: DFT-GEMM accepts lengths 1 to {MAX_LENGTH}")
    w = scale * dft_matrix(n, inverse)
    real, imaginary = w.real, w.imag
    one = np.block([[real, imaginary], [-imaginary, real]])
    return rounded_table(np.kron(np.eye(transforms_per_slab(n)), one), dtype, refined)


def dft_gemm_spec(n: int, dtype: str = "float32", refined: bool = False) -> TableSpec:
    """Return the (shape, dtype) of ``dft_gemm_matrix(n, ...)``."""
    size = 2 * n * transforms_per_slab(n)
    return table_spec((size, size), dtype, refined)


@nki.jit
def dft_gemm(x_re, x_im, matrix):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, by one matrix product.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N], 1 <= N <= 256, B >= 1.
        matrix: ``dft_gemm_matrix(N, ...)``, whose dtype is that of the products.

    Returns:
        (y_re, y_im), float32 HBM [B, N].
    """
    _, n = rows_and_length(x_re, x_im)
    y_re, y_im = hbm(x_re.shape), hbm(x_re.shape)
    source, target = [HbmRows(x_re, n), HbmRows(x_im, n)], [HbmRows(y_re, n), HbmRows(y_im, n)]
    dft_gemm_rows(source, target, n, matrix)
    return y_re, y_im


def dft_gemm_rows(
    source: Sequence[HbmRows], target: Sequence[HbmRows], n: int, matrix: Tensor
) -> None:
    """Transform the rows of source into target, each a real part or a real and an imaginary part.

    Real rows become half spectra, and half spectra real rows (real_dft_gemm.py). Zeros follow rows
    of the source that are shorter; outputs beyond the target's columns are not stored.
    """
    half, product = n // 2 + 1, Product(2, n, n, False, 2, n)
    if len(source) == 1:
        product = Product(1, n, n, False, 2, half)
    elif len(target) == 1:
        product = Product(2, half, (n + 1) // 2, n % 2 == 0, 1, n)
    RowProducts(source, target, product, matrix).run()
