"""Which earlier instructions an instruction must wait for.

Read-after-write, write-after-read and write-after-write on overlapping regions. A predecessor is
kept as n (wait until its result is visible) or ~n (a reader: wait until it is done).
"""

from __future__ import annotations

import math
from typing import Any

from . import dtypes
from .enums import MemoryRegion
from .issue import Issue
from .tensor import NkiTensor, Storage, extent

# (first byte, end byte, first partition, end partition, view, every element in between)
Region = tuple[int, int, int, int, NkiTensor, bool]


def region(t: NkiTensor) -> Region:
    """Bounding box of a view in its storage."""
    found: Region | None = t._region
    if found is None:
        found = t._region = _bounding_box(t)
    return found


def _bounding_box(t: NkiTensor) -> Region:
    if t._dynamic is not None:
        rows = t.storage.shape[0] if t._free else 1
        return (0, t.storage.free_bytes, 0, rows, t, False)
    size = dtypes.itemsize(t.dtype)
    if not t._free:
        span = extent(t.shape, t.strides)
        return (t.offset * size, (t.offset + span) * size, 0, 1, t, span == math.prod(t.shape))
    partition, free = divmod(t.offset, t._free)
    span = extent(t.shape[1:], t.strides[1:])
    dense = span == math.prod(t.shape[1:])
    return (free * size, (free + span) * size, partition, partition + t.shape[0], t, dense)


def after(
    predecessors: list[int],
    storage: Storage,
    box: Region,
    n: int,
    issue: Issue,
    is_write: bool,
    whole: bool = False,
) -> None:
    """Append what instruction ``n`` waits for on ``storage``, and note its access.

    ``whole``: reads and writes of a tile wait for each other, whatever parts they touch. Writes of
    different parts do not: kiln's tiles that VectorE and ScalarE fill together take no longer.
    """
    stream = issue.stream
    in_order = issue.engine != "dma"
    # PSUM accumulates near memory: matmuls to the same region follow each other without a wait.
    is_matmul = stream == "tensor" and not (issue.is_transpose and issue.may_overtake)
    psum_matmul = is_matmul and storage.buffer is MemoryRegion.psum
    for other, m, writer in storage.writes:
        if writer == stream and (psum_matmul or (is_write and in_order)):
            continue
        if (whole and not is_write) or overlaps(other, box):
            predecessors.append(m)
    if not is_write:
        # In an in-order queue the last read of a view stands for the earlier ones.
        view = 0 if whole else id(box[4])
        is_last = in_order and not issue.may_overtake
        storage.reads[(view, stream if is_last else n)] = (box, n, stream)
        return
    if storage.reads:
        covered = []
        for key, (other, m, reader) in storage.reads.items():
            if whole or overlaps(other, box):
                if m != n and not (reader == stream and in_order):
                    predecessors.append(~m)
                if _covers(box, other):
                    covered.append(key)
        for key in covered:
            del storage.reads[key]
    if storage.writes:
        storage.writes = [w for w in storage.writes if not _covers(box, w[0])]
    storage.writes.append((box, n, stream))


def overlaps(a: Region, b: Region) -> bool:
    """True unless the two regions share no element."""
    if a[0] >= b[1] or b[0] >= a[1] or a[2] >= b[3] or b[2] >= a[3]:
        return False
    return a[:4] == b[:4] or not _interleaved(a[4], b[4])


def _covers(a: Region, b: Region) -> bool:
    if a[0] > b[0] or a[1] < b[1] or a[2] > b[2] or a[3] < b[3]:
        return False
    return a[5] or (a[4]._dynamic is None and a[:4] == b[:4] and a[4].strides == b[4].strides)


def _interleaved(a: NkiTensor, b: NkiTensor) -> bool:
    """True when views whose boxes overlap provably miss each other, as columns of a row do."""
    if a.dtype != b.dtype or a._dynamic is not None or b._dynamic is not None:
        return False
    first = 1 if a._free else 0
    place = (a.offset % a._free, b.offset % b._free) if a._free else (a.offset, b.offset)
    dims = [_dims(t, first) for t in (a, b)]
    for period in {s for _, s in dims[0]} | {s for _, s in dims[1]}:
        spans = []
        for offset, view in zip(place, dims, strict=True):
            if any(s >= period and s % period for _, s in view):
                break
            inner = 1 + sum((n - 1) * s for n, s in view if s < period)
            spans.append((offset % period, offset % period + inner))
        if len(spans) == 2 and max(s[1] for s in spans) <= period:
            (a_low, a_high), (b_low, b_high) = spans
            if a_high <= b_low or b_high <= a_low:
                return True
    return False


def _dims(t: NkiTensor, first: int) -> list[Any]:
    return [
        (n, s) for n, s in zip(t.shape[first:], t.strides[first:], strict=True) if n > 1 and s > 0
    ]
