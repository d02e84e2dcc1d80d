"""Four-step FFT of real data, with half the work of the complex kernel: one launch, natural order.

It serves real transforms that are too long, or too few, for Stockham with one transform on each
partition.

Mathematics.  As in four_step, N = A C, n = a C + c, k = k_a + A k_c, and A = R L with a = a1 L + j
and k_a = K + R k2. The data is real, so the first stage,

    Z[K, j, c] = sum_a1 W_R^(a1 K) x[a1, j, c],      Z[R-K] = conj Z[K],

computes only the slots K <= R/2. The following steps are done for these slots: DFTs of length L
over j, which contain the twiddles between R and L, and the twiddle W_N^(c k_a). They leave v[c,
k_a] for half of all k_a. From these, the last DFT computes all outputs; outputs beyond N/2 are
computed as conjugates, X[N-k] = conj X[k]. For k' < C/2:

    X[k_a + A k']       = sum_c W_C^(c k') v[c, k_a]
    X[(A - k_a) + A k'] = sum_c conj (W_C^(c (C-1-k')) v[c, k_a])

For K = 0 the second line repeats outputs of the first line, and contains X[N/2] as well.

Layout on the NeuronCore.  Transforms are loaded with a1 on partitions. The data is the stationary
operand of the first product, C neighbouring numbers at a time; the result has c on partitions and
one slot in each column. For L > 1 slots are transposed, as many as fill the array, and multiplied
by one matrix with diagonal blocks. VectorE applies the twiddle to the products in PSUM. The last
DFT has a matrix as the stationary operand and k_a as the moving columns. The results' rows are the
real parts of all k', then the imaginary parts: the outputs of both lines arrive on the same
partition, which holds A neighbouring outputs.

    HBM [R, N/R] -> PSUM [c, (part, K)] -> (stage) -> twiddle -> PSUM [(part, k'), k_a] -> HBM

Columns of the second line run backwards, and no instruction does. So slots have an order: K = s + S
t, where t runs down and s runs up. ScalarE moves the first line out of PSUM in runs of s, one
instruction for each t. It moves the second line in runs of t, one instruction for each s and k2.

Transforms are different columns or partitions in every product, and never meet.

Why it is fast.  It has half of the products of four_step, half of its twiddles, half of its DMA.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from ..engines import (
    PSUM_BANK,
    clear,
    evacuate,
    hbm,
    multiply,
    multiply_tile,
    psum,
    sbuf,
    transfer,
)
from ..isa import nki
from ..launch import Rows, for_rows
from ..packing import unpack
from ..pipeline import TURN, After, Block, Order, Single
from ..tables import load_identity
from ..tensor import Tensor
from .real_four_step_stages import (
    LOADED,
    Put,
    SpreadRows,
    add_products,
    lines,
    shared_evenly,
    times,
)
from .real_four_step_tables import Forward, digits_of

_RING = 3  # input tiles
_EVACUATIONS = 4
_FEW_ROWS = 2  # rows of a bundle, up to which row tiles do not pay


@nki.jit
def real_four_step(x, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute half spectra, frequencies 0 to N/2, of the rows of real ``x``.

    Args:
        x: float32 HBM [B, N].
        tables, places: the two results of ``pack(real_four_step_tables(N, radices, ...))``.
        radices: (R, C) or (R, L, C) with product N.

    Returns:
        (y_re, y_im), float32 HBM [B, N // 2 + 1].
    """
    batch, n = x.shape
    y_re, y_im = hbm((batch, n // 2 + 1)), hbm((batch, n // 2 + 1))
    digits = Forward(*digits_of(radices))
    ToSpectra(digits, x, [y_re, y_im], unpack(tables, places)).run()
    return y_re, y_im


@dataclass
class Bundle:
    """Rows that are transformed together."""

    rows: Rows
    number: int
    states: list[Tensor]  # between the stages, of each row: SBUF [C, (slot, part, j)]
    result: Tensor  # SBUF [(part, k'), rows, A + 1]


@dataclass
class ToSpectra(SpreadRows):
    """What all blocks of a launch share. A block is one portion of a bundle."""

    digits: Forward

    def run(self) -> None:
        """Transform all rows of this program."""
        digits = self.digits
        numbers = digits.middle * digits.columns
        self.rows = self.few(min(PSUM_BANK // (digits.middle * digits.half), LOADED // numbers))
        self.halves = digits.tiles if self.rows > _FEW_ROWS else 1
        self.portions = range(0, digits.half, digits.portion)
        each = min(digits.middle, max(1, LOADED // (self.rows * digits.columns)))
        self.chunks = [range(j, min(j + each, digits.middle)) for j in range(0, digits.middle, each)]
        size = min(LOADED, self.rows * numbers)
        shape = (self.halves * digits.radix, size)
        self.inputs = [sbuf(shape) for _ in range(_RING)]
        depth = 6
        for_rows(self.real.shape[0], self, self.rows, self.blocks, Order(depth, 1, spread=True))

    def blocks(self, base: object, first: int, count: int) -> list[Rows]:
        """Cut rows into bundles, and these into portions."""
        end = first + count
        return [
            Rows(base, low, 1, min(self.rows, end - low))
            for low in range(first, end, self.rows)
            for _ in self.portions
        ]

    def setup(self) -> None:
        """Load the tables."""
        self.first, *middle, self.twiddle, self.last = self.load_tables()
        if middle:
            self.middle, self.identity = middle[0], load_identity()

    def block(self, rows: Rows, number: int) -> Block:
        """Close a portion of a bundle; the first block of a bundle opens it, too."""
        digits, (number, portion) = self.digits, divmod(number, len(self.portions))
        if portion == 0:
            self.bundle = self._bundle(rows, number)
        bundle, low = self.bundle, self.portions[portion]
        is_last = portion + 1 == len(self.portions)
        slots = digits.slots - low if is_last else digits.portion
        v = sbuf((digits.columns, 2, rows.each, digits.middle, slots))
        if portion == 0:
            self._load(bundle, 0)
            yield Single(partial(self._load_next, bundle))
            yield TURN
            yield from self._open(bundle, v)
        else:
            yield TURN
        if digits.middle > 1:
            yield TURN
            first, end = low // digits.together, (low + slots) // digits.together
            tasks = [task for row, state in enumerate(bundle.states) for task in self.second_stage(state, first, end, self._into(v, row, low))]
            yield from tasks
            if len(tasks) == 1:
                yield TURN
        yield TURN
        yield TURN
        yield from self._close(v, bundle.result, low, slots)
        if is_last:
            yield After(partial(self._store, bundle))

    def _bundle(self, rows: Rows, number: int) -> Bundle:
        """Allocate tiles of a bundle."""
        digits = self.digits
        states = []
        if digits.middle > 1:
            shape = (digits.columns, 2 * digits.middle * digits.slots)
            states = [sbuf(shape) for _ in range(rows.each)]
        return Bundle(rows, number, states, sbuf((digits.columns, rows.each, digits.length + 1)))

    # Loads and the store.

    def _half_rows(self, rows: Rows) -> int:
        """Return how many of a bundle's rows lie on the first R partitions."""
        return -(-rows.each // self.halves)

    def _input(self, bundle: Bundle, chunk: int) -> Tensor:
        """Return the place of a chunk, SBUF [halves R, rows of a half, digits C]."""
        tile = self.inputs[(bundle.number * len(self.chunks) + chunk) % _RING]
        each, size = self._half_rows(bundle.rows), len(self.chunks[chunk]) * self.digits.columns
        return tile[:, 0 : each * size].reshape_dim(1, (each, size))

    def _load_next(self, bundle: Bundle) -> None:
        for chunk in range(1, min(_RING, len(self.chunks))):
            self._load(bundle, chunk)

    def _load(self, bundle: Bundle, chunk: int) -> None:
        """Load a chunk: some digits j of all rows."""
        radix, columns = self.digits.radix, self.digits.columns
        tile, digits, each = self._input(bundle, chunk), self.chunks[chunk], self._half_rows(bundle.rows)
        low, size = digits.start * columns, len(digits) * columns
        for row, source in self.real_lines(bundle.rows, low, size, each):
            half, row = divmod(row, each)
            place = tile[half * radix : (half + 1) * radix, row : row + source.shape[1]]
            transfer(place, source, bundle.rows.base)

    def _store(self, bundle: Bundle) -> None:
        """Store a bundle: A numbers of each partition, then X[N/2], which follows them."""
        digits, rows = self.digits, bundle.rows
        half, length = digits.columns // 2, digits.length
        for part, y in enumerate(self.spectra):
            end = (part + 1) * half
            y = self.spectrum_lines(part, rows, length)
            transfer(y, bundle.result[end - half : end, :, 0:length], rows.base)
            y = lines(self.spectra[part], rows, (1, 1), half * length, 1)
            transfer(y, bundle.result[end - 1 : end, :, length:], rows.base)

    # The first stage.

    def _open(self, bundle: Bundle, v: Tensor) -> Block:
        """Yield the first stage of a bundle, into states or, without a second stage, into v."""
        digits, held = self.digits, self._half_rows(bundle.rows)
        most = max(1, PSUM_BANK // (2 * digits.slots))
        if digits.middle == 1:
            x = self._input(bundle, 0)
            for low, high in shared_evenly(0, held, most):
                yield Single(partial(self._opened_rows, x, low, high, v))
            return
        for row in range(held):
            for chunk, inside in enumerate(self.chunks):
                x = self._input(bundle, chunk)
                for low, high in shared_evenly(inside.start, inside.stop, most):
                    data = x[:, row, (low - inside.start) * digits.columns : (high - inside.start) * digits.columns]
                    yield Single(partial(self._opened_digits, data, row, low, high, bundle))
                if chunk + _RING < len(self.chunks):
                    yield Single(partial(self._load, bundle, chunk + _RING))

    def _opened_rows(self, x: Tensor, low: int, high: int, v: Tensor) -> None:
        """Contract a1 of some rows of each half, and apply the twiddles."""
        digits, each = self.digits, x.shape[1]
        banks = []
        for half in range(self.halves):
            rows = min(high, v.shape[2] - half * each) - low
            if rows > 0:
                banks.append(psum((digits.columns, 2, rows, digits.slots)))
        for row in range(high - low):
            for half, bank in enumerate(banks):
                if row < bank.shape[2]:
                    self._open_one(bank[:, :, row], x[:, low + row], half)
        places = []
        for half, bank in enumerate(banks):
            first = half * each + low
            places.append(v[:, :, first : first + bank.shape[2], 0])
        self._twiddle(banks, places, 0, 0)

    def _opened_digits(self, x: Tensor, row: int, low: int, high: int, bundle: Bundle) -> None:
        """Contract a1 of some digits j of a row of each half."""
        digits, each = self.digits, self._half_rows(bundle.rows)
        states = bundle.states[row::each]
        shape = (digits.columns, digits.slots, 2, high - low)
        banks = [psum(shape) for _ in states]
        for j in range(high - low):
            data = x[:, j * digits.columns : (j + 1) * digits.columns]
            for half, bank in enumerate(banks):
                self._open_one(bank[..., j].permute((0, 2, 1)), data, half)
        for bank, state in zip(banks, states, strict=True):
            places = state.reshape((digits.columns, 2 * digits.slots, digits.middle))
            evacuate(bank.flatten_dims(1, 2), places[:, :, low:high])

    def _open_one(self, dst: Tensor, data: Tensor, half: int) -> None:
        """Multiply C numbers of each partition of one half, or of all R partitions."""
        table = self.first if self.halves > 1 else self.first[0 : self.digits.radix]
        multiply_tile(dst, data, table, half, self.halves, False)

    # Twiddles and the last DFT.

    def _into(self, v: Tensor, row: int, low: int) -> Put:
        """Return the put of the second stage into a row of slots from ``low`` on."""

        def put(bank: Tensor, first: int) -> None:
            place = v[:, :, row, :, first - low : first - low + bank.shape[3]]
            self._twiddle([bank], [place], self.digits.slots, first)

        return put

    def _twiddle(self, banks: list[Tensor], places: list[Tensor], stride: int, first: int) -> None:
        """Set places = PSUM banks [C, part, n, slots] times twiddles from number ``first`` on.

        stride: numbers of the table from each n to the next.
        """
        products = []
        for bank in banks:
            factors = self.factors([[0, 2], [stride, bank.shape[2]], [1, bank.shape[3]]], first)
            by_imaginary = times(bank, factors[1], False)
            products.append((times(bank, factors[0], True), by_imaginary))
        for place, (by_real, by_imaginary) in zip(places, products):
            for part in range(2):
                add_products(place[:, part], part, by_real[:, part], by_imaginary[:, 1 - part])

    def _close(self, v: Tensor, result: Tensor, low: int, slots: int) -> Block:
        """Yield the last DFT of a portion, one line of outputs after the other.

        The products of a line come before the evacuation of the line before.
        """
        half = min(slots, self.digits.half - low)
        lines = [self._first_line(v[..., 0:half], result, low)]
        lines.append(self._second_line(v[..., 0:half], result, low))
        if half < slots:
            lines.append(self._first_line(v[..., half : half + 1], result, self.digits.half))
        before: list[Single] = []
        for products, evacuations in lines:
            yield products
            yield from before
            before = evacuations
        yield from before

    def _last_products(self, v: Tensor, bank: Tensor, line: int) -> None:
        """Compute the DFT over c for a line: PSUM [(part, k'), rows, L, slots]."""
        for part in range(2):
            multiply(bank, self.last[:, 2 * line + part], v[:, part], part > 0)

    def _first_line(self, v: Tensor, result: Tensor, first: int) -> tuple[Single, list[Single]]:
        """Compute outputs of slots from ``first`` on, which lie in runs of s."""
        digits = self.digits
        bank = psum((digits.columns, *v.shape[2:]))
        outputs = result[:, :, 0 : digits.length].reshape_dim(2, (digits.middle, digits.radix))
        places = []
        for slot in range(0, v.shape[4], digits.fine):
            size = min(digits.fine, v.shape[4] - slot)
            K = int(digits.order[first + slot])
            places.append((bank[..., slot : slot + size], outputs[..., K : K + size]))
        return Single(partial(self._last_products, v, bank, 0)), _evacuations(places)

    def _second_line(self, v: Tensor, result: Tensor, first: int) -> tuple[Single, list[Single]]:
        """Compute conjugate outputs of slots from ``first`` on, which lie in runs of t.

        They run backwards: slot K ends at -K, before the next multiple of R.
        """
        digits, fine = self.digits, self.digits.fine
        bank = psum((digits.columns, *v.shape[2:]))
        places = []
        for k2 in range(digits.middle):
            for s in range(fine):
                data = bank[:, :, k2, s::fine]
                low = digits.radix * (digits.middle - k2) - int(digits.order[first + s])
                high = low + (data.shape[2] - 1) * fine + 1
                places.append((data, result[:, :, low:high:fine]))
        return Single(partial(self._last_products, v, bank, 1)), _evacuations(places)


def _evacuations(places: list[tuple[Tensor, Tensor]]) -> list[After]:
    """Return steps that move numbers from PSUM, a few places each."""

    def leave(some):
        for data, place in some:
            evacuate(data, place)

    return [After(partial(leave, places[low : low + _EVACUATIONS])) for low in range(0, len(places), _EVACUATIONS)]
