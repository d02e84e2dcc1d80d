"""Stages of the inverse real four-step kernel: what each of its steps does.

inverse_real_four_step.py has the mathematics, and the order in which bundles take these steps.
"""

from __future__ import annotations

from typing import Any

from ..fft.twiddled_stage import product_tile
from ..isa import nisa, nl
from ..tiles import (
    PARTITIONS,
    PSUM_BANK,
    evacuate,
    multiply,
    multiply_half,
    transpose,
    transposed_dtype,
)
from .real_four_step_tables import groups_of, runs_paired

RUNS = PSUM_BANK // PARTITIONS  # transposes that share a PSUM bank
# Kinds of steps.
COPY, OPEN, TURN, CLOSE, FINISH = 0, 1, 2, 3, 4


class Spread(nl.NKIObject):
    """How transforms are spread over the partitions."""

    radix: int  # R
    middle: int  # L
    columns: int  # C
    slots: int  # R/2 + 1
    fine: int  # S
    together: int  # slots of a product of the second stage
    rows: int  # transforms of a bundle


class Tables(nl.NKIObject):
    """A plan's tables in SBUF."""

    identity: Any  # SBUF, see load_identity
    first: Any  # [C, 4, C]
    twiddle: Any  # [C, 2, slots L]
    middle: Any  # [2 L g, groups, 2 L g], or None
    last: Any  # [R, R], twice for R = 64


class Lines(nl.NKIObject):
    """Rows in HBM."""

    parts: Any  # tensors [B, ...]
    base: Any  # register with the row at which a device loop's iteration begins, or None


class Bundle(nl.NKIObject):
    """Transforms that are loaded, computed and stored together."""

    first: int  # the first row
    rows: int
    loaded: Any  # SBUF [(part, k'), rows, A + 1]
    terms: Any  # the two terms of u in the order of slots, SBUF [(part, k'), rows, slots, L]
    states: Any  # for L > 1, a state of each row: SBUF [C, (slot, part, k2)]
    # SBUF [C, rows, L, R], the operand of the last product: of all rows, or of one row each
    lasts: Any
    result: Any  # SBUF [R, rows, L C]


class Step(nl.NKIObject):
    """A step of a bundle."""

    kind: int  # one of the kinds above
    bundle: Bundle
    row: int
    rows: int
    first: int  # the first copy, slot, group of slots or j
    count: int


class Turned(nl.NKIObject):
    """A step whose data is transposed, and not yet multiplied."""

    step: Step
    operands: Any  # SBUF [..., count, C]


class Pipeline(nl.NKIObject):
    """The state of a launch."""

    tables: Tables
    spread: Spread
    target: Lines
    is_alone: bool  # whether there is one bundle, so that VectorE has time for copies
    turned: Any  # [Turned] of the second stage that awaits its product, or []
    closed: Any  # [Turned] of the last product that awaits its product, or []


def copy(step: Step, line: Pipeline) -> None:
    """Copy numbers into the order of slots: the first term by t, then the second by s and k2."""
    spread, bundle, number = line.spread, step.bundle, step.first
    last = spread.radix // 2 // spread.fine
    if number <= last:
        # Slot R/2 comes first, as if it had a t of its own.
        size = spread.fine if number > 0 else 1
        slot = 1 + size * (number - 1) if number > 0 else 0
        dst = bundle.terms[0][:, :, slot : slot + size]
        low = spread.fine * (last - number)
        length = spread.radix * spread.middle
        src = bundle.loaded[:, :, 0:length].reshape_dim(2, (spread.middle, spread.radix))
        src = src[:, :, :, low : low + size].permute((0, 1, 3, 2))
    else:
        dst, src = copied_backwards(number - last - 1, bundle, spread)
    # GpSimdE does not copy, because it brings the tables of a launch.
    if line.is_alone and number % 2 == 1:
        nisa.tensor_copy(dst=dst, src=src, engine=nisa.engine.vector)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=src)


