"""Loops on the device, of which one iteration is recorded and the others take the same time.

The device runs one copy of the body (nki/deep-dives/nki-dynamic-loops.rst). An iteration begins
when all engines and DMA queues have finished the iteration before. Three sources agree on that:
kiln on trn1 ("all engines meet on one semaphore"), rule 7 of spectral-dns, and comments of NKI 0.6
on what it inserts before the end of a body. So work overlaps only within an iteration, all
iterations take the same time, and a tile of the body is the same memory in each iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nki_sim.errors import Break, NkiValidationError

from .launch_state import LaunchState


class DeviceLoop:
    """A loop of a launch, while it runs and afterwards.

    Attributes:
        first, end: the instructions of the first iteration have the numbers first to end - 1.
        trips: the number of iterations.
        run: the number of iterations that the simulator ran.
        held: the storages from outside that the body uses.
    """

    def __init__(self, session: LaunchState, label: str) -> None:
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
        """The outermost loop around this loop, or this loop itself."""
        return self if self.outer is None else self.outer.outermost

    def values(self, bounds: range) -> Iterator[int]:
        """Yields the values with which the body runs: in a dry run only the first and the last.

        After the last value, registers that the body writes have the same values as in a real run.
        """
        if self.session.dry and len(bounds) > 2:
            yield bounds[0]
            self.trips += len(bounds) - 2
            yield bounds[-1]
        else:
            yield from bounds

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Notes one iteration, which the block runs."""
        if self.session.device_loop is not self:
            rule = "an inner loop on the device must end before the loop around it continues"
            raise NkiValidationError(self.label, "the loop", "interleaved with another loop", rule)
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
        """Gives instructions the numbers of the first iteration, and leaves no record of them."""
        session = self.session
        kept = session.trace, session.log
        edges, storages = len(session.extra_edges), len(session.storages)
        lives = len(session.lives)
        session.trace = session.log = None
        session.count = self.first
        try:
            yield
        finally:
            session.trace, session.log = kept
            session.count = self.end
            del session.extra_edges[edges:], session.storages[storages:], session.lives[lives:]

    def hold_tiles(self) -> None:
        """Holds the outside tiles of the body while the loop runs [nki-dynamic-loops]."""
        for storage in self.session.storages[: self._storages]:
            if storage.last_use >= self.first:
                storage.first_use = min(storage.first_use, self.first)
                storage.last_use = max(storage.last_use, self.end - 1)
                self.held.append(storage)


@contextmanager
def device_loop(session: LaunchState, label: str) -> Iterator[DeviceLoop]:
    """Opens a loop of ``session``, whose iterations run inside of the block."""
    loop = DeviceLoop(session, label)
    if loop.outer is not None:
        session.broke(label, Break("nested-device-loops", "the loop", "inside of another loop"))
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


def loops_of_tiles(session: LaunchState) -> dict[Any, list[tuple[int, int]]]:
    """Returns for tiles that loops hold from outside the first instruction and end of each loop."""
    found: dict[Any, list[tuple[int, int]]] = {}
    for loop in {loop for _, loop in session.loop_marks}:
        for storage in loop.held:
            found.setdefault(storage, []).append((loop.first, loop.end))
    return found
