"""The rule on SBUF that DMA writes, checked with the times of the schedule.

A load starts as soon as there is free memory for it. So more of the memory that DMA writes is live
at once than program order shows.
"""

from __future__ import annotations

import itertools

from nki_sim.base.enums import MemoryRegion
from nki_sim.errors import Break
from nki_sim.hardware import DMA_WRITTEN_BYTES
from nki_sim.instructions.launch_state import LaunchState
from nki_sim.views.storage import Storage

from .placed import Placed


def broken_dma_written(
    session: LaunchState, placed: Placed, first: int = 0
) -> tuple[Break, int] | None:
    """Returns the break of "dma-written-ahead" by a session, and the instruction that breaks it.

    The instructions of the session begin at ``first``. Returns None if the rule holds.
    """
    changes: list[tuple[float, int, Storage]] = []
    for storage in session.storages:
        in_sbuf = storage.buffer is MemoryRegion.sbuf and storage.last_users
        if in_sbuf and storage.is_dma_written:
            end = max(placed.end[first + n] for n in storage.last_users.values())
            changes.append((placed.start[first + storage.first_use], storage.free_bytes, storage))
            changes.append((end, -storage.free_bytes, storage))
    changes.sort(key=lambda change: change[:2])
    live = list(itertools.accumulate([size for _, size, _ in changes]))
    peak = max(live, default=0)
    if peak <= DMA_WRITTEN_BYTES:
        return None
    culprit = changes[live.index(peak)][2]
    value = f"{peak} bytes a partition with {culprit.describe()}"
    what = "SBUF that DMA writes and that is live at once"
    return Break("dma-written-ahead", what, value), culprit.first_use
