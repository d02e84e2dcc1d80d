"""Instructions with an operand whose address depends on a register or a tile of indices.

Sources: nki/deep-dives/nki-aps.rst, and nki.isa.dma_copy. An index must be in the range of the
dimension to which it is applied, and the accessed elements must be in the tensor. For a
``scalar_offset`` of ``ap`` only the second condition applies; access_patterns.py says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nki_sim.errors import NkiValidationError
from nki_sim.views import shadow
from nki_sim.views.indices import Indirection
from nki_sim.views.layout import extent
from nki_sim.views.register import RunTimeValue
from nki_sim.views.tensor import NkiTensor

from .issue import Issue
from .launch_state import LaunchState


def index_tiles(issue: Issue, operands: Sequence[NkiTensor]) -> list[NkiTensor]:
    """Returns the tiles that hold the operands' indices."""
    found = []
    for t in operands:
        if t._dynamic is None or isinstance(t._dynamic.index, RunTimeValue):
            continue
        index = t._dynamic.index
        if t._dynamic.kind == "vector" and index.shape != (t.shape[0], 1):
            rule = f"must have the shape ({t.shape[0]}, 1), one index for each partition"
            value = f"a tile of shape {index.shape}"
            raise NkiValidationError(issue.instruction, "vector_offset", value, rule)
        found.append(index)
    return found


def run(
    session: LaunchState, issue: Issue, writes: Sequence[NkiTensor], reads: Sequence[NkiTensor]
) -> None:
    """Runs an instruction with an indirect operand: checks, computes, and marks what it writes."""
    for index in index_tiles(issue, (*writes, *reads)):
        session.check_written(issue, index)
    places = [_place(t, issue) for t in (*writes, *reads)]
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
    """Returns the static view or the rows of an operand; None for an address to be skipped."""
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
    # In SBUF and PSUM an index moves along the free dimensions, not to the next partition.
    if t._free and static.offset // t._free != t.offset // t._free:
        return False
    try:
        static._check_inside(None)
    except NkiValidationError:
        return False
    return True


def _out_of_bounds(issue: Issue, value: int, t: NkiTensor, found: Indirection) -> Exception:
    rule = (
        f"it is out of bounds: the indexed view of {t.storage.describe()} has indices from 0 to "
        f"{found.count - 1}, and the access must end inside of the tensor"
    )
    return NkiValidationError(issue.instruction, f"{found.kind}_offset", value, rule)


def places(t: NkiTensor, issue: Issue) -> list[NkiTensor]:
    """Returns the static views of an operand for the current values of its indices."""
    found = _place(t, issue)
    if isinstance(found, _Rows):
        return list(found.views.values())
    return [] if found is None else [found]


class _Rows:
    """The rows of an HBM tensor that a tile of indices selects, one row for each partition."""

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
        self.valid = np.repeat(valid, math.prod(inner))  # a flag for each element
        self.views = {int(p): _at(t, found, inner, int(rows[p])) for p in np.flatnonzero(valid)}

    def array(self) -> Any:
        """Returns a copy of the rows, with zeros for rows out of bounds."""
        out = np.zeros(self.shape, self.np_type)
        for p, view in self.views.items():
            out[p] = view.array()[0]
        return out

    def marks(self) -> Any:
        """Returns which elements were written."""
        out = np.zeros(self.shape, np.bool_)
        for p, view in self.views.items():
            out[p] = shadow.marks(self.storage.written, view)[0]
        return out


def _transfer(session: LaunchState, issue: Issue, dst: Any, sources: list[Any]) -> None:
    """Runs a gather or scatter by DMA. Rows out of bounds are neither read nor written."""
    moves = np.ones(math.prod(dst.shape), np.bool_)
    for operand in (dst, *sources):
        if isinstance(operand, _Rows):
            moves &= operand.valid
    for src in sources:
        if src.storage.written is not True:
            is_rows = isinstance(src, _Rows)
            written = src.marks() if is_rows else shadow.marks(src.storage.written, src)
            written = np.broadcast_to(written, src.shape)
            if not written.reshape(-1)[moves].all():
                read = moves.reshape(src.shape)
                views = src.views.items() if is_rows else [(slice(None), src)]
                lost: Any = False
                for p, view in views:
                    lost = shadow.unwritten(view, written[p], read[p], lost)
                session.warn_unwritten(issue, src.storage, lost)
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
