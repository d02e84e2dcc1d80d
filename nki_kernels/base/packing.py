"""Tables of a kernel as one HBM tensor, a top-level argument of its launch.

PyTorch's operators accept tensors as arguments of their own only, not inside tuples or lists. So
all tables of a kernel form one tensor, and `places`, a static argument, says where each table lies
in it.

Tables [..., rows, count, width] are loaded in pieces of their rows. There is a gap between long
rows, because one record of NeuronCore-v2 has half the rate for rows that are a power of two apart.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .arguments import are_positive
from .table_terms import Array

_ALIGNED = 128  # numbers of which a table's place is a multiple
_LONG = 1024  # numbers of a row, from which on it is loaded in pieces
_GAP = 16  # numbers between such rows


def pack(tables: Any) -> tuple[Array, Any]:
    """Pack arrays into one array [L], and return the place of each array in it.

    Args:
        tables: arrays of one dtype in a tuple, or in nested tuples.

    Returns:
        (array, places): the array, with zeros between the tables, and the same tuples with
            (offset, shape, numbers from row to row) in the place of every table.

    Raises:
        TypeError: the arrays have different dtypes.
    """
    arrays = _leaves(tables)
    total, places = _placed(tables, 0)
    packed = np.zeros(total, arrays[0].dtype)
    for array, (offset, shape, pitch) in zip(arrays, _leaves(places), strict=True):
        if array.dtype != packed.dtype:
            raise TypeError(
                f"argument 'tables' has arrays of {packed.dtype} and {array.dtype}: "
                f"all must have the same dtype"
            )
        length = _row(shape)
        rows = array.size // length
        packed[offset : offset + rows * pitch].reshape(rows, pitch)[:, :length] = array.reshape(
            rows, length
        )
    return packed, places


def packed_spec(specs: Any) -> tuple[Any, Any]:
    """Return the result of ``pack(tables)`` from the tables' (shape, dtype), with the array's."""
    total, places = _placed(specs, 0)
    return ((total,), _leaves(specs)[0][1]), places


def unpack(packed: Any, places: Any, least: int = 1) -> Any:
    """Return the tables of ``places``, which are not nested, as views of the HBM tensor.

    Raises:
        TypeError: the two are not what ``pack`` has returned, or are fewer than ``least`` tables.
    """
    check_places(places, least)
    return [unpack_table(packed, place[0], place[1], place[2]) for place in places]


def check_places(places: Any, least: int = 1) -> None:
    """Raise TypeError unless ``places`` is a tuple of at least so many places of tables."""
    if isinstance(places, (tuple, list)) and len(places) >= least:
        wrong = [f"contains {place!r}" for place in places if not _is_place(place)]
    else:
        wrong = [f"is {places!r}"]
    if wrong:
        raise TypeError(
            f"argument 'places' {wrong[0]}, allowed are {least} or more triples of offset, shape "
            f"and pitch: pass both results of pack(tables)"
        )


def _is_place(place: Any) -> bool:
    """Return whether ``pack`` may have returned this place."""
    if not isinstance(place, (tuple, list)) or len(place) != 3 or not are_positive(place[1]):
        return False
    offset, shape, pitch = place
    is_aligned = isinstance(offset, int) and offset >= 0 and offset % _ALIGNED == 0
    return is_aligned and pitch in (_row(shape), _row(shape) + _GAP)


def unpack_table(packed: Any, offset: int, shape: Any, pitch: int) -> Any:
    """Return one table as a view of the HBM tensor; raise TypeError if that is not packed."""
    if len(getattr(packed, "shape", ())) != 1:
        given = getattr(packed, "shape", packed)
        raise TypeError(
            f"argument 'tables' is {given!r}, allowed is a tensor of one dimension: pass both "
            f"results of pack(tables)"
        )
    length = _row(shape)
    rows = math.prod(shape) // length
    table = packed[offset : offset + rows * pitch]
    if pitch == length:
        return table.reshape(shape)
    table = table.reshape((rows, pitch))[:, 0:length]
    table = table.reshape_dim(1, (shape[len(shape) - 2], shape[len(shape) - 1]))
    return table.reshape_dim(0, shape[0 : len(shape) - 2]) if len(shape) > 3 else table


def _is_leaf(item: Any) -> bool:
    """Return whether an item is an array, or its (shape, dtype) or place."""
    return not isinstance(item, tuple) or isinstance(item[-1], (int, str))


def _leaves(tables: Any) -> list[Any]:
    if _is_leaf(tables):
        return [tables]
    return [leaf for item in tables for leaf in _leaves(item)]


def _placed(tables: Any, offset: int) -> tuple[int, Any]:
    """Return the first offset after tables that begin at ``offset``, and their places."""
    if _is_leaf(tables):
        shape = tables[0] if isinstance(tables, tuple) else tables.shape
        length = _row(shape)
        is_apart = len(shape) > 2 and length > _LONG and length & (length - 1) == 0
        pitch = length + _GAP if is_apart else length
        end = offset + math.prod(shape) // length * pitch
        return -(-end // _ALIGNED) * _ALIGNED, (offset, tuple(shape), pitch)
    places = []
    for item in tables:
        offset, place = _placed(item, offset)
        places.append(place)
    return offset, tuple(places)


def _row(shape: Any) -> int:
    """Return the numbers of a row: the last two dimensions, if there are rows before them."""
    return math.prod(shape[-2:] if len(shape) > 2 else shape[-1:])
