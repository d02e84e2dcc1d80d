"""Stages of four-step transforms between the first stage and the DFTs over c: see four_step.py.

They are Stockham's stages. The last of them also multiplies by the twiddles (twiddled_stage.py).
"""

from __future__ import annotations

from typing import Any

from ..isa import nl
from .four_step_passage import Flow, Passage, allocate_next
from .four_step_shared import Tables, is_long
from .spread_lines import Bundle, start_loads
from .stockham_products import Group, Matrices, Target, group_size, multiply_group, transpose_group
from .stockham_stages import product_count
from .twiddled_stage import (
    Slabs,
    multiply_slabs,
    numbers_of,
    operand_count,
    transpose_slabs,
    twiddle_slabs,
)


class Middle(nl.NKIObject):
    """Consecutive products of one of Stockham's stages, or of the turn (before the twiddles)."""

    stage: int  # counted from the second stage
    row: int
    first: int  # the first product
    count: int  # number of products


def middle_work(bundle: Bundle, tables: Tables) -> Any:
    """Return the groups of products of Stockham's stages and the turn, stage by stage."""
    work: Any = []
    stages, turn = tables.shared.stages, tables.turn
    for index in range(len(stages)):
        stage = stages[index]
        products = product_count(stage)
        for row in range(bundle.rows):
            first = 0
            while first < products:
                count = group_size(stage, first, products)
                work.append(Middle(index, row, first, count))
                first += count
    for row in range(bundle.rows if turn != None else 0):
        for first in range(0, operand_count(turn), turn.together):
            count = min(turn.together, operand_count(turn) - first)
            work.append(Middle(len(stages), row, first, count))
    return work


def middle_step(middle: Middle, passage: Passage, flow: Flow) -> None:
    """Transpose a group of slabs, then multiply the group before it."""
    tables = flow.tables
    shared, turn, pending = tables.shared, tables.turn, passage.pending
    row, first, count = middle.row, middle.first, middle.count
    if is_long(flow.spread):
        start_loads(flow.loads, 1)
    if first == 0 and pending != None and pending.target.row == row:
        # The stage before has to end first, because every product here reads all of its results.
        finish_pending(passage, flow)
    if first == 0 and row == 0:
        allocate_next(passage, flow)
    state = passage.states[middle.stage]
    results = passage.states[middle.stage + 1]
    if middle.stage == len(shared.stages):
        operands = transpose_slabs(turn, state, row, first, shared.identity)
        finish_pending(passage, flow)
        passage.slabs = Slabs(row, first, count, operands, results)
    else:
        passage.block.state = state
        stage = shared.stages[middle.stage]
        operands = transpose_group(shared, passage.block, stage, row, first, count)
        finish_pending(passage, flow)
        sharing = product_count(stage) // stage.table.shape[1]
        matrices = Matrices(stage.tiles, first // sharing, sharing > 1)
        target = Target(results, row, None)
        passage.pending = Group(stage, first, count, stage.halves, operands, matrices, target)


def finish_pending(passage: Passage, flow: Flow) -> None:
    """Make the products of the slabs that are transposed, if there are any."""
    pending, slabs, tables = passage.pending, passage.slabs, flow.tables
    passage.pending = None
    passage.slabs = None
    if pending != None:
        multiply_group(pending)
    if slabs != None:
        matrices = numbers_of(tables.matrices, passage.matrices, slabs.first)
        banks = multiply_slabs(slabs, tables.turn, matrices)
        twiddles = numbers_of(tables.twiddle, passage.twiddles, slabs.first)
        twiddle_slabs(slabs, tables.turn, banks, twiddles, passage.sums)
