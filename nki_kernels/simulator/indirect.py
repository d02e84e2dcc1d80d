"""Instructions with an operand whose address a register or a tile of indices holds.

Documented in nki/deep-dives/nki-aps.rst and under nki.isa.dma_copy. An index must lie within the
dimension of the view that it was applied to, and what it reaches within the tensor. Of a
``scalar_offset`` of ``ap`` the latter is all: access_patterns.py says why.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from . import shadow
from .errors import NkiValidationError
from .issue import Issue
from .layout import extent
from .register import RunTimeValue
from .tensor import Indirection, NkiTensor

if TYPE_CHECKING:
    from .session import Session


def index_tiles(issue: Issue, operands: list[NkiTensor]) -> list[NkiTensor]:
    """The tiles that hold the operands' indices."""
    found = []
    for t in operands:
        if t._dynamic is None or isinstance(t._dynamic.index, RunTimeValue):
            continue
        index = t._dynamic.index
        if t._dynamic.kind == "vector" and index.shape != (t.shape[0], 1):
            rule = f"must have shape ({t.shape[0]}, 1): one index a partition"
            value = f"shape {index.shape}"
            raise NkiValidationError(issue.instruction, "vector_offset", value, rule)
        found.append(index)
    return found


def run(session: Session, issue: Issue, writes: list[NkiTensor], reads: list[NkiTensor]) -> None:
    """Check, compute and mark what an instruction with an indirect operand touches."""
    for index in index_tiles(issue, writes + reads):
        session.check_written(issue, index)
    places = [_place(t, issue) for t in writes + reads]
    if any(place is None for place in places):
        return
    outs, ins = places[: len(writes)], places[len(writes) :]
    if any(isinstance(place, _Rows) for place in places):
        _transfer(session, issue, outs[0], ins)
        return
    for t in ins:
        session.check_written(issue, t)
    session.run(issue, outs, ins)


def _place(t: NkiTensor, issue: Issue) -> Any:
    """The static view or the rows that are meant; None for an address that is to be skipped."""
    if t._dynamic is None:
        return t
    if t._dynamic.kind == "vector":
        return _Rows(t, issue)
    index = t._dynamic.index
    value = index.value if isinstance(index, RunTimeValue) else int(index.array().reshape(-1)[0])
    static = _at(t, t._dynamic, t.shape, value)
    if 0 <= value < t._dynamic.count and _is_inside(static, t):
        return static
    if issue.skips_out_of_bounds:
        return None
    raise _out_of_bounds(issue, value, t, t._dynamic)


def _at(t: NkiTensor, found: Indirection, shape: tuple[int, ...], value: int) -> NkiTensor:
    static = t._view(shape, t.strides, t.offset + value * found.step)
    static._dynamic = None
    return static


def _is_inside(static: NkiTensor, t: NkiTensor) -> bool:
    # On-chip an index moves along the free dimensions: it does not reach the next partition.
    if t._free and static.offset // t._free != t.offset // t._free:
        return False
    try:
        static._check_inside(None)
    except NkiValidationError:
        return False
    return True


def _out_of_bounds(issue: Issue, value: int, t: NkiTensor, found: Indirection) -> Exception:
    rule = (
        f"out of bounds: the view of {t.storage.describe()} that is indexed takes 0 to "
        f"{found.count - 1}, and the access must end inside of the tensor"
    )
    return NkiValidationError(issue.instruction, f"{found.kind}_offset", value, rule)


def places(t: NkiTensor, issue: Issue) -> list[NkiTensor]:
    """What an operand means with the indices of now, as static views."""
    found = _place(t, issue)
    if isinstance(found, _Rows):
        return list(found.views.values())
    return [] if found is None else [found]


class _Rows:
    """The rows of an HBM tensor that a tile of indices names, one a partition."""

    def __init__(self, t: NkiTensor, issue: Issue) -> None:
        found, inner = t._dynamic, (1,) + t.shape[1:]
        assert found is not None
        rows = found.index.array().reshape(-1).astype(np.int64)
        last = math.prod(t.storage.shape) - extent(inner, t.strides) - t.offset
        valid = (rows >= 0) & (rows < found.count) & (rows * found.step <= last)
        if not valid.all() and not issue.skips_out_of_bounds:
            raise _out_of_bounds(issue, int(rows[~valid][0]), t, found)
        self.storage = t.storage
        self.shape = t.shape
        self.np_type = t._layout.np_type
        self.valid = np.repeat(valid, math.prod(inner))  # one an element
        self.views = {int(p): _at(t, found, inner, int(rows[p])) for p in np.flatnonzero(valid)}

    def array(self) -> Any:
        """A copy of the rows; zeros for those out of bounds."""
        out = np.zeros(self.shape, self.np_type)
        for p, view in self.views.items():
            out[p] = view.array()[0]
        return out

    def marks(self) -> Any:
        """Which elements were written."""
        out = np.zeros(self.shape, np.bool_)
        for p, view in self.views.items():
            out[p] = shadow.marks(self.storage.written, view)[0]
        return out


def _transfer(session: Session, issue: Issue, dst: Any, sources: list[Any]) -> None:
    """A gather or scatter by DMA: elements of rows out of bounds are neither read nor written."""
    moves = np.ones(math.prod(dst.shape), np.bool_)
    for operand in (dst, *sources):
        if isinstance(operand, _Rows):
            moves &= operand.valid
    for src in sources:
        if src.storage.written is not True:
            is_rows = isinstance(src, _Rows)
            written = src.marks() if is_rows else shadow.marks(src.storage.written, src)
            if not np.broadcast_to(written, src.shape).reshape(-1)[moves].all():
                session.warn_unwritten(issue, src.storage)
    out = dst.array()
    before = out if moves.all() else out.copy()
    issue.run([out], [src.array() for src in sources])
    moves = moves.reshape(dst.shape)
    if not isinstance(dst, _Rows):
        np.copyto(out, before, where=~moves)
        dst.storage.written = shadow.marked(dst.storage.written, dst, where=moves)
        return
    for p, view in dst.views.items():
        np.copyto(view.array()[0], out[p], where=moves[p])
        dst.storage.written = shadow.marked(dst.storage.written, view, where=moves[p : p + 1])
