"""Tables of the kernels: computed once in float64, rounded once, kept while memory allows."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import numpy as np

from nki_kernels.dft_gemm import dft_gemm_matrix

CACHE_BYTES = 64 * 2**20


class TableCache:
    """Read-only arrays by key. Those not used for longest go when the bytes exceed a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._arrays: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays kept at the moment."""
        return sum(array.nbytes for array in self._arrays.values())

    def get(self, key: Hashable, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """The array under `key`, from `compute()` if it is not there."""
        # Computed under the lock, so that threads wait for a table and never compute it twice.
        with self._lock:
            if key in self._arrays:
                self._arrays.move_to_end(key)
                return self._arrays[key]
            array = compute()
            array.setflags(write=False)
            self._arrays[key] = array
            while self.nbytes > self._limit:
                self._arrays.popitem(last=False)
            return array


_cache = TableCache(CACHE_BYTES)


def dft_matrix(n: int, inverse: bool = False, scale: float = 1.0) -> np.ndarray:
    """The matrix that the DFT-GEMM kernel multiplies with, `scale` included. Read-only float32.

    Args:
        n: length of the transform.
        inverse: the sign of the exponent: False for exp(-2 pi i j k / n), True for exp(+ ...).
        scale: a factor on the transform.
    """
    key = ("dft_gemm", n, inverse, scale)
    return _cache.get(key, lambda: dft_gemm_matrix(n, inverse, scale))
