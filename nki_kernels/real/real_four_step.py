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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..engines import (
    PSUM_BANK,
    evacuate,
    hbm,
    multiply,
    multiply_tile,
    psum,
    sbuf,
    transfer,
)
from ..isa import nki
from ..launch import Rows
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
_FEW_ROWS = 2  # rows of a bundle, up to which row tiles do not pay
_DEPTH = 5  # blocks on their way, from the load to the store
_EVACUATED = 4  # consecutive evacuations, during which others wait for ScalarE
# numbers of a partition of a state, up to which SBUF has room for two states
_TWO_STATES = 6656

# Indices of numbers in PSUM, and their places in SBUF.
Places = Iterator[tuple[Any, Tensor]]


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
    """Rows that are transformed together, and what their blocks share."""

    rows: Rows
    number: int  # in a loop's iteration
    states: list[Tensor] = field(init=False)  # of each row, SBUF [C, (slot, part, j)]
    result: Tensor = field(init=False)  # SBUF [(part, k'), rows, A + 1]


@dataclass(frozen=True)
class Portion(Rows):
    """The rows of a bundle, of which a block takes some slots through the last stages."""

    bundle: Bundle
    low: int  # the first slot; from R/2 on the block is empty


@dataclass
class ToSpectra(SpreadRows):
    """What all blocks of a launch share. A block closes a portion of a bundle's slots."""

    digits: Forward

    def __post_init__(self) -> None:
        digits = self.digits
        numbers = digits.middle * digits.columns
        self.rows = self.few(min(PSUM_BANK // (digits.middle * digits.half), LOADED // numbers))
        self.halves = digits.tiles if self.rows > _FEW_ROWS else 1
        self.portions = range(0, digits.half, digits.portion)
        each = min(digits.middle, max(1, LOADED // (self.rows * digits.columns)))
        self.chunks = [
            range(j, min(j + each, digits.middle)) for j in range(0, digits.middle, each)
        ]
        shape = (self.halves * digits.radix, min(LOADED, self.rows * numbers))
        self.inputs = [sbuf(shape) for _ in range(_RING)]
        # The portions of a bundle are time enough to load the next one; else both need room.
        is_loaded_ahead = len(self.portions) > 1 or 2 * len(self.chunks) <= _RING
        self.order = Order(_DEPTH, spread=True) if is_loaded_ahead else Order(1, 0)

        self.settling = 3 if self.rows <= _FEW_ROWS else 2

    def setup(self) -> None:
        """Load the tables."""
        self.first, *middle, self.twiddle, self.last = self.load_tables()
        if middle:
            self.middle, self.identity = middle[0], load_identity()

    def split(self, base: Any, first: int, count: int) -> Sequence[Rows]:
        """Cut rows into bundles, and these into portions of slots."""
        digits, found = self.digits, list[Rows]()
        # Where SBUF has room for one state only, the next bundle is opened a turn later.
        is_long = 2 * digits.middle * digits.slots > _TWO_STATES
        lows = [*self.portions, digits.half] if is_long else self.portions
        for number, rows in enumerate(super().split(base, first, count)):
            bundle = Bundle(rows, number)
            found += [Portion(base, rows.first, 1, rows.each, bundle, low) for low in lows]
        return found

    def block(self, rows: Rows, number: int) -> Block:
        """Take slots of a bundle through the last stages; its first block opens the bundle."""
        assert isinstance(rows, Portion)
        digits, bundle, low = self.digits, rows.bundle, rows.low
        if low >= digits.half:
            return
        is_last = low + digits.portion >= digits.half
        slots = digits.slots - low if is_last else digits.portion
        v = sbuf((digits.columns, 2, rows.each, digits.middle, slots))
        if low == 0:
            self._load(bundle, 0)
            for chunk in range(1, min(_RING, len(self.chunks))):
                yield Single(partial(self._load, bundle, chunk))
        yield TURN
        if low == 0:
            yield from self._open(bundle, v)
        if digits.middle > 1:
            yield TURN
            yield from self._second_stage(bundle, v, low, low + slots)
        for _ in range(self.settling):
            yield TURN  # VectorE applies the last twiddles
        yield from self._close(v, bundle.result, low, slots)
        if is_last:
            yield After(partial(self._store, bundle))

    # Loads and the store.

    def _half_rows(self, rows: Rows) -> int:
        """Return how many of a bundle's rows lie on the first R partitions."""
        return -(-rows.each // self.halves)

    def _input(self, bundle: Bundle, chunk: int) -> Tensor:
        """Return the place of a chunk, SBUF [halves R, rows of a half, digits C]."""
        tile = self.inputs[(bundle.number * len(self.chunks) + chunk) % _RING]
        each, size = self._half_rows(bundle.rows), len(self.chunks[chunk]) * self.digits.columns
        return tile[:, 0 : each * size].reshape_dim(1, (each, size))

    def _load(self, bundle: Bundle, chunk: int) -> None:
        """Load a chunk: some digits j of all rows."""
        radix, columns = self.digits.radix, self.digits.columns
        tile, digits, each = (
            self._input(bundle, chunk),
            self.chunks[chunk],
            self._half_rows(bundle.rows),
        )
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
        shape = (digits.columns, 2 * digits.middle * digits.slots)
        bundle.states = [sbuf(shape) for _ in range(bundle.rows.each if digits.middle > 1 else 0)]
        bundle.result = sbuf((digits.columns, bundle.rows.each, digits.length + 1))
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
                    data = x[
                        :,
                        row,
                        (low - inside.start) * digits.columns : (high - inside.start)
                        * digits.columns,
                    ]
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

    # The second stage and twiddles.

    def _second_stage(self, bundle: Bundle, v: Tensor, low: int, end: int) -> Block:
        """Yield the second stage of slots low..end of all rows."""
        together = self.digits.together
        for row, state in enumerate(bundle.states):
            put = self._into(v[:, :, row], low)
            yield from self.second_stage(state, low // together, end // together, put)

    def _into(self, v: Tensor, low: int) -> Put:
        """Return the put of the second stage into [C, part, L, slots] of slots from ``low`` on."""

        def put(bank: Tensor, first: int) -> None:
            place = v[..., first - low : first - low + bank.shape[3]]
            self._twiddle([bank], [place], self.digits.slots, first)

        return put

    def _twiddle(
        self, banks: Sequence[Tensor], places: Sequence[Tensor], stride: int, first: int
    ) -> None:
        """Set places = PSUM banks [C, part, n, slots] times twiddles from number ``first`` on.

        stride: numbers of the table from each n to the next.
        """
        products = []
        for bank in banks:
            factors = self.factors([[0, 2], [stride, bank.shape[2]], [1, bank.shape[3]]], first)
            by_imaginary = times(bank, factors[1], False)
            products.append((times(bank, factors[0], True), by_imaginary))
        for place, (by_real, by_imaginary) in zip(places, products, strict=True):
            for part in range(2):
                add_products(place[:, part], part, by_real[:, part], by_imaginary[:, 1 - part])

    # The last DFT.

    def _close(self, v: Tensor, result: Tensor, low: int, slots: int) -> Block:
        """Yield the last DFT of a portion. Products come before the evacuation of those before."""
        half = min(slots, self.digits.half - low)
        lines = [
            (0, v[..., 0:half], self._first_line(result, low, half)),
            (1, v[..., 0:half], self._second_line(result, low, half)),
        ]
        if half < slots:
            edge = self._first_line(result, self.digits.half, 1)
            lines.append((0, v[..., half : half + 1], edge))
        before: list[After] = []
        for line, data, places in lines:
            bank = psum((self.digits.columns, *data.shape[2:]))
            yield Single(partial(self._multiply_last, bank, data, line))
            yield from before
            pairs = [(bank[index], place) for index, place in places]
            before = [
                After(partial(_evacuate, pairs[at : at + _EVACUATED]))
                for at in range(0, len(pairs), _EVACUATED)
            ]
        yield from before

    def _multiply_last(self, bank: Tensor, v: Tensor, line: int) -> None:
        """Compute the DFT over c for a line: PSUM [(part, k'), rows, L, slots]."""
        for part in range(2):
            multiply(bank, self.last[:, 2 * line + part], v[:, part], part > 0)

    def _first_line(self, result: Tensor, first: int, slots: int) -> Places:
        """Yield where outputs of slots from ``first`` on belong, which lie in runs of s."""
        digits = self.digits
        outputs = result[:, :, 0 : digits.length].reshape_dim(2, (digits.middle, digits.radix))
        for slot in range(0, slots, digits.fine):
            end = min(slot + digits.fine, slots)
            K = int(digits.order[first + slot])
            yield (..., slice(slot, end)), outputs[..., K : K + end - slot]

    def _second_line(self, result: Tensor, first: int, slots: int) -> Places:
        """Yield where conjugate outputs of slots from ``first`` on belong, in runs of t.

        They run backwards: slot K ends at -K, before the next multiple of R.
        """
        digits = self.digits
        fine, whole = digits.fine, slice(None)
        for k2 in range(digits.middle):
            for s in range(fine):
                low = digits.radix * (digits.middle - k2) - int(digits.order[first + s])
                place = result[:, :, low : low + slots - fine + 1 : fine]
                yield (whole, whole, k2, slice(s, slots, fine)), place


def _evacuate(places: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Move numbers from PSUM to their places in SBUF."""
    for data, place in places:
        evacuate(data, place)
