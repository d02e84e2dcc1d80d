"""Tables of the kernels, computed in float64, rounded once, and cached as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import numpy as np

from trnfft.base import cache

CACHE_BYTES = 64 * 2**20  # the most that `_counted` may sum to
SMALL_BYTES = 2**20  # of the tables of one result, up to which they count more
SMALL_FACTOR = 4


Tables = TypeVar("Tables")


def arrays_of(tables: object) -> Iterator[np.ndarray]:
    """Yields every array in nested tuples, which may hold other values, too."""
    if isinstance(tables, tuple):
        for item in tables:
            yield from arrays_of(item)
    elif isinstance(tables, np.ndarray):
        yield tables


def bytes_of(tables: object) -> int:
    """Returns the bytes of all arrays in nested tuples."""
    return sum(array.nbytes for array in arrays_of(tables))


def read_only(tables: Tables) -> Tables:
    """Returns the same arrays after making them read-only."""
    for array in arrays_of(tables):
        array.setflags(write=False)
    return tables


def _counted(tables: object) -> int:
    """Returns the bytes of tables, of which the first MiB counts fourfold.

    So small tables, as many lengths need them, take 16 MiB at most. The tables of a few long
    transforms, which are slow to make, are still kept up to 64 MiB.
    """
    size = bytes_of(tables)
    return size + (SMALL_FACTOR - 1) * min(size, SMALL_BYTES)


@cache.cached(CACHE_BYTES, _counted)
def cached(compute: Callable[..., object], *arguments: Hashable) -> Any:
    """Returns `compute(*arguments)`, read-only, from the cache that all kernels share."""
    return read_only(compute(*arguments))
