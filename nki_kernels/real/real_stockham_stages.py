"""Both stages of the real Stockham kernels, as lists of steps.

real_stockham.py has the mathematics: there is a stage on real numbers, whose products take slabs,
and a stage on spectra, whose products take slots. Each stage runs in both directions.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..row_blocks import Rows
from ..tiles import PARTITIONS, PSUM_BANK, WHOLE_RADIX, load_tables
from .real_stockham_blocks import (
    Block,
    flat_tile,
    marks_of_row,
    numbers_read,
    run_of,
    slot_place,
    slots_size,
    spectrum_length,
    state_size,
    tail_of,
)
from .real_stockham_steps import BY_COLUMN, BY_PRODUCT, EDGE, MIRRORED, Products, Step, Store
from .real_stockham_tables import (
    multiples,
    own_outputs,
    pairs_slots,
    run_length,
    slabs_together,
    slot_count,
)

_GROUP = 4  # products whose results share a PSUM bank, at most
_SLOTS = 8  # slots whose tables a DMA loads at a time
_STAGING = 3  # tiles for these loads


class Stages(nl.NKIObject):
    """Both stages, with their tables in SBUF."""

    radix: int  # R of the stage on real numbers
    left: int  # M of the stage on spectra
    real: Any = None  # table of the stage on real numbers
    edge: Any = None  # table of slot 0
    # tiles with the tables of slots 1, 2, ..., or of pairs of slots; each tile has ``_SLOTS`` of
    # them
    slots: Any = None
    are_rows_paired: bool = False  # whether row tiles take two rows in the stage on real numbers


class Slots(nl.NKIObject):
    """Some slots, at equal distances."""

    first: int
    count: int
    apart: int = 1


class Halves(nl.NKIObject):
    """The steps of both stages of a block."""

    first: Any
    second: Any


def instructions_of_block(radices: Any, rows: int) -> int:
    """Return how many instructions a block of ``rows`` rows a partition takes, at most."""
    radix, left = radices
    slots = slot_count(radix)
    products = left // slabs_together(radix, left)
    steps = -(-products // _GROUP) + -(-slots // slots_together(left)) + 1
    return (2 * _GROUP + 3) * steps * rows + slots + 8 * rows + 20


def slots_together(left: int) -> int:
    """Return how many slots have their results in one PSUM bank."""
    return min(_GROUP, PSUM_BANK // (4 * run_length(left)))


def open_staging() -> Any:
    """Allocate tiles into which DMA loads tables of slots in turn."""
    tiles = []
    for _ in range(_STAGING):
        shape = (PARTITIONS, _SLOTS * PARTITIONS)
        tiles.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return tiles


def load_stages(stages: Stages, tables: Any, is_inverse: bool, staging: Any) -> None:
    """Load tables from HBM into SBUF, in the order in which they are needed."""
    real = tables[len(tables) - 1] if stages.are_rows_paired else tables[0]
    loaded = load_tables([tables[1]] if is_inverse else [tables[1], real])
    stages.edge = loaded[0]
    if slot_count(stages.radix) > 1:
        stages.slots = load_slots(tables[2], staging)
    stages.real = load_tables([real])[0] if is_inverse else loaded[1]


def load_slots(table: Any, staging: Any) -> Any:
    """Load tables of slots 1, 2, ... into SBUF by way of ``staging``; return tiles of tables."""
    depth, count, width = table.shape
    tiles = []
    for first in range(0, count, _SLOTS):
        last = min(first + _SLOTS, count)
        staged = staging[first // _SLOTS % len(staging)][0:depth, 0 : (last - first) * width]
        staged = staged.reshape_dim(1, (last - first, width))
        nisa.dma_copy(dst=staged, src=table[:, first:last], dge_mode=nisa.dge_mode.none)
        tile = nl.ndarray((depth, last - first, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=staged, engine=nisa.engine.gpsimd)
        tiles.append(tile)
    return tiles


def forward_halves(stages: Stages, block: Block, target: Any) -> Halves:
    """Return the steps from real rows to spectra in natural order, stored in two HbmRows."""
    rows = block.rows
    radices = [stages.radix, stages.left]
    shape = (rows.partitions, 2, rows.each, spectrum_length(radices))
    y = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    state = open_state(False, stages, rows)
    steps = state_of_real(stages, block.tile, state, rows)
    second: Any = []
    for row in range(rows.each):
        marks = marks_of_row(block.guard.marks, row)
        for step in spectrum_of_state(stages, state, row, y, marks):
            second.append(step)
    second[0].is_dependent = reads_last_rows(stages, rows, spectrum_run(stages), 1)
    second[len(second) - 1].stores = [
        Store(target[0], y[:, 0], rows),
        Store(target[1], y[:, 1], rows),
    ]
    return Halves(steps, second)


def slots_steps(stages: Stages, block: Block, spectra: Any) -> Any:
    """Return the steps from real rows to flat spectra by slots."""
    rows = block.rows
    state = open_state(False, stages, rows)
    steps = state_of_real(stages, block.tile, state, rows)
    number = len(steps)
    for step in steps_of_slots(stages, False, state, spectra, block):
        steps.append(step)
    steps[number].is_dependent = reads_last_rows(stages, rows, spectrum_run(stages), 1)
    return steps


def inverse_steps(stages: Stages, block: Block, target: Any) -> Any:
    """Return the steps from spectra by slots to real rows, stored in HbmRows."""
    halves = inverse_halves(stages, block, target)
    return halves.first + halves.second


def inverse_halves(stages: Stages, block: Block, target: Any) -> Halves:
    """Return the steps from spectra by slots to real rows, stored in HbmRows, stage by stage."""
    rows = block.rows
    n = stages.radix * stages.left
    result = nl.ndarray((rows.partitions, rows.each, n), dtype=nl.float32, buffer=nl.sbuf)
    state = open_state(True, stages, rows)
    steps = steps_of_slots(stages, True, block.tile, state, block)
    second = real_of_state(stages, state, result, rows, block.guard.marks)
    together = slabs_of(stages)
    count = 2 * slot_count(stages.radix) * together * (2 if stages.are_rows_paired else 1)
    second[0].is_dependent = reads_last_rows(stages, rows, count, stages.left // together)
    second[len(second) - 1].stores = [Store(target, result, rows)]
    return Halves(steps, second)


def open_state(is_inverse: bool, stages: Stages, rows: Rows) -> Any:
    """Allocate the flat tile between the stages: slots by parts by M, for each row."""
    radix, left = stages.radix, stages.left
    tail = tail_of(2 * left, 1)
    if is_inverse:
        together = slabs_together(radix, left)
        tail = tail_of(2 * slot_count(radix) * together, left // together)
    return flat_tile(rows.partitions, rows.each * state_size([radix, left]), tail)


def slabs_of(stages: Stages) -> int:
    """Return how many slabs of a row a product of the real stage takes."""
    if stages.are_rows_paired:
        return WHOLE_RADIX // stages.radix
    return slabs_together(stages.radix, stages.left)


def spectrum_run(stages: Stages) -> int:
    """Return how many numbers of the state a product of the other stage takes."""
    return PARTITIONS if pairs_slots([stages.radix, stages.left]) else 2 * stages.left


def reads_last_rows(stages: Stages, rows: Rows, count: int, step: int) -> bool:
    """Return whether the run of ``count`` that begins the state's first row reaches the last rows.

    The last rows are those which the last step of the stage before writes.
    """
    size = state_size([stages.radix, stages.left])
    last = 2 if stages.are_rows_paired else 1
    return (numbers_read(count) - 1) * step >= (rows.each - last) * size


def state_of_real(stages: Stages, data: Any, state: Any, rows: Rows) -> Any:
    """Return the steps of the stage on real numbers, from flat data [P, rows N] to the state."""
    sizes = [stages.radix * stages.left, state_size([stages.radix, stages.left])]
    targets: Any = []
    for row in range(rows.each):
        targets.append(state[:, row * sizes[1] : (row + 1) * sizes[1]])
    return steps_of_slabs(stages, data, sizes[0], stages.radix, targets, [])


def real_of_state(stages: Stages, state: Any, result: Any, rows: Rows, marks: Any) -> Any:
    """Return the steps of the stage to real numbers, from the state to result [P, rows, N]."""
    targets: Any = []
    for row in range(rows.each):
        targets.append(result[:, row])
    size = state_size([stages.radix, stages.left])
    return steps_of_slabs(stages, state, size, 2 * slot_count(stages.radix), targets, marks)


def steps_of_slabs(
    stages: Stages, source: Any, size: int, count: int, targets: Any, marks: Any
) -> Any:
    """Return the steps of the stage on real numbers, from rows of a flat source to targets.

    size: numbers of a row. count: numbers of a slab that are contracted. targets: flat SBUF [P,
    ...], one for each row.
    """
    together = slabs_of(stages)
    length = stages.left // together
    steps: Any = []
    row = 0
    while row < len(targets):
        halves = min(2 if stages.are_rows_paired else 1, len(targets) - row)
        for first in range(0, length, _GROUP):
            last = min(first + _GROUP, length)
            runs = []
            for m in range(first, last):
                runs.append(run_of(source, row * size + m, halves * count * together, length))
            products = []
            for half in range(halves):
                target = targets[row + half]
                slabs = target.reshape_dim(1, (target.shape[1] // length, length))
                added = marks_of_row(marks, row + half)
                tables = [stages.real] * len(runs)
                products.append(Products(tables, BY_COLUMN, [slabs[:, :, first:last]], added))
            steps.append(Step(runs, products, False, []))
        row += halves
    return steps


def spectrum_of_state(stages: Stages, state: Any, row: int, y: Any, marks: Any) -> Any:
    """Return a row's steps from the state to natural order, in y [P, part, rows, ...]."""
    radices = [stages.radix, stages.left]
    low = row * state_size(radices)
    spectrum = y[:, :, row]
    steps: Any = []
    for slots in slots_of_steps(radices):
        runs = []
        for index in range(slots[0].count):
            at = low + slot_of(slots[0], index) * 2 * stages.left
            runs.append(run_of(state, at, spectrum_run(stages), 1))
        products = []
        for mine in slots:
            if mine.first == 0:
                targets = outputs_of_edge(spectrum, radices)
                products.append(Products([stages.edge], EDGE, targets, marks))
            else:
                tables = tables_of_slots(stages, mine)
                targets = outputs_of_slots(spectrum, radices, mine)
                products.append(Products(tables, MIRRORED, targets, marks))
        steps.append(Step(runs, products, False, []))
    return steps


