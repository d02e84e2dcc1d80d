"""Roots of unity for tables, which are exact where a part is 0.

In floating point, the sine of pi comes out as 1e-16. These tables contain 0 in its place. So the
imaginary parts of X[0] and X[N/2] of real data are sums of zeros, and exact, at no cost.
"""

from __future__ import annotations

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
