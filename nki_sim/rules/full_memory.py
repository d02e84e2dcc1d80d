"""The error about tiles that are live at once and do not fit into SBUF or PSUM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from nki_sim.errors import NkiValidationError
from nki_sim.instructions.instruction_notes import noted_line
from nki_sim.instructions.launch_state import LaunchState
from nki_sim.views.storage import Storage

_SHOWN = 4  # kinds of tiles


def full_memory(
    session: LaunchState, live: Iterable[tuple[Storage, int]], n: int, limit: int, last: Storage
) -> NkiValidationError:
    """Returns the error about the tile ``last``, which does not fit at instruction ``n``.

    ``live`` are the tiles with their bytes a partition. The message has the lines of their first
    use, if the launch notes lines.
    """
    found = list(live)
    sizes = {_kind(session, tile): size for tile, size in found}
    counts = Counter(_kind(session, tile) for tile, _ in found)
    kinds = sorted(counts, key=lambda kind: -sizes[kind] * counts[kind])
    listed = [f"{counts[kind]} x {kind}" for kind in kinds[:_SHOWN]]
    rest = [f"{len(kinds) - _SHOWN} other kinds"] if len(kinds) > _SHOWN else []
    memory = last.buffer.value
    rule = (
        f"{sum(size for _, size in found)} bytes a partition of {memory} are live at instruction "
        f"{n}{_place(session, n, ' at ')}, and {session.chip.name} has {limit}: use fewer or "
        f"smaller tiles at a time. The live tiles are {', '.join(listed + rest)}"
    )
    error = NkiValidationError("kernel", "the tile to allocate", last.describe(), rule)
    error.source = noted_line(session.notes, n)
    return error


def _kind(session: LaunchState, tile: Storage) -> str:
    return tile.describe() + _place(session, tile.first_use, " first used at ")


def _place(session: LaunchState, n: int, before: str) -> str:
    source = noted_line(session.notes, n)
    return f"{before}{Path(source.file).name}:{source.line}" if source else ""