def copied_backwards(number: int, bundle: Bundle, spread: Spread) -> Any:
    """Return target and source of a copy of the second term, by s and k2."""
    half, fine, slots = spread.radix // 2, spread.fine, spread.slots
    k2, s = number % spread.middle, number // spread.middle
    low = spread.radix * (spread.middle - k2) - half
    if fine == 1:
        return bundle.terms[1][:, :, :, k2], bundle.loaded[:, :, low : low + half + 1]
    if s == fine:
        return bundle.terms[1][:, :, 0, k2], bundle.loaded[:, :, low]
    low += fine - s
    dst = bundle.terms[1][:, :, 1 + s : slots : fine, k2]
    return dst, bundle.loaded[:, :, low : low + half - fine + 1 : fine]


def open_slots(step: Step, line: Pipeline) -> None:
    """Compute the DFT over k_c, which leaves c on partitions, and apply the twiddles."""
    spread, bundle = line.spread, step.bundle
    rows, slots = step.rows, step.count
    banks: Any = []
    for part in range(2):
        shape = (spread.columns, rows, slots, spread.middle)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for term in range(2):
            data = bundle.terms[term][:, step.row : step.row + rows]
            data = data[:, :, step.first : step.first + slots]
            multiply(bank, line.tables.first[:, 2 * term + part], data, term > 0)
        banks.append(bank)
    products: Any = []
    length = spread.slots * spread.middle
    for part in (1, 0):
        low = part * length + step.first * spread.middle
        pattern = [[2 * length, spread.columns], [0, rows], [1, slots * spread.middle]]
        factors = line.tables.twiddle.ap(pattern, low)
        for bank in banks:
            data = bank.reshape((spread.columns, rows, slots * spread.middle))
            product = product_tile(data, part == 0)
            nisa.tensor_tensor(dst=product, data1=data, data2=factors, op=nl.multiply)
            products.append(product.reshape((spread.columns, rows, slots, spread.middle)))
    leave_opening(step, products, spread)


def leave_opening(step: Step, products: Any, spread: Spread) -> None:
    """Add the products with twiddles, and place the sums where the next stage reads them."""
    bundle, left = step.bundle, spread.middle
    # The products of the banks' two parts with the imaginary part of the twiddles come first.
    real, imaginary = [products[2], products[1]], [products[3], products[0]]
    if left > 1:
        state = bundle.states[step.row].reshape((spread.columns, spread.slots, 2, left))
        wanted = state[:, step.first : step.first + step.count].expand_dim(1)
        add(wanted[:, :, :, 0], real, 0, step.count, nl.subtract)
        add(wanted[:, :, :, 1], imaginary, 0, step.count, nl.add)
        return
    last = bundle.lasts[0][:, step.row : step.row + step.rows, 0].expand_dim(3)
    add(last[:, :, 0 : spread.slots], real, 0, spread.slots, nl.subtract)
    for piece in imaginary_pieces(0, spread.slots, spread):
        place = last[:, :, piece[2] : piece[2] + piece[1] - piece[0]]
        add(place, imaginary, piece[0], piece[1], nl.add)


def add(dst: Any, terms: Any, low: int, high: int, op: Any) -> None:
    """Write the sum or difference of slots of two terms [C, rows, slots, L]."""
    data = [terms[0][:, :, low:high], terms[1][:, :, low:high]]
    nisa.tensor_tensor(dst=dst, data1=data[0], data2=data[1], op=op)


def imaginary_pieces(first: int, end: int, spread: Spread) -> Any:
    """Return runs of the slots from ``first`` on without R/2 and 0.

    These two slots have no imaginary part. A run is [low, high, place in the last product].
    """
    zero = 1 + spread.radix // 2 - spread.fine
    pieces = []
    low, high = max(1, first), min(zero, end)
    if low < high:
        pieces.append([low, high, spread.slots + low - 1])
    low = max(zero + 1, first)
    if low < end:
        pieces.append([low, end, spread.slots + low - 2])
    return pieces


