"""Joints as numbers: waits that instructions share, numbered behind the instructions.

In a schedule a joint is like an instruction that ends when all that it waits for is over. A joint
of a tensor waits for the joint before, and for a few instructions more (`rules.accesses.Joint`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from nki_sim.instructions.launch_state import LaunchState
from nki_sim.rules.accesses import FEW, Joint


class Joints:
    """The joints of a session.

    Attributes:
        first: the number of the first joint, which is the number of instructions.
        waits: for each joint the instructions and joints that it waits for.
    """

    def __init__(self, session: LaunchState) -> None:
        self.first = len(session.recorded())
        found = [joint for storage in session.storages for joint in storage.joints]
        self._numbers: dict[Joint, int] = {joint: n for n, joint in enumerate(found, self.first)}
        self.waits: list[list[int]] = []
        for joint in found:
            before = [] if joint.before is None else [self._numbers[joint.before]]
            self.waits.append([*before, *joint.waits])

    def numbered(self, waits: list[list[Any]]) -> list[list[int]]:
        """Returns waits of instructions with the numbers of joints; some are the same lists."""
        numbers = self._numbers
        if not numbers:
            return waits
        return [
            [numbers[m] if type(m) is Joint else m for m in found]
            if Joint in map(type, found)
            else found
            for found in waits
        ]

    def joined(self, waits: list[int]) -> list[int]:
        """Returns waits, or a new joint of them if they are many."""
        if len(waits) <= FEW:
            return waits
        self.waits.append(waits)
        return [self.first + len(self.waits) - 1]

    def separate(self, waits: Sequence[int]) -> list[int]:
        """Returns waits for instructions, those of joints one by one."""
        found, left = [], list(reversed(waits))
        while left:
            m = left.pop()
            if m < self.first:
                found.append(m)
            else:
                left += reversed(self.waits[m - self.first])
        return found


class JointTimes:
    """When joints are over, and what waits for instructions and joints without a time.

    What waits is an instruction or a queue, by its number, or a joint.

    Attributes:
        waiting: what was the last to wait for an instruction or joint, or -1.
        before: what had waited before it for the same one, or -1. Most instructions have to wait;
            so no list is made for each.

    The times of joints are noted in ``over``, where those of instructions are.
    """

    def __init__(self, first: int, waits: Sequence[Sequence[int]], over: list[float]) -> None:
        self._first, self._waits, self._over = first, waits, over
        self._seen: dict[int, tuple[int, float]] = {}  # how many waits are over, and when
        self.waiting = [-1] * (first + len(waits))
        self.before = [-1] * (first + len(waits))

    def block(self, one: int, m: int) -> list[int]:
        """Notes that ``one`` waits for m. Returns m if that is a joint to be looked at."""
        if m < 0:
            m = ~m
        self.before[one], self.waiting[m] = self.waiting[m], one
        return [m] if m >= self._first and self.before[one] < 0 else []

    def look(self, joint: int) -> list[int]:
        """Looks at a joint until a wait has no time. Returns what can go on now."""
        over = self._over
        place, latest = self._seen.pop(joint, (0, -1.0))
        for m in itertools.islice(self._waits[joint - self._first], place, None):
            time = over[m]
            if time < 0:
                self._seen[joint] = place, latest
                return self.block(joint, m)
            if time > latest:
                latest = time
            place += 1
        over[joint] = latest
        return self.waited_for(joint)

    def waited_for(self, m: int) -> list[int]:
        """Returns what waits for an instruction or joint."""
        found, one = [], self.waiting[m]
        while one >= 0:
            found.append(one)
            one = self.before[one]
        return found
