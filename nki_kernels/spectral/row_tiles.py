"""Rows of samples, one channel a row, in tiles of 128 partitions with a few samples side by side.

A sample's channels begin at a slot of their own, from which engines move their spectra to other
partitions. Long rows are loaded in pieces. Where transposes mix rows, rows that are not finite are
set aside before, and their marks are added to their spectra, which come out on the same partitions
(see row_guard.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nki_sim.hardware import PARTITIONS

from ..chip import transposes_mix_rows
from ..engines import clear, sbuf, transfer
from ..isa import nisa, nl
from ..launch import Rows
from ..pipeline import Beside
from ..row_guard import RowGuard, guarded, prepare_guard
from ..tensor import Tensor
from .constants import Loader
from .evacuation import Balance
from .layer import Layer, chunks, operands, slot
from .mixing import Modes
from .products import columns_of, slack

_GATHERED = 6 << 10  # bytes a partition of spectra of rows that DMA moves together
_RING = 24 << 10  # bytes a partition of rows that are loaded ahead


@dataclass(frozen=True)
class RowTile:
    """A piece of the rows of some samples."""

    first: int  # the first sample, of the block's
    samples: int
    low: int  # the first channel
    channels: int
    start: int  # the first number of a row
    count: int

    @property
    def cut(self) -> tuple[int, int]:
        """The first channel and the number of channels."""
        return self.low, self.channels


class RowTiles:
    """Tiles of a block, which DMA loads into a ring."""

    def __init__(self, layer: Layer, source: Tensor, pieces: Sequence[tuple[int, int]]) -> None:
        self.layer, self.source, self.pieces = layer, source, pieces
        self.width = slot(min(layer.inputs, PARTITIONS))
        self.together = PARTITIONS // self.width  # samples of a tile
        longest = max(count for _, count in pieces)
        count = max(2, min(6, _RING // (4 * longest)))
        self.ring = [sbuf((PARTITIONS, longest + slack())) for _ in range(count)]
        for tile in self.ring:
            if layer.inputs % self.width or columns_of(self.width) > self.width:
                clear(tile)
            elif slack() > 0:
                clear(tile[:, longest:])
        if transposes_mix_rows():
            prepare_guard()

    def of(self, rows: Rows) -> list[RowTile]:
        """Return the tiles of a block, the pieces of a row one after the other."""
        return [
            RowTile(first, samples, *cut, *piece)
            for first, samples in chunks(rows.each, self.together)
            for cut in chunks(self.layer.inputs)
            for piece in self.pieces
        ]

    def load(self, rows: Rows, number: int) -> None:
        """Load the tile of this number, if there is one."""
        tiles = self.of(rows)
        if number >= len(tiles):
            return
        one, inputs, n = tiles[number], self.layer.inputs, self.layer.points
        tile = self.ring[number % len(self.ring)]
        start = ((rows.first + one.first) * inputs + one.low) * n + one.start
        parts = [(sample * self.width, one.channels) for sample in range(one.samples)]
        if one.channels == self.width == inputs:
            parts = [(0, one.samples * inputs)]
        for sample, (place, held) in enumerate(parts):
            source = self.source.ap(
                [[n, held], [1, one.count]],
                start + sample * inputs * n,
                scalar_offset=rows.base,
                indirect_dim=0,
            )
            transfer(tile[place : place + held, 0 : one.count], source, rows.base)

    def tile(self, one: RowTile, number: int) -> Tensor:
        """Return a tile in SBUF [rows, n], of which the first numbers are those of the piece."""
        return self.ring[number % len(self.ring)][0 : self.held(one)]

    def held(self, one: RowTile) -> int:
        """Return the partitions of a tile, more than those with rows where few are refused."""
        return columns_of(one.samples * self.width)

    def guard(self, tiles: Sequence[RowTile], number: int) -> RowGuard:
        """Return the guard of a tile's rows, or one without rows after the last tile."""
        if number >= len(tiles):
            return RowGuard(None)
        data = self.tile(tiles[number], number)[:, 0 : tiles[number].count]
        data = data.expand_dim(1).expand_dim(1)
        return guarded(data, float(self.layer.points * len(self.pieces)))

    def run(
        self, rows: Rows, loader: Loader
    ) -> Iterator[Beside | tuple[RowTile, Tensor, RowGuard]]:
        """Load tiles ahead, and yield the work of their guards, and each tile with its guard.

        loader: loads what is needed later, a piece beside each tile.
        """
        tiles = self.of(rows)
        for number in range(1, len(self.ring)):
            self.load(rows, number)
            if number > len(self.ring) // 2:
                loader.begin()
        guard = self.guard(tiles, 0)
        guard.finish()
        for number, one in enumerate(tiles):
            current, guard = guard, self.guard(tiles, number + 1)
            yield from guard.steps()
            yield one, self.tile(one, number), current
            if number > 0:  # the first pieces are queued behind rows
                yield Beside(loader.advance)


