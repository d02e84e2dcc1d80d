"""A bundle of four-step transforms on its way through the kernel: see four_step.py.

A bundle is opened (four_step_opening.py), passes the stages (four_step_middle.py) and is closed
(four_step_closing.py). four_step.py lets these steps alternate with the steps of other bundles.
"""

from __future__ import annotations

from typing import Any

from ..isa import nl
from .four_step_shared import Tables
from .spread_lines import Bundle, Lines, Loads, Spread
from .stockham_blocks import Block, allocate_state
from .twiddled_stage import Sums


class Results(nl.NKIObject):
    """Where results go, and the factors that multiply them before."""

    target: Lines
    # factors of the outputs in HBM, [C, 2, N/C] or, for B lines, [C, 2, B N/C]; in a list, or []
    after: Any
    factors: Any  # tiles for these factors, which DMA fills in turn
    turn: int  # how many of these DMA has filled
    # tiles for results, filled in turn, or None where each result has a fresh tile
    tiles: Any = None
    made: int = 0  # how many of these are filled


class Passage(nl.NKIObject):
    """A bundle on its way through the kernel."""

    bundle: Bundle
    openings: Any
    middles: Any
    closings: Any
    states: Any  # the states so far: one for each of Stockham's stages, then [C, 2, rows, A]
    block: Block
    matrices: Any  # tiles into which streamed matrices of the turn are loaded
    twiddles: Any  # tiles into which streamed twiddles are loaded
    sums: Sums
    pending: Any = None  # a Group that is transposed, and not yet multiplied
    slabs: Any = None  # the Slabs of the turn that are transposed, and not yet multiplied
    result: Any = None  # SBUF tile for results that are stored together


class Flow(nl.NKIObject):
    """What all bundles of a launch use."""

    loads: Loads
    results: Results
    tables: Tables
    spread: Spread
    opened: Any  # opened products that await their twiddles, where no stage comes before these


def allocate_next(passage: Passage, flow: Flow) -> None:
    """Allocate a tile for the next state."""
    spread, tables, index = flow.spread, flow.tables, len(passage.states)
    rows, stages = passage.block.rows.each, tables.shared.stages
    numbers = 2 * rows * spread.length
    if index < len(stages):
        state = allocate_state(nl.float32, spread.columns, numbers, stages[index])
    elif index == len(stages) and tables.turn != None:
        state = allocate_state(nl.float32, spread.columns, numbers, tables.turn.stage)
    else:
        shape = (spread.columns, 2, rows, spread.length)
        state = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    passage.states.append(state)
