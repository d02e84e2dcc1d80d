"""Which PSUM elements a matmul wrote last: only onto those may a matmul accumulate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .tensor import NkiTensor


def written_by_matmul(t: NkiTensor) -> Any:
    """True, False or a mask of the view's elements."""
    state = t.storage.matmul_written
    return state if isinstance(state, bool) else t.mask(state)


def note_matmul(t: NkiTensor) -> None:
    """A matmul wrote ``t``."""
    storage = t.storage
    if storage.matmul_written is True:
        return
    total = math.prod(storage.shape)
    if t.size == total:
        storage.matmul_written = True
        return
    if storage.matmul_written is False:
        storage.matmul_written = np.zeros(total, np.bool_)
    t.mask(storage.matmul_written)[...] = True


def note_other(t: NkiTensor) -> None:
    """An instruction other than nc_matmul wrote ``t``."""
    storage = t.storage
    if t.size == math.prod(storage.shape):
        storage.matmul_written = False
        return
    if storage.matmul_written is True:
        storage.matmul_written = np.ones(math.prod(storage.shape), np.bool_)
    t.mask(storage.matmul_written)[...] = False
