"""What both real four-step kernels consist of: spread rows, the second stage, and twiddles.

real_four_step.py has the mathematics and the layout. Both directions have the same tables in SBUF,
and the same second stage: groups of slots are transposed, and multiplied by a matrix with diagonal
blocks, so that c returns to partitions. A put takes the products out of PSUM. Both directions move
the same lines: of real rows, N / R numbers on each of R partitions, and of half spectra, A numbers
on each of C/2 partitions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .. import chip
from ..engines import (
    PARTITIONS,
    PSUM_BANK,
    evacuate,
    multiply,
    psum,
    sbuf,
    transpose,
    transposed_dtype,
)
from ..isa import nisa, nl
from ..launch import Rows, for_rows, rows_together
from ..pipeline import Block, Order, Task
from ..tables import load_tables
from ..tensor import Tensor
from .real_four_step_tables import Digits

LOADED = 2048  # numbers a partition of an input tile, unless one row has more
RUNS = PSUM_BANK // PARTITIONS  # transposes that share a PSUM bank
# bundles of a batch, if it is long enough: nothing overlaps the first and the last bundle
_FEWEST_BUNDLES = 8

# Takes products [C, part, digit, slots] out of PSUM, with the number of the first slot.
Put = Callable[[Tensor, int], None]


@dataclass
class SpreadRows(ABC):
    """Rows of real data and their half spectra, each spread over the partitions."""

    digits: Digits
    real: Tensor  # HBM [B, N]
    spectra: Sequence[Tensor]  # HBM [B, N/2 + 1], the real and the imaginary part
    tables: Sequence[Tensor]  # in HBM, in the order in which they are loaded
    rows: int = field(init=False)  # rows of a bundle, which are transformed together
    order: Order = field(init=False)  # of the blocks that bundles consist of
    # Tables in SBUF.
    identity: Tensor | None = field(init=False, default=None)
    first: Tensor = field(init=False)
    middle: Tensor | None = field(init=False, default=None)  # [2 L g, groups, 2 L g]
    twiddle: Tensor = field(init=False)  # [C, 2, n]
    last: Tensor = field(init=False)

    def run(self) -> None:
        """Transform all rows of this program."""
        for_rows(self.real.shape[0], self, self.rows, self.split, self.order)

    def split(self, base: Any, first: int, count: int) -> Sequence[Rows]:
        """Cut rows into bundles."""
        end = first + count
        return [
            Rows(base, row, 1, min(self.rows, end - row)) for row in range(first, end, self.rows)
        ]

    @abstractmethod
    def block(self, rows: Rows, number: int) -> Block:
        """Transform a bundle."""

    @abstractmethod
    def setup(self) -> None:
        """Load the tables."""

    def few(self, most: int) -> int:
        """Return the rows of a bundle: at most ``most``, and few of a short batch."""
        few = -(-self.real.shape[0] // (_FEWEST_BUNDLES * nl.num_programs()))
        return max(1, min(most, few))

    def load_tables(self) -> list[Tensor]:
        """Load the tables into SBUF, and the identity where there are transposes."""
        flat = [t.flatten_dims(1, 2) if len(t.shape) > 2 else t for t in self.tables]
        loaded = load_tables(flat)
        return [tile.reshape(t.shape) for tile, t in zip(loaded, self.tables, strict=True)]

    def transposed(self, data: Sequence[Tensor]) -> Tensor:
        """Transpose SBUF [C, n] each, of which the last may have fewer numbers: [n, count, C]."""
        assert self.identity is not None
        shape = (data[0].shape[1], len(data), self.digits.columns)
        bank = psum(shape, transposed_dtype(nl.float32))
        for index, numbers in enumerate(data):
            transpose(bank[0 : numbers.shape[1], index], numbers, self.identity)
        rest = data[-1].shape[1]
        if rest == shape[0]:
            return evacuate(bank)
        operands, whole = sbuf(shape), len(data) - 1
        if whole > 0:
            evacuate(bank[:, 0:whole], operands[:, 0:whole])
        evacuate(bank[0:rest, whole], operands[0:rest, whole])
        return operands

    def second_stage(self, state: Tensor, first: int, end: int, put: Put) -> Block:
        """Yield the second stage of some groups of slots of a row, PSUM bank by PSUM bank.

        state: SBUF [C, (slot, part, digit)].
        """
        for low, high in shared_evenly(first, end, RUNS):
            yield self._groups(state, low, high, put)

    def _groups(self, state: Tensor, low: int, high: int, put: Put) -> Task:
        """Transpose groups of slots low..high, and multiply them by their matrices."""
        digits, table = self.digits, self.middle
        assert table is not None
        firsts = digits.groups[low:high]
        ahead = 2 * digits.middle
        operands = self.transposed(
            [state[:, ahead * first : ahead * first + digits.product] for first in firsts]
        )
        yield
        begin, size = firsts[0], firsts[-1] + digits.together - firsts[0]
        bank = psum((digits.columns, 2, digits.middle, size))
        for index, first in enumerate(firsts):
            place = bank[..., first - begin : first - begin + digits.together]
            multiply(place, operands[:, index], table[:, low + index], False)
        put(bank, begin)

    def factors(self, pattern: Sequence[Sequence[int]], first: int) -> list[Tensor]:
        """Return the real and imaginary parts of twiddles from number ``first`` on.

        pattern: strides and counts behind the partitions.
        """
        columns, _, n = self.twiddle.shape
        whole = [[2 * n, columns], *pattern]
        return [self.twiddle.ap(whole, part * n + first) for part in range(2)]

    def real_lines(
        self, rows: Rows, low: int, size: int, each: int
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield the transfers of real rows: the first row and the view [R, rows, size] of each.

        low, size: which of the L C numbers of a partition. each: rows that lie side by side.
        """
        digits = self.digits
        together = rows_together(rows.base, digits.radix, each, size)
        for row in range(0, rows.each, together):
            shape = (digits.radix, digits.middle * digits.columns)
            yield row, lines(self.real, some_rows(rows, row, together), shape, low, size)

    def spectrum_lines(self, part: int, rows: Rows, size: int) -> Tensor:
        """Return ``size`` numbers from every A-th on of half spectra, [C/2, rows, size]."""
        digits = self.digits
        return lines(self.spectra[part], rows, (digits.columns // 2, digits.length), 0, size)


def some_rows(rows: Rows, row: int, count: int) -> Rows:
    """Return up to ``count`` of the rows, from number ``row`` on."""
    return replace(rows, first=rows.first + row, each=min(count, rows.each - row))


def lines(x: Tensor, rows: Rows, shape: tuple[int, int], low: int, size: int) -> Tensor:
    """Return [partitions, rows, size] of HBM x [B, n]: numbers of each partition from ``low`` on.

    shape: partitions, and numbers from each to the next.
    """
    partitions, pitch = shape
    n = x.shape[1]
    pattern = [[pitch, partitions], [n, rows.each], [1, size]]
    return x.ap(pattern, rows.first * n + low, scalar_offset=rows.base)


def times(bank: Tensor, factors: Tensor, replaces: bool) -> Tensor:
    """Return PSUM numbers times factors, on VectorE.

    replaces: whether the products may take the place of the numbers. A sum of two operands takes
    half the time if one is in PSUM; where VectorE and ScalarE share PSUM, that does not pay.
    """
    product = bank if replaces and not chip.psum_port_is_shared() else sbuf(bank.shape)
    nisa.tensor_tensor(dst=product, data1=bank, data2=factors, op=nl.multiply)
    return product


def add_products(dst: Tensor, part: int, by_real: Tensor, by_imaginary: Tensor) -> None:
    """Set dst to one part of numbers times twiddles.

    by_real: this part of the numbers times real parts; by_imaginary: the other part of the numbers
    times imaginary parts.
    """
    op = nl.subtract if part == 0 else nl.add
    nisa.tensor_tensor(dst=dst, data1=by_real, data2=by_imaginary, op=op)


def shared_evenly(first: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield (low, high) of as few ranges of up to ``most`` numbers as first..end takes."""
    count = -(-(end - first) // most)
    for index in range(count):
        low, high = (first + (end - first) * at // count for at in (index, index + 1))
        yield low, high
