"""A bundle of four-step transforms on its way through the kernel: see four_step.py.

A bundle is opened (four_step_opening.py), passes the stages (four_step_middle.py) and is closed
(four_step_closing.py). four_step.py lets these steps alternate with the steps of other bundles.
"""

from __future__ import annotations

from typing import Any

from ..nki_api import nl
from .four_step_plan import Tables
from .spread_lines import Bundle, Lines, Loads, Spread
from .stockham_blocks import Block, allocate_state
from .twiddled_stage import Sums


class Results(nl.NKIObject):
    """Where results go."""

    target: Lines
    after: Any  # the factors of the outputs in HBM, [C, 2, N/C] or, of B lines, [C, 2, B N/C]
    factors: Any  # tiles for them, that DMA fills in turn
    turn: int  # how many it has filled
    tiles: Any = None  # for results, filled in turn, or None where each is fresh
    made: int = 0  # how many are filled


class Passage(nl.NKIObject):
    """A bundle on its way through the kernel."""

    bundle: Bundle
    openings: Any
    middles: Any
    closings: Any
    states: Any  # what each of Stockham's stages reads, so far, and their result [C, 2, rows, A]
    block: Block
    matrices: Any  # tiles that streamed matrices of the turn come into
    twiddles: Any  # tiles that streamed twiddles come into
    sums: Sums
    pending: Any = None  # Group that is transposed, and not yet multiplied
    slabs: Any = None  # Slabs of the turn, the same
    result: Any = None  # SBUF for what is stored at once


class Flow(nl.NKIObject):
    """What all bundles pass through."""

    loads: Loads
    results: Results
    tables: Tables
    spread: Spread
    opened: Any  # what awaits its twiddles, which no stage comes before


def allocate_next(passage: Passage, flow: Flow) -> None:
    """A tile for the state that comes next."""
    spread, tables, index = flow.spread, flow.tables, len(passage.states)
    rows, stages = passage.block.rows.each, tables.plan.stages
    numbers = 2 * rows * spread.length
    if index < len(stages):
        state = allocate_state(nl.float32, spread.columns, numbers, stages[index])
    elif index == len(stages) and tables.turn != None:
        state = allocate_state(nl.float32, spread.columns, numbers, tables.turn.stage)
    else:
        shape = (spread.columns, 2, rows, spread.length)
        state = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    passage.states.append(state)
