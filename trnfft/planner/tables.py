"""Tables of the kernels: computed once in float64, rounded once, kept while memory allows."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import numpy as np

from nki_kernels.kernels.dft_gemm import dft_gemm_matrix

Tables = TypeVar("Tables")  # an array, or a tuple of arrays and tuples

CACHE_BYTES = 64 * 2**20


class TableCache:
    """Read-only tables by key: an array each, or a tuple of arrays and tuples.

    Those not used for longest go when the bytes exceed a limit.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tables: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays kept at the moment."""
        return sum(array.nbytes for tables in self._tables.values() for array in arrays_of(tables))

    def get(self, key: Hashable, compute: Callable[[], Tables]) -> Tables:
        """The tables under `key`, from `compute()` if they are not there."""
        # Computed under the lock, so that threads wait for a table and never compute it twice.
        with self._lock:
            if key in self._tables:
                self._tables.move_to_end(key)
                return self._tables[key]
            tables = compute()
            for array in arrays_of(tables):
                array.setflags(write=False)
            self._tables[key] = tables
            while self.nbytes > self._limit:
                self._tables.popitem(last=False)
            return tables


def arrays_of(tables: Any) -> Iterator[np.ndarray]:
    """Every array in nested tuples."""
    if isinstance(tables, tuple):
        for item in tables:
            yield from arrays_of(item)
    else:
        yield tables


_cache = TableCache(CACHE_BYTES)


def cached(compute: Callable[..., Any], *arguments: Hashable) -> Any:
    """`compute(*arguments)`, from the cache that all kernels share. Read-only."""
    return _cache.get((compute, *arguments), lambda: compute(*arguments))


def dft_matrix(
    n: int,
    inverse: bool = False,
    scale: float = 1.0,
    dtype: str = "float32",
    refined: bool = False,
) -> np.ndarray:
    """The matrix that the DFT-GEMM kernel multiplies with, `scale` included. Read-only.

    Args:
        n: length of the transform.
        inverse: the sign of the exponent: False for exp(-2 pi i j k / n), True for exp(+ ...).
        scale: a factor on the transform.
        dtype, refined: as for `nki_kernels.kernels.dft_gemm.dft_gemm_matrix`.
    """
    return cached(dft_gemm_matrix, n, inverse, scale, dtype, refined)
