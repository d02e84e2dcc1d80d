"""Marks of the PSUM elements that a matmul wrote last, onto which a matmul may accumulate."""

from __future__ import annotations

from typing import Any

from nki_sim.base.dtypes import Array
from nki_sim.views import shadow
from nki_sim.views.tensor import NkiTensor


def written_by_matmul(t: NkiTensor) -> Any:
    """Returns True, False or a mask of the view's elements that a matmul wrote last."""
    return shadow.marks(t.storage.matmul_written, t)


def note_matmul(t: NkiTensor) -> None:
    """Notes that a matmul wrote ``t``."""
    t.storage.matmul_written = shadow.marked(t.storage.matmul_written, t)


def note_other(t: NkiTensor, where: Array | None = None) -> None:
    """Notes that another instruction wrote ``t``, or its elements in the mask ``where``."""
    t.storage.matmul_written = shadow.marked(t.storage.matmul_written, t, False, where)
