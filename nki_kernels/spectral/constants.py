"""Tables in SBUF, in the places where products contract them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..base.engines import PARTITIONS, chunks, clear, element_count, sbuf, transfer
from ..base.isa import Tensor, nisa, nl

STAGED = 768  # numbers a partition that DMA loads at a time
_TILES = 4  # pieces that are loaded ahead of the copies
STAGED_BYTES = 4 * _TILES * STAGED  # a partition


@dataclass(frozen=True)
class Place:
    """Where in a tile numbers of HBM belong."""

    partition: int  # the first one
    column: int
    source: Tensor  # HBM [rows, n], or for a whole tile [rows, ...]


@dataclass(frozen=True)
class Job:
    """A piece of a table: DMA loads it into a tile [128, n], from which engines copy it."""

    count: int  # n
    placed: Sequence[Place]
    copy: Callable[[Tensor], None]
    has_gaps: bool = False  # whether partitions without data are read, too


class Loader:
    """Loads tables by DMA into a few tiles in turn, from which engines copy them.

    Jobs are done in their order. Copies come a few jobs behind the transfers, so that no engine
    waits for a piece that is queued behind much data.
    """

    def __init__(self, dtype: Any = nl.float32) -> None:
        self._dtype = dtype
        self._tiles = [sbuf((PARTITIONS, STAGED), dtype) for _ in range(_TILES)]
        self._jobs, self._begun = deque[Job](), deque[tuple[Job, Tensor]]()
        self._turn = 0
        self.asked = self._done = 0  # jobs

    def restart(self) -> None:
        """Begin with the first tile again, as every iteration of a loop has to."""
        self._turn = self.asked = self._done = 0

    def ask(self, job: Job) -> None:
        """Add a job, which ``advance`` and ``finish`` do."""
        self._jobs.append(job)
        self.asked += 1

    def begin(self) -> None:
        """Begin the next job, if a tile is free."""
        if self._jobs and len(self._begun) < _TILES:
            self._begin(self._jobs.popleft())

    def advance(self) -> None:
        """Finish the job that was begun first, and begin the next one."""
        if self._begun and (len(self._begun) == _TILES or not self._jobs):
            self._finish_first()
        self.begin()

    def _finish_first(self) -> None:
        job, staged = self._begun.popleft()
        job.copy(staged)
        self._done += 1

    def finish(self) -> None:
        """Do all jobs."""
        self.finish_to(self.asked)

    def finish_to(self, count: int) -> None:
        """Do so many jobs, of all that were asked for, and begin no other ones."""
        while self._done < count and (self._jobs or self._begun):
            begun = self._done + len(self._begun)
            if begun < count and len(self._begun) < _TILES:
                self._begin(self._jobs.popleft())
            else:
                self._finish_first()

    def _begin(self, job: Job) -> None:
        staged = self._tiles[self._turn][:, 0 : job.count]
        self._turn = (self._turn + 1) % _TILES
        if job.has_gaps:
            clear(staged, nisa.engine.gpsimd)
        for one in job.placed:
            rows, *rest = one.source.shape
            size = element_count(rest)
            place = staged[one.partition : one.partition + rows, one.column : one.column + size]
            transfer(place.reshape_dim(1, tuple(rest)) if len(rest) > 1 else place, one.source)
        self._begun.append((job, staged))

    def load(
        self, placed: Sequence[Place], width: int, slot: int = PARTITIONS, slots: int = 1
    ) -> Tensor:
        """Ask for tables in their places of a tile [128, width]; all else is 0.

        slot, slots: partitions that are repeated, and how often.
        """
        tile = sbuf((PARTITIONS, width), self._dtype)
        used = sum(element_count(one.source.shape) for one in placed)
        for low, count in chunks(width, STAGED):
            cut = list[Place]()
            for one in placed:
                begin = max(low, one.column)
                end = min(low + count, one.column + one.source.shape[1])
                if begin < end:
                    source = one.source[:, begin - one.column : end - one.column]
                    cut.append(Place(one.partition, begin - low, source))
            starts = [index * slot for index in range(slots)]
            places = [tile[start : start + slot, low : low + count] for start in starts]
            self.ask(Job(count, cut, partial(_copy, places), used < slot * width))
        return tile

    def by_blocks(self, tables: Tensor, count: int) -> list[Tensor]:
        """Ask for HBM tables [term, n, columns] as matrices with so many equal blocks."""
        _, size, columns = tables.shape
        found = list[Tensor]()
        for term in range(tables.shape[0]):
            placed = [Place(at * size, at * columns, tables[term]) for at in range(count)]
            found.append(self.load(placed, count * columns))
        return found

    def by_chunks(self, table: Tensor) -> list[Tensor]:
        """Ask for HBM [n, columns] in chunks of 128 rows, several at once."""
        size, columns = table.shape
        found = list[Tensor]()
        together, whole = max(1, STAGED // columns), size // PARTITIONS * PARTITIONS
        for first, rows in chunks(whole, together * PARTITIONS):
            count = rows // PARTITIONS
            if count > 1:
                tile = sbuf((PARTITIONS, count, columns), self._dtype)
                source = table[first : first + rows].reshape_dim(0, (count, PARTITIONS))
                flat = tile.reshape((PARTITIONS, count * columns))
                placed = [Place(0, 0, source.permute((1, 0, 2)))]
                self.ask(Job(count * columns, placed, partial(_copy, [flat])))
                found += [tile[:, index] for index in range(count)]
                continue
            found.append(self.load([Place(0, 0, table[first : first + rows])], columns))
        if size > whole:
            found.append(self.load([Place(0, 0, table[whole:])], columns))
        return found


def _copy(places: Sequence[Tensor], staged: Tensor) -> None:
    for place in places:
        data = staged[0 : place.shape[0]]
        nisa.tensor_copy(dst=place, src=data, engine=nisa.engine.gpsimd)
