"""Shadow memory: which bytes of a storage are marked, as written or as written by a matmul.

The state of a storage is True, False or an array of flags. A flag stands for as many bytes as
the smallest element that ever marked them, so that views of other dtypes are told exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .tensor import NkiTensor


def is_whole(t: NkiTensor) -> bool:
    """True when the view covers every byte of its storage."""
    return t._layout.packed_bytes == t.storage.size_bytes


def fitting(state: Any, t: NkiTensor) -> Any:
    """``state`` with flags no coarser than the elements of ``t``."""
    if isinstance(state, bool):
        return state
    unit, size = t.storage.size_bytes // state.size, dtypes.itemsize(t.dtype)
    return np.repeat(state, unit // size) if size < unit else state


def marks(state: Any, t: NkiTensor) -> Any:
    """Flags of the elements of ``t`` (True: all of an element's bytes): a bool, or an array."""
    if isinstance(state, bool):
        return state
    flags = _flags(fitting(state, t), t)
    return flags if flags.ndim == len(t.shape) else flags.all(axis=-1)


def marked(state: Any, t: NkiTensor, value: bool = True, where: Any = None) -> Any:
    """The state after the elements of ``t``, or those of the mask ``where``, got ``value``."""
    if state is value or (where is None and is_whole(t)):
        return value
    if isinstance(state, bool):
        unit = min(dtypes.itemsize(t.dtype), dtypes.itemsize(t.storage.dtype))
        state = np.full(t.storage.size_bytes // unit, state)
    state = fitting(state, t)
    _flags(state, t)[... if where is None else where] = value
    return state


def union(a: Any, b: Any) -> Any:
    """The state of a storage that two programs write, from those that each of them knows."""
    if isinstance(a, bool) or isinstance(b, bool):
        return True if a is True or b is True else b if a is False else a
    if a.size < b.size:
        a, b = b, a
    return a | np.repeat(b, a.size // b.size)


def _flags(state: Any, t: NkiTensor) -> Any:
    """View of the flags: one an element, or several in an axis of their own."""
    each = dtypes.itemsize(t.dtype) * state.size // t.storage.size_bytes
    if each == 1:
        return np.ndarray(t.shape, np.bool_, state, t.offset, t.strides)
    strides = (*[s * each for s in t.strides], 1)
    return np.ndarray((*t.shape, each), np.bool_, state, t.offset * each, strides)
