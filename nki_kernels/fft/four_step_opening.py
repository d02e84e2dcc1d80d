"""The first stage of four-step transforms: it contracts the digits a1 and leaves c on partitions.

four_step.py has the mathematics.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..tiles import HALF, PSUM_BANK, columns_read, factor_views, multiply, multiply_row_tile
from .four_step_passage import Flow, Passage, allocate_next
from .four_step_shared import is_long
from .spread_lines import LOADED, Bundle, Chunk, Loads, Spread, start_loads, weigh_inputs
from .twiddled_stage import Sums, twiddle


class Opening(nl.NKIObject):
    """Products of the first stage that share a PSUM bank, for one or two places of a tile."""

    row: int  # the first row, in the first place
    rows: Any  # number of rows in each place
    low: int  # the first value of a', the digits that r1 leaves of a
    count: int  # how many values of a'
    chunk: Chunk
    is_first: bool  # whether it is the first of its chunk
    is_last: bool  # whether it is the last of its chunk


class Opened(nl.NKIObject):
    """Products of the first stage that are not yet multiplied by twiddles."""

    target: Any  # their places in the first state
    bank: Any  # the products, in PSUM
    sums: Sums


def left_of(spread: Spread) -> int:
    """Return M of the stage after the first one, or A / r1 where there is no such stage."""
    left = spread.length // spread.radices[0]
    return left // spread.radices[1] if len(spread.radices) > 2 else left


def opening_work(bundle: Bundle, spread: Spread) -> Any:
    """Return the openings of a bundle, chunk by chunk."""
    most = max(1, PSUM_BANK // (2 * spread.radices[0])) if spread.parts == 1 else 1
    left = left_of(spread)
    work: Any = []
    for chunk in bundle.chunks:
        low, end = chunk.low // spread.columns, (chunk.low + chunk.size) // spread.columns
        together = max(1, most // (end - low)) if len(bundle.chunks) == 1 else 1
        is_first = True
        for member in range(0, bundle.each, together):
            digit = low
            while digit < end:
                # An opening has whole runs of M values of a', or a part of one run.
                count = min(most, left - digit % left, end - digit)
                if count == left and most >= left:
                    count = min(most, end - digit) // left * left
                rows = []
                for start in range(member, bundle.rows, bundle.each):
                    rows.append(min(together, bundle.each - member, bundle.rows - start))
                work.append(Opening(member, rows, digit, count, chunk, is_first, False))
                is_first = False
                digit += count
        work[len(work) - 1].is_last = True
    return work


def open_step(opening: Opening, passage: Passage, flow: Flow) -> None:
    """Contract top digits, which leaves c on partitions, for a PSUM bank of each place."""
    spread, chunk = flow.spread, opening.chunk
    if len(passage.states) == 0:
        allocate_next(passage, flow)
    if opening.is_first and chunk.factors != None:
        weigh_inputs(chunk, spread)
    banks: Any = []
    targets: Any = []
    # Few numbers in one bank are evacuated in half the time; otherwise two banks are filled side by
    # side.
    is_shared = shares_bank(opening, spread)
    for place in range(1 if is_shared else len(opening.rows)):
        rows = chunk.bundle.rows if is_shared else opening.rows[place]
        first = place * chunk.bundle.each + opening.row
        target = opened_numbers(opening, first, rows, passage.states[0], spread)
        shape = (columns_read(spread.columns),) + target.shape[1:]
        targets.append(target)
        banks.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum))
    for row in range(opening.rows[0]):
        for digit in range(opening.count):
            for place in range(len(opening.rows)):
                if row < opening.rows[place]:
                    bank, at_row = banks[place % len(banks)], row
                    if is_shared:
                        at_row += place * chunk.bundle.each
                    dst = opened_products(bank, at_row, digit, spread)
                    contract(dst, opening, place, row, digit, flow)
    # VectorE multiplies the previous products by twiddles while these are computed.
    twiddle_opened(flow)
    for place in range(len(banks)):
        bank = banks[place][0 : spread.columns]
        if flow.tables.turn == None:
            flow.opened.append(Opened(targets[place], bank, passage.sums))
        else:
            nisa.activation(dst=targets[place], op=nl.copy, data=bank)
    if opening.is_last:
        flow.loads.opened += 1
        # The DMA queues have time for another long bundle when this one passes the stages.
        if not is_long(spread) or next_bundle(flow.loads) == chunk.bundle.first:
            start_loads(flow.loads, 1)


def shares_bank(opening: Opening, spread: Spread) -> bool:
    """Return whether both places' numbers fit one PSUM bank, all in the order of the state."""
    bundle = opening.chunk.bundle
    fits = 2 * spread.length * bundle.rows <= PSUM_BANK
    return bool(fits and len(spread.radices) == 2 and opening.rows[0] == bundle.each)


def twiddle_opened(flow: Flow) -> None:
    """Multiply opened products by their twiddles where no stage follows, if there are any."""
    for opened in flow.opened:
        shape = (opened.bank.shape[0], 2, flow.spread.length)
        factors = flow.tables.twiddle.tiles[0].reshape(shape)
        factors = factor_views(factors, 0, opened.target.shape)
        twiddle(opened.target, opened.bank, factors, opened.sums)
    flow.opened = []


def next_bundle(loads: Loads) -> int:
    """Return the first row of the bundle that is loaded next, or -1 if there is none."""
    left = loads.issued < len(loads.chunks)
    return int(loads.chunks[loads.issued].bundle.first) if left else -1


def opened_products(bank: Any, row: int, digit: int, spread: Spread) -> Any:
    """Return the place of a product in PSUM, [columns, part, k1], in ``opened_numbers`` order."""
    if len(spread.radices) == 2:
        return bank[:, :, row]
    size = bank.shape[4]
    part = 2 * (digit // size)
    return bank[:, row, :, part : part + 2, digit % size].permute((0, 2, 1))


def opened_numbers(opening: Opening, first: int, count: int, state: Any, spread: Spread) -> Any:
    """Return the place of rows in the state, [C, rows, k1, (j, part), m] or [C, part, rows, k1]."""
    bundle = opening.chunk.bundle
    if len(spread.radices) == 2:
        return state[:, :, first : first + count]
    radix, left = spread.radices[0], left_of(spread)
    rows = state[:, 0 : 2 * bundle.rows * spread.length]
    rows = rows.reshape((spread.columns, bundle.rows, radix, 2 * spread.radices[1], left))
    size = min(opening.count, left)
    part, m = 2 * (opening.low // left), opening.low % left
    rows = rows[:, first : first + count]
    return rows[:, :, :, part : part + 2 * (opening.count // size), m : m + size]


def contract(dst: Any, opening: Opening, place: int, row: int, digit: int, flow: Flow) -> None:
    """Multiply one a' of one transform, into PSUM [columns, part, k1]."""
    spread, chunk, first = flow.spread, opening.chunk, flow.tables.first
    radix, tile = spread.radices[0], chunk.tile
    member = opening.row + row
    column = member * chunk.size + (opening.low + digit) * spread.columns - chunk.low
    whole = columns_read(spread.columns)
    if spread.parts == 2:
        for part in range(2):
            at = part * (LOADED // 2) + column
            multiply(dst, tile[0:radix, at : at + whole], first[:, part], part > 0)
    elif spread.places == 2:
        low = place * HALF
        data, table = tile[low : low + 2 * radix, column : column + whole], first[:, 0]
        multiply_row_tile(dst, data, table[low : low + 2 * radix], low, HALF, False)
    else:
        multiply(dst, tile[0 : 2 * radix, column : column + whole], first[0 : 2 * radix, 0], False)
