"""Tables of the real four-step kernels, and the numbers from which their shapes follow.

real_four_step.py and inverse_real_four_step.py have the mathematics: slots K of the first stage, in
an order of their own, twiddles, DFTs of length L, and the DFT over c.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..roots import roots
from ..table_terms import table_spec
from ..tiles import NARROW, PARTITIONS, PSUM_BANK, WHOLE_RADIX

MAX_RADIX = PARTITIONS  # largest R and largest C
MAX_MIDDLE = WHOLE_RADIX  # largest L
MAX_LENGTH = MAX_RADIX * MAX_MIDDLE * MAX_RADIX
# bundles of a batch, if it is long enough: nothing overlaps the first and the last bundle
FEWEST_BUNDLES = 8
FEW_ROWS = 2  # rows of a bundle, up to which nothing overlaps, and slower engines do not pay
_MOST_FINE = 8  # largest S
MAX_INVERSE_LENGTH = 2**19  # two input tiles take 16 N / C bytes of a partition that DMA writes


def slot_count(radix: int) -> int:
    """Return the number of slots K <= R/2."""
    return radix // 2 + 1


def slots_together(radix: int, middle: int) -> int:
    """Return the slots per product of the second stage that give the Tensor engine least work."""
    if middle == 1:
        return 1
    best, least = 1, 0
    for together in range(1, WHOLE_RADIX // middle + 1):
        groups = -(-slot_count(radix) // together)
        product = max(256, 8 * together * middle)
        cycles = groups * (256 + product) + 8 * middle * groups * together
        if least == 0 or cycles <= least:
            best, least = together, cycles
    return best


def padded_slots(radix: int, middle: int) -> int:
    """Return ``slot_count``, rounded up to a multiple of ``slots_together``."""
    together = slots_together(radix, middle)
    return -(-slot_count(radix) // together) * together


def fine_digits(radix: int, middle: int) -> int:
    """Return S, the divisor of R/2 that gives ScalarE the fewest instructions."""
    half = radix // 2
    slots = min(half, PSUM_BANK // middle)
    best, least = 1, 0
    for fine in range(1, min(half, _MOST_FINE) + 1):
        count = -(-slots // fine) + middle * fine
        if half % fine == 0 and (least == 0 or count <= least):
            best, least = fine, count
    return best


def slots_closed(radix: int, middle: int) -> int:
    """Return the slots of a portion: all, or as many whole groups as fit a PSUM bank for all k2."""
    if middle * (radix // 2) <= PSUM_BANK:
        return radix // 2
    fine, together = fine_digits(radix, middle), slots_together(radix, middle)
    unit = fine
    while unit % together != 0:
        unit += fine
    return PSUM_BANK // middle // unit * unit


def slot_numbers(radix: int, middle: int) -> np.ndarray[Any, Any]:
    """Return K of each slot, in the order of slots."""
    half, fine = radix // 2, fine_digits(radix, middle)
    place = np.arange(half)
    numbers = place % fine + fine * (half // fine - 1 - place // fine)
    edge = np.full(padded_slots(radix, middle) - half, half)
    return np.concatenate([numbers, edge])


def real_four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """Return the tables of ``real_four_step``: (first, *middle, twiddle, last).

    first is [R, 2 slots], columns (part, slot), with the scale; for R = 64 it is there twice, for
    either half of the array. middle, for three radices, is [2 L g, groups, 2 L g], rows (slot,
    part, j), columns (part, k2, slot). twiddle is [C, 2, L slots]. last is [C, 4, C], for both
    lines the factors of the real and of the imaginary parts, columns (part, k').

    Args:
        n: length of the transform.
        radices: (R, C) or (R, L, C) with product n.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        A tuple of float32 arrays.

    Raises:
        ValueError: the kernel does not accept the radices.
    """
    check_radices(n, radices)
    radix, middle, columns = digits_of(radices)
    slots = slot_numbers(radix, middle)
    w = scale * roots(np.arange(radix)[:, None] * slots, radix, inverse)
    first = np.tile(np.stack([w.real, w.imag], 1).reshape(radix, -1), (halves_of(radix), 1))
    outputs = slots + radix * np.arange(middle)[:, None]  # [k2, slot]
    c = np.arange(columns)
    w = roots(c[:, None, None] * outputs, n, inverse)
    twiddle = np.stack([w.real, w.imag], 1).reshape(columns, 2, -1)
    k = np.arange(columns // 2)
    last = np.concatenate(
        [
            _lines(roots(c[:, None] * k, columns, inverse), False),
            _lines(roots(c[:, None] * (columns - 1 - k), columns, inverse), True),
        ],
        1,
    )
    found = [first, twiddle, last]
    if middle > 1:
        found.insert(1, _middle_table(radix, middle, outputs, inverse))
    return tuple(table.astype(np.float32) for table in found)


def _lines(w: np.ndarray[Any, Any], is_conjugate: bool) -> np.ndarray[Any, Any]:
    """Return the factors of real and imaginary parts for a line of outputs: [C, 2, (part, k')]."""
    sign = -1 if is_conjugate else 1
    by_real = np.concatenate([w.real, sign * w.imag], 1)
    return np.stack([by_real, np.concatenate([-w.imag, sign * w.real], 1)], 1)


def _middle_table(radix: int, middle: int, outputs: Any, inverse: bool) -> np.ndarray[Any, Any]:
    """Return the middle one of ``real_four_step_tables``."""
    together = slots_together(radix, middle)
    w = roots(np.arange(middle)[:, None, None] * outputs, radix * middle, inverse)  # [j, k2, slot]
    split = np.stack([np.stack([w.real, w.imag]), np.stack([-w.imag, w.real])])
    split = split.reshape(2, 2, middle, middle, -1, together)
    blocks = np.einsum("pqjkGs,st->spjGqkt", split, np.eye(together))
    rows = 2 * middle * together
    table: np.ndarray[Any, Any] = blocks.reshape(rows, -1, rows)
    return table


def check_radices(n: int, radices: tuple[int, ...]) -> None:
    """Raise ValueError where ``real_four_step_tables`` does."""
    if math.prod(radices) != n or len(radices) not in (2, 3):
        raise ValueError(f"radices {radices}: there must be two or three, with the product n = {n}")
    radix, middle, columns = digits_of(radices)
    if radix % 2 or not 4 <= radix <= MAX_RADIX:
        raise ValueError(f"radices {radices}: the first must be even, 4 to {MAX_RADIX}")
    if columns % 2 or not NARROW < columns <= MAX_RADIX:
        raise ValueError(f"radices {radices}: the last must be even, {NARROW + 2} to {MAX_RADIX}")
    if not 1 <= middle <= MAX_MIDDLE:
        raise ValueError(f"radices {radices}: the middle one must be 1 to {MAX_MIDDLE}")
    if middle > 1 and 2 * middle * slots_together(radix, middle) <= NARROW:
        raise ValueError(f"radices {radices}: the first or the middle one is too small")


def digits_of(radices: Any) -> Any:
    """Return R, L and C; L is 1 where there are two radices."""
    if len(radices) == 2:
        return radices[0], 1, radices[1]
    return radices[0], radices[1], radices[2]


def real_four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``real_four_step_tables(n, radices, ...)``."""
    radix, middle, columns = digits_of(radices)
    slots, together = padded_slots(radix, middle), slots_together(radix, middle)
    rows = 2 * middle * together
    shapes = [
        (halves_of(radix) * radix, 2 * slots),
        (columns, 2, middle * slots),
        (columns, 4, columns),
    ]
    if middle > 1:
        shapes.insert(1, (rows, slots // together, rows))
    return tuple(table_spec(shape) for shape in shapes)


def halves_of(radix: int) -> int:
    """Return how many row tiles take the first products: two where R fills one of them."""
    return 2 if radix == WHOLE_RADIX else 1


def inverse_real_four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = True, scale: float = 1.0
) -> tuple[Any, ...]:
    """Return the tables of ``inverse_real_four_step``: (first, twiddle, *middle, last).

    first is [C, 4, C], rows (part, k'), for both terms the factors that make real and that make
    imaginary parts. twiddle is [C, 2, slots L]. middle, for three radices, is [2 L g, groups, 2 L
    g], rows (slot, part, k2), columns (part, j, slot). last is [R, R] with the scale, rows (part,
    slot) without the imaginary parts of slots R/2 and 0; for R = 64 it is there twice, for either
    half of the array.

    Args:
        n: length of the transform.
        radices: (R, C) or (R, L, C) with product n.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        A tuple of float32 arrays.

    Raises:
        ValueError: the kernel does not accept n or the radices.
    """
    check_inverse_radices(n, radices)
    radix, middle, columns = digits_of(radices)
    slots = slot_order(radix, middle)
    k, c = np.arange(columns // 2)[:, None], np.arange(columns)
    first = np.stack(
        [
            *_terms(roots(k * c, columns, inverse), False),
            *_terms(roots((columns - 1 - k) * c, columns, inverse), True),
        ],
        1,
    )
    outputs = slots[:, None] + radix * np.arange(middle)  # [slot, k2]
    w = roots(c[:, None, None] * outputs, n, inverse)
    twiddle = np.stack([w.real, w.imag], 1).reshape(columns, 2, -1)
    w = scale * roots(slots[:, None] * np.arange(radix), radix, inverse)
    inner = (slots > 0) & (slots < radix // 2)
    w[inner] *= 2
    last = np.tile(np.concatenate([w.real, -w.imag[inner]]), (runs_paired(radix), 1))
    found = [first, twiddle, last]
    if middle > 1:
        found.insert(2, _inverse_middle_table(radix, middle, outputs, inverse))
    return tuple(table.astype(np.float32) for table in found)


def check_inverse_radices(n: int, radices: tuple[int, ...]) -> None:
    """Raise ValueError where ``inverse_real_four_step_tables`` does."""
    check_radices(n, radices)
    if n > MAX_INVERSE_LENGTH:
        raise ValueError(f"n = {n}: the inverse kernel accepts lengths up to {MAX_INVERSE_LENGTH}")
    if radices[0] <= NARROW:
        raise ValueError(f"radices {radices}: the first must be {NARROW + 2} to {MAX_RADIX}")


def fine_slots(radix: int, middle: int) -> int:
    """Return S, the divisor of R/2 that needs the fewest copies."""
    half = radix // 2
    best, least = 1, half + 1 + middle
    for fine in range(2, half + 1):
        if half % fine == 0 and copy_count(radix, middle, fine) < least:
            best, least = fine, copy_count(radix, middle, fine)
    return best


def copy_count(radix: int, middle: int, fine: int) -> int:
    """Return how many copies bring a bundle's numbers into the order of slots."""
    half = radix // 2
    # Slot R/2 continues the run of the other slots if S = 1.
    return half // fine + middle * fine + 1 + (middle if fine > 1 else 0)


def slot_order(radix: int, middle: int) -> np.ndarray[Any, Any]:
    """Return K of each slot: R/2, then s + S t, where t runs down."""
    half, fine = radix // 2, fine_slots(radix, middle)
    place = np.arange(half)
    numbers = place % fine + fine * (half // fine - 1 - place // fine)
    return np.concatenate([[half], numbers])


def _terms(w: np.ndarray[Any, Any], is_conjugate: bool) -> list[np.ndarray[Any, Any]]:
    """Return the factors that make real, and imaginary, parts of w X or w conj X.

    Their rows are (part, k'), their columns c.
    """
    sign = -1 if is_conjugate else 1
    real = np.concatenate([w.real, -sign * w.imag])
    return [real, np.concatenate([w.imag, sign * w.real])]


def _inverse_middle_table(
    radix: int, middle: int, outputs: Any, inverse: bool
) -> np.ndarray[Any, Any]:
    """Return the middle one of ``inverse_real_four_step_tables``."""
    together, firsts = slots_together(radix, middle), groups_of(radix, middle)
    w = roots(outputs[:, :, None] * np.arange(middle), radix * middle, inverse)  # [slot, k2, j]
    w = np.stack([w[first : first + together] for first in firsts])
    split = np.stack(
        [np.stack([w.real, w.imag]), np.stack([-w.imag, w.real])]
    )  # [part, part', ...]
    blocks = np.einsum("pqGskj,st->spkGqjt", split, np.eye(together))
    rows = 2 * middle * together
    table: np.ndarray[Any, Any] = blocks.reshape(rows, -1, rows)
    return table


def groups_of(radix: int, middle: int) -> Any:
    """Return the first slot of each group; the last group may repeat slots of the one before."""
    together, slots = slots_together(radix, middle), slot_count(radix)
    firsts = []
    for group in range(-(-slots // together)):
        firsts.append(min(group * together, slots - together))
    return firsts


def inverse_real_four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``inverse_real_four_step_tables(n, radices, ...)``."""
    radix, middle, columns = digits_of(radices)
    rows = 2 * middle * slots_together(radix, middle)
    shapes: list[tuple[int, ...]] = [
        (columns, 4, columns),
        (columns, 2, slot_count(radix) * middle),
        (runs_paired(radix) * radix, radix),
    ]
    if middle > 1:
        shapes.insert(2, (rows, len(groups_of(radix, middle)), rows))
    return tuple(table_spec(shape) for shape in shapes)


def runs_paired(radix: int) -> int:
    """Return how many runs of R numbers are transposed together: two if they fill the array."""
    return 2 if radix == WHOLE_RADIX else 1
