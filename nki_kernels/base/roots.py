"""Roots of unity for tables, which are exact where a part is 0.

In floating point, the sine of pi comes out as 1e-16. These tables contain 0 in its place. So the
imaginary parts of X[0] and X[N/2] of real data are sums of zeros, and exact, at no cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def roots(exponents: np.ndarray[Any, Any], n: int, inverse: bool = False) -> np.ndarray[Any, Any]:
    """Return exp(-+2 pi i exponents / n), complex128.

    exponents: integers, which are reduced exactly. inverse: the sign of the exponent, True for
    exp(+...).
    """
    reduced = exponents % n
    w = np.exp((2j if inverse else -2j) * np.pi / n * reduced)
    w.imag[2 * reduced % n == 0] = 0.0
    w.real[4 * reduced % (2 * n) == n] = 0.0
    return w


def dft_matrix(
    n: int, inverse: bool = False, rows: int = 0, columns: int = 0
) -> np.ndarray[Any, Any]:
    """Return exp(-+2 pi i j k / n), complex128 [rows, columns], each n by default."""
    return roots(np.outer(np.arange(rows or n), np.arange(columns or n)), n, inverse)


def dft_matrix_of_axes(
    lengths: Sequence[int],
    inverse: bool = False,
    rows: Sequence[int] = (),
    columns: Sequence[int] = (),
) -> np.ndarray[Any, Any]:
    """Return the Kronecker product of the axes' DFT matrices, complex128 [j1 j2 ..., k1 k2 ...].

    Exponents j1 k1 / n1 + j2 k2 / n2 + ... are added as integers, so that a root of their sum is as
    exact as any other.

    Args:
        lengths: n1, n2, ...
        inverse: the sign of the exponent, True for exp(+...).
        rows, columns: how many j and k of each axis; by default all.
    """
    whole = math.lcm(*lengths)
    exponents = np.zeros((1, 1), np.int64)
    for n, j, k in zip(lengths, rows or lengths, columns or lengths, strict=True):
        axis = np.outer(np.arange(j), np.arange(k)) % n * (whole // n)
        added = exponents[:, None, :, None] + axis[:, None]
        exponents = added.reshape(len(exponents) * j, -1)
    return roots(exponents, whole, inverse)
