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
by one matrix with diagonal blocks (real_four_step_stages.py, which the inverse shares). VectorE
applies the twiddle to the products in PSUM. The last DFT has a matrix as the stationary operand and
k_a as the moving columns. The results' rows are the real parts of all k', then the imaginary parts:
the outputs of both lines arrive on the same partition, which holds A neighbouring outputs.

    HBM [R, N/R] -> PSUM [c, (part, K)] -> (stage) -> twiddle -> PSUM [(part, k'), k_a] -> HBM

Columns of the second line run backwards, and no instruction does. So slots have an order: K = s + S
t, where t runs down and s runs up. ScalarE moves the first line out of PSUM in runs of s, one
instruction for each t. It moves the second line in runs of t, one instruction for each s and k2.

Transforms are taken in bundles, whose results share PSUM banks. Of a long transform a bank holds
only some slots for all k2, a portion, which is closed on its own. Portions take turns: while one of
them passes the second stage, the last DFT of an earlier one runs, and the next bundle is opened. So
the Tensor engine does not wait for VectorE's twiddles, nor VectorE for products.

Transforms are different columns or partitions in every product, and never meet.

Why it is fast.  It has half of the products of four_step, half of its twiddles, half of its DMA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from ..base.arguments import check_factors, rows_and_length
from ..base.engines import (
    PSUM_BANK,
    evacuate,
    hbm,
    multiply,
    multiply_tile,
    psum,
    sbuf,
    times,
    transfer,
)
from ..base.isa import Tensor, nisa, nki
from ..base.launch import Rows, for_rows
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Order, Single, late
from ..base.tables import load_identity
from .real_four_step_stages import (
    FEW_ROWS,
    LOADED,
    SUMS,
    Put,
    SpreadRows,
    lines,
    shared_evenly,
)
from .real_four_step_tables import forward_digits

_RING = 3  # input tiles
_TWO_STATES = 6656  # numbers of a state on a partition, up to which SBUF holds two states


@nki.jit
def real_four_step(x, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute half spectra, frequencies 0 to N/2, of the rows of real ``x``.

    The arguments and the results are those of ``real_stockham``, with ``real_four_step_tables``
    and radices (R, C) or (R, L, C).
    """
    batch, n = rows_and_length(x)
    check_factors(radices, n)
    y_re, y_im = hbm((batch, n // 2 + 1)), hbm((batch, n // 2 + 1))
    work = ToSpectra(forward_digits(radices), x, [y_re, y_im], unpack(tables, places, 3))
    for_rows(batch, work, work.rows, work.split, work.order)
    return y_re, y_im


@dataclass
class Bundle:
    """Rows that are transformed together, and what their blocks share."""

    rows: Rows
    number: int  # counted in a loop's iteration
    states: list[Tensor] = field(init=False)  # of each row: SBUF [C, (slot, part, j)]
    result: Tensor = field(init=False)  # SBUF [(part, k'), rows, A + 1]


@dataclass(frozen=True)
class Portion(Rows):
    """The rows of a bundle, of which a block takes some slots through the last stages."""

    bundle: Bundle
    low: int  # the first slot; from R/2 on the block is empty


@dataclass
class ToSpectra(SpreadRows):
    """What all blocks of a launch share. A block closes a portion of a bundle's slots."""

    def __post_init__(self) -> None:
        digits = self.digits
        self.half, numbers = digits.radix // 2, digits.middle * digits.columns
        self.rows = self.few(min(PSUM_BANK // (digits.middle * self.half), LOADED // numbers))
        self.tiles = digits.tiles if self.rows > FEW_ROWS else 1  # row tiles of the first product
        # A portion has all slots, or as many whole groups as fit a PSUM bank for all k2.
        self.portion = self.half
        if digits.middle * self.half > PSUM_BANK:
            unit = math.lcm(digits.fine, digits.together)
            self.portion = PSUM_BANK // digits.middle // unit * unit
        each = min(digits.middle, max(1, LOADED // (self.rows * digits.columns)))
        # digits j that are loaded at once
        self.chunks = [range(digits.middle)[j : j + each] for j in range(0, digits.middle, each)]
        shape = (self.tiles * digits.radix, min(LOADED, self.rows * numbers))
        self.inputs = [sbuf(shape) for _ in range(_RING)]
        # Other portions are time enough to load the next bundle; else both have to fit the tiles.
        is_loaded_ahead = self.portion < self.half or 2 * len(self.chunks) <= _RING
        self.order = Order(5, spread=late) if is_loaded_ahead else Order(1, 0)

    def setup(self) -> None:
        self.first, *middle, self.twiddle, self.last = self.load_tables()
        if middle:
            self.middle, self.identity = middle[0], load_identity()

    def split(self, base: object, first: int, count: int) -> Sequence[Rows]:
        """Cut rows into bundles, and these into portions of slots."""
        lows = [*range(0, self.half, self.portion)]
        if 2 * self.digits.middle * self.digits.slots > _TWO_STATES:
            lows.append(self.half)  # an empty block, so that the next bundle is opened a turn later
        return [
            Portion(base, rows.first, 1, rows.each, bundle, low)
            for number, rows in enumerate(super().split(base, first, count))
            for bundle in [Bundle(rows, number)]
            for low in lows
        ]

    def block(self, rows: Rows, number: int) -> Block:
        """Take slots of a bundle through the last stages; its first block opens the bundle."""
        assert isinstance(rows, Portion)
        digits, bundle, low = self.digits, rows.bundle, rows.low
        if low >= self.half:
            return
        end = low + self.portion if low + self.portion < self.half else digits.slots
        v = sbuf((digits.columns, 2, rows.each, digits.middle, end - low))
        if low == 0:
            self._load(bundle, 0)
            for chunk in range(1, min(_RING, len(self.chunks))):
                yield Single(partial(self._load, bundle, chunk))
        yield TURN
        if low == 0:
            yield from self._open(bundle, v)
        if digits.middle > 1:
            yield TURN
            groups = range(low // digits.together, end // digits.together)
            for row, state in enumerate(bundle.states):
                yield from self.second_stage(state, groups, self._into(v[:, :, row], low))
        yield from self.settled(2)  # VectorE applies the last twiddles
        yield from self._close(v, bundle.result, low)
        if end > self.half:
            yield After(partial(self._store, bundle))

    # Loads and the store. Row tiles have consecutive rows.

    def _input(self, bundle: Bundle, chunk: int) -> Tensor:
        """Return the place of a chunk, SBUF [tiles R, rows of a tile, digits C]."""
        tile = self.inputs[(bundle.number * len(self.chunks) + chunk) % _RING]
        each = -(-bundle.rows.each // self.tiles)
        size = len(self.chunks[chunk]) * self.digits.columns
        return tile[:, 0 : each * size].reshape_dim(1, (each, size))

    def _load(self, bundle: Bundle, chunk: int) -> None:
        """Load some digits j of all rows."""
        x, radix = self._input(bundle, chunk), self.digits.radix
        _, each, size = x.shape
        low = self.chunks[chunk].start * self.digits.columns
        for row, source in self.real_lines(bundle.rows, low, size, each):
            tile, row = divmod(row, each)
            place = x[tile * radix : (tile + 1) * radix, row : row + source.shape[1]]
            transfer(place, source, bundle.rows.base)

    def _store(self, bundle: Bundle) -> None:
        """Store a bundle: A numbers of each partition, then X[N/2], which follows them."""
        rows, result = bundle.rows, bundle.result
        half, length = self.digits.columns // 2, self.digits.length
        for part, y in enumerate(self.spectra):
            end = (part + 1) * half
            place = self.spectrum_lines(part, rows, length)
            transfer(place, result[end - half : end, :, 0:length], rows.base)
            place = lines(y, rows, (1, 1), half * length, 1)
            transfer(place, result[end - 1 : end, :, length:], rows.base)

    # The first stage.

    def _open(self, bundle: Bundle, v: Tensor) -> Block:
        """Yield the first stage, into states or, where there is no second stage, into v."""
        digits, rows = self.digits, bundle.rows.each
        columns, slots, middle = digits.columns, digits.slots, digits.middle
        bundle.result = sbuf((columns, rows, digits.length + 1))
        x, most = self._input(bundle, 0), max(1, PSUM_BANK // (2 * slots))
        each = x.shape[1]
        if middle == 1:
            for some in shared_evenly(range(each), most):
                tiles = [range(first, rows)[: len(some)] for first in range(some.start, rows, each)]
                places = [v[:, :, tile.start : tile.stop, 0] for tile in tiles]
                counts, put = [len(tile) for tile in tiles], partial(self._twiddle, places, 0, 0)
                yield Single(partial(self._opened, x[:, some.start : some.stop], counts, put))
            return
        bundle.states = [sbuf((columns, 2 * slots * middle)) for _ in range(rows)]
        for row in range(each):
            states = [
                state.reshape((columns, slots, 2, middle)) for state in bundle.states[row::each]
            ]
            for chunk, inside in enumerate(self.chunks):
                x = self._input(bundle, chunk)[:, row].reshape_dim(1, (len(inside), columns))
                for some in shared_evenly(inside, most):
                    data = x[:, some.start - inside.start : some.stop - inside.start]
                    places = [state[..., some.start : some.stop] for state in states]
                    put, counts = partial(_into_states, places), [len(some)] * len(states)
                    yield Single(partial(self._opened, data, counts, put))
                if chunk + _RING < len(self.chunks):
                    yield Single(partial(self._load, bundle, chunk + _RING))

    def _opened(
        self, x: Tensor, counts: Sequence[int], put: Callable[[Sequence[Tensor]], None]
    ) -> None:
        """Contract a1 of rows, or of digits j of a row, SBUF [tiles R, n, C].

        counts: how many each row tile has. put: takes PSUM [C, part, n, slots] of each row tile.
        """
        digits = self.digits
        table = self.first[0 : self.tiles * digits.radix]
        if digits.middle == 1:
            banks = [psum((digits.columns, 2, count, digits.slots)) for count in counts]
        else:  # in the order of a state
            shapes = [(digits.columns, digits.slots, 2, count) for count in counts]
            banks = [psum(shape).permute((0, 2, 3, 1)) for shape in shapes]
        for index in range(x.shape[1]):
            for tile, bank in enumerate(banks):
                if index < counts[tile]:
                    multiply_tile(bank[:, :, index], x[:, index], table, tile, self.tiles, False)
        put(banks)

    # Twiddles.

    def _into(self, v: Tensor, low: int) -> Put:
        """Return the put of the second stage into [C, part, L, slots] of slots from ``low`` on."""

        def put(bank: Tensor, first: int) -> None:
            place = v[..., first - low : first - low + bank.shape[3]]
            self._twiddle([place], self.digits.slots, first, [bank])

        return put

    def _twiddle(
        self, places: Sequence[Tensor], stride: int, first: int, banks: Sequence[Tensor]
    ) -> None:
        """Set places = PSUM banks [C, part, n, slots] times twiddles from number ``first`` on.

        stride: numbers of the table from each n to the next.
        """
        products = []
        for bank in banks:
            factors = self.factors([[0, 2], [stride, bank.shape[2]], [1, bank.shape[3]]], first)
            imaginary = times(bank, factors[1], False)
            products.append((times(bank, factors[0], True), imaginary))
        for place, (real, imaginary) in zip(places, products, strict=True):
            for part, op in enumerate(SUMS):
                data1, data2 = real[:, part], imaginary[:, 1 - part]
                nisa.tensor_tensor(dst=place[:, part], data1=data1, data2=data2, op=op)

    # The last DFT.

    def _close(self, v: Tensor, result: Tensor, low: int) -> Block:
        """Yield the last DFT of a portion. Products come before the evacuation of those before."""
        count = min(v.shape[4], self.half - low)
        parts = [(0, v[..., 0:count], low), (1, v[..., 0:count], low)]
        if count < v.shape[4]:
            parts.append((0, v[..., count : count + 1], self.half))
        before: list[Single] = []
        for line, data, first in parts:
            bank = psum((self.digits.columns, *data.shape[2:]))
            yield Single(partial(self._multiply_last, bank, data, line))
            yield from before
            before = [
                Single(partial(evacuate, numbers, place))
                for numbers, place in self._outputs(bank, result, line, first)
            ]
        yield from before

    def _multiply_last(self, bank: Tensor, v: Tensor, line: int) -> None:
        """Compute the DFT over c for a line: PSUM [(part, k'), rows, L, slots]."""
        for part in range(2):
            multiply(bank, self.last[:, 2 * line + part], v[:, part], part > 0)

    def _outputs(
        self, bank: Tensor, result: Tensor, line: int, first: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the outputs of a line in PSUM, with their places."""
        if line == 0:
            for slots, place in self.line(result, first, bank.shape[3]):
                yield bank[..., slots], place
        else:
            for (k2, slots), place in self.second_line(result, first, bank.shape[3]):
                yield bank[:, :, k2, slots], place


def _into_states(places: Sequence[Tensor], banks: Sequence[Tensor]) -> None:
    for bank, place in zip(banks, places, strict=True):
        evacuate(bank.permute((0, 3, 1, 2)), place)
