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
runs down. ScalarE and VectorE copy the numbers of the first term in runs of s, one instruction for
each t. The numbers of the second term lie in the opposite direction, and are copied in runs of t,
one instruction for each s and k2. Both terms are then columns of a product with a matrix, whose
results have c on partitions. VectorE applies the twiddles as the results leave PSUM. The second
stage is that of real_four_step. Its results are transposed once more, j by j, so that the R real
numbers lie on partitions; the last product has its matrix as the stationary operand.

    HBM [(part, k'), k_a] -> PSUM [c, k_a] -> twiddle -> (stage) -> [(part, K), c] -> HBM [R, N/R]

Transforms are different columns or partitions in every product, and never meet.

Why it is fast.  It has about half the products of a complex transform, and half of its DMA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ..engines import PSUM_BANK, evacuate, hbm, multiply, multiply_tile, psum, sbuf, transfer
from ..isa import nisa, nki, nl
from ..launch import Rows
from ..packing import unpack
from ..pipeline import TURN, After, Block, Order, Single, Task
from ..tables import load_identity
from ..tensor import Tensor
from .real_four_step_stages import (
    LOADED,
    RUNS,
    Put,
    SpreadRows,
    add_products,
    times,
)
from .real_four_step_tables import MAX_INVERSE_LENGTH, Inverse, digits_of

_RING = 2  # input tiles
_LONG = 4096  # A, beyond which SBUF holds fewer blocks at a time

# Takes a row, a slot and products with real and with imaginary parts of twiddles, [part] each.
Twiddled = Callable[[int, int, Sequence[Tensor], Sequence[Tensor]], None]


@nki.jit
def inverse_real_four_step(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute real rows from half spectra ``x_re + i x_im``.

    Args:
        x_re, x_im: the half spectra, float32 HBM [B, N // 2 + 1].
        tables, places: the two results of ``pack(inverse_real_four_step_tables(N, radices, ...))``.
        radices: (R, C) or (R, L, C) with product N.

    Returns:
        y, float32 HBM [B, N].
    """
    digits = Inverse(*digits_of(radices))
    y = hbm((x_re.shape[0], digits.n))
    FromSpectra(digits, y, [x_re, x_im], unpack(tables, places)).run()
    return y


@dataclass
class FromSpectra(SpreadRows):
    """What all blocks of a launch share. A block is a bundle of rows."""

    digits: Inverse

    def __post_init__(self) -> None:
        digits = self.digits
        self.rows = self.few(LOADED // (digits.middle * max(digits.radix, digits.columns)))
        shape = (digits.columns, self.rows * (digits.length + 1))
        self.inputs = [sbuf(shape) for _ in range(_RING)]
        # SBUF holds fewer of the longest bundles at a time.
        self.order = Order(4 if digits.length <= _LONG else 2, spread=True)

    def setup(self) -> None:
        """Load the tables."""
        self.first, self.twiddle, *middle, self.last = self.load_tables()
        self.middle = middle[0] if middle else None
        self.identity = load_identity()

    def block(self, rows: Rows, number: int) -> Block:
        """Transform a bundle."""
        digits = self.digits
        x = self._load(rows, number)
        yield TURN
        shape = (digits.columns, rows.each, digits.slots, digits.middle)
        terms = [sbuf(shape) for _ in range(2)]
        is_alone = self.real.shape[0] <= nl.num_programs()
        for index, (place, numbers) in enumerate(self._copies(x, terms)):
            yield Single(partial(_copy, place, numbers, is_alone and index % 2 == 1))
        yield TURN
        # [C, runs, R]: the operands of the last product, of all rows, or of one row each.
        if digits.middle == 1:
            lasts = [sbuf((digits.columns, rows.each, digits.radix))]
            yield from self._open(terms, self._into_rows(lasts[0]))
            yield TURN
        else:
            shape = (digits.columns, digits.slots, 2, digits.middle)
            states = [sbuf(shape) for _ in range(rows.each)]
            yield from self._open(terms, self._into_states(states))
            yield TURN
            yield TURN
            shape = (digits.columns, digits.middle, digits.radix)
            lasts = [sbuf(shape) for _ in range(rows.each)]
            for state, last in zip(states, lasts, strict=True):
                flat = state.reshape((digits.columns, 2 * digits.slots * digits.middle))
                yield from self.second_stage(flat, 0, len(digits.groups), self._into(last))
        yield TURN
        if self.rows <= 2:
            yield TURN
        result = sbuf((digits.radix, rows.each * digits.middle, digits.columns))
        yield from self._close(lasts, result)
        yield After(partial(self._store, rows, result))

    # Loads and the store.

    def _load(self, rows: Rows, number: int) -> Tensor:
        """Load A + 1 neighbouring numbers on each partition: SBUF [(part, k'), rows, A + 1]."""
        digits = self.digits
        size, half = digits.length + 1, digits.columns // 2
        x = self.inputs[number % _RING][:, 0 : rows.each * size].reshape_dim(1, (rows.each, size))
        for part in range(2):
            source = self.spectrum_lines(part, rows, size)
            transfer(x[part * half : (part + 1) * half], source, rows.base)
        return x

    def _store(self, rows: Rows, result: Tensor) -> None:
        """Store N / R numbers of each partition."""
        digits = self.digits
        size = digits.middle * digits.columns
        tile = result.reshape((digits.radix, rows.each, size))
        for row, y in self.real_lines(rows, 0, size, rows.each):
            transfer(y, tile[:, row : row + y.shape[1]], rows.base)

    # The order of slots.

    def _copies(self, x: Tensor, terms: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield places in [C, rows, slots, L], and the numbers of x that belong there.

        The first term comes by t, the second one by s and k2.
        """
        digits, fine = self.digits, self.digits.fine
        numbers = x[:, :, 0 : digits.length].reshape_dim(2, (digits.middle, digits.radix))
        for slot in (0, *range(1, digits.slots, fine)):
            size, K = (fine if slot > 0 else 1), int(digits.order[slot])
            place = terms[0][:, :, slot : slot + size]
            yield place, numbers[..., K : K + size].permute((0, 1, 3, 2))
        # Slot R/2 continues the run of the other slots if S = 1.
        starts = (
            [(0, 1)] if fine == 1 else [*((1 + s, fine) for s in range(fine)), (0, digits.slots)]
        )
        for first, step in starts:
            for k2 in range(digits.middle):
                place = terms[1][:, :, first::step, k2]
                low = digits.radix * (digits.middle - k2) - int(digits.order[first])
                end = low + (place.shape[2] - 1) * step + 1
                yield place, x[:, :, low:end:step]

    # The first product and the twiddles.

    def _open(self, terms: Sequence[Tensor], put: Twiddled) -> Block:
        """Yield the first product of whole rows or, with a second stage, of slots of a row."""
        digits, rows = self.digits, terms[0].shape[1]
        most = PSUM_BANK // digits.middle
        each = max(1, most // digits.slots) if digits.middle == 1 else 1
        for row in range(0, rows, each):
            for first in range(0, digits.slots, most):
                end, last = min(row + each, rows), min(first + most, digits.slots)
                here = [term[:, row:end, first:last] for term in terms]
                yield Single(partial(self._opened, here, partial(put, row, first), first))

    def _opened(self, terms: Sequence[Tensor], put: Callable[..., None], first: int) -> None:
        """Compute the DFT over k_c, which leaves c on partitions, and apply the twiddles."""
        columns, rows, slots, middle = terms[0].shape
        banks = [psum((columns, rows, slots * middle)) for _ in range(2)]
        for part, bank in enumerate(banks):
            for term, data in enumerate(terms):
                place = bank.reshape_dim(2, (slots, middle))
                multiply(place, self.first[:, 2 * term + part], data, term > 0)
        factors = self.factors([[0, rows], [1, slots * middle]], first * middle)
        by_imaginary = [times(bank, factors[1], False) for bank in banks]
        by_real = [times(bank, factors[0], True) for bank in banks]
        shape = (slots, middle)
        put(*([x.reshape_dim(2, shape) for x in products] for products in (by_real, by_imaginary)))

    def _into_rows(self, last: Tensor) -> Twiddled:
        """Return the put of the first product into operands of the last one, [C, rows, R]."""

        def put(
            row: int, first: int, by_real: Sequence[Tensor], by_imaginary: Sequence[Tensor]
        ) -> None:
            rows = last[:, row : row + by_real[0].shape[1]]
            for part, low, high, at in self.digits.closed(0, self.digits.slots):
                data = [x[:, :, low:high, 0] for x in (by_real[part], by_imaginary[1 - part])]
                add_products(rows[:, :, at : at + high - low], part, *data)

        return put

    def _into_states(self, states: Sequence[Tensor]) -> Twiddled:
        """Return the put of the first product into states of the second stage, one of each row."""

        def put(
            row: int, first: int, by_real: Sequence[Tensor], by_imaginary: Sequence[Tensor]
        ) -> None:
            slots = states[row][:, first : first + by_real[0].shape[2]].expand_dim(1)
            for part in range(2):
                add_products(slots[:, :, :, part], part, by_real[part], by_imaginary[1 - part])

        return put

    # The second stage and the last product.

    def _into(self, last: Tensor) -> Put:
        """Return the put of the second stage into operands of the last product, [C, L, R]."""

        def put(bank: Tensor, first: int) -> None:
            for part, low, high, at in self.digits.closed(first, first + bank.shape[3]):
                data = bank[:, part, :, low - first : high - first]
                evacuate(data, last[:, :, at : at + high - low])

        return put

    def _close(self, lasts: Sequence[Tensor], result: Tensor) -> Block:
        """Yield the last product of operands [C, runs, R] into the result, [R, runs, C]."""
        each = RUNS * self.digits.tiles
        for index, last in enumerate(lasts):
            runs = last.shape[1]
            for first in range(0, runs, each):
                end = min(first + each, runs)
                place = result[:, index * runs + first : index * runs + end]
                yield self._closed(last[:, first:end], place)

    def _closed(self, runs: Tensor, result: Tensor) -> Task:
        """Transpose runs of R numbers, as many as fill the array, and multiply them."""
        radix, tiles = self.digits.radix, self.digits.tiles
        count = runs.shape[1]
        numbers = runs.flatten_dims(1, 2)
        operands = self.transposed(
            [
                numbers[:, low * radix : min(low + tiles, count) * radix]
                for low in range(0, count, tiles)
            ]
        )
        yield
        places = [result[:, tile::tiles] for tile in range(min(tiles, count))]
        banks = [psum(place.shape) for place in places]
        for tile, bank in enumerate(banks):
            data = operands[:, 0 : bank.shape[1]]
            multiply_tile(bank, self.last, data, tile, tiles, False)
        for place, bank in zip(places, banks, strict=True):
            evacuate(bank, place)


def _copy(dst: Tensor, src: Tensor, is_vector: bool) -> None:
    """Copy numbers in SBUF. GpSimdE does not, because it brings the tables of a launch."""
    if is_vector:
        nisa.tensor_copy(dst=dst, src=src, engine=nisa.engine.vector)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=src)
