"""DFT of real data and its inverse, up to 256 points, as matrix products: one launch.

Mathematics.  X[k] = sum_n exp(-+2 pi i n k / N) x[n] for k = 0 .. N/2 is one real product of rows,
[Xr Xi] = x W with W = [cos, -+sin], contracted over N numbers. The inverse of a half spectrum is
the product in the other direction: x[n] = sum_k w_k (cos(2 pi n k / N) Xr[k] -+ sin(...) Xi[k]),
where w_k is 1 for k = 0 and k = N/2, whose imaginary parts are ignored, and 2 for the other k. So
Xr[N/2] takes the place of Xi[0], and this contraction has N numbers, too (N + 1 if N is odd).

Arrays over several axes are rows, as for ``dft_gemm``, and the last axis has half spectra. Their
inverse contracts all numbers: along the other axes, imaginary parts of k = 0 and k = N/2 become
real. What these axes leave as imaginary parts there is ignored, as it is not computed.

Layout on the NeuronCore.  The blocks, slabs and guard are those of row_products: g <= 128 / N
transforms make a slab, which the Tensor engine transposes and multiplies, as the stationary
operand, by g copies of the matrix or, from v3 on, each transform in its own row tile of the array.
Rows of real data are slabs as they are loaded; the two parts of a spectrum are brought together
first. A contraction of more than 128 numbers is cut, by number or, for spectra, by part first.

    HBM [B, N] -> SBUF [128, R, N] -> PSUM [gN, 128] -> SBUF -> PSUM [128, g (N+2)] -> SBUF -> HBM

Why it is fast.  The matrix products are a quarter of those of a complex DFT: half the rows, half
the columns. The limit is DMA, which moves half the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..base.arguments import batch_and_lengths, lengths_for, rows_and_length
from ..base.engines import hbm
from ..base.isa import nki
from ..base.launch import HbmRows
from ..base.roots import dft_matrix_of_axes
from ..base.table_terms import Array, TableSpec, table_spec
from ..fft.dft_gemm import (
    dft_gemm_arrays,
    dft_gemm_rows,
    held_of,
    lengths_of,
    zeros_below,
)
from ..fft.row_products import rows_per_slab, with_zeros


def contracted_half(n: int) -> int:
    """Return how many numbers of each part of a half spectrum the inverse contracts."""
    return (n + 1) // 2


def transforms_per_slab(n: int | Sequence[int], numbers: int) -> int:
    """Return how many transforms one product takes, at least 1.

    Args:
        n: length of the transforms of rows, or those of several axes.
        numbers: how many numbers of each are contracted.
    """
    return rows_per_slab(numbers if isinstance(n, Sequence) else 2 * contracted_half(n))


def real_dft_gemm_matrix(
    n: int | Sequence[int], inverse: bool = False, scale: float = 1.0, data: Sequence[int] = ()
) -> Array:
    """Return the table of ``real_dft_gemm``.

    Args:
        n: length of the transform, 1 to 256, or those of several axes, whose product it is.
        inverse, scale: as for ``stockham_tables``.
        data: how many numbers of each axis are data, before zeros; by default all.

    Returns:
        A float32 array; its rows are (transform, n), its columns (transform, part, k).
    """
    lengths = lengths_of(n)
    held = held_of("data", data, lengths)
    w = scale * dft_matrix_of_axes(lengths, inverse, held, half_of(lengths))
    return _repeated(n, zeros_below(np.concatenate([w.real, w.imag], 1), 1, 2 * w.shape[1]))


def inverse_real_dft_gemm_matrix(
    n: int | Sequence[int], inverse: bool = True, scale: float = 1.0, kept: Sequence[int] = ()
) -> Array:
    """Return the table of ``inverse_real_dft_gemm``.

    Args:
        n, inverse, scale: as for ``real_dft_gemm_matrix``.
        kept: of several axes, how many results of each are kept; by default all.

    Returns:
        A float32 array; its rows are (transform, part, k), its columns (transform, n).
    """
    lengths = lengths_of(n)
    half = half_of(lengths)
    w = scale * dft_matrix_of_axes(lengths, inverse, half, held_of("kept", kept, lengths))
    own = 2 * np.arange(half[-1]) % lengths[-1] == 0  # frequencies that are their own mirrors
    w *= np.tile(np.where(own, 1, 2), math.prod(half[:-1]))[:, None]
    one = np.stack([w.real, -w.imag])
    if not isinstance(n, Sequence):
        nyquist = w.real[n // 2] if n % 2 == 0 else 0
        one = one[:, : contracted_half(n)]
        one[1, 0] = nyquist
    return _repeated(n, one.reshape(-1, w.shape[1]))


def half_of(lengths: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of half spectra of arrays with these lengths."""
    return (*lengths[:-1], lengths[-1] // 2 + 1)


def _repeated(n: int | Sequence[int], one: Array) -> Array:
    return np.kron(np.eye(transforms_per_slab(n, len(one))), one).astype(np.float32)


def real_dft_gemm_spec(n: int | Sequence[int], data: Sequence[int] = ()) -> TableSpec:
    """Return the (shape, dtype) of ``real_dft_gemm_matrix(n, ...)``."""
    lengths = lengths_of(n)
    results = 2 * math.prod(half_of(lengths))
    return _spec(n, with_zeros(math.prod(data or lengths), 1, results), results)


def inverse_real_dft_gemm_spec(n: int | Sequence[int], kept: Sequence[int] = ()) -> TableSpec:
    """Return the (shape, dtype) of ``inverse_real_dft_gemm_matrix(n, ...)``."""
    lengths = lengths_of(n)
    numbers = math.prod(half_of(lengths)) if isinstance(n, Sequence) else contracted_half(n)
    return _spec(n, 2 * numbers, math.prod(kept or lengths))


def _spec(n: int | Sequence[int], numbers: int, results: int) -> TableSpec:
    copies = transforms_per_slab(n, numbers)
    return table_spec((copies * numbers, copies * results))


@nki.jit
def real_dft_gemm(x, matrix, lengths=None):  # type: ignore[no-untyped-def]
    """Compute half spectra of the rows, or of the arrays, of real ``x``.

    Args:
        x: float32 HBM [B, N], 1 <= N <= 256, or [B, n1, n2, ...], where the product of the axes is
            N.
        matrix: ``real_dft_gemm_matrix(N, ...)`` or ``real_dft_gemm_matrix((n1, n2, ...), ...)``.
        lengths: (n1, n2, ...) where these are more than the data, which zeros would follow.

    Returns:
        (y_re, y_im), float32 HBM [B, N // 2 + 1], or the same of the last of several axes.
    """
    batch, data = batch_and_lengths(x)
    lengths = lengths_for("lengths", data if lengths is None else lengths, len(data))
    shape = (batch, *half_of(lengths))
    y_re, y_im = hbm(shape), hbm(shape)
    dft_gemm_arrays([x], [y_re, y_im], matrix)
    return y_re, y_im


@nki.jit
def inverse_real_dft_gemm(x_re, x_im, matrix, n):  # type: ignore[no-untyped-def]
    """Compute real rows, or real arrays, from half spectra ``x_re + i x_im``.

    Args:
        x_re, x_im: the half spectra, float32 HBM [B, n // 2 + 1], or [B, n1, n2, ..., n // 2 + 1].
        matrix: ``inverse_real_dft_gemm_matrix(n, ...)``.
        n: length of the rows, 1 to 256; or of arrays, a tuple with the number of results that are
            kept of each axis.

    Returns:
        y, float32 HBM [B, n] or [B, *n].
    """
    if isinstance(n, (tuple, list)):
        batch, halves = batch_and_lengths(x_re, x_im)
        y = hbm((batch, *lengths_for("n", n, len(halves))))
        dft_gemm_arrays([x_re, x_im], [y], matrix)
        return y
    batch, half = rows_and_length(x_re, x_im)
    y = hbm((batch, n))
    source = [HbmRows(x_re, half), HbmRows(x_im, half)]
    dft_gemm_rows(source, [HbmRows(y, n)], n, matrix)
    return y
