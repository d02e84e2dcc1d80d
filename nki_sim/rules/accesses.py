"""Many accesses of one tensor: an index by place, and waits that instructions share.

A kernel may write thousands of parts of a tensor. A later access waits for the parts that it
touches, which `Accesses` finds without a look at the others. Where dependencies are tracked for
whole tiles, it waits for all parts. It then has one wait, a `Joint`.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from nki_sim.views.layout import CAPACITY, Layout
from nki_sim.views.tensor import NkiTensor

FEW = 64  # accesses up to which a look at each of them is faster
_MOST_CELLS = 32  # of one access; larger accesses are kept apart

Region = tuple[int, int, int, int]  # first byte, end byte, first partition, end partition
# View, instruction, stream; for a write also the user (see hazards.py). The view is None for reads
# by a stream of a tile that is tracked whole.
Entry = tuple[Any, ...]


def region(t: NkiTensor) -> Region:
    """Returns the bounding box of a view in its storage."""
    found: Region | None = t._region
    if found is None:
        layout = t._layout
        low = (t.offset - layout.base) * layout.itemsize
        found = (low, low + layout.span_bytes, *layout.partitions)
        if t._dynamic is not None:
            found = 0, t.storage.free_bytes, 0, t.storage.shape[0] if t._free else 1
        t._region = found
    return found


def indexed(accesses: dict[Hashable, Entry], joints: list[Joint]) -> Accesses:
    """Returns accesses with an index, which is kept from then on."""
    return accesses if isinstance(accesses, Accesses) else Accesses(accesses, joints)


class Accesses(dict[Any, Entry]):
    """Accesses of a storage by key, in order.

    The storage is divided into cells along three axes: partitions, rows and bytes in a row. A row
    is as long as the longest stride of the latest view, so that strided views have few cells, too.
    """

    def __init__(self, entries: dict[Hashable, Entry], joints: list[Joint]) -> None:
        super().__init__(entries)
        self._joints = joints  # all of the storage
        self._joint: Joint | None = None  # the last one
        self._new: list[Any] | None = None  # keys of accesses that it lacks; None: all
        self.streams = {key for key in entries if type(key) is str}  # keys of in-order streams
        self._next = itertools.count()
        self._numbers = {key: next(self._next) for key in entries}  # their order
        self._boxes = Counter([region(t) for t, *_ in entries.values() if t is not None])
        self._divide()

    def __setitem__(self, key: Hashable, entry: Entry) -> None:
        if key in self:
            self._take_out(key)
        else:
            self._numbers[key] = next(self._next)
            if type(key) is str:
                self.streams.add(key)
            elif self._new is not None:
                self._new.append(key)
        super().__setitem__(key, entry)
        if entry[0] is not None:
            self._boxes[region(entry[0])] += 1
        if len(self) > self._most:
            self._divide()
        else:
            self._put_in(key)

    def __delitem__(self, key: Hashable) -> None:
        self._take_out(key)
        super().__delitem__(key)
        del self._numbers[key]
        self.streams.discard(key)
        self._joint = self._new = None

    def has_inside(self, t: NkiTensor) -> bool:
        """Returns whether the box of a view has that of an access in it, or a stream's access.

        There may be many accesses of one box.
        """
        low, high, first, end = region(t)
        return bool(self.streams) or any(
            low <= x[0] and x[1] <= high and first <= x[2] and x[3] <= end for x in self._boxes
        )

    def near(self, t: NkiTensor) -> list[tuple[Any, Entry]]:
        """Returns the keys and the accesses that may touch a view, in order."""
        cells = self._cells_of(t)
        if not cells:
            return list(self.items())
        found = dict(self._wide)
        for cell in cells:
            found.update(self._cells.get(cell, {}))
        return [(found[number], self[found[number]]) for number in sorted(found)]

    def joint(self, n: int, is_read: bool) -> list[Joint]:
        """Returns the wait for all accesses but those of instruction ``n`` and in-order streams.

        The list is empty if there are no such accesses.
        """
        if self._new is None:
            self._new = [key for key in self if key not in self.streams]
        found = [key for key in self._new if self[key][1] != n]
        if found:
            numbers = [self[key][1] for key in found]
            self._joint = Joint(self._joint, [~m for m in numbers] if is_read else numbers)
            self._joints.append(self._joint)
            self._new = [key for key in self._new if self[key][1] == n]
        return [] if self._joint is None else [self._joint]

    def _put_in(self, key: Hashable) -> None:
        number, cells = self._numbers[key], self._cells_of(self[key][0])
        for cell in cells:
            self._cells.setdefault(cell, {})[number] = key
        if not cells:
            self._wide[number] = key

    def _take_out(self, key: Hashable) -> None:
        t = self[key][0]
        if t is not None:
            self._boxes[region(t)] -= 1
            if not self._boxes[region(t)]:
                del self._boxes[region(t)]
        number, cells = self._numbers[key], self._cells_of(t)
        for held in [self._cells[cell] for cell in cells] if cells else [self._wide]:
            del held[number]

    def _divide(self) -> None:
        """Makes cells of the usual size of the accesses, whenever these have doubled."""
        self._most = 2 * len(self)
        self._cells: dict[tuple[int, ...], dict[int, Any]] = {}
        self._wide: dict[int, Any] = {}
        views = [t for t, *_ in self.values() if t is not None]
        self._row = _row_bytes(views[-1]) if views else 1
        sizes = [[end - low for low, end in _spans(t, self._row)] for t in views] or [[1, 1, 1]]
        self._sizes = [sorted(along)[len(along) // 2] for along in zip(*sizes, strict=True)]
        self._latest: NkiTensor | None = None  # the latest view whose cells were asked for
        for key in self:
            self._put_in(key)

    def _cells_of(self, t: NkiTensor | None) -> list[tuple[int, ...]]:
        """Returns the cells of a view, or an empty list if they are too many."""
        if t is None:
            return []
        if t is not self._latest:  # most often the latest one looked for what is near
            self._latest, self._latest_cells = t, self._found_cells(t)
        return self._latest_cells

    def _found_cells(self, t: NkiTensor) -> list[tuple[int, ...]]:
        (first, end), (top, bottom), (low, high) = _spans(t, self._row)
        partitions, rows, size = self._sizes
        first, end = first // partitions, (end - 1) // partitions + 1
        top, bottom = top // rows, (bottom - 1) // rows + 1
        low, high = low // size, (high - 1) // size + 1
        if (end - first) * (bottom - top) * (high - low) > _MOST_CELLS:
            return []
        return [*itertools.product(range(first, end), range(top, bottom), range(low, high))]


def _row_bytes(t: NkiTensor) -> int:
    layout = t._layout
    strides = [s for n, s in dims_of(layout) if s > 1]
    return max(strides) * layout.itemsize if strides else t.storage.free_bytes


def _spans(t: NkiTensor, row: int) -> list[tuple[int, int]]:
    """Returns the bounds of a view along partitions, rows, and bytes in a row."""
    low, high, first, end = t._region or region(t)
    rows = low // row, (high - 1) // row + 1
    column, width = low % row, 0 if t._dynamic is not None else _width(t._layout, row)
    columns = (column, column + width) if width and column + width <= row else (0, row)
    return [(first, end), rows, columns]


@functools.lru_cache(CAPACITY)
def _width(layout: Layout, row: int) -> int:
    """Returns the bytes of a row that views of a layout touch, or 0 if rows differ."""
    dims = [(n, s * layout.itemsize) for n, s in dims_of(layout)]
    if any(s >= row and s % row for _, s in dims):
        return 0
    return layout.itemsize + sum((n - 1) * s for n, s in dims if s < row)


def dims_of(layout: Layout) -> list[tuple[int, int]]:
    """Returns (size, stride) of the dimensions in a partition in which a view moves."""
    first = 1 if layout.free else 0
    sizes = zip(layout.shape[first:], layout.strides[first:], strict=True)
    return [(n, s) for n, s in sizes if n > 1 and s > 0]


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Many waits in one: those of an earlier joint, and more."""

    before: Joint | None
    waits: list[int]


Wait = int | Joint  # an instruction, as n or ~n (see hazards.py), or many in one
