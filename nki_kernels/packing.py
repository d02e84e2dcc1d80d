"""Tables of a kernel as one HBM tensor, a top-level argument of its launch.

Operators of PyTorch take tensors as arguments of their own only, not in tuples or lists. So all
tables of a kernel are one tensor, and `places` says, static, where each of them lies in it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_ALIGNED = 128  # numbers that a table's place is a multiple of


def pack(tables: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """Arrays of one dtype as one array [L], and where each of them lies in it.

    tables: arrays in a tuple, or in nested tuples. Returns the array, zeros between the tables,
    and the same tuples with (offset, shape) in place of every table.
    """
    arrays = _leaves(tables)
    total, places = _placed(tables, 0)
    packed = np.zeros(total, arrays[0].dtype)
    for array, (offset, shape) in zip(arrays, _places(places), strict=True):
        if array.dtype != packed.dtype:
            raise TypeError(f"argument 'tables' has {array.dtype} beside {packed.dtype}")
        packed[offset : offset + math.prod(shape)] = array.ravel()
    return packed, places


def packed_spec(specs: Any) -> tuple[Any, Any]:
    """What ``pack(tables)`` returns for tables of these (shape, dtype), with that of the array."""
    total, places = _placed(specs, 0)
    return ((total,), _leaves(specs)[0][1]), places


def unpack(packed: Any, places: Any) -> Any:
    """The tables of flat ``places`` as views of the HBM tensor, in a list."""
    tables = []
    for place in places:
        size = 1
        for length in place[1]:
            size *= length
        tables.append(packed[place[0] : place[0] + size].reshape(place[1]))
    return tables


def _is_leaf(item: Any) -> bool:
    """Whether it is an array, or the (shape, dtype) of one."""
    return not isinstance(item, tuple) or (len(item) == 2 and isinstance(item[1], str))


def _leaves(tables: Any) -> list[Any]:
    if _is_leaf(tables):
        return [tables]
    return [leaf for item in tables for leaf in _leaves(item)]


def _placed(tables: Any, offset: int) -> tuple[int, Any]:
    """The first offset after tables that begin at ``offset``, and their places."""
    if _is_leaf(tables):
        shape = tables[0] if isinstance(tables, tuple) else tables.shape
        end = offset + math.prod(shape)
        return -(-end // _ALIGNED) * _ALIGNED, (offset, tuple(shape))
    places = []
    for item in tables:
        offset, place = _placed(item, offset)
        places.append(place)
    return offset, tuple(places)


def _places(places: Any) -> list[Any]:
    if isinstance(places[0], int):
        return [places]
    return [place for item in places for place in _places(item)]
