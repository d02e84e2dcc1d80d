"""What is said where more tiles are live at once than SBUF or PSUM holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .errors import NkiValidationError
from .instruction_notes import noted_line
from .tensor import Storage

_SHOWN = 4  # kinds of tiles


def full_memory(
    session: Any, live: Iterable[tuple[Storage, int]], n: int, limit: int, last: Storage
) -> NkiValidationError:
    """The error of the tile ``last``, which is too much at instruction ``n``.

    ``live`` are the tiles with their bytes a partition. The lines where they are first used are
    said where the launch notes lines.
    """
    found = list(live)
    sizes = {_kind(session, tile): size for tile, size in found}
    counts = Counter(_kind(session, tile) for tile, _ in found)
    kinds = sorted(counts, key=lambda kind: -sizes[kind] * counts[kind])
    shown = [f"{counts[kind]} x {kind}" for kind in kinds[:_SHOWN]]
    rest = [f"{len(kinds) - _SHOWN} other kinds"] if len(kinds) > _SHOWN else []
    rule = (
        f"{sum(size for _, size in found)} bytes a partition are live at instruction "
        f"{n}{_place(session, n, ' of ')}; {session.chip.name} has {limit} in {last.buffer.value}; "
        f"live are {', '.join(shown + rest)}"
    )
    error = NkiValidationError("kernel", "tile", last.describe(), rule)
    error.source = noted_line(session.notes, n)
    return error


def _kind(session: Any, tile: Storage) -> str:
    """A tile and where it is first used."""
    return tile.describe() + _place(session, tile.first_use, " from ")


def _place(session: Any, n: int, before: str) -> str:
    source = noted_line(session.notes, n)
    return f"{before}{Path(source.file).name}:{source.line}" if source else ""
