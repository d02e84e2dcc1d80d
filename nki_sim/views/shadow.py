"""Shadow memory: which bytes of a storage are marked, as written or as written by a matmul.

The state of a storage is True, False or an array of flags. A flag stands for as many bytes as the
smallest element that ever marked them, so that the marks of views of other dtypes are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array

from .tensor import NkiTensor

Marks = bool | Array  # the state of a storage, or the part of it that concerns a view


def is_whole(t: NkiTensor) -> bool:
    """Returns whether the view covers every byte of its storage."""
    return t._layout.packed_bytes == t.storage.size_bytes


def fitting(state: Marks, t: NkiTensor) -> Any:
    """Returns ``state`` with flags no coarser than the elements of ``t``."""
    if isinstance(state, bool):
        return state
    unit, size = t.storage.size_bytes // state.size, dtypes.itemsize(t.dtype)
    return np.repeat(state, unit // size) if size < unit else state


def marks(state: Marks, t: NkiTensor) -> Any:
    """Returns a bool or an array that says of which elements of ``t`` all bytes are marked."""
    if isinstance(state, bool):
        return state
    flags = _flags(fitting(state, t), t)
    return flags if flags.ndim == len(t.shape) else flags.all(axis=-1)


def marked(
    state: Marks, t: NkiTensor, value: bool = True, where: Array | bool | None = None
) -> Any:
    """Returns the state after marking the elements of ``t``, or of the mask ``where``."""
    if state is value or (where is None and is_whole(t)):
        return value
    if isinstance(state, bool):
        unit = min(dtypes.itemsize(t.dtype), dtypes.itemsize(t.storage.dtype))
        state = np.full(t.storage.size_bytes // unit, state)
    flags = fitting(state, t)
    _flags(flags, t)[... if where is None else where] = value
    return flags


def unwritten(
    t: NkiTensor, written: Marks, where: Array | bool | None = True, lost: Marks = False
) -> Any:
    """Returns marks of what a view reads and nothing has written, as a state.

    Args:
        t: the view.
        written: True, False or an array that says which of its elements were written.
        where: the elements that are read.
        lost: marks to which these are added.
    """
    return marked(lost, t, where=np.broadcast_to(where & ~np.asarray(written), t.shape))


def union(a: Marks, b: Marks) -> Any:
    """Returns the state of a storage that two programs write, from the states of both."""
    if isinstance(a, bool) or isinstance(b, bool):
        return True if a is True or b is True else b if a is False else a
    if a.size < b.size:
        a, b = b, a
    return a | np.repeat(b, a.size // b.size)


def _flags(state: Array, t: NkiTensor) -> Any:
    """Returns a view of the flags, one for each element, or several along a last axis."""
    each = dtypes.itemsize(t.dtype) * state.size // t.storage.size_bytes
    if each == 1:
        return np.ndarray(t.shape, np.bool_, state, t.offset, t.strides)
    strides = (*[s * each for s in t.strides], 1)
    return np.ndarray((*t.shape, each), np.bool_, state, t.offset * each, strides)


def written_by_matmul(t: NkiTensor) -> Any:
    """Returns True, False or a mask of the view's elements that a matmul wrote last."""
    return marks(t.storage.matmul_written, t)


def note_matmul(t: NkiTensor) -> None:
    """Notes that a matmul wrote ``t``."""
    t.storage.matmul_written = marked(t.storage.matmul_written, t)


def note_other(t: NkiTensor, where: Array | None = None) -> None:
    """Notes that another instruction wrote ``t``, or its elements in the mask ``where``."""
    t.storage.matmul_written = marked(t.storage.matmul_written, t, False, where)