def slots_of_steps(radices: Any) -> Any:
    """Return a list of Slots for each step, one for each row tile.

    The first step takes slot 0, or slots 0 and 1 where slots are paired; groups of the others
    follow.
    """
    slots, group = slot_count(radices[0]), slots_together(radices[1])
    if not pairs_slots(radices):
        found = [[Slots(0, 1)]]
        for first in range(1, slots, group):
            found.append([Slots(first, min(group, slots - first))])
        return found
    found = [[Slots(0, 1), Slots(1, 1)]]
    for first in range(2, slots, 2 * group):
        count = min(group, (slots - first) // 2)
        found.append([Slots(first, count, 2), Slots(first + 1, count, 2)])
    return found


def slot_of(slots: Slots, index: int) -> int:
    """Return one of the slots."""
    return int(slots.first + index * slots.apart)


def tables_of_slots(stages: Stages, slots: Slots) -> Any:
    """Return the tables of slots from 1 on; where slots are paired, those of both slots."""
    is_paired = pairs_slots([stages.radix, stages.left])
    tables = []
    for index in range(slots.count):
        number = slot_of(slots, index) // 2 if is_paired else slot_of(slots, index) - 1
        tables.append(stages.slots[number // _SLOTS][:, number % _SLOTS])
    return tables


def outputs_of_slots(y: Any, radices: Any, slots: Slots) -> Any:
    """Return where slots from 1 on leave their outputs in spectra [P, part, ...]: two runs."""
    radix, left = radices
    first, last, apart = slots.first, slot_of(slots, slots.count - 1), slots.apart
    numbers = y[:, :, 0 : run_length(left) * radix].reshape_dim(2, (run_length(left), radix))
    others = left // 2  # outputs of the second run; of an odd M, one less than of the first
    return [
        numbers[:, :, :, first : last + 1 : apart],
        numbers[:, :, 0:others, radix - last : radix - first + 1 : apart],
    ]


def outputs_of_edge(y: Any, radices: Any) -> Any:
    """Return where slot 0 leaves outputs in spectra [P, part, ...]: complex, then real ones."""
    step, count = multiples(radices[0], radices[1])
    own = own_outputs(radices)
    pairs = count - own
    last = step * (count - 1)
    targets = []
    if pairs > 0:
        targets.append(y[:, :, step : step * pairs + 1 : step])
    targets.append(y[:, :, 0 : last * (own - 1) + 1 : last])
    return targets


def steps_of_slots(stages: Stages, is_inverse: bool, source: Any, target: Any, block: Block) -> Any:
    """Return the steps between flat spectra by slots and the flat state.

    is_inverse: whether they lead to the state, rather than to the spectra.
    """
    radices = [stages.radix, stages.left]
    steps: Any = []
    for row in range(block.rows.each):
        # Spectra get the marks of their rows; the state comes from rows without bad ones.
        marks = [] if is_inverse else marks_of_row(block.guard.marks, row)
        spectrum, state = [], []
        for slot in range(slot_count(stages.radix) + 1):
            spectrum.append(row * slots_size(radices) + slot_place(radices, slot))
            state.append(row * state_size(radices) + slot * 2 * stages.left)
        places, made = (spectrum, state) if is_inverse else (state, spectrum)
        for slots in slots_of_steps(radices):
            runs = []
            for index in range(slots[0].count):
                slot = slot_of(slots[0], index)
                count = places[slot + len(slots)] - places[slot]
                runs.append(run_of(source, places[slot], count, 1))
            products = []
            for mine in slots:
                products.append(products_of_slots(stages, mine, target, made, marks))
            steps.append(Step(runs, products, False, []))
    return steps


def products_of_slots(stages: Stages, slots: Slots, target: Any, made: Any, marks: Any) -> Products:
    """Return products whose results lie in the flat target from made[slot] to made[slot + 1]."""
    first, end = made[slots.first], made[slots.first + 1]
    if slots.first == 0:
        return Products([stages.edge], EDGE, [target[:, first:end]], marks)
    size = end - first
    low = slots.first % slots.apart * size  # behind the slot of the other row tile
    whole = target[:, first - low : first - low + slots.count * slots.apart * size]
    results = whole.reshape_dim(1, (slots.count, slots.apart * size))[:, :, low : low + size]
    return Products(tables_of_slots(stages, slots), BY_PRODUCT, [results], marks)
