"""Tables in SBUF, in the places where products contract them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from nki_sim.hardware import PARTITIONS

from ..engines import clear, sbuf, transfer
from ..isa import nisa
from ..tensor import Tensor
from .layer import Operand, chunks

STAGED = 1536  # numbers a partition that DMA loads at a time
_TILES = 4  # pieces that are loaded ahead of the copies

Placed = tuple[int, Tensor]  # the first partition, and HBM [rows, ...]


@dataclass(frozen=True)
class Job:
    """A piece of a table: DMA loads it into a tile [128, n], from which engines copy it."""

    count: int  # n
    placed: Sequence[Placed]  # runs [rows, ...] of n numbers on each partition
    copy: Callable[[Tensor], None]
    has_gaps: bool = False  # whether partitions without data are read, too


class Loader:
    """Loads tables by DMA into a few tiles in turn, from which engines copy them.

    Jobs are done in their order. Copies come a few jobs behind the transfers, so that no engine
    waits for a piece that is queued behind much data.
    """

    def __init__(self) -> None:
        self._tiles = [sbuf((PARTITIONS, STAGED)) for _ in range(_TILES)]
        self._jobs, self._begun = deque[Job](), deque[tuple[Job, Tensor]]()
        self._turn = 0

    def ask(self, job: Job) -> None:
        """Add a job, which ``advance`` and ``finish`` do."""
        self._jobs.append(job)

    def begin(self) -> None:
        """Begin the next job, if a tile is free."""
        if self._jobs and len(self._begun) < _TILES:
            self._begin(self._jobs.popleft())

    def advance(self) -> None:
        """Finish the job that was begun first, and begin the next one."""
        if self._begun and (len(self._begun) == _TILES or not self._jobs):
            job, staged = self._begun.popleft()
            job.copy(staged)
        self.begin()

    def finish(self) -> None:
        """Do all jobs."""
        while self._jobs or self._begun:
            self.advance()

    def _begin(self, job: Job) -> None:
        staged = self._tiles[self._turn][:, 0 : job.count]
        self._turn = (self._turn + 1) % _TILES
        if job.has_gaps:
            clear(staged, nisa.engine.gpsimd)
        for partition, source in job.placed:
            rows, *rest = source.shape
            place = staged[partition : partition + rows]
            transfer(place.reshape_dim(1, tuple(rest)) if len(rest) > 1 else place, source)
        self._begun.append((job, staged))

    def load(self, placed: Sequence[Placed]) -> Tensor:
        """Ask for tables [rows, n] on their partitions of a tile [128, n]; other rows are 0."""
        width = placed[0][1].shape[1]
        has_gaps = sum(source.shape[0] for _, source in placed) < PARTITIONS
        tile = sbuf((PARTITIONS, width))
        for low, count in chunks(width, STAGED):
            cut = [(start, source[:, low : low + count]) for start, source in placed]
            copy = partial(_copy, tile[:, low : low + count])
            self.ask(Job(count, cut, copy, has_gaps))
        return tile

    def by_operands(self, table: Tensor, over: Sequence[Operand]) -> list[Tensor]:
        """Ask for HBM [part, n, columns] as an operand of products for each of ``over``."""
        return [
            self.load([(piece.partition, table[piece.part, piece.range]) for piece in each.pieces])
            for each in over
        ]

    def by_chunks(self, table: Tensor, width: int) -> list[Tensor]:
        """Ask for HBM [n, columns] in chunks of up to ``width`` rows, each repeated in all slots.

        Returns [(slot, n), columns] for each chunk. Chunks of 128 rows are loaded several at once.
        """
        size, columns = table.shape
        found = list[Tensor]()
        together = STAGED // columns if width == PARTITIONS else 1
        for first, rows in chunks(size // width * width, max(1, together) * width):
            count = rows // width
            if count > 1:
                tile = sbuf((PARTITIONS, count, columns))
                source = table[first : first + rows].reshape_dim(0, (count, width))
                flat = tile.reshape((PARTITIONS, count * columns))
                placed = [(0, source.permute((1, 0, 2)))]
                self.ask(Job(count * columns, placed, partial(_copy, flat)))
                found += [tile[:, index] for index in range(count)]
                continue
            starts = range(0, PARTITIONS, width)
            found.append(self.load([(start, table[first : first + rows]) for start in starts]))
        if size % width:
            rest = table[size // width * width :]
            found.append(self.load([(start, rest) for start in range(0, PARTITIONS, width)]))
        return found


def _copy(place: Tensor, staged: Tensor) -> None:
    nisa.tensor_copy(dst=place, src=staged, engine=nisa.engine.gpsimd)
