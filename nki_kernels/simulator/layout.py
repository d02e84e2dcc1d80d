"""Layouts: what all views of one shape, strides and dtype have in common, found out once."""

from __future__ import annotations

import functools
import math
from typing import Any

from . import dtypes

CAPACITY = 4096  # layouts; a launch of the longest kernels here needs some dozens
_INDICES = 1024  # indices that a layout remembers


class Layout:
    """Shape, strides and dtype of views; equal ones are one object, but for long forgotten ones.

    Attributes: ``shape``; ``strides``, in elements; ``dtype``; ``is_exact``: held in its own NumPy
    type, ``np_type``; ``free``, elements of the dtype in a partition of the storage, 0 in HBM;
    ``itemsize`` on the chip; ``span_bytes`` from the first element of a partition (HBM: of all) to
    the end of the last one, ``lanes``, partitions from the first to the last, 0 in HBM, and
    ``is_dense``, whether all between them are the view's;
    ``packed_bytes`` of a view without gaps and repetitions, else -1; ``np_strides``, in bytes of
    NumPy; ``indexed``: of constant indices, the view's layout and its distance in elements.
    """

    __slots__ = (
        *("shape", "strides", "dtype", "is_exact", "free", "np_type", "itemsize"),
        *("span_bytes", "lanes", "is_dense", "packed_bytes", "np_strides", "indexed"),
    )

    def __init__(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: str,
        is_exact: bool,
        free: int,
    ) -> None:
        # As ints: True and 1 are one key.
        self.shape, self.strides, self.free = tuple(map(int, shape)), strides, free
        self.dtype, self.is_exact = dtype, is_exact
        self.np_type = dtypes.numpy_type(dtype, is_exact)
        self.itemsize = dtypes.itemsize(dtype)
        first = 1 if free else 0
        span = extent(shape[first:], strides[first:])
        self.span_bytes = span * self.itemsize
        self.lanes = (shape[0] - 1) * (strides[0] // free) + 1 if free else 0
        self.is_dense = span == math.prod(shape[first:]) and (not free or self.lanes == shape[0])
        self.packed_bytes = math.prod(shape) * self.itemsize if _is_packed(shape, strides) else -1
        self.np_strides = tuple([s * self.np_type.itemsize for s in strides])
        self.indexed: dict[Any, tuple[Layout, int]] = {}

    def remember(self, index: tuple[Any, ...], layout: Layout, distance: int) -> None:
        """Remember the view at an index, which must be of constants alone."""
        if len(self.indexed) >= _INDICES:
            self.indexed.clear()
        self.indexed[index] = layout, distance


layout_of = functools.lru_cache(CAPACITY)(Layout)


def extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last one of a view, both included."""
    last = 1
    for n, stride in zip(shape, strides, strict=True):
        last += (n - 1) * stride
    return last


def _is_packed(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether the elements of a view are one run, in whatever order."""
    expected = 1
    for stride, n in sorted(zip(strides, shape, strict=True)):
        if n > 1:
            if stride != expected:
                return False
            expected *= n
    return True
