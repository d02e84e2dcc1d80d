"""What both real four-step kernels consist of: spread rows, the second stage, and twiddles.

real_four_step.py has the mathematics and the layout. Both directions have the same second stage:
groups of slots are transposed, and multiplied by matrices with diagonal blocks, so that c returns
to partitions. A put takes the products out of PSUM. Both directions move the same lines of HBM: of
a real row N / R numbers on each of R partitions, of a half spectrum A numbers on each of C/2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..base.engines import (
    PARTITIONS,
    PSUM_BANK,
    chunks,
    evacuate,
    multiply,
    psum,
    sbuf,
    transpose,
    transposed_dtype,
)
from ..base.isa import Tensor, nl
from ..base.launch import Rows
from ..base.pipeline import TURN, Block, Order, Task, Turn
from ..base.tables import load_tables
from .real_four_step_tables import Digits

LOADED = 2048  # numbers a partition of an input tile, unless one row has more
RUNS = PSUM_BANK // PARTITIONS  # transposes that share a PSUM bank
FEW_ROWS = 2  # rows of a bundle that has few tasks for a turn
# bundles of a batch, if it is long enough: nothing overlaps the first and the last bundle
_FEWEST_BUNDLES = 8

# How products with real and with imaginary parts of twiddles are added, for each part.
SUMS = (nl.subtract, nl.add)

# Takes products [C, part, digit, slots] out of PSUM, with the number of the first slot.
Put = Callable[[Tensor, int], None]


@dataclass
class SpreadRows:
    """Rows of real data and their half spectra, each spread over the partitions."""

    digits: Digits
    real: Tensor  # HBM [B, N]
    spectra: Sequence[Tensor]  # HBM [B, N/2 + 1], the real and the imaginary part
    tables: Sequence[Tensor]  # HBM
    rows: int = field(init=False)  # rows of a bundle, which are transformed together
    order: Order = field(init=False)
    # Tables in SBUF.
    identity: Tensor = field(init=False)
    first: Tensor = field(init=False)
    middle: Tensor = field(init=False)  # [2 L g, groups, 2 L g]
    twiddle: Tensor = field(init=False)  # [C, 2, n]
    last: Tensor = field(init=False)

    def split(self, base: object, first: int, count: int) -> Sequence[Rows]:
        """Cut rows into bundles."""
        return [Rows(base, first + low, 1, each) for low, each in chunks(count, self.rows)]

    def few(self, most: int) -> int:
        """Return the rows of a bundle: at most ``most``, and few of a short batch."""
        few = -(-self.real.shape[0] // (_FEWEST_BUNDLES * nl.num_programs()))
        return max(1, min(most, few))

    def settled(self, turns: int) -> list[Turn]:
        """Return turns after which results are ready: one more where they have few tasks."""
        return [TURN] * (turns + (self.rows <= FEW_ROWS))

    def load_tables(self) -> list[Tensor]:
        """Load the tables into SBUF."""
        flat = [t.flatten_dims(1, 2) if len(t.shape) > 2 else t for t in self.tables]
        loaded = load_tables(flat)
        return [tile.reshape(t.shape) for tile, t in zip(loaded, self.tables, strict=True)]

    def transposed(self, data: Sequence[Tensor]) -> Tensor:
        """Transpose SBUF [C, n] each, of which the last may have fewer numbers: [n, count, C]."""
        whole, rest = len(data) - 1, data[-1].shape[1]
        shape = (data[0].shape[1], len(data), self.digits.columns)
        bank = psum(shape, transposed_dtype(nl.float32))
        for index, numbers in enumerate(data):
            transpose(bank[0 : numbers.shape[1], index], numbers, self.identity)
        if rest == shape[0]:
            return evacuate(bank)
        operands = sbuf(shape)
        evacuate(bank[:, 0:whole], operands[:, 0:whole])
        evacuate(bank[0:rest, whole], operands[0:rest, whole])
        return operands

    def second_stage(self, state: Tensor, groups: range, put: Put) -> Block:
        """Yield the second stage of some groups of slots of a row, PSUM bank by PSUM bank.

        state: SBUF [C, (slot, part, digit)].
        """
        for some in shared_evenly(groups, RUNS):
            yield self._second_stage(state, some, put)

    def _second_stage(self, state: Tensor, groups: range, put: Put) -> Task:
        """Transpose groups of slots, and multiply them by their matrices."""
        digits = self.digits
        firsts = [digits.groups[group] for group in groups]
        starts = [2 * digits.middle * first for first in firsts]
        operands = self.transposed([state[:, low : low + digits.product] for low in starts])
        yield
        slots = firsts[-1] + digits.together - firsts[0]
        bank = psum((digits.columns, 2, digits.middle, slots))
        for index, group in enumerate(groups):
            low = firsts[index] - firsts[0]
            place = bank[..., low : low + digits.together]
            multiply(place, operands[:, index], self.middle[:, group], False)
        put(bank, firsts[0])

    def factors(self, pattern: Sequence[Sequence[int]], first: int) -> list[Tensor]:
        """Return the real and imaginary parts of twiddles from number ``first`` on.

        pattern: strides and counts of the dimensions after the partitions.
        """
        columns, _, n = self.twiddle.shape
        whole = [[2 * n, columns], *pattern]
        return [self.twiddle.ap(whole, part * n + first) for part in range(2)]

    def line(self, x: Tensor, first: int, count: int) -> Iterator[tuple[slice, Tensor]]:
        """Yield slots, counted from ``first`` on, and their k_a in x, by t: [P, rows, L, slots].

        x: SBUF [P, rows, A + 1].
        """
        digits = self.digits
        numbers = x[:, :, 0 : digits.length].reshape_dim(2, (digits.middle, digits.radix))
        for low in range(0, count, digits.fine):
            high, K = min(low + digits.fine, count), digits.order[first + low]
            yield slice(low, high), numbers[..., K : K + high - low]

    def second_line(
        self, x: Tensor, first: int, count: int
    ) -> Iterator[tuple[tuple[int, slice], Tensor]]:
        """Yield k2 and slots, and their A - k_a in x, by s: [P, rows, slots].

        They run backwards: slot K ends at -K, before the next multiple of R.
        """
        digits, step = self.digits, min(self.digits.fine, count)
        for k2 in range(digits.middle):
            for s in range(step):
                low = digits.radix * (digits.middle - k2) - digits.order[first + s]
                yield (k2, slice(s, count, step)), x[:, :, low : low + count - step + 1 : step]

    def real_lines(
        self, rows: Rows, low: int, size: int, each: int
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield the transfers of real rows: the first row and the view [R, rows, size] of each.

        low, size: which of the L C numbers of a partition. each: rows that lie side by side.
        """
        digits = self.digits
        shape = (digits.radix, digits.middle * digits.columns)
        for row, count in chunks(rows.each, each):
            some = replace(rows, first=rows.first + row, each=count)
            yield row, lines(self.real, some, shape, low, size)

    def spectrum_lines(self, part: int, rows: Rows, size: int) -> Tensor:
        """Return ``size`` numbers from every A-th on of half spectra, [C/2, rows, size]."""
        shape = (self.digits.columns // 2, self.digits.length)
        return lines(self.spectra[part], rows, shape, 0, size)


def lines(x: Tensor, rows: Rows, shape: tuple[int, int], low: int, size: int) -> Tensor:
    """Return [partitions, rows, size] of HBM x [B, n]: numbers of each partition from ``low`` on.

    shape: partitions, and numbers from each to the next.
    """
    partitions, pitch = shape
    n = x.shape[1]
    pattern = [[pitch, partitions], [n, rows.each], [1, size]]
    return x.ap(pattern, rows.first * n + low, scalar_offset=rows.base)


def shared_evenly(numbers: range, most: int) -> Iterator[range]:
    """Yield a range in as few parts of up to ``most`` numbers as possible."""
    count = -(-len(numbers) // most)
    for part in range(count):
        yield numbers[len(numbers) * part // count : len(numbers) * (part + 1) // count]
