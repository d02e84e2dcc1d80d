"""Pairs of lines whose order in the program costs time, unless the compiler mends the order.

In an order that keeps the program, an instruction may wait for an instruction before it in its
queue that itself still waits for an operand. If the compiler may run both the other way round, the
time on the critical path from which the queue was free is a cost of their order.
"""

from __future__ import annotations

from dataclasses import dataclass

from nki_sim.errors import SourceLine

from .schedule import Schedule
from .waits import QUEUE


@dataclass(frozen=True)
class OrderCost:
    """The cost of the order of two lines.

    Attributes:
        ns: modelled nanoseconds that their order costs as written, at most.
        first: the line whose instructions run first as written, or None if no lines were noted.
        second: the line whose instructions could run before, or None.
        instructions: their functions, such as ("nisa.tensor_reduce", "nisa.tensor_tensor").
    """

    ns: float
    first: SourceLine | None
    second: SourceLine | None
    instructions: tuple[str, str]


def order_costs(schedules: list[Schedule]) -> list[OrderCost]:
    """Returns the costs of all pairs of lines, the dearest first.

    The costs of a launch add up to at most the time that the compiler's order saves. A launch that
    is no slower as written has none.
    """
    found: dict[tuple[SourceLine | None, SourceLine | None, tuple[str, str]], float] = {}
    for schedule in schedules:
        gain = schedule.as_written.total_ns - schedule.placed.total_ns
        if gain <= 0.0:
            continue
        costs = _inversions(schedule)
        total = sum(costs.values())
        scale = min(1.0, gain / total) if total else 0.0
        notes, issues = schedule.notes, schedule.as_written.issues
        for (first, second), ns in costs.items():
            lines = (notes[first].source(), notes[second].source()) if notes else (None, None)
            names = issues[first].instruction, issues[second].instruction
            key = (*lines, names)
            found[key] = found.get(key, 0.0) + scale * ns
    return [
        OrderCost(ns, first, second, names)
        for (first, second, names), ns in sorted(found.items(), key=lambda item: -item[1])
    ]


def _inversions(schedule: Schedule) -> dict[tuple[int, int], float]:
    """Returns pairs of instructions on the critical path that the compiler may turn round."""
    written = schedule.as_written
    place = {n: number for number, n in enumerate(schedule.placed.sequence)}
    before: dict[int, int] = {}  # the instruction before in the queue
    last: dict[tuple[bool, str], int] = {}
    for n in written.sequence:
        queue = n >= written.second_begin, written.issues[n].queue
        if queue in last:
            before[n] = last[queue]
        last[queue] = n
    found = {}
    n = written.last
    while n >= 0:
        first = written.blame[n]
        if first >= 0 and written.why[n] == QUEUE and place[n] < place[first]:
            free = written.end[before[first]] if first in before else 0.0
            waited = written.start[n] - min(free, written.start[first])
            found[first, n] = written.times[n] * waited
        n = first
    return found
