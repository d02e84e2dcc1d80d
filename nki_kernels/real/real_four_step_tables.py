"""Tables of the real four-step kernels, and the shapes that follow from their radices.

real_four_step.py and inverse_real_four_step.py have the mathematics: slots K of the first stage, in
an order of their own, twiddles, DFTs of length L, and the DFT over c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..engines import NARROW, PARTITIONS, PSUM_BANK, WHOLE_RADIX
from ..roots import roots
from ..table_terms import table_spec

MAX_RADIX = PARTITIONS  # largest R and largest C
MAX_MIDDLE = WHOLE_RADIX  # largest L
MAX_LENGTH = MAX_RADIX * MAX_MIDDLE * MAX_RADIX
MAX_INVERSE_LENGTH = 2**19  # two input tiles take 16 N / C bytes of a partition that DMA writes
_MOST_FINE = 8  # largest S of the forward transform

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Digits:
    """The digits of N = R L C, and the slots K <= R/2 of the first stage."""

    radix: int  # R
    middle: int  # L; 1 where there is no second stage
    columns: int  # C

    @property
    def n(self) -> int:
        """The length of the transform."""
        return self.radix * self.middle * self.columns

    @property
    def length(self) -> int:
        """A = R L, how many k_a there are."""
        return self.radix * self.middle

    @property
    def half(self) -> int:
        """R/2."""
        return self.radix // 2

    @property
    def tiles(self) -> int:
        """Row tiles of the array that contract R numbers side by side: two where R fills one."""
        return 2 if self.radix == WHOLE_RADIX else 1

    @cached_property
    def together(self) -> int:
        """Slots g of a product of the second stage, which give the Tensor engine least work."""
        if self.middle == 1:
            return 1

        def cycles(together: int) -> int:
            groups = -(-(self.half + 1) // together)
            product = max(256, 8 * together * self.middle)
            return groups * (256 + product) + 8 * self.middle * groups * together

        return min(range(WHOLE_RADIX // self.middle, 0, -1), key=cycles)

    @property
    def product(self) -> int:
        """Numbers 2 L g that a product of the second stage contracts."""
        return 2 * self.middle * self.together

    @property
    def slots(self) -> int:
        """Slots in SBUF."""
        raise NotImplementedError

    @cached_property
    def fine(self) -> int:
        """S, a divisor of R/2: K = s + S t."""
        raise NotImplementedError

    @cached_property
    def order(self) -> Array:
        """K of each slot."""
        raise NotImplementedError

    @cached_property
    def groups(self) -> list[int]:
        """The first slot of each product; the last one may repeat slots of the one before."""
        last = self.slots - self.together
        return [min(low, last) for low in range(0, self.slots, self.together)]

    def _divisors(self) -> list[int]:
        """Return the divisors of R/2."""
        return [fine for fine in range(1, self.half + 1) if self.half % fine == 0]

    def _inner_order(self) -> Array:
        """Return K = s + S t < R/2 in the order of slots: t runs down, s runs up."""
        place = np.arange(self.half)
        fine = self.fine
        return place % fine + fine * (self.half // fine - 1 - place // fine)

    def _middle_table(self, exponents: Array, inverse: bool) -> Array:
        """Return the table of the second stage, [2 L g, groups, 2 L g].

        exponents: those of W_(R L), [slot, contracted, produced]. Rows are (slot, part,
        contracted), columns (part, produced, slot).
        """
        w = roots(exponents, self.length, inverse)
        w = np.stack([w[first : first + self.together] for first in self.groups])
        split = np.stack([np.stack([w.real, w.imag]), np.stack([-w.imag, w.real])])
        blocks = np.einsum("pqGsab,st->spaGqbt", split, np.eye(self.together))
        return blocks.reshape(self.product, -1, self.product)

    def _middle_spec(self) -> tuple[int, ...]:
        """Return the shape of the table of the second stage."""
        return self.product, len(self.groups), self.product


def digits_of(radices: Sequence[int]) -> tuple[int, int, int]:
    """Return R, L and C of radices (R, C) or (R, L, C)."""
    radix, *middle, columns = radices
    return radix, middle[0] if middle else 1, columns


class Forward(Digits):
    """Slots of the forward transform: K < R/2, then R/2."""

    @property
    def slots(self) -> int:
        """R/2 + 1, and more up to a multiple of g, which nobody reads."""
        return -(-(self.half + 1) // self.together) * self.together

    @cached_property
    def fine(self) -> int:
        """The S that gives ScalarE the fewest instructions."""
        slots = min(self.half, PSUM_BANK // self.middle)
        fines = [fine for fine in self._divisors() if fine <= _MOST_FINE]
        return min(fines[::-1], key=lambda fine: -(-slots // fine) + self.middle * fine)

    @cached_property
    def order(self) -> Array:
        """K of each slot; the slots that nobody reads have R/2, too."""
        edge = np.full(self.slots - self.half, self.half)
        return np.concatenate([self._inner_order(), edge])

    @cached_property
    def portion(self) -> int:
        """Slots that are closed at once: all, or whole groups that fit a PSUM bank for all k2."""
        if self.middle * self.half <= PSUM_BANK:
            return self.half
        unit = math.lcm(self.fine, self.together)
        return PSUM_BANK // self.middle // unit * unit


class Inverse(Digits):
    """Slots of the inverse transform: R/2, then K < R/2."""

    @property
    def slots(self) -> int:
        """R/2 + 1."""
        return self.half + 1

    @cached_property
    def fine(self) -> int:
        """The S that needs the fewest copies into the order of slots."""

        def copies(fine: int) -> int:
            # Slot R/2 continues the run of the other slots if S = 1.
            return self.half // fine + self.middle * (fine + (1 if fine > 1 else 0))

        return min(self._divisors(), key=copies)

    @cached_property
    def order(self) -> Array:
        """K of each slot."""
        return np.concatenate([[self.half], self._inner_order()])

    def closed(self, first: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (part, low, high, place) of runs of slots, and their places in the last product.

        Slots R/2 and 0 have no imaginary part there.
        """
        yield 0, first, end, first
        zero = 1 + self.half - self.fine
        for low, high, skipped in ((1, zero, 1), (zero + 1, self.slots, 2)):
            low, high = max(low, first), min(high, end)
            if low < high:
                yield 1, low, high, self.slots + low - skipped


