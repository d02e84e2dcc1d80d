"""Inverse of the real four-step FFT: real rows from half spectra, in one launch.

Mathematics.  The steps of real_four_step are taken backwards, in its notation. From a half spectrum

    u[c, k_a] = sum_(k' < C/2) W_C^(-c k') X[k_a + A k']
                             + W_C^(-c (C-1-k')) conj X[(A - k_a) + A k']

is computed for slots K <= R/2 only; the second term contains the numbers beyond N/2. Then follow
the twiddle W_N^(-c k_a), DFTs of length L over k2, which contain the twiddles between R and L, and

    x[a1, j, c] = sum_(K <= R/2) w_K Re (W_R^(-a1 K) Z[K, j, c]),      w_0 = w_(R/2) = 1, else 2

The imaginary parts of Z[0] and Z[R/2] do not enter this sum, and so the imaginary parts of X[0] and
X[N/2] do not enter the result. R real numbers are left to contract for every j and c.

Layout on the NeuronCore.  Spectra are loaded with (part, k') on partitions, A + 1 neighbouring
numbers on each. As in real_four_step, slots have an order: R/2 first, then K = s + S t, where t
runs down. ScalarE copies the numbers of the first term in runs of s, one instruction for each t.
The numbers of the second term lie in the opposite direction, and are copied in runs of t, one
instruction for each s and k2. Both terms are then columns of a product with a matrix, whose results
have c on partitions. VectorE applies the twiddles as the results leave PSUM. The second stage is
that of real_four_step. Its results are transposed once more, j by j, so that the R real numbers lie
on partitions; the last product has its matrix as the stationary operand.

    HBM [(part, k'), k_a] -> PSUM [c, k_a] -> twiddle -> (stage) -> [(part, K), c] -> HBM [R, N/R]

Transforms are different columns or partitions in every product, and never meet.

Why it is fast.  It has about half the products of a complex transform, and half of its DMA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..base.arguments import check_factors, rows_and_length
from ..base.engines import (
    PSUM_BANK,
    chunks,
    evacuate,
    hbm,
    multiply,
    multiply_tile,
    psum,
    sbuf,
    times,
    transfer,
)
from ..base.isa import Tensor, nisa, nki, nl
from ..base.launch import Rows, for_rows
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Order, Single, Task, by_age
from ..base.tables import load_identity
from .real_four_step_stages import LOADED, RUNS, SUMS, Put, SpreadRows
from .real_four_step_tables import inverse_digits

_RING = 2  # input tiles
_LONG = 4096  # A beyond which SBUF holds fewer blocks at a time

# Takes the first row, the first slot, and products with twiddles to be added, of each part.
Sums = Callable[[int, int, Sequence[Sequence[Tensor]]], None]


@nki.jit
def inverse_real_four_step(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute real rows from half spectra ``x_re + i x_im``.

    The arguments are those of ``inverse_real_stockham``, with ``inverse_real_four_step_tables``
    and the radices of ``real_four_step``, and so is the result.
    """
    batch, half = rows_and_length(x_re, x_im)
    check_factors(radices, 2 * (half - 1))
    y = hbm((batch, 2 * (half - 1)))
    work = ToReal(inverse_digits(radices), y, [x_re, x_im], unpack(tables, places, 3))
    for_rows(y.shape[0], work, work.rows, work.split, work.order)
    return y


