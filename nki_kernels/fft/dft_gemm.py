"""DFT of up to 256 points, over one axis or several, as matrix products: one launch.

Mathematics.  y[b, k] = sum_n x[b, n] W[n, k] with W[n, k] = exp(-+2 pi i n k / N). Split into real
and imaginary parts, this is one real product of rows: [yr yi] = [xr xi] M with M = [[Wr, Wi], [-Wi,
Wr]], contracted over 2N numbers. A scale (1/N of an inverse) is part of M.

Arrays over axes n1, n2, ... are rows of N = n1 n2 ... numbers as they lie in memory. Then W is the
Kronecker product of the axes' DFT matrices, and all axes are one product, in natural order. Zeros
that would follow the data of an axis are not multiplied: M has no rows for them.

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

import math
from collections.abc import Sequence
from operator import gt

import numpy as np

from ..base.arguments import batch_and_lengths, lengths_for
from ..base.engines import hbm
from ..base.isa import Tensor, nki
from ..base.launch import HbmRows, rows_of_arrays
from ..base.roots import dft_matrix_of_axes
from ..base.table_terms import Array, TableSpec, rounded_table, table_spec
from .row_products import Product, RowProducts, rows_per_slab, with_zeros

MAX_LENGTH = 256


def lengths_of(n: int | Sequence[int]) -> tuple[int, ...]:
    """Return the lengths of the axes; raise ValueError unless their product is 1 to 256."""
    lengths = tuple(n) if isinstance(n, Sequence) else (n,)
    if min(lengths, default=0) < 1 or math.prod(lengths) > MAX_LENGTH:
        raise ValueError(
            f"n = {n}: DFT-GEMM accepts lengths, or products of lengths, of 1 to {MAX_LENGTH}"
        )
    return lengths


def held_of(name: str, held: Sequence[int], lengths: Sequence[int]) -> tuple[int, ...]:
    """Return argument ``name``, by default the lengths; raise ValueError for more than these."""
    if held and (len(held) != len(lengths) or min(held) < 1 or any(map(gt, held, lengths))):
        raise ValueError(f"{name} = {tuple(held)}: must be sizes from 1 up to {tuple(lengths)}")
    return tuple(held or lengths)


def zeros_below(w: Array, parts: int, results: int) -> Array:
    """Return w with rows of zeros for the numbers of a part that ``with_zeros`` adds."""
    return np.pad(w, ((0, with_zeros(len(w), parts, results) - len(w)), (0, 0)))


def dft_gemm_matrix(
    n: int | Sequence[int],
    inverse: bool = False,
    scale: float = 1.0,
    dtype: str = "float32",
    refined: bool = False,
    data: Sequence[int] = (),
) -> Array:
    """Return the table of ``dft_gemm``: g copies of scale * [[Wr, Wi], [-Wi, Wr]].

    It is computed in float64 with the exponent reduced exactly (n k mod N), and rounded once.

    Args:
        n: length of the transform, 1 to 256, or those of several axes, whose product it is.
        inverse, scale: as for ``stockham_tables``.
        dtype: "float32" or "bfloat16".
        refined: with "bfloat16" only, whether to return the rounded table and what rounding lost.
        data: how many numbers of each axis are data, before zeros; by default all.

    Returns:
        [2gD, 2gN], or refined [2, 2gD, 2gN], where D is N without data, or less.
    """
    lengths = lengths_of(n)
    w = scale * dft_matrix_of_axes(lengths, inverse, held_of("data", data, lengths))
    w = zeros_below(w, 2, 2 * w.shape[1])
    one = np.block([[w.real, w.imag], [-w.imag, w.real]])
    return rounded_table(np.kron(np.eye(rows_per_slab(len(one))), one), dtype, refined)


def dft_gemm_spec(
    n: int | Sequence[int],
    dtype: str = "float32",
    refined: bool = False,
    data: Sequence[int] = (),
) -> TableSpec:
    """Return the (shape, dtype) of ``dft_gemm_matrix(n, ...)``."""
    lengths = lengths_of(n)
    results = 2 * math.prod(lengths)
    numbers = 2 * with_zeros(math.prod(data or lengths), 2, results)
    copies = rows_per_slab(numbers)
    return table_spec((copies * numbers, copies * results), dtype, refined)


@nki.jit
def dft_gemm(x_re, x_im, matrix, lengths=None):  # type: ignore[no-untyped-def]
    """Transform every row, or every array, of ``x_re + i x_im``, by one matrix product.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N], 1 <= N <= 256, B >= 1, or [B, n1,
            n2, ...], where the product of the axes is N.
        matrix: ``dft_gemm_matrix(N, ...)`` or ``dft_gemm_matrix((n1, n2, ...), ...)``, whose dtype
            is that of the products.
        lengths: (n1, n2, ...) where these are more than the data, which zeros would follow.

    Returns:
        (y_re, y_im), float32 HBM [B, N] or [B, n1, n2, ...].
    """
    batch, data = batch_and_lengths(x_re, x_im)
    shape = (batch, *lengths_for("lengths", data if lengths is None else lengths, len(data)))
    y_re, y_im = hbm(shape), hbm(shape)
    dft_gemm_arrays([x_re, x_im], [y_re, y_im], matrix)
    return y_re, y_im


def dft_gemm_arrays(source: Sequence[Tensor], target: Sequence[Tensor], matrix: Tensor) -> None:
    """Multiply each array of HBM source [B, ...], as a row, into one of HBM target [B, ...].

    Each of both has a real part, or a real and an imaginary part.
    """
    x, y = rows_of_arrays(*source), rows_of_arrays(*target)
    numbers, results = x[0].shape[1], y[0].shape[1]
    contracted = with_zeros(numbers, len(x), len(y) * results)
    product = Product(len(x), contracted, contracted, False, len(y), results)
    rows, made = [HbmRows(part, numbers) for part in x], [HbmRows(part, results) for part in y]
    RowProducts(rows, made, product, matrix).run()


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
