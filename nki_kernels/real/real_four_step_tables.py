"""Tables of the real four-step kernels, and the shapes that follow from their radices.

real_four_step.py and inverse_real_four_step.py have the mathematics: slots K of the first stage, in
an order of their own, twiddles, DFTs of length L, and the DFT over c.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..base.engines import NARROW, PARTITIONS, PSUM_BANK, WHOLE_RADIX
from ..base.roots import roots
from ..base.table_terms import Array, TableSpec, table_spec

MAX_RADIX = PARTITIONS  # largest R and largest C
MAX_MIDDLE = WHOLE_RADIX  # largest L
MAX_LENGTH = MAX_RADIX * MAX_MIDDLE * MAX_RADIX
MAX_INVERSE_LENGTH = 2**19  # two input tiles take 16 N / C bytes of a partition that DMA writes
_MOST_FINE = 8  # largest S of the forward transform


@dataclass(frozen=True)
class Digits:
    """The digits of N = R L C, and the slots K <= R/2 of the first stage."""

    radix: int  # R
    middle: int  # L; 1 where there is no second stage
    columns: int  # C
    together: int  # g, slots of a product of the second stage
    fine: int  # S: slots have K = s + S t, where t runs down and s runs up
    order: Sequence[int]  # K of each slot

    @property
    def length(self) -> int:
        """A = R L, how many k_a there are."""
        return self.radix * self.middle

    @property
    def slots(self) -> int:
        """How many slots lie in SBUF."""
        return len(self.order)

    @property
    def tiles(self) -> int:
        """Row tiles of the array that contract R numbers side by side: two where R fills one."""
        return 2 if self.radix == WHOLE_RADIX else 1

    @property
    def product(self) -> int:
        """Numbers 2 L g that a product of the second stage contracts."""
        return 2 * self.middle * self.together

    @property
    def groups(self) -> list[int]:
        """The first slot of each product; the last one may repeat slots of the one before."""
        last = self.slots - self.together
        return [min(first, last) for first in range(0, self.slots, self.together)]


def digits_of(radices: Sequence[int]) -> tuple[int, int, int]:
    """Return R, L and C of radices (R, C) or (R, L, C)."""
    radix, *middle, columns = radices
    return radix, middle[0] if middle else 1, columns


def slots_together(radix: int, middle: int) -> int:
    """Return the slots per product of the second stage that give the Tensor engine least work."""

    def cycles(together: int) -> int:
        groups = -(-(radix // 2 + 1) // together)
        return groups * (256 + max(256, 8 * together * middle) + 8 * middle * together)

    return min(range(WHOLE_RADIX // middle, 0, -1), key=cycles) if middle > 1 else 1


def forward_digits(radices: Sequence[int]) -> Digits:
    """Return the digits of a forward transform, whose slots are K < R/2, then R/2.

    More slots up to a multiple of g, which nobody reads, have R/2, too. S gives ScalarE the fewest
    instructions.
    """
    radix, middle, columns = digits_of(radices)
    half, together = radix // 2, slots_together(radix, middle)
    closed = min(half, PSUM_BANK // middle)
    fines = [fine for fine in range(_MOST_FINE, 0, -1) if half % fine == 0]
    fine = min(fines, key=lambda fine: -(-closed // fine) + middle * fine)
    order = _inner_order(half, fine) + [half] * (1 + -(half + 1) % together)
    return Digits(radix, middle, columns, together, fine, order)


def inverse_digits(radices: Sequence[int]) -> Digits:
    """Return the digits of an inverse transform, whose slots are R/2, then K < R/2.

    S needs the fewest copies; slot R/2 continues the run of the other slots if S = 1.
    """
    radix, middle, columns = digits_of(radices)
    half = radix // 2
    fines = [fine for fine in range(1, half + 1) if half % fine == 0]
    fine = min(fines, key=lambda fine: half // fine + middle * (fine + (fine > 1)))
    order = [half, *_inner_order(half, fine)]
    return Digits(radix, middle, columns, slots_together(radix, middle), fine, order)


def _inner_order(half: int, fine: int) -> list[int]:
    return [s + fine * t for t in reversed(range(half // fine)) for s in range(fine)]


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


def check_inverse_radices(n: int, radices: tuple[int, ...]) -> None:
    """Raise ValueError where ``inverse_real_four_step_tables`` does."""
    check_radices(n, radices)
    if n > MAX_INVERSE_LENGTH:
        raise ValueError(f"n = {n}: the inverse kernel accepts lengths up to {MAX_INVERSE_LENGTH}")
    if radices[0] <= NARROW:
        raise ValueError(f"radices {radices}: the first must be {NARROW + 2} to {MAX_RADIX}")


def real_four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return the tables of ``real_four_step``: (first, *middle, twiddle, last).

    first is [R, 2 slots], columns (part, slot), with the scale; for R = 64 it is there twice, for
    either half of the array. middle, for three radices, is [2 L g, groups, 2 L g], rows (slot,
    part, j), columns (part, k2, slot). twiddle is [C, 2, L slots]. last is [C, 4, C], for both
    lines the factors of the real and of the imaginary parts, columns (part, k').

    Args:
        n, inverse, scale: as for ``stockham_tables``.
        radices: (R, C) or (R, L, C) with product n.
    """
    check_radices(n, radices)
    digits = forward_digits(radices)
    slots, outputs, middle = _slots(digits)
    w = scale * roots(np.arange(digits.radix)[:, None] * slots, digits.radix, inverse)
    first = np.tile(np.concatenate([w.real, w.imag], 1), (digits.tiles, 1))
    twiddle = _twiddles(n, digits.columns, outputs.T, inverse)
    exponents = outputs[:, None, :] * middle[:, None]  # [slot, j, k2]
    last = _lines(digits.columns, inverse)
    tables = first, *_middle_tables(digits, exponents, inverse), twiddle, last
    return tuple(table.astype(np.float32) for table in tables)


