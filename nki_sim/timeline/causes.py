"""What each instruction of a placed launch waited for last; found when it is asked for.

Most timelines are read for their times alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .waits import LOOP, QUEUE, READ, WRITTEN, kind_at

Stream = tuple[int, Sequence[int]]  # what ended before its first instruction, its instructions


@dataclass(frozen=True)
class Causes:
    """What was noted while a reading was placed.

    Attributes:
        sections: the queues of each section, the first one first.
        ready: when an instruction and its queue were ready.
        waited: the wait of an instruction that was over last, if that was after its queue was free.
        delays: what kept the engine of an instruction busy, and why.
        joints: for a joint the wait that was over last.
        waits: returns the waits of each instruction.
        kinds: of an instruction the kinds of its waits, as in a session.
    """

    sections: list[list[Stream]]
    ready: list[float]
    waited: list[int | None]
    delays: dict[int, tuple[int, str]]
    joints: dict[int, int]
    waits: Callable[[], dict[int, list[int]]]
    kinds: dict[int, list[tuple[int, str]]]

    @functools.cached_property
    def sequence(self) -> list[int]:
        """The instructions in the order in which they could start.

        At equal times the first queue takes precedence.
        """
        found: list[int] = []
        for streams in self.sections:
            section = itertools.chain.from_iterable([items for _, items in streams])
            found += sorted(section, key=self.ready.__getitem__)
        return found

    @functools.cached_property
    def last_waits(self) -> tuple[list[int], list[str]]:
        """The instruction that each one waited for last, or -1, and the reason."""
        blame, why = [-1] * len(self.ready), [""] * len(self.ready)
        waits = self.waits() if self.kinds else {}
        for before, items in itertools.chain.from_iterable(self.sections):
            kind = LOOP
            for n in items:
                if n in self.delays:
                    blame[n], why[n] = self.delays[n]
                else:
                    found = self._operand(n, waits)
                    blame[n], why[n] = (before, kind) if found is None else found
                before, kind = n, QUEUE
        return blame, why

    def _operand(self, n: int, waits: dict[int, list[int]]) -> tuple[int, str] | None:
        """Returns the wait that was over when the instruction began, if one was."""
        wait = self.waited[n]
        if wait is None:
            return None
        m = self.joints.get(wait, wait)
        reason = WRITTEN if m >= 0 else READ
        if n in self.kinds:
            reason = kind_at(waits[n].index(wait), self.kinds[n]) or reason
        return m if m >= 0 else ~m, reason
