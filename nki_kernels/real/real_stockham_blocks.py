"""Blocks of rows of the real Stockham kernels, and how their data lies in SBUF.

real_stockham.py has the mathematics. Before its first stage a block is loaded, its bad rows are set
aside and, if it holds spectra, its numbers are laid out by slots. These jobs are cut into phases,
which take turns with the steps of the block before.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..row_blocks import Rows, load_rows
from ..row_guard import advance_guard, begin_guard, marks_of, transposes_mix_rows
from ..tiles import NARROW, PARTITIONS
from .real_stockham_tables import (
    edge_size,
    multiples,
    own_outputs,
    run_length,
    slabs_together,
    slot_count,
)

# A block is prepared in phases before its first stage. The other constants say which jobs begin in
# which phase.
PHASES = 16
LATER = 8  # phases by which a job is delayed that has to wait for another one
_SQUARES_PHASE = 0
_VERDICT_PHASE = 4
_SLOTS_PHASE = 7
_SLOTS_PIECES = 6


class Guard(nl.NKIObject):
    """Rows that the chip's transposes would mix, until bad rows are set aside."""

    x: Any  # SBUF [P, rows, ...]
    growth: float  # as for set_rows_aside
    steps: Any  # the guard that begin_guard returns
    marks: Any  # [SBUF [P, rows]], or [] where transposes are exact


class Block(nl.NKIObject):
    """Rows on their way through SBUF."""

    rows: Rows
    loaded: Any  # [data where DMA wrote it, which is to be copied], or []
    tile: Any  # flat SBUF [P, ...], which the first stage reads
    guard: Guard


