"""An order of a kernel's instructions that satisfies the edges of depends_on and with_schedule.

The compiler may reorder instructions, so an edge to a later instruction is legal. If edges make an
instruction wait for itself, through other edges or through its data, the chip waits forever
("deadlock": nki.isa.NkiInstruction.depends_on).
"""

from __future__ import annotations

import heapq
from typing import Any

from nki_sim.errors import NkiValidationError
from nki_sim.instructions.launch_state import LaunchState, Logged
from nki_sim.rules.hazards import note_write, wait_for_overwritten, wait_for_reads, wait_for_writes


def is_program_order_kept(session: LaunchState) -> bool:
    """Returns whether no edge makes an instruction wait for itself or for a later instruction."""
    return all(producer < consumer for consumer, producer in session.extra_edges)


def kept_order(session: LaunchState) -> list[int] | None:
    """Returns instruction numbers in an order that satisfies all edges.

    Returns None if program order satisfies them, and needs ``session.log`` otherwise. Raises
    NkiValidationError if no order does.
    """
    if is_program_order_kept(session):
        return None
    log = _log(session)
    followers: list[list[int]] = [[] for _ in log]
    waits = [0] * len(log)
    for consumer, producer in session.extra_edges + _data_edges(session):
        followers[producer].append(consumer)
        waits[consumer] += 1
    ready = [n for n, count in enumerate(waits) if not count]
    order = []
    while ready:
        producer = heapq.heappop(ready)
        order.append(producer)
        for n in followers[producer]:
            waits[n] -= 1
            if not waits[n]:
                heapq.heappush(ready, n)
    if len(order) < len(waits):
        raise _circular(session, waits)
    return order


def _log(session: LaunchState) -> list[Logged]:
    assert session.log is not None
    return session.log


def _circular(session: LaunchState, waits: list[int]) -> NkiValidationError:
    edges = [(n, m) for n, m in session.extra_edges if waits[n] and waits[m] and n <= m]
    names = [f"instruction {n} ({_log(session)[n][0].instruction})" for n in edges[0]]
    rule = (
        "the edges of depends_on and with_schedule form a cycle, among themselves or with the "
        "dependencies of data: remove an edge"
    )
    return NkiValidationError("schedule", "an edge", " after ".join(names), rule)


def _data_edges(session: LaunchState) -> list[tuple[int, int]]:
    """Returns (consumer, producer) of every hazard, and of neighbours in a no_reorder block."""
    for storage in session.storages:
        storage.writes, storage.reads = {}, {}
    edges = []
    last_of_block: dict[int, int] = {}
    for n, (_, writes, reads, block) in enumerate(_log(session)):
        found: list[Any] = []
        for t in reads:
            wait_for_writes(found, t)
            t.storage.reads[id(t), n] = t, n, ""
        for t in writes:
            wait_for_overwritten(found, t, own="any")
            wait_for_reads(found, t, n, own="any", whole=False)
            note_write(t, n, "", n)
        edges.extend([(n, m if m >= 0 else ~m) for m in found if m not in (n, ~n)])
        if block and block in last_of_block:
            edges.append((n, last_of_block[block]))
        last_of_block[block] = n
    return edges
