"""Which earlier instructions an instruction must wait for.

An instruction waits for read-after-write, write-after-read and write-after-write on overlapping
regions. A predecessor is stored as n (wait until its result is visible), or as ~n (the predecessor
reads: wait until it has ended).
"""

from __future__ import annotations

import functools

from .enums import MemoryRegion
from .issue import Issue
from .layout import Layout
from .tensor import NkiTensor, Storage

# (first byte, end byte, first partition, end partition, every element in between)
Region = tuple[int, int, int, int, bool]


def region(t: NkiTensor) -> Region:
    """Returns the bounding box of a view in its storage."""
    found: Region | None = t._region
    if found is None:
        found = t._region = _bounding_box(t)
    return found


def _bounding_box(t: NkiTensor) -> Region:
    if t._dynamic is not None:
        return (0, t.storage.free_bytes, 0, t.storage.shape[0] if t._free else 1, False)
    layout = t._layout
    if not layout.free:
        low = t.offset * layout.itemsize
        return (low, low + layout.span_bytes, 0, 1, layout.is_dense)
    partition, free = divmod(t.offset, layout.free)
    low = free * layout.itemsize
    return (low, low + layout.span_bytes, partition, partition + layout.lanes, layout.is_dense)


def note_read(
    predecessors: list[int],
    t: NkiTensor,
    n: int,
    issue: Issue,
    user: str | int,
    whole: bool = False,
) -> None:
    """Appends what instruction ``n`` waits for before it reads a view, and notes the read.

    ``user`` is ``n``, or an in-order queue, of which only the last read of a view is kept. With
    ``whole``, reads and writes of a tile wait for each other, whatever parts they touch. Writes of
    different parts do not: in kiln's record VectorE and ScalarE fill a tile together in no more
    time than separate tiles.
    """
    storage, stream = t.storage, issue.stream
    writes = storage.writes
    if writes and stream == "tensor" and _follows_in_psum(issue, storage):
        writes = [entry for entry in writes if entry[2] != stream]
    if not whole:
        writes = [entry for entry in writes if overlaps(entry[0], t)]
    if writes:
        predecessors += [m for _, m, _ in writes]
    storage.reads[0 if whole else id(t), user] = t, n, stream


def _follows_in_psum(issue: Issue, storage: Storage) -> bool:
    """Returns whether a matmul need not wait for others, as PSUM accumulates near memory."""
    is_overtaking = issue.is_transpose and issue.may_overtake
    return storage.buffer is MemoryRegion.psum and not is_overtaking


def note_write(
    predecessors: list[int], t: NkiTensor, n: int, issue: Issue, whole: bool = False
) -> None:
    """Appends what instruction ``n`` waits for before it writes a view, and notes the write."""
    storage, stream = t.storage, issue.stream
    in_order = issue.engine != "dma"
    if storage.writes:
        low, high, first, end, _ = t._region or region(t)
        hidden = []  # indices of earlier writes that this write covers
        for place, (other, m, writer) in enumerate(storage.writes):
            box = other._region or region(other)
            if low < box[1] and box[0] < high and first < box[3] and box[2] < end:
                if not (in_order and writer == stream) and overlaps(other, t):
                    predecessors.append(m)
                if _covers(t, other):
                    hidden.append(place)
        for place in reversed(hidden):
            del storage.writes[place]
    if storage.reads:
        covered = []
        for key, (other, m, reader) in storage.reads.items():
            if whole or overlaps(other, t):
                if m != n and not (in_order and reader == stream):
                    predecessors.append(~m)
                if _covers(t, other):
                    covered.append(key)
        for key in covered:
            del storage.reads[key]
    storage.writes.append((t, n, stream))


def overlaps(a: NkiTensor, b: NkiTensor) -> bool:
    """Returns False if two views of a storage certainly share no element."""
    x, y = a._region or region(a), b._region or region(b)
    if x[0] >= y[1] or y[0] >= x[1] or x[2] >= y[3] or y[2] >= x[3]:
        return False
    return x[:4] == y[:4] or not _interleaved(a, b)


def _covers(a: NkiTensor, b: NkiTensor) -> bool:
    x, y = a._region or region(a), b._region or region(b)
    if x[0] > y[0] or x[1] < y[1] or x[2] > y[2] or x[3] < y[3]:
        return False
    return x[4] or (a._dynamic is None and x[:4] == y[:4] and a.strides == b.strides)


def _interleaved(a: NkiTensor, b: NkiTensor) -> bool:
    """Returns whether views with overlapping boxes are disjoint, such as columns of a row."""
    if a.dtype != b.dtype or a._dynamic is not None or b._dynamic is not None:
        return False
    free = a._free
    a_place, b_place = (a.offset % free, b.offset % free) if free else (a.offset, b.offset)
    for period, a_width, b_width in _periods(a._layout, b._layout):
        a_low, b_low = a_place % period, b_place % period
        a_high, b_high = a_low + a_width, b_low + b_width
        if a_high <= period and b_high <= period and (a_high <= b_low or b_high <= a_low):
            return True
    return False


@functools.lru_cache(4096)
def _periods(a: Layout, b: Layout) -> list[tuple[int, int, int]]:
    """Returns the periods of two layouts, and how much of a period each layout covers."""
    dims = [_dims(a), _dims(b)]
    found = []
    for period in {s for _, s in dims[0]} | {s for _, s in dims[1]}:
        if not any(s >= period and s % period for view in dims for _, s in view):
            widths = [1 + sum((n - 1) * s for n, s in view if s < period) for view in dims]
            found.append((period, widths[0], widths[1]))
    return found


def _dims(layout: Layout) -> list[tuple[int, int]]:
    first = 1 if layout.free else 0
    sizes = zip(layout.shape[first:], layout.strides[first:], strict=True)
    return [(n, s) for n, s in sizes if n > 1 and s > 0]
