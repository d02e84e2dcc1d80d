"""DMA from a part of a tensor to an overlapping part of the same tensor, which is undefined.

The DMA engines of a core move the parts of a transfer side by side, in an order that no document
defines (nki/get-started/about/nki-dma-overview.rst). So an element may be overwritten before it is
read. Where a copy reads and writes the same place, each element is overwritten with itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_sim.errors import NkiValidationError
from nki_sim.instructions import indirect
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import active
from nki_sim.rules.hazards import overlaps
from nki_sim.views.register import RunTimeValue
from nki_sim.views.strides import MAX_ENUMERATED, coalesce
from nki_sim.views.tensor import NkiTensor


def check_copy(issue: Issue, writes: list[NkiTensor], reads: list[NkiTensor]) -> None:
    """Raises NkiValidationError if a copy overlaps itself; warns if it copies onto itself."""
    for dst, src in _pairs(issue, writes, reads):
        if not _is_same(dst, src):
            _refuse(issue, dst, src)
        else:
            rule = "the copy changes nothing: name another src or dst, or leave the copy out"
            active().warn(issue.instruction, "dst", f"{_place(dst)}, like src", rule)


def check_sum(issue: Issue, writes: list[NkiTensor], reads: list[NkiTensor]) -> None:
    """Raises NkiValidationError if dst overlaps a source, unless the two are the same view."""
    for dst, src in _pairs(issue, writes, reads):
        if not _is_same(dst, src):
            _refuse(issue, dst, src)


def check_transpose(issue: Issue, writes: list[NkiTensor], reads: list[NkiTensor]) -> None:
    """Raises NkiValidationError if a transpose overlaps itself."""
    for dst, src in _pairs(issue, writes, reads):
        _refuse(issue, dst, src)


def _pairs(
    issue: Issue, writes: list[NkiTensor], reads: list[NkiTensor]
) -> list[tuple[NkiTensor, NkiTensor]]:
    """Returns pairs of a written and a read view with known addresses that share elements."""
    found = []
    dst = writes[0]
    for src in reads:
        if src.storage is dst.storage:
            for written in _static(dst, issue):
                for read in _static(src, issue):
                    if _shares(written, read):
                        found.append((written, read))
    return found


def _static(t: NkiTensor, issue: Issue) -> list[NkiTensor]:
    if t._dynamic is None:
        return [t]
    if active().dry and not isinstance(t._dynamic.index, RunTimeValue):
        return []  # a dry run does not know the indices in a tile
    return indirect.places(t, issue)


def _is_same(a: NkiTensor, b: NkiTensor) -> bool:
    return (a.offset, a.dtype, a.shape, a.strides) == (b.offset, b.dtype, b.shape, b.strides)


def _refuse(issue: Issue, dst: NkiTensor, src: NkiTensor) -> None:
    rule = (
        f"it overlaps src, {_place(src)}: DMA moves the parts of a transfer in any order, so that "
        f"the result is undefined. Go through another tensor, or make the parts disjoint"
    )
    value = f"{_place(dst)} of {dst.storage.describe()}"
    raise NkiValidationError(issue.instruction, "dst", value, rule)


def _place(t: NkiTensor) -> str:
    return f"the view {t.get_pattern()}, as [stride, count], from element {t.offset} on"


def _shares(a: NkiTensor, b: NkiTensor) -> bool:
    """Returns whether two views share an element, or are too large to tell."""
    if not overlaps(a, b):
        return False
    found = [_runs(t) for t in (a, b)]
    if found[0] is None or found[1] is None:
        return True
    (starts, length), (others, other_length) = found[0], found[1]
    low = np.searchsorted(others, starts - other_length, side="right")
    high = np.searchsorted(others, starts + length, side="left")
    return bool((high > low).any())


def _runs(t: NkiTensor) -> tuple[Any, int] | None:
    """Returns the sorted first bytes of a view's contiguous runs, and the bytes of each run."""
    dims = sorted(zip(t.strides, t.shape, strict=True), reverse=True)
    dims = [(stride, n) for stride, n in dims if n > 1 and stride > 0]
    merged = coalesce(tuple([n for _, n in dims]), tuple([stride for stride, _ in dims]))
    length = 1
    if merged[-1][1] == 1:
        length = merged.pop()[0]
    if math.prod([n for n, _ in merged]) > MAX_ENUMERATED:
        return None
    starts = np.full(1, t.offset, np.int64)
    for n, stride in merged:
        starts = (starts[:, None] + stride * np.arange(n)).reshape(-1)
    size = t._layout.itemsize
    return np.sort(starts) * size, length * size