def inverse_real_four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = True, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return the tables of ``inverse_real_four_step``: (first, twiddle, *middle, last).

    first is [C, 4, C] with the scale, rows (part, k'), for both terms the factors that make real
    and that make imaginary parts. twiddle is [C, 2, slots L]. middle, for three radices, is [2 L g,
    groups, 2 L g], rows (slot, part, k2), columns (part, j, slot). last is [R, R], rows (part,
    slot) without the imaginary parts of slots R/2 and 0; for R = 64 it is there twice, for either
    half of the array.

    Args:
        n, inverse, scale: as for ``stockham_tables``.
        radices: (R, C) or (R, L, C) with product n.
    """
    check_inverse_radices(n, radices)
    digits = inverse_digits(radices)
    slots, outputs, middle = _slots(digits)
    # The scale comes first, so that large numbers do not overflow before their sum is scaled.
    first = scale * _lines(digits.columns, not inverse).transpose(2, 1, 0)
    twiddle = _twiddles(n, digits.columns, outputs, inverse)
    exponents = outputs[:, :, None] * middle  # [slot, k2, j]
    w = roots(slots[:, None] * np.arange(digits.radix), digits.radix, inverse)
    inner = (slots > 0) & (slots < digits.radix // 2)
    w[inner] *= 2
    last = np.tile(np.concatenate([w.real, -w.imag[inner]]), (digits.tiles, 1))
    tables = first, twiddle, *_middle_tables(digits, exponents, inverse), last
    return tuple(table.astype(np.float32) for table in tables)


def _slots(digits: Digits) -> tuple[Array, Array, Array]:
    """Return K of each slot, k_a = K + R k2 as [slot, k2], and the numbers below L."""
    slots, middle = np.array(digits.order), np.arange(digits.middle)
    return slots, slots[:, None] + digits.radix * middle, middle


def _twiddles(n: int, columns: int, outputs: Array, inverse: bool) -> Array:
    """Return both parts of W_N^(c k_a), [C, 2, outputs]."""
    w = roots(np.arange(columns)[:, None, None] * outputs, n, inverse)
    return np.stack([w.real, w.imag], 1).reshape(columns, 2, -1)


def _lines(columns: int, inverse: bool) -> Array:
    """Return the last table of the forward transform. Transposed, it is the inverse's first."""
    c, k = np.arange(columns)[:, None], np.arange(columns // 2)
    lines = []
    for output, sign in ((k, 1), (columns - 1 - k, -1)):
        w = roots(c * output, columns, inverse)
        lines.append(np.concatenate([w.real, sign * w.imag], 1))
        lines.append(np.concatenate([-w.imag, sign * w.real], 1))
    return np.stack(lines, 1)


def _middle_tables(digits: Digits, exponents: Array, inverse: bool) -> list[Array]:
    """Return the table of the second stage, [2 L g, groups, 2 L g], if there is one.

    exponents: those of W_(R L), [slot, contracted, produced]. Rows are (slot, part, contracted),
    columns (part, produced, slot).
    """
    if digits.middle == 1:
        return []
    w = roots(exponents, digits.length, inverse)
    w = np.stack([w[first : first + digits.together] for first in digits.groups])
    split = np.stack([np.stack([w.real, w.imag]), np.stack([-w.imag, w.real])])
    blocks = np.einsum("pqGsab,st->spaGqbt", split, np.eye(digits.together))
    return [blocks.reshape(digits.product, -1, digits.product)]


def real_four_step_specs(radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``real_four_step_tables(n, radices, ...)``."""
    digits = forward_digits(radices)
    first = digits.tiles * digits.radix, 2 * digits.slots
    twiddle, last, middle = _shapes(digits)
    return tuple(table_spec(shape) for shape in (first, *middle, twiddle, last))


def inverse_real_four_step_specs(radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``inverse_real_four_step_tables(n, radices, ...)``."""
    digits = inverse_digits(radices)
    twiddle, first, middle = _shapes(digits)
    last = digits.tiles * digits.radix, digits.radix
    return tuple(table_spec(shape) for shape in (first, twiddle, *middle, last))


def _shapes(digits: Digits) -> tuple[tuple[int, ...], tuple[int, ...], list[tuple[int, ...]]]:
    """Return the shapes of twiddles, of the table of lines, and of that of the second stage."""
    columns, product = digits.columns, digits.product
    middle = [(product, len(digits.groups), product)] if digits.middle > 1 else []
    return (columns, 2, digits.middle * digits.slots), (columns, 4, columns), [*middle]
