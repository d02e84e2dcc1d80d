"""Names of launch.py for kernels that are not yet composed of parts."""

from __future__ import annotations

from typing import Any

from . import launch
from .isa import nisa, nl
from .launch import (  # noqa: F401
    LAUNCH_INSTRUCTIONS,
    HbmRows,
    Rows,
    Share,
    blocks_of,
    load_rows,
    part_of_rows,
    ramped,
    row_count,
    rows_in_hbm,
    rows_together,
    store_rows,
)


def share_rows(batch: int, block: int, instructions: int) -> Share:
    """Return this program's share of a batch, in blocks of ``block`` rows.

    instructions: how many instructions a block takes.
    """
    programs, program = nl.num_programs(), nl.program_id(0)
    first = batch * program // programs
    count = batch * (program + 1) // programs - first
    step = block * max(1, launch.BODY_INSTRUCTIONS // instructions)
    trips = batch // programs // step
    if trips < 2:
        trips = 0
    return Share(first, step, trips, count - trips * step)


def descriptors(base: Any) -> Any:
    """Return who writes a transfer's descriptors: the host, where no register is in its address."""
    return nisa.dge_mode.none if base is None else nisa.dge_mode.unknown
