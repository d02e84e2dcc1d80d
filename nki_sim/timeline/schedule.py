"""Start and end of every instruction of one launch, in two readings of its order.

*As written* keeps program order. *As the compiler may order it* lets independent instructions
change places (`compiler_order`), where that makes the launch faster; it is the price. Each engine
issues its instructions in the order of the reading, and loads and stores use two in-order DMA
queues (`reading`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

from nki_sim.hardware import UNEXPLAINED, NeuronCore
from nki_sim.instructions.launch_state import LaunchState

from .dma_written import broken_dma_written
from .engines import Engines
from .memory_over_time import Held, TileUses
from .memory_reuse import add_address_waits
from .pair_schedule import Meetings, pair_engines, pair_reading
from .placed import Placed
from .reading import Ordered, Reading
from .waits import DEPENDS_ON


def add_waits(session: LaunchState) -> None:
    """Adds waits to a launch's trace that hold in every order: edges, and tiles at one address."""
    trace = session.recorded()
    for n, m in session.extra_edges:
        waits = trace[n][1]
        session.note_waits(n, waits, DEPENDS_ON)
        waits.append(m)
    add_address_waits(session)


class Schedule:
    """The times of one launch, and what prices by other readings need.

    The launch has one session, or two, whose instructions with the numbers in ``meetings`` meet.

    Attributes:
        as_written: when each instruction runs if the compiler keeps program order.
        placed: the same for the order that is the price: the compiler's, where that is faster.
        names: the names that the kernel gives the instructions, those of the second core last.
        notes: one for each instruction, if the launch has taken notes, or None.
    """

    def __init__(self, sessions: Sequence[LaunchState], meetings: Meetings = ()) -> None:
        first = sessions[0]
        for session in sessions:
            add_waits(session)
        compiled = [Ordered.as_compiled(session) for session in sessions]
        written = [Ordered.as_written(session) for session in sessions]
        self.names = [name for session in sessions for _, _, name in session.recorded()]
        notes = [session.notes or [] for session in sessions]
        self.notes = None if first.notes is None else list(itertools.chain(*notes))
        split = len(first.recorded())
        banks = [{split + n: held for n, held in one.banks.items()} for one in sessions[1:]]
        self._banks = [first.banks, *banks]
        end_ns = max(one.end_ns for one in compiled)
        if len(sessions) == 1:
            readings = [ordered[0].reading(first) for ordered in (compiled, written)]
        else:
            readings = [pair_reading(sessions, meetings, one) for one in (compiled, written)]
        self._decide(first.chip, end_ns, *readings)
        self._uses = [TileUses(session) for session in sessions]
        self._check_dma_written(sessions)

    def _decide(self, chip: NeuronCore, end_ns: float, compiled: Reading, written: Reading) -> None:
        """Places both readings, and keeps the faster one as the price.

        ``end_ns`` is when the compiler's order would end, as the list scheduler has found.
        """
        self._chip, self._compiled, self._written = chip, compiled, written
        self.as_written = self.placed = written.place(chip, self._engines(chip))
        self._chosen = written
        if end_ns < self.as_written.total_ns and self.reordered.total_ns < self.as_written.total_ns:
            self._chosen, self.placed = compiled, self.reordered

    @functools.cached_property
    def reordered(self) -> Placed:
        """When each instruction runs in the compiler's order, whether that is faster or not."""
        return self._compiled.place(self._chip, self._engines(self._chip))

    def _check_dma_written(self, sessions: Sequence[LaunchState]) -> None:
        """Reports a break of "dma-written-ahead", for which loads run too far in both orders."""
        for core, session in enumerate(sessions):
            first = core * self.placed.second_begin
            found = broken_dma_written(session, self.as_written, first)
            if found and broken_dma_written(session, self.placed, first):
                session.broke("nisa.dma_copy", *found)

    @functools.cached_property
    def held(self) -> list[Held]:
        """The memory of the tiles of each core."""
        begins = (0, self.placed.second_begin)
        return [
            uses.held(self.placed, begin) for uses, begin in zip(self._uses, begins, strict=False)
        ]

    def _engines(self, chip: NeuronCore) -> list[Engines]:
        if len(self._banks) > 1:
            return pair_engines(chip, self._banks)
        return [Engines(chip, self._banks[0])]

    @functools.cached_property
    def low_ns(self) -> float:
        """The total in ns by the cheapest reading of the records: ``NeuronCore.cheapest``."""
        chip = self._chip.cheapest
        found = self._chosen.place(chip, self._engines(chip)).total_ns
        return min(self.placed.total_ns, found) / UNEXPLAINED

    @functools.cached_property
    def high_ns(self) -> float:
        """The total in ns by the dearest reading of the records, and by the dearer order."""
        chip = self._chip.dearest
        readings = (self._compiled, self._written)
        found = [one.place(chip, self._engines(chip)).total_ns for one in readings]
        return max(self.as_written.total_ns, self.reordered.total_ns, *found) * UNEXPLAINED