def phases_of(number: int, steps: int) -> Any:
    """Return the phases of preparation that go with step ``number`` of ``steps``."""
    return range(PHASES * number // steps, PHASES * (number + 1) // steps)


def numbers_read(count: int) -> int:
    """Return how many numbers a transpose takes for ``count``; NeuronCore-v2 refuses a few."""
    return count if count > NARROW else NARROW + 1


def tail_of(count: int, step: int) -> int:
    """Return how many numbers must follow a tile's last run of ``count``, every ``step``-th."""
    return (numbers_read(count) - count) * step


def run_of(tile: Any, start: int, count: int, step: int) -> Any:
    """Return ``count`` numbers or more of flat SBUF [P, L], every ``step``-th."""
    return tile[:, start : start + (numbers_read(count) - 1) * step + 1 : step]


def flat_tile(partitions: int, size: int, tail: int) -> Any:
    """Allocate SBUF [partitions, size + tail], with zeros in its tail."""
    tile = nl.ndarray((partitions, size + tail), dtype=nl.float32, buffer=nl.sbuf)
    if tail > 0:
        nisa.memset(dst=tile[:, size : size + tail], value=0.0, engine=nisa.engine.gpsimd)
    return tile


def spectrum_length(radices: Any) -> int:
    """Return the numbers of one part of a spectrum in natural order, in whole runs of R."""
    radix, left = radices
    return max(radix * left // 2 + 1, run_length(left) * radix)


def slots_size(radices: Any) -> int:
    """Return the numbers of a spectrum by slots: slot 0, then (part, q, run) of each other slot."""
    return slot_place(radices, slot_count(radices[0]))


def slots_tail(radices: Any) -> int:
    """Return the tail of spectra by slots."""
    return max(tail_of(edge_size(radices), 1), tail_of(4 * run_length(radices[1]), 1))


def slot_place(radices: Any, slot: int) -> int:
    """Return where a slot begins in a spectrum by slots."""
    if slot == 0:
        return 0
    return edge_size(radices) + (slot - 1) * 4 * run_length(radices[1])


def state_size(radices: Any) -> int:
    """Return the numbers of a row between the stages: slots by parts by M."""
    return 2 * slot_count(radices[0]) * radices[1]


def real_tail(radices: Any) -> int:
    """Return the tail of real data, of which the forward stage takes slabs."""
    together = slabs_together(radices[0], radices[1])
    return tail_of(together * radices[0], radices[1] // together)


def open_ring(size: int, tiles: int) -> Any:
    """Allocate tiles of ``size`` numbers, which DMA writes in turn."""
    ring = []
    for _ in range(tiles):
        ring.append(nl.ndarray((PARTITIONS, size), dtype=nl.float32, buffer=nl.sbuf))
    return ring


def load_real(tile: Any, source: Any, rows: Rows, radices: Any, is_copied: bool) -> Block:
    """Load real rows into a flat tile.

    is_copied: whether they will be copied to another tile before the first stage.
    """
    n = radices[0] * radices[1]
    size, tail = rows.each * n, real_tail(radices)
    opened = tile
    if is_copied:
        opened = flat_tile(rows.partitions, size, tail)
    elif tail > 0:
        nisa.memset(dst=tile[:, size : size + tail], value=0.0, engine=nisa.engine.gpsimd)
    load_rows(tile[:, 0:size].reshape_dim(1, (rows.each, n)), source.tensor, rows, source.columns)
    x = opened[:, 0:size].reshape_dim(1, (rows.each, n))
    loaded = [tile[:, 0:size]] if is_copied else []
    return Block(rows, loaded, opened, Guard(x, n, None, []))


def load_spectra(tile: Any, source: Any, rows: Rows, radices: Any) -> Block:
    """Load half spectra into a flat tile, part by part."""
    length = spectrum_length(radices)
    data = tile[:, 0 : 2 * rows.each * length].reshape_dim(1, (2, rows.each, length))
    for part in range(2):
        load_rows(data[:, part], source[part].tensor, rows, source[part].columns)
    x = data.permute((0, 2, 1, 3))
    return Block(rows, [x], None, Guard(x, 2 * radices[0] * radices[1], None, []))


def open_spectra(block: Block, radices: Any, phase: int) -> None:
    """Run a phase that makes spectra finite and lays them out by slots."""
    guard_rows(block.guard, phase)
    piece = phase - (_SLOTS_PHASE if transposes_mix_rows() else _SLOTS_PHASE - 1)
    if piece == 0:
        block.tile = open_slots(block.loaded[0], radices)
    if 0 <= piece < _SLOTS_PIECES:
        count = slot_count(radices[0]) - 1
        last = 1 + count * (piece + 1) // _SLOTS_PIECES
        slots = range(1 + count * piece // _SLOTS_PIECES, last)
        fill_slots(block.tile, block.loaded[0], radices, slots)


def open_real(block: Block, phase: int) -> None:
    """Run a phase that makes rows finite; rows that are copied are copied in phase ``LATER``."""
    for tile in block.loaded:
        if phase == LATER:
            x = block.guard.x.reshape((block.rows.partitions, tile.shape[1]))
            nisa.tensor_copy(dst=x, src=tile, engine=nisa.engine.gpsimd)
    guard_rows(block.guard, phase - LATER * len(block.loaded))


def guard_rows(guard: Guard, phase: int) -> None:
    """Run a phase of setting rows aside, where transposes would mix them with others.

    ScalarE's sums, the comparison, and the zeros in place of bad rows come some time apart, because
    results of the block before have to leave PSUM in between.
    """
    if guard.x.shape[0] == 1 or not transposes_mix_rows():
        return
    if phase == _SQUARES_PHASE:
        guard.steps = begin_guard(guard.x, guard.growth)
        advance_guard(guard.steps, len(guard.steps.pieces))
    if phase == _VERDICT_PHASE:
        advance_guard(guard.steps, 1)
        guard.marks.append(marks_of(guard.steps.good))
    if _VERDICT_PHASE < phase < _SLOTS_PHASE:
        count, phases = len(guard.steps.pieces), _SLOTS_PHASE - _VERDICT_PHASE - 1
        turn = phase - _VERDICT_PHASE - 1
        advance_guard(guard.steps, count * (turn + 1) // phases - count * turn // phases)


def open_slots(data: Any, radices: Any) -> Any:
    """Lay out slot 0 of SBUF spectra [P, rows, part, ...] in a flat tile by slots; return the tile.

    Slot 0 has the parts of its complex outputs, then the real ones.
    """
    partitions, rows, _, _ = data.shape
    size, edge = slots_size(radices), edge_size(radices)
    tile = flat_tile(partitions, rows * size, slots_tail(radices))
    spectra = tile[:, 0 : rows * size].reshape_dim(1, (rows, size))
    step, count = multiples(radices[0], radices[1])
    own = own_outputs(radices)
    pairs = count - own
    if pairs > 0:
        dst = spectra[:, :, 0 : 2 * pairs].reshape_dim(2, (2, pairs))
        move_aside(dst, data[:, :, :, step : step * pairs + 1 : step], 1)
    last = step * (count - 1)
    move_aside(spectra[:, :, 2 * pairs : edge], data[:, :, 0, 0 : last * (own - 1) + 1 : last], 1)
    return tile


def fill_slots(tile: Any, data: Any, radices: Any, slots: Any) -> None:
    """Lay out some slots in the tile of ``open_slots``, each as one run for the Tensor engine."""
    rows, radix = data.shape[1], radices[0]
    size, run = slots_size(radices), run_length(radices[1])
    spectra = tile[:, 0 : rows * size].reshape_dim(1, (rows, size))
    runs = data[:, :, :, 0 : run * radix].reshape_dim(3, (run, radix))
    for slot in slots:
        low = slot_place(radices, slot)
        both = runs[:, :, :, :, slot : radix - slot + 1 : radix - 2 * slot]
        move_aside(spectra[:, :, low : low + 4 * run], both, slot)


def move_aside(dst: Any, src: Any, number: int) -> None:
    """Copy within SBUF, in turn on the two engines that have time."""
    if number % 2 == 0:
        nisa.activation(dst=dst, op=nl.copy, data=src)
    else:
        nisa.tensor_copy(dst=dst, src=src, engine=nisa.engine.gpsimd)


def marks_of_row(marks: Any, row: int) -> Any:
    """Return [the marks [P, 1] of one row of each partition], or [] where there are none."""
    found = []
    for each in marks:
        found.append(each[:, row : row + 1])
    return found