def turn_slots(step: Step, line: Pipeline) -> None:
    """Transpose some groups of slots, then multiply the groups before."""
    spread = line.spread
    if step.count == 0:
        multiply_turned(line)
        return
    size = 2 * spread.middle * spread.together
    shape = (size, step.count, spread.columns)
    bank = nl.ndarray(shape, dtype=transposed_dtype(nl.float32), buffer=nl.psum)
    firsts = groups_of(spread.radix, spread.middle)
    for group in range(step.count):
        low = 2 * spread.middle * firsts[step.first + group]
        data = step.bundle.states[step.row][:, low : low + size]
        transpose(bank[:, group], data, line.tables.identity)
    operands = evacuate(bank, nl.float32, True)
    multiply_turned(line)
    line.turned = [Turned(step, operands)]


def multiply_turned(line: Pipeline) -> None:
    """Run the second stage of the groups that are transposed: their parts [C, j, slots]."""
    if len(line.turned) == 0:
        return
    spread, step, operands = line.spread, line.turned[0].step, line.turned[0].operands
    line.turned = []
    together = spread.together
    firsts = groups_of(spread.radix, spread.middle)
    first, end = firsts[step.first], firsts[step.first + step.count - 1] + together
    shape = (spread.columns, 2, spread.middle, end - first)
    bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    for group in range(step.count):
        low = firsts[step.first + group] - first
        table = line.tables.middle[:, step.first + group]
        multiply(bank[:, :, :, low : low + together], operands[:, group], table, False)
    last = step.bundle.lasts[step.row][:, 0]
    nisa.activation(dst=last[:, :, first:end], op=nl.copy, data=bank[:, 0])
    for piece in imaginary_pieces(first, end, spread):
        imaginary = last[:, :, piece[2] : piece[2] + piece[1] - piece[0]]
        data = bank[:, 1, :, piece[0] - first : piece[1] - first]
        nisa.activation(dst=imaginary, op=nl.copy, data=data)


def turn_last(step: Step, line: Pipeline) -> None:
    """Transpose operands of the last product, of some j or some rows; multiply those before."""
    radix, columns = line.spread.radix, line.spread.columns
    pair = runs_paired(radix)
    total = step.rows * step.count
    shape = (pair * radix, -(-total // pair), columns)
    bank = nl.ndarray(shape, dtype=transposed_dtype(nl.float32), buffer=nl.psum)
    operands = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    numbers = last_numbers(step, line.spread)
    for run in range(0, total, pair):
        rows = min(pair, total - run) * radix
        data = numbers[:, run * radix : run * radix + rows]
        transpose(bank[0:rows, run // pair], data, line.tables.identity)
    whole = total // pair
    if whole > 0:
        nisa.activation(dst=operands[:, 0:whole], op=nl.copy, data=bank[:, 0:whole])
    if total % pair > 0:
        nisa.activation(dst=operands[0:radix, whole], op=nl.copy, data=bank[0:radix, whole])
    multiply_last(line)
    line.closed = [Turned(step, operands)]


def last_numbers(step: Step, spread: Spread) -> Any:
    """Return the operand of a step's last product from its start on, SBUF [C, (row, j, slot)]."""
    row = step.row if spread.middle == 1 else 0
    last = step.bundle.lasts[step.row - row]
    flat = last.reshape((spread.columns, last.shape[1] * spread.middle * spread.radix))
    return flat[:, (row * spread.middle + step.first) * spread.radix :]


def multiply_last(line: Pipeline) -> None:
    """Make and evacuate the last product of the numbers that are transposed."""
    if len(line.closed) == 0:
        return
    spread, step, operands = line.spread, line.closed[0].step, line.closed[0].operands
    line.closed = []
    pair = runs_paired(spread.radix)
    total = step.rows * step.count
    banks: Any = []
    for half in range(min(pair, total)):
        count = -(-(total - half) // pair)
        shape = (spread.radix, count, spread.columns)
        banks.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum))
        data = operands[:, 0:count]
        if pair > 1:
            multiply_half(banks[half], line.tables.last, data, half, False)
        else:
            multiply(banks[half], line.tables.last, data, False)
    shape = (spread.radix, step.bundle.rows * spread.middle, spread.columns)
    result = step.bundle.result.reshape(shape)
    first = step.row * spread.middle + step.first
    for half in range(len(banks)):
        target = result[:, first + half : first + total : pair]
        nisa.activation(dst=target, op=nl.copy, data=banks[half])
