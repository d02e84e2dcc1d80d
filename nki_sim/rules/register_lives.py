"""How many registers an engine has in use at once: its sequencer has 64 (nki.isa.register_alloc).

A register is in use from a write of it to the last use before the next write. Its uses are operands
whose address it holds, and stores of it. They count for the engine whose sequencer needs them: for
a copy, the engine that writes the descriptors. An NkiScalar of int64 takes two registers. The count
is never too high: a value that is computed from NkiScalars is in use from its first use on, and
bounds of loops are not counted, because no document says which engines hold them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from nki_sim import hardware
from nki_sim.base.enums import ENGINE_NAMES
from nki_sim.errors import Break
from nki_sim.instructions.issue import Issue
from nki_sim.instructions.launch_state import LaunchState
from nki_sim.views.register import Life, RunTimeValue
from nki_sim.views.tensor import NkiTensor

_SEQUENCERS = {"dma sync": "sync", "dma scalar": "scalar"}  # by the queue of a copy


def note_addresses(
    session: LaunchState, issue: Issue, n: int, operands: Sequence[NkiTensor]
) -> None:
    """Notes the registers that hold addresses of an instruction's operands."""
    for t in operands:
        index = None if t._dynamic is None else t._dynamic.index
        if isinstance(index, RunTimeValue):
            note_use(session, index.life, _engine(issue), n)


def note_use(session: LaunchState, life: Life | None, engine: str | None, n: int) -> None:
    """Notes that instruction ``n``, or a store before it, needs a register on an engine."""
    if life is None or engine is None:
        return
    if not life.last:
        session.lives.append(life)
    if life.since is None:
        life.since = n
    life.last[engine] = n


def _engine(issue: Issue) -> str | None:
    # None: no document says which sequencer needs the addresses.
    if issue.engine != "dma":
        return issue.engine
    return "gpsimd" if issue.uses_software_dge else _SEQUENCERS.get(issue.queue)


def check(session: LaunchState) -> None:
    """Raises or warns if more registers of an engine are in use at once than it has."""
    most = hardware.REGISTERS
    if len(session.lives) * 2 <= most:
        return
    for engine, name in ENGINE_NAMES.items():
        changes: list[tuple[int, int, int]] = []
        for life in session.lives:
            if engine in life.last and life.since is not None:
                changes += (life.since, 1, life.width), (life.last[engine], 2, -life.width)
        changes.sort()
        in_use = list(itertools.accumulate([change for _, _, change in changes]))
        too_many = [n for (n, _, _), count in zip(changes, in_use, strict=True) if count > most]
        if too_many:
            value = f"{max(in_use)} on {name}"
            broken = Break("live-registers", "the number of registers in use at once", value)
            session.broke("kernel", broken, too_many[0])
