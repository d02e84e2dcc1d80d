"""Which earlier instructions an instruction must wait for.

An instruction waits for read-after-write, write-after-read and write-after-write on overlapping
regions. A predecessor is stored as n (wait until its result is visible), or as ~n (the predecessor
reads: wait until it has ended).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from nki_sim.instructions.issue import Issue
from nki_sim.rules.accesses import Wait
from nki_sim.views.layout import Layout
from nki_sim.views.storage import Storage
from nki_sim.views.tensor import NkiTensor

from .accesses import FEW, Accesses, Entry, dims_of, indexed, region

NO_REORDER = "no_reorder"  # the kind of waits for the instruction before, in nl.no_reorder


def note_accesses(
    issued: Iterable[tuple[list[Wait], int, Issue, Sequence[NkiTensor], Sequence[NkiTensor]]],
    keeps_order: bool,
) -> None:
    """Appends what instructions wait for, and notes what they read and write.

    Each is given as (its waits, its number, its issue, the views that it writes, and reads).
    With ``keeps_order`` a stream's writes of a tile stay in program order, so that reads of a tile
    that is tracked whole wait for the last one alone.
    """
    for waits, n, issue, writes, reads in issued:
        is_dma, stream = issue.engine == "dma", issue.queue
        # Transfers, and some passes of the Tensor engine, end in another order than they begin.
        user = n if is_dma or issue.may_overtake else stream
        for t in reads:
            storage = t.storage
            if storage.is_tracked_whole:
                if storage.writes:
                    waits += storage.writers or _writers(storage, n, keeps_order)
                # A stream's reads count for the whole tile, so that their views are not kept.
                storage.reads[user] = t if user is n else None, n, stream
            else:
                if storage.writes:
                    wait_for_writes(waits, t)
                storage.reads[id(t), user] = t, n, stream
            storage.last_users[user] = n
            storage.accesses.append(n)
        # An instruction of an in-order stream follows all others of its stream.
        own = "none" if is_dma else stream
        # The compiler's order may give one with `on_scalar` to another stream.
        is_last = user is stream and issue.work is not None and issue.on_scalar is None
        for t in writes:
            storage = t.storage
            if storage.writes:
                wait_for_overwritten(waits, t, own)
            if storage.reads:
                wait_for_reads(waits, t, n, own, storage.is_tracked_whole)
            note_write(t, n, stream, stream if is_last else n)
            storage.last_users[user] = n
            storage.accesses.append(~n)


def note_write(t: NkiTensor, n: int, stream: str, user: str | int) -> None:
    """Notes that instruction ``n`` writes a view.

    Results of the same ``user`` are visible in the order of the instructions.
    """
    storage = t.storage
    writes = storage.writes
    writes[n if n not in writes else (n, id(t))] = t, n, stream, user
    storage.writers = None


def _writers(storage: Storage, n: int, keeps_order: bool) -> list[Any]:
    """Returns the writes for which a read of a tile by instruction ``n`` waits.

    Reads and writes of a tile wait for each other, whatever parts they touch. Writes of different
    parts do not: in kiln's record VectorE and ScalarE fill a tile together in no more time than
    separate tiles.
    """
    writes = _indexed_writes(storage)
    if type(writes) is Accesses:
        return writes.joint(n, is_read=False)
    if keeps_order:
        found = sorted({user: m for _, m, _, user in writes.values()}.values())
    else:
        found = [m for _, m, _, _ in writes.values()]
    storage.writers = found
    return found


def wait_for_writes(waits: list[Wait], t: NkiTensor) -> None:
    """Appends the writes for which a read of a view waits, where parts are tracked."""
    writes = _indexed_writes(t.storage)
    box = low, high, first, end = t._region or region(t)
    near = writes.near(t) if type(writes) is Accesses else writes.items()
    for _, (other, m, _, _) in near:
        x = other._region or region(other)
        is_near = low < x[1] and x[0] < high and first < x[3] and x[2] < end
        if is_near and (x == box or not _interleaved(other, t)):
            waits.append(m)


def wait_for_overwritten(waits: list[Wait], t: NkiTensor, own: str) -> None:
    """Appends the writes for which a write of a view waits, except those of the stream ``own``.

    It forgets writes that the view covers.
    """
    writes, hidden = _indexed_writes(t.storage), []
    box = low, high, first, end = t._region or region(t)
    near = writes.near(t) if type(writes) is Accesses else writes.items()
    for key, (other, m, stream, _) in near:
        x = other._region or region(other)
        if low < x[1] and x[0] < high and first < x[3] and x[2] < end:
            if stream != own and (x == box or not _interleaved(other, t)):
                waits.append(m)
            is_inside = low <= x[0] and x[1] <= high and first <= x[2] and x[3] <= end
            if is_inside and _covers(t, other):
                hidden.append(key)
    for key in hidden:
        del writes[key]


def _indexed_writes(storage: Storage) -> dict[Any, Entry]:
    if len(storage.writes) > FEW:
        storage.writes = indexed(storage.writes, storage.joints)
    return storage.writes


def wait_for_reads(waits: list[Wait], t: NkiTensor, n: int, own: str, whole: bool) -> None:
    """Appends the reads for which a write of a view by instruction ``n`` waits, likewise."""
    storage = t.storage
    if len(storage.reads) > FEW:
        storage.reads = indexed(storage.reads, storage.joints)
    reads, covered = storage.reads, []
    has_joint = False
    if whole and type(reads) is Accesses:
        has_joint = True
        for _, m, stream in sorted([reads[key] for key in reads.streams], key=itemgetter(1)):
            if stream != own and m != n:
                waits.append(~m)
        waits += reads.joint(n, is_read=True)
        if not reads.has_inside(t):
            return  # it covers none
    low, high, first, end = t._region or region(t)
    near = reads.near(t) if type(reads) is Accesses else reads.items()
    for key, (other, m, stream) in near:
        if whole or overlaps(other, t):
            if not has_joint and stream != own and m != n:
                waits.append(~m)
            if other is None:
                # Of a stream there is the last read only, behind which reads of other parts may be.
                if _is_all(t):
                    covered.append(key)
                continue
            x = other._region or region(other)
            is_inside = low <= x[0] and x[1] <= high and first <= x[2] and x[3] <= end
            if is_inside and _covers(t, other):
                covered.append(key)
    for key in covered:
        del reads[key]


def overlaps(a: NkiTensor, b: NkiTensor) -> bool:
    """Returns False if two views of a storage certainly share no element."""
    x, y = a._region or region(a), b._region or region(b)
    if x == y:
        return True
    if x[0] >= y[1] or y[0] >= x[1] or x[2] >= y[3] or y[2] >= x[3]:
        return False
    return not _interleaved(a, b)


def _is_all(t: NkiTensor) -> bool:
    whole = 0, t.storage.free_bytes, 0, t.storage.shape[0]
    return t._layout.is_dense and (t._region or region(t)) == whole


def _covers(a: NkiTensor, b: NkiTensor) -> bool:
    x, y = a._region or region(a), b._region or region(b)
    if x[0] > y[0] or x[1] < y[1] or x[2] > y[2] or x[3] < y[3]:
        return False
    return a._layout.is_dense or (a._dynamic is None and x == y and a.strides == b.strides)


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


@functools.lru_cache(256)  # each keeps two layouts
def _periods(a: Layout, b: Layout) -> list[tuple[int, int, int]]:
    """Returns the periods of two layouts, and how much of a period each layout covers."""
    dims = [dims_of(a), dims_of(b)]
    found = []
    for period in {s for _, s in dims[0]} | {s for _, s in dims[1]}:
        if not any(s >= period and s % period for view in dims for _, s in view):
            widths = [1 + sum((n - 1) * s for n, s in view if s < period) for view in dims]
            found.append((period, widths[0], widths[1]))
    return found