@dataclass
class ToReal(SpreadRows):
    """What all blocks of a launch share. A block transforms a bundle."""

    def __post_init__(self) -> None:
        digits = self.digits
        self.rows = self.few(LOADED // (digits.middle * max(digits.radix, digits.columns)))
        shape = (digits.columns, self.rows * (digits.length + 1))
        self.inputs = [sbuf(shape) for _ in range(_RING)]
        self.order = Order(4 if digits.length <= _LONG else 2, spread=by_age)

    def setup(self) -> None:
        self.first, self.twiddle, *middle, self.last = self.load_tables()
        if middle:
            self.middle = middle[0]
        self.identity = load_identity()

    def block(self, rows: Rows, number: int) -> Block:
        digits = self.digits
        columns, slots, middle = digits.columns, digits.slots, digits.middle
        x = self._load(rows, number)
        yield TURN
        terms = [sbuf((columns, rows.each, slots, middle)) for _ in range(2)]
        yield from self._in_order(x, terms)
        yield TURN
        # The operands of the last product, of all rows or of each row: [C, runs, R].
        if middle == 1:
            lasts = [sbuf((columns, rows.each, digits.radix))]
            yield from self._open(terms, self._into_rows(lasts[0]))
            yield from [TURN] * 2  # VectorE applies the last twiddles
        else:
            states = [sbuf((columns, slots, 2, middle)) for _ in range(rows.each)]
            yield from self._open(terms, self._into_states(states))
            yield from [TURN] * 2
            lasts = [sbuf((columns, middle, digits.radix)) for _ in range(rows.each)]
            for state, last in zip(states, lasts, strict=True):
                flat = state.reshape((columns, 2 * slots * middle))
                put = self._into_operands(last)
                yield from self.second_stage(flat, range(len(digits.groups)), put)
            yield TURN
        result = sbuf((digits.radix, rows.each * middle, columns))
        yield from self.settled(0)
        for index, last in enumerate(lasts):
            yield from self._close(last, result[:, index * last.shape[1] :])
        yield After(partial(self._store, rows, result))

    def _load(self, rows: Rows, number: int) -> Tensor:
        """Load A + 1 neighbouring numbers on each partition: SBUF [(part, k'), rows, A + 1]."""
        size, half = self.digits.length + 1, self.digits.columns // 2
        x = self.inputs[number % _RING][:, 0 : rows.each * size].reshape_dim(1, (rows.each, size))
        for part in range(2):
            source = self.spectrum_lines(part, rows, size)
            transfer(x[part * half : (part + 1) * half], source, rows.base)
        return x

    def _store(self, rows: Rows, result: Tensor) -> None:
        """Store N / R numbers of each partition."""
        size = self.digits.middle * self.digits.columns
        tile = result.reshape((self.digits.radix, rows.each, size))
        for row, y in self.real_lines(rows, 0, size, rows.each):
            transfer(y, tile[:, row : row + y.shape[1]], rows.base)

    def _in_order(self, x: Tensor, terms: Sequence[Tensor]) -> Block:
        """Yield copies into the order of slots, [(part, k'), rows, slots, L].

        VectorE helps where it has time. GpSimdE does not, because it brings the tables.
        """
        slots = self.digits.slots
        places = []
        for first, count in ((0, 1), (1, slots - 1)):
            term = terms[0][:, :, first : first + count]
            for some, numbers in self.line(x, first, count):
                places.append((term[:, :, some], numbers.permute((0, 1, 3, 2))))
        # Slot R/2 continues the run of the other slots if S = 1.
        for first, count in ((1, slots - 1), (0, 1)) if self.digits.fine > 1 else ((0, slots),):
            term = terms[1][:, :, first : first + count]
            for (k2, some), numbers in self.second_line(x, first, count):
                places.append((term[:, :, some, k2], numbers))
        is_alone = self.real.shape[0] <= nl.num_programs()
        for index, (dst, src) in enumerate(places):
            yield Single(partial(_copy, dst, src, is_alone and index % 2 == 1))

    # The first product and the twiddles.

    def _open(self, terms: Sequence[Tensor], put: Sums) -> Block:
        """Yield the first product of whole rows or, with a second stage, of slots of a row."""
        digits, rows = self.digits, terms[0].shape[1]
        most = PSUM_BANK // digits.middle
        each = most // digits.slots if digits.middle == 1 else 1
        for row, count in chunks(rows, each):
            for slot, size in chunks(digits.slots, most):
                data = [term[:, row : row + count, slot : slot + size] for term in terms]
                yield Single(partial(self._opened, data, row, slot, put))

    def _opened(self, terms: Sequence[Tensor], row: int, slot: int, put: Sums) -> None:
        """Compute the DFT over k_c, which leaves c on partitions, and apply the twiddles."""
        columns, rows, slots, middle = terms[0].shape
        banks = [psum((columns, rows, slots * middle)) for _ in range(2)]
        for part, bank in enumerate(banks):
            for term, data in enumerate(terms):
                place = bank.reshape_dim(2, (slots, middle))
                multiply(place, self.first[:, 2 * term + part], data, term > 0)
        factors = self.factors([[0, rows], [1, slots * middle]], slot * middle)
        imaginary = [times(bank, factors[1], False) for bank in banks]
        real = [times(bank, factors[0], True) for bank in banks]
        pairs = ((real[0], imaginary[1]), (real[1], imaginary[0]))
        put(row, slot, [[x.reshape_dim(2, (slots, middle)) for x in pair] for pair in pairs])

    def _into_rows(self, last: Tensor) -> Sums:
        """Return what puts sums into operands of the last product, [C, rows, R]."""

        def put(row: int, slot: int, products: Sequence[Sequence[Tensor]]) -> None:
            rows = last[:, row : row + products[0][0].shape[1]]
            for part, low, high, place in self._operands(slot, self.digits.slots):
                data1, data2 = (product[:, :, low:high, 0] for product in products[part])
                dst = rows[:, :, place : place + high - low]
                nisa.tensor_tensor(dst=dst, data1=data1, data2=data2, op=SUMS[part])

        return put

    def _into_states(self, states: Sequence[Tensor]) -> Sums:
        """Return what puts sums into states of the second stage, one of each row."""

        def put(row: int, slot: int, products: Sequence[Sequence[Tensor]]) -> None:
            slots = states[row][:, slot : slot + products[0][0].shape[2]].expand_dim(1)
            for part, (data1, data2) in enumerate(products):
                dst = slots[:, :, :, part]
                nisa.tensor_tensor(dst=dst, data1=data1, data2=data2, op=SUMS[part])

        return put

    # The second stage and the last product.

    def _operands(self, first: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (part, low, high, place) of runs of slots, and their places in the last product.

        Slots R/2 and 0 have no imaginary part there.
        """
        yield 0, first, end, first
        slots, zero = self.digits.slots, self.digits.order.index(0)
        for low, high, skipped in ((1, zero, 1), (zero + 1, slots, 2)):
            low, high = max(low, first), min(high, end)
            if low < high:
                yield 1, low, high, slots + low - skipped

    def _into_operands(self, last: Tensor) -> Put:
        """Return the put of the second stage into operands of the last product, [C, L, R]."""

        def put(bank: Tensor, first: int) -> None:
            for part, low, high, place in self._operands(first, first + bank.shape[3]):
                data = bank[:, part, :, low - first : high - first]
                evacuate(data, last[:, :, place : place + high - low])

        return put

    def _close(self, last: Tensor, result: Tensor) -> Block:
        """Yield the last product of operands [C, runs, R] into the result, [R, runs, C]."""
        runs, tiles = last.shape[1], self.digits.tiles
        for first, count in chunks(runs, RUNS * tiles):
            some = slice(first, first + count)
            yield self._closed(last[:, some], result[:, some])

    def _closed(self, runs: Tensor, result: Tensor) -> Task:
        """Transpose runs, as many as fill the array together, and multiply them in row tiles."""
        tiles, numbers = self.digits.tiles, runs.flatten_dims(1, 2)
        n, size = numbers.shape[1], tiles * self.digits.radix
        operands = self.transposed(
            [numbers[:, low : min(low + size, n)] for low in range(0, n, size)]
        )
        yield
        places = [result[:, tile::tiles] for tile in range(min(tiles, runs.shape[1]))]
        banks = [psum(place.shape) for place in places]
        for tile, bank in enumerate(banks):
            data = operands[:, 0 : bank.shape[1]]
            multiply_tile(bank, self.last, data, tile, tiles, False)
        for place, bank in zip(places, banks, strict=True):
            evacuate(bank, place)


def _copy(dst: Tensor, src: Tensor, is_vector: bool) -> None:
    """Copy numbers in SBUF."""
    if is_vector:
        nisa.tensor_copy(dst=dst, src=src, engine=nisa.engine.vector)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=src)
