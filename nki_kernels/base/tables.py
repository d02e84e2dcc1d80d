"""Tables in SBUF: those that stay there, and those that are streamed.

DMA may write only a small part of SBUF ahead, so that GpSimdE copies what stays there. A table that
does not fit is read from HBM again for each block, chunk by chunk, into two tiles in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nki_sim.hardware import PARTITIONS

from . import counting
from .engines import chunks, element_count, itemsize, sbuf, transfer
from .isa import Tensor, nisa, nl

_STAGED = 6 << 10  # bytes a partition of a table that DMA loads at a time


def load_identity(dtype: Any = nl.float32, tile: Tensor | None = None) -> Tensor:
    """Load the identity [128, 128] into SBUF, into this tile or a fresh one.

    All programs of a launch have to load it, because they share the constant.
    """
    identity = sbuf((PARTITIONS, PARTITIONS), dtype) if tile is None else tile
    count = counting.current()
    if count is not None:  # nl.shared_identity_matrix would issue a transfer
        count.instructions += 2
        count.identities.add(dtype)
        return identity
    loaded = nl.shared_identity_matrix(PARTITIONS, dtype=dtype)
    nisa.tensor_copy(dst=identity, src=loaded, engine=nisa.engine.gpsimd)
    return identity


def load_tables(tables: Sequence[Tensor], tiles: int = 2) -> list[Tensor]:
    """Load HBM tables, each [rows <= 128, count, ...], into SBUF.

    All tables share ``tiles`` tiles of up to 6 KiB a partition, which DMA fills in turn, in pieces
    along the second dimension. A piece is loaded while the piece before it is copied.
    """
    for table in tables:
        if len(table.shape) < 2:
            raise ValueError(
                f"argument 'tables' has a table of shape {table.shape}, allowed are two dimensions "
                f"and more: pass both results of pack(tables)"
            )
    longest = max(
        (_staged_count(table) * element_count(table.shape[2:]) for table in tables), default=0
    )
    loaded = [sbuf(table.shape, table.dtype) for table in tables]
    staging: list[Tensor] = []
    before: tuple[Tensor, Tensor] | None = None
    for number, (source, place) in enumerate(_pieces(tables, loaded)):
        if len(staging) < tiles:
            staging.append(sbuf((PARTITIONS, longest), source.dtype))
        rows, count, *rest = source.shape
        staged = staging[number % tiles][0:rows, 0 : element_count(source.shape[1:])]
        staged = staged.reshape((rows, count, *rest))
        transfer(staged, source)
        if before is not None:
            nisa.tensor_copy(dst=before[0], src=before[1], engine=nisa.engine.gpsimd)
        before = place, staged
    if before is not None:
        nisa.tensor_copy(dst=before[0], src=before[1], engine=nisa.engine.gpsimd)
    return loaded


def load_few_tables(tables: Sequence[Tensor], are_few: bool) -> list[Tensor]:
    """Load tables; a few may stay where DMA writes them, which is quicker."""
    if not are_few:
        return load_tables(tables)
    loaded = [sbuf(table.shape) for table in tables]
    for tile, table in zip(loaded, tables, strict=True):
        transfer(tile, table)
    return loaded


def _pieces(tables: Sequence[Tensor], loaded: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pieces of tables in HBM, and their places in SBUF."""
    for table, tile in zip(tables, loaded, strict=True):
        for first, count in chunks(table.shape[1], _staged_count(table)):
            some = slice(first, first + count)
            yield table[:, some], tile[:, some]


def _staged_count(table: Tensor) -> int:
    """Return how many of the ``count`` of a table [rows, count, ...] DMA loads at a time."""
    numbers = _STAGED // itemsize(table.dtype)
    return min(table.shape[1], max(1, numbers // element_count(table.shape[2:])))


class Stream:
    """Two tiles in SBUF that chunks of tables fill in turn."""

    def __init__(self, numbers: int, dtype: Any) -> None:
        self._tiles = [sbuf((PARTITIONS, numbers), dtype) for _ in range(2)]
        self._turn = 0

    def restart(self) -> None:
        """Begin with the first tile again, as every iteration of a loop has to."""
        self._turn = 0

    def places(self, tables: Sequence[Tensor]) -> list[Tensor]:
        """Return places for tables [rows, count, width], all in the tile whose turn it is."""
        tile, low = self._tiles[self._turn], 0
        self._turn = 1 - self._turn
        found = []
        for table in tables:
            rows, count, width = table.shape
            place = tile[0:rows, low : low + count * width]
            found.append(place.reshape((rows, count, width)))
            low += count * width
        return found
