"""Layouts: what all views of the same shape, strides, dtype and place share, computed once.

A layout decides whether an instruction may use a view, and what the instruction costs. So it is
also the key of a view in the cache of issues.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable
from typing import Any

from nki_sim.base import dtypes

CAPACITY = 256  # layouts; a launch of the longest kernels here needs a few dozen
_INDICES = 512  # indices that a layout remembers


# What the rules and costs of instructions may depend on beside shape, strides and dtype: the first
# partition in the storage, or 0 in HBM; the physical partition of the storage; in PSUM the first
# element in the storage, and the address of the storage; and the kind of an index that is known
# only at run time, or "".
Place = tuple[int, int, tuple[int, int | None] | None, str]
IN_HBM: Place = (0, 0, None, "")


class Layout:
    """The shape, strides, dtype and place of views. Equal layouts are usually the same object.

    Attributes:
        shape: the shape.
        strides: the strides in elements.
        dtype: the dtype.
        is_exact: whether NumPy holds the dtype as it is, and not as float32.
        free: elements of the dtype in a partition of the storage, or 0 in HBM.
        place: what else instructions may depend on.
        np_type: the NumPy type.
        itemsize: bytes of an element on the chip.
        span_bytes: bytes from the first to the last element of a partition, or of a view in HBM.
        partitions: the first partition in the storage, and the end; (0, 1) in HBM.
        base: elements of the storage before its first partition.
        is_dense: whether the view has all elements in that span and these partitions.
        packed_bytes: bytes of a view without gaps and repetitions, else -1.
        np_strides: the strides in bytes of NumPy.
        indexed: for constant indices, and for arguments of some methods, the layout of the view and
            its distance in elements.
    """

    __slots__ = (
        *("shape", "strides", "dtype", "is_exact", "free", "place", "np_type", "itemsize"),
        *("span_bytes", "partitions", "base", "is_dense", "packed_bytes", "np_strides", "indexed"),
    )

    def __init__(
        self,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: str,
        is_exact: bool,
        free: int,
        place: Place,
    ) -> None:
        # Converted to ints, because True and 1 are equal as keys.
        self.shape, self.strides, self.free = tuple(map(int, shape)), strides, free
        self.dtype, self.is_exact, self.place = dtype, is_exact, place
        self.np_type = dtypes.numpy_type(dtype, is_exact)
        self.itemsize = dtypes.itemsize(dtype)
        first = 1 if free else 0
        span = extent(shape[first:], strides[first:])
        self.span_bytes = span * self.itemsize
        lanes = (shape[0] - 1) * (strides[0] // free) + 1 if free else 1
        partition, _, _, kind = place
        self.partitions = partition, partition + lanes
        self.base = partition * free
        is_dense = span == math.prod(shape[first:]) and (not free or lanes == shape[0])
        self.is_dense = is_dense and not kind
        self.packed_bytes = math.prod(shape) * self.itemsize if _is_packed(shape, strides) else -1
        self.np_strides = tuple([s * self.np_type.itemsize for s in strides])
        self.indexed: dict[Any, tuple[Layout, int]] = {}

    def remember(self, index: tuple[Hashable, ...], layout: Layout, distance: int) -> None:
        """Remembers the view at an index, which must consist of constants. Threads may do so."""
        if len(self.indexed) >= _INDICES:
            self.indexed.clear()
        self.indexed[index] = layout, distance


layout_of = functools.lru_cache(CAPACITY)(Layout)


def extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Returns the number of elements from the first to the last element of a view, inclusive."""
    last = 1
    for n, stride in zip(shape, strides, strict=True):
        last += (n - 1) * stride
    return last


def _is_packed(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Returns whether the elements of a view form one run in memory, in any order."""
    expected = 1
    for stride, n in sorted(zip(strides, shape, strict=True)):
        if n > 1:
            if stride != expected:
                return False
            expected *= n
    return True
