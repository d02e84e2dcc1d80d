"""The waits of tiles that reuse the memory of earlier tiles.

Tiles are assigned memory in program order. A tile waits until the tiles whose memory it reuses are
finished. The memory that was freed first is reused first, as by a compiler that rotates buffers.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from nki_kernels.hardware import NeuronCore

from .enums import MemoryRegion
from .tensor import Storage
from .waits import REUSED


def add_memory_waits(session: Any) -> None:
    """Makes the first instruction on a tile wait for the tiles whose memory the tile reuses."""
    chip: NeuronCore = session.chip
    sbuf = _Memory(chip.sbuf_partition_bytes)
    psum = _Memory(chip.psum_partition_bytes)
    born: dict[int, list[tuple[Storage, _Memory, int]]] = {}
    died: dict[int, list[tuple[Storage, _Memory, int]]] = {}
    for storage in session.storages:
        if not storage.last_users:  # unused, or used in later iterations of a loop only
            continue
        if storage.buffer is MemoryRegion.sbuf:
            entry = (storage, sbuf, storage.free_bytes)
        elif storage.buffer is MemoryRegion.psum:
            entry = (storage, psum, session.psum_bytes(storage))
        else:
            continue
        born.setdefault(storage.first_use, []).append(entry)
        died.setdefault(storage.last_use, []).append(entry)
    trace = session.trace
    for n in sorted(born.keys() | died.keys()):
        for _, memory, size in born.get(n, ()):
            found = memory.take(size)
            if found:
                session.note_waits(n, trace[n][1], REUSED)
                trace[n][1].extend(found)
        for storage, memory, size in died.get(n, ()):
            memory.release(size, [~m for m in storage.last_users.values()])


class _Memory:
    """The free memory of a partition in the order of release: (bytes, waits for its last users)."""

    def __init__(self, size: int) -> None:
        self.free: deque[tuple[int, list[int]]] = deque([(size, [])])

    def take(self, size: int) -> list[int]:
        waits: list[int] = []
        while size > 0 and self.free:
            available, users = self.free.popleft()
            waits += users
            if available > size:
                self.free.appendleft((available - size, users))
            size -= available
        return waits

    def release(self, size: int, users: list[int]) -> None:
        self.free.append((size, users))
