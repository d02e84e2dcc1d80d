"""The free memory of a partition of SBUF or PSUM, in the order of release.

The memory that was freed first is used first, as by a compiler that rotates buffers.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from nki_sim.rules.accesses import Wait


class FreeMemory:
    """Pieces of free memory, each with waits for the last users of what was there before."""

    def __init__(self, size: int) -> None:
        self._pieces: deque[tuple[int, list[Any]]] = deque([(size, [])])

    def take(self, size: int) -> list[Any]:
        """Takes bytes, and returns waits for their last users."""
        waits: list[Any] = []
        while size > 0 and self._pieces:
            available, users = self._pieces.popleft()
            waits += users
            if available > size:
                self._pieces.appendleft((available - size, users))
            size -= available
        return waits

    def release(self, size: int, waits: list[Wait]) -> None:
        """Frees bytes, which the next user may overwrite when the waits are over."""
        self._pieces.append((size, waits))
