"""The reason why an instruction did not begin earlier, in words.

The schedule keeps the instruction that was waited for. The kind of a wait for an operand is
determined only on request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .schedule import Schedule

# Kinds of the schedule: a dependency of the instruction, or what its queue ran before.
OPERAND, QUEUE = "operand", "queue"

WRITTEN = "operand written by"
READ = "operand still read by"
REUSED = "memory reused from"
DEPENDS_ON = "depends_on"
NO_REORDER = "no_reorder"
BARRIER = "barrier"
ENGINE = "engine busy"
DMA_QUEUE = "DMA queue busy"
DMA_ENGINES = "DMA engines busy"
DMA_COPIES = "DMA engines prepare copies"
HBM = "HBM bandwidth"
DESCRIPTORS = "GpSimdE busy"  # with its instructions, or with descriptors of DMA
SBUF_PORT = "SBUF port busy"
PSUM_PORT = "PSUM port busy"
PSUM_BANK = "PSUM bank busy"
LOOP = "loop iteration"

KINDS = (
    *(WRITTEN, READ, REUSED, DEPENDS_ON, NO_REORDER, BARRIER),
    *(ENGINE, DMA_QUEUE, DMA_ENGINES, DMA_COPIES, HBM, DESCRIPTORS),
    *(SBUF_PORT, PSUM_PORT, PSUM_BANK, LOOP),
)
OF_PORTS = {"gpsimd": DESCRIPTORS, "sbuf": SBUF_PORT, "psum": PSUM_PORT}


def why(schedule: Schedule, n: int) -> str:
    """Returns one of ``KINDS``, or "" if the instruction waited for no other."""
    if schedule.blame[n] < 0:
        return ""
    found = schedule.why[n]
    if found == OPERAND:
        return _of_operand(schedule, n)
    if found == QUEUE:
        return DMA_QUEUE if schedule.trace[n][0].engine == "dma" else ENGINE
    return found


def _of_operand(schedule: Schedule, n: int) -> str:
    """Returns the kind of the wait for a dependency.

    The waits for data come first in the list. The other waits have the kind that was noted last
    before their place.
    """
    done, end = schedule.done, schedule.end
    waits = schedule.trace[n][1]
    times = [done[m] if m >= 0 else end[~m] for m in waits]
    index = times.index(max(times))
    m = waits[index]
    other = m if m >= 0 else ~m
    meets = schedule.trace[other][0].instruction == "nisa.core_barrier"
    if meets or (other < schedule.split) != (n < schedule.split):
        return BARRIER
    for first, kind in reversed(schedule.wait_kinds.get(n, [])):
        if index >= first:
            return kind
    return WRITTEN if m >= 0 else READ
