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
        over: when waits were over.
        delays: what kept the engine of an instruction busy, and why.
        waits: returns the waits of each instruction.
        kinds: of an instruction the kinds of its waits, as in a session.
        joints: what each joint waits for.
    """

    sections: list[list[Stream]]
    ready: list[float]
    over: list[float]
    delays: dict[int, tuple[int, str]]
    waits: Callable[[], dict[int, list[int]]]
    kinds: dict[int, list[tuple[int, str]]]
    joints: list[list[int]]

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
        waits, joints = self.waits(), self._of_joints()
        for before, items in itertools.chain.from_iterable(self.sections):
            kind = LOOP
            for n in items:
                if n in self.delays:
                    blame[n], why[n] = self.delays[n]
                else:
                    found = self._operand(n, waits[n], joints)
                    blame[n], why[n] = (before, kind) if found is None else found
                before, kind = n, QUEUE
        return blame, why

    def _of_joints(self) -> dict[int, int]:
        """Returns for each joint the wait that was over last, the first one of several."""
        found: dict[int, int] = {}
        for joint, waits in enumerate(self.joints, len(self.ready)):
            own = [found.get(m, m) for m in waits]
            found[joint] = max(own, key=self.over.__getitem__)
        return found

    def _operand(self, n: int, waits: list[int], joints: dict[int, int]) -> tuple[int, str] | None:
        """Returns the wait that was over when the instruction could begin, or None."""
        wait = max(waits, key=self.over.__getitem__, default=None)  # the first one of several
        if wait is None or self.over[wait] != self.ready[n]:
            return None
        kind = kind_at(waits.index(wait), self.kinds[n]) if n in self.kinds else ""
        m = joints.get(wait, wait)
        return (m, kind or WRITTEN) if m >= 0 else (~m, kind or READ)
