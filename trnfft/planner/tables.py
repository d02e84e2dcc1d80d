"""Tables of the kernels: computed once in float64, rounded once, kept while memory allows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from nki_kernels.kernels.dft_gemm import dft_gemm_matrix
from trnfft import cache

CACHE_BYTES = 64 * 2**20


def arrays_of(tables: Any) -> Iterator[np.ndarray]:
    """Every array in nested tuples, which may hold other values, too."""
    if isinstance(tables, tuple):
        for item in tables:
            yield from arrays_of(item)
    elif isinstance(tables, np.ndarray):
        yield tables


def bytes_of(tables: Any) -> int:
    """The bytes of all arrays in nested tuples."""
    return sum(array.nbytes for array in arrays_of(tables))


def read_only(tables: Any) -> Any:
    """The same arrays, which nobody can write any more."""
    for array in arrays_of(tables):
        array.setflags(write=False)
    return tables


@cache.cached(CACHE_BYTES, bytes_of)
def cached(compute: Callable[..., Any], *arguments: Hashable) -> Any:
    """`compute(*arguments)`, from the cache that all kernels share. Read-only."""
    return read_only(compute(*arguments))


def dft_matrix(n: int, inverse: bool = False, scale: float = 1.0) -> np.ndarray:
    """The matrix that the DFT-GEMM kernel multiplies with, `scale` included. Read-only.

    Args:
        n: length of the transform.
        inverse: the sign of the exponent: False for exp(-2 pi i j k / n), True for exp(+ ...).
        scale: a factor on the transform.
    """
    return cached(dft_gemm_matrix, n, inverse, scale)
