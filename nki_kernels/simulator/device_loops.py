"""Loops on the device: one iteration is recorded, and the others take as long.

The device runs one copy of the body (nki/deep-dives/nki-dynamic-loops.rst), and an iteration begins
when all engines and DMA queues are done with the one before: kiln on trn1 ("all engines meet on one
semaphore"), spectral-dns rule 7, and comments of NKI 0.6 on what it puts before the end of a body
agree. So work overlaps within an iteration alone, all iterations take the same time, and a tile of
the body is the same memory in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .device_rules import Break
from .errors import NkiValidationError


class DeviceLoop:
    """One loop of a launch, while it runs and afterwards.

    Attributes: ``first`` and ``end``, numbers of the instructions of its first iteration;
    ``trips``, how many there were, of which ``run`` were run; ``held``, storages from outside.
    """

    def __init__(self, session: Any, label: str) -> None:
        self.session = session
        self.label = label
        self.outer: DeviceLoop | None = session.device_loop
        self.first = self.end = session.count
        self.trips = self.run = 0
        self.held: list[Any] = []
        self._is_first = True
        self._storages = len(session.storages)

    @property
    def outermost(self) -> DeviceLoop:
        """The loop around it that is in no other one, or itself."""
        return self if self.outer is None else self.outer.outermost

    def values(self, bounds: range) -> Iterator[int]:
        """What to run the body with: in a dry run the first value and the last.

        The last one leaves registers that the body moves as a whole run does.
        """
        if self.session.dry and len(bounds) > 2:
            yield bounds[0]
            self.trips += len(bounds) - 2
            yield bounds[-1]
        else:
            yield from bounds

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """One iteration, which the block runs; NkiValidationError inside of a later loop."""
        if self.session.device_loop is not self:
            rule = "a loop on the device ends before the one around it goes on"
            raise NkiValidationError(self.label, "loop", "iterated beside another loop", rule)
        self.trips += 1
        self.run += 1
        if not self._is_first:
            with self._unrecorded():
                yield
            return
        self._is_first = False
        try:
            yield
        finally:
            self.end = self.session.count

    @contextmanager
    def _unrecorded(self) -> Iterator[None]:
        """Instructions bear the numbers of the first iteration, and leave no record."""
        session = self.session
        kept = session.trace, session.log
        edges, storages = len(session.extra_edges), len(session.storages)
        session.trace = session.log = None
        session.count = self.first
        try:
            yield
        finally:
            session.trace, session.log = kept
            session.count = self.end
            del session.extra_edges[edges:], session.storages[storages:]

    def hold_tiles(self) -> None:
        """Hold what the body uses of outside for as long as the loop runs [nki-dynamic-loops]."""
        for storage in self.session.storages[: self._storages]:
            if storage.last_use >= self.first:
                storage.first_use = min(storage.first_use, self.first)
                storage.last_use = max(storage.last_use, self.end - 1)
                self.held.append(storage)


@contextmanager
def device_loop(session: Any, label: str) -> Iterator[DeviceLoop]:
    """A loop of ``session``, opened; its iterations run inside of the block."""
    loop = DeviceLoop(session, label)
    if loop.outer is not None:
        session.broke(label, Break("nested-device-loops", "loop", "inside of another loop"))
    is_recorded = session.trace is not None
    if is_recorded:
        session.loop_marks.append((loop.first, loop))
    session.device_loop = loop
    try:
        yield loop
    finally:
        session.device_loop = loop.outer
        loop.hold_tiles()
        if is_recorded:
            session.loop_marks.append((loop.end, loop))
