"""Which PSUM elements a matmul wrote last: only onto those may a matmul accumulate."""

from __future__ import annotations

from typing import Any

from . import shadow
from .tensor import NkiTensor


def written_by_matmul(t: NkiTensor) -> Any:
    """True, False or a mask of the view's elements."""
    return shadow.marks(t.storage.matmul_written, t)


def note_matmul(t: NkiTensor) -> None:
    """A matmul wrote ``t``."""
    t.storage.matmul_written = shadow.marked(t.storage.matmul_written, t)


def note_other(t: NkiTensor, where: Any = None) -> None:
    """An instruction other than nc_matmul wrote ``t``, or those of its elements."""
    t.storage.matmul_written = shadow.marked(t.storage.matmul_written, t, False, where)