def real_four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
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
    digits = Forward(*digits_of(radices))
    radix, middle, columns = digits.radix, digits.middle, digits.columns
    w = scale * roots(np.arange(radix)[:, None] * digits.order, radix, inverse)
    first = np.tile(np.stack([w.real, w.imag], 1).reshape(radix, -1), (digits.tiles, 1))
    outputs = digits.order + radix * np.arange(middle)[:, None]  # [k2, slot]
    c, k = np.arange(columns), np.arange(columns // 2)
    w = roots(c[:, None, None] * outputs, n, inverse)
    twiddle = np.stack([w.real, w.imag], 1).reshape(columns, 2, -1)
    last = np.concatenate(
        [
            _from_parts(roots(c[:, None] * k, columns, inverse), 1),
            _from_parts(roots(c[:, None] * (columns - 1 - k), columns, inverse), -1),
        ],
        1,
    )
    exponents = outputs.T[:, None, :] * np.arange(middle)[:, None]  # [slot, j, k2]
    stage = [digits._middle_table(exponents, inverse)] if middle > 1 else []
    return tuple(table.astype(np.float32) for table in (first, *stage, twiddle, last))


def _from_parts(w: Array, sign: int) -> Array:
    """Return the factors of real and imaginary parts that make w x, or conj (w x) for sign -1.

    They are [C, 2, (part, k')].
    """
    by_real = np.concatenate([w.real, sign * w.imag], 1)
    return np.stack([by_real, np.concatenate([-w.imag, sign * w.real], 1)], 1)


def real_four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``real_four_step_tables(n, radices, ...)``."""
    digits = Forward(*digits_of(radices))
    columns = digits.columns
    first = (digits.tiles * digits.radix, 2 * digits.slots)
    twiddle, last = (columns, 2, digits.middle * digits.slots), (columns, 4, columns)
    stage = [digits._middle_spec()] if digits.middle > 1 else []
    return tuple(table_spec(shape) for shape in (first, *stage, twiddle, last))


def check_radices(n: int, radices: tuple[int, ...]) -> None:
    """Raise ValueError where ``real_four_step_tables`` does."""
    if math.prod(radices) != n or len(radices) not in (2, 3):
        raise ValueError(f"radices {radices}: there must be two or three, with the product n = {n}")
    digits = Digits(*digits_of(radices))
    if digits.radix % 2 or not 4 <= digits.radix <= MAX_RADIX:
        raise ValueError(f"radices {radices}: the first must be even, 4 to {MAX_RADIX}")
    if digits.columns % 2 or not NARROW < digits.columns <= MAX_RADIX:
        raise ValueError(f"radices {radices}: the last must be even, {NARROW + 2} to {MAX_RADIX}")
    if not 1 <= digits.middle <= MAX_MIDDLE:
        raise ValueError(f"radices {radices}: the middle one must be 1 to {MAX_MIDDLE}")
    if digits.middle > 1 and digits.product <= NARROW:
        raise ValueError(f"radices {radices}: the first or the middle one is too small")


def inverse_real_four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = True, scale: float = 1.0
) -> tuple[Array, ...]:
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
    digits = Inverse(*digits_of(radices))
    radix, middle, columns, slots = digits.radix, digits.middle, digits.columns, digits.order
    k, c = np.arange(columns // 2)[:, None], np.arange(columns)
    first = np.stack(
        [
            *_to_parts(roots(k * c, columns, inverse), 1),
            *_to_parts(roots((columns - 1 - k) * c, columns, inverse), -1),
        ],
        1,
    )
    outputs = slots[:, None] + radix * np.arange(middle)  # [slot, k2]
    w = roots(c[:, None, None] * outputs, n, inverse)
    twiddle = np.stack([w.real, w.imag], 1).reshape(columns, 2, -1)
    w = scale * roots(slots[:, None] * np.arange(radix), radix, inverse)
    inner = (slots > 0) & (slots < radix // 2)
    w[inner] *= 2
    last = np.tile(np.concatenate([w.real, -w.imag[inner]]), (digits.tiles, 1))
    exponents = outputs[:, :, None] * np.arange(middle)  # [slot, k2, j]
    stage = [digits._middle_table(exponents, inverse)] if middle > 1 else []
    return tuple(table.astype(np.float32) for table in (first, twiddle, *stage, last))


def _to_parts(w: Array, sign: int) -> list[Array]:
    """Return the factors that make real, and imaginary, parts of w X, or of w conj X for sign -1.

    Their rows are (part, k'), their columns c.
    """
    real = np.concatenate([w.real, -sign * w.imag])
    return [real, np.concatenate([w.imag, sign * w.real])]


def inverse_real_four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``inverse_real_four_step_tables(n, radices, ...)``."""
    digits = Inverse(*digits_of(radices))
    columns, radix = digits.columns, digits.radix
    first, twiddle = (columns, 4, columns), (columns, 2, digits.slots * digits.middle)
    stage = [digits._middle_spec()] if digits.middle > 1 else []
    last = (digits.tiles * radix, radix)
    return tuple(table_spec(shape) for shape in (first, twiddle, *stage, last))


def check_inverse_radices(n: int, radices: tuple[int, ...]) -> None:
    """Raise ValueError where ``inverse_real_four_step_tables`` does."""
    check_radices(n, radices)
    if n > MAX_INVERSE_LENGTH:
        raise ValueError(f"n = {n}: the inverse kernel accepts lengths up to {MAX_INVERSE_LENGTH}")
    if radices[0] <= NARROW:
        raise ValueError(f"radices {radices}: the first must be {NARROW + 2} to {MAX_RADIX}")
