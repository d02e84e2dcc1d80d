"""The reason why an instruction did not begin earlier, in words.

The schedule keeps the instruction that was waited for. A wait at a barrier is told from others only
on request.
"""

from __future__ import annotations

from collections.abc import Hashable

from nki_sim.errors import NkiValidationError
from nki_sim.rules.hazards import NO_REORDER

QUEUE = "queue"  # in the schedule: what its queue ran before

WRITTEN = "operand written by"
READ = "operand still read by"
REUSED = "memory reused from"
DEPENDS_ON = "depends_on"
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
OF_PORTS: dict[Hashable, str] = {"gpsimd": DESCRIPTORS, "sbuf": SBUF_PORT, "psum": PSUM_PORT}
OF_OPERANDS = frozenset({WRITTEN, READ, REUSED, DEPENDS_ON, NO_REORDER})


def kind_at(index: int, kinds: list[tuple[int, str]]) -> str:
    """Returns the kind of a wait at an index of an instruction's waits, or "" for data.

    The waits for data come first. The other waits have the kind that was noted last before them.
    """
    return next((kind for first, kind in reversed(kinds) if index >= first), "")


def circular() -> NkiValidationError:
    """Returns the error of instructions that wait for each other."""
    return NkiValidationError(
        "schedule",
        "the graph of waits",
        "circular",
        "the edges of depends_on and with_schedule must not form a cycle: remove an edge",
    )