class Spectra:
    """Moves spectra of rows [(b, i), ...] to where channels are mixed, [(half, part, i), b, f]."""

    def __init__(self, layer: Layer, modes: Modes, balance: Balance) -> None:
        self.modes, self.balance = modes, balance
        self.over, self.width = operands(layer.inputs), slot(min(layer.inputs, PARTITIONS))
        self.tiles = list[Tensor]()

    def open(self, batch: int) -> list[Tensor]:
        """Allocate the spectra of a block."""
        modes = self.modes
        size = modes.each * modes.inner
        self.tiles = [sbuf((PARTITIONS, batch, size)) for _ in self.over]
        for tile, operand in zip(self.tiles, self.over, strict=True):
            used = sum(piece.count for piece in operand.pieces)
            if used < operand.rows or modes.count(modes.halves - 1) < modes.each:
                clear(tile, nisa.engine.gpsimd)
        return self.tiles

    def close(self) -> None:
        """Let go of the spectra of a block."""
        self.tiles = []

    def store(self, rows: Rows, target: Tensor, parts: int, sign: float = 1.0) -> None:
        """Store the spectra of a block in HBM [B, parts, channels, f].

        The imaginary part goes to part 1. The real part, times the sign, goes to part 0, or to the
        last of three parts if the sign is negative.
        """
        modes, channels = self.modes, target.shape[2]
        total, sample = modes.total, parts * channels * modes.total
        for tile, operand in zip(self.tiles, self.over, strict=True):
            for piece in operand.pieces:
                if sign < 0 and piece.part == 1:
                    continue
                part = 2 if sign < 0 else piece.part
                for half in range(min(modes.halves, modes.outer)):
                    count = modes.count(half) * modes.inner
                    low = half * operand.rows + piece.partition
                    data = tile[low : low + piece.count, :, 0:count]
                    if sign < 0:
                        data, source = sbuf(data.shape), data
                        nisa.activation(dst=data, op=nl.copy, data=source, scale=sign)
                    start = rows.first * sample + (part * channels + piece.low) * total
                    place = target.ap(
                        [[total, piece.count], [sample, data.shape[1]], [1, count]],
                        start + half * modes.each * modes.inner,
                        scalar_offset=rows.base,
                        indirect_dim=0,
                    )
                    transfer(place, data, rows.base)

    def gathered(self, one: RowTile) -> Tensor | None:
        """Return a tile for the spectra of a tile of rows [(b, i), part, outer, inner].

        ``spread`` moves them from there. None, if they would take too much of SBUF.
        """
        modes = self.modes
        if 8 * modes.total > _GATHERED:
            return None
        return sbuf((columns_of(one.samples * self.width), 2, modes.outer, modes.inner))

    def spread(self, gathered: Tensor, one: RowTile) -> None:
        """Move gathered spectra by DMA, which takes them to any partition in long runs."""
        modes = self.modes
        for target, operand in zip(self.tiles, self.over, strict=True):
            for piece in operand.pieces:
                if (piece.low, piece.count) != one.cut:
                    continue
                for half in range(min(modes.halves, modes.outer)):
                    outers = modes.count(half)
                    start, partition = half * modes.each, half * operand.rows + piece.partition
                    for sample in range(one.samples):
                        rows = slice(sample * self.width, sample * self.width + piece.count)
                        data = gathered[rows, piece.part, start : start + outers]
                        dst = target[
                            partition : partition + piece.count,
                            one.first + sample,
                            0 : outers * modes.inner,
                        ]
                        transfer(dst.reshape_dim(1, (outers, modes.inner)), data)

    def put(
        self,
        banks: Sequence[Tensor],
        part: int,
        places: tuple[tuple[int, int], tuple[int, int]],
        one: RowTile,
        marks: Tensor | None,
    ) -> None:
        """Move a sum of banks [(b, i), inner, outer] of one part.

        places: (first, count) of outer and of inner frequencies. marks: of the rows, or None.
        """
        (low, outers), (first, inners) = places
        modes = self.modes
        for target, operand in zip(self.tiles, self.over, strict=True):
            for piece in operand.pieces:
                if (piece.low, piece.count) != one.cut or piece.part != part:
                    continue
                for half in range(modes.halves):
                    start = half * modes.each
                    begin, end = max(low, start), min(low + outers, start + modes.count(half))
                    if begin >= end:
                        continue
                    partition = half * operand.rows + piece.partition
                    shape = (one.samples, modes.each, modes.inner)
                    view = target[
                        partition : partition + piece.count,
                        one.first : one.first + one.samples,
                    ].reshape_dim(2, shape[1:])
                    for sample in range(one.samples):
                        row = sample * self.width
                        rows = slice(row, row + piece.count)
                        dst = view[:, sample, begin - start : end - start, first : first + inners]
                        data = [bank[rows, :, begin - low : end - low] for bank in banks]
                        place = dst.permute((0, 2, 1))
                        self.balance.move(place, data[0], None if marks is None else marks[rows])
                        for other in data[1:]:
                            self.balance.add(place, other)


def sum_of(marks: Sequence[Tensor | None]) -> Tensor | None:
    """Return the sum of the marks of all pieces of rows."""
    found = [mark for mark in marks if mark is not None]
    if len(found) < 2:
        return found[0] if found else None
    total = sbuf(found[0].shape)
    nisa.tensor_tensor(dst=total, data1=found[0], data2=found[1], op=nl.add)
    for mark in found[2:]:
        nisa.tensor_tensor(dst=total, data1=total, data2=mark, op=nl.add)
    return total
