"""Stockham FFT of real data in two stages, half the numbers in each: one launch, natural order.

Mathematics.  N = R M, and n = K + R q is an output. The first stage contracts the top digit of t =
j M + m,

    Z[K, m] = sum_j exp(-+2 pi i j K / R) x[j M + m],      Z[R-K, m] = conj Z[K, m],

so slots K <= R/2 suffice. Slots 0 and R/2 are real, and share one slot: K = 0 is its real part and
K = R/2 its imaginary part (for odd R, slot 0 stands alone). The second stage computes two runs of
outputs from a slot, because X[N-n] = conj X[n]:

    X[K + R q]     = sum_m exp(-+2 pi i m (K + R q) / N)        Z[K, m]        q = 0, 1, ...
    X[(R-K) + R q] = sum_m exp(-+2 pi i m ((R-K) + R q) / N) conj Z[K, m]      up to n = N/2

The twiddles are part of the second stage's matrix, of which each slot has its own. Slot 0 computes
the multiples of R/2. Nothing is computed twice. There is no separate step that splits spectra, as
there is where N/2 complex numbers or two rows are transformed in place of one real row.

The inverse, real data from a half spectrum, is the transpose: it goes from runs of a spectrum to
slots, then computes x[j M + m] = sum_K exp(+-2 pi i j K / R) Z[K, m] over all K, which is Z[0, m] +
(-1)^j Z[R/2, m] plus twice the real part of the other slots. The imaginary parts of X[0] and X[N/2]
are ignored.

Layout on the NeuronCore.  As in stockham, transforms lie on partitions, [128, rows, N]. The Tensor
engine transposes a slab, then multiplies it as the stationary operand, which it reads as one
strided run. In the first stage g <= 128 / R slabs, M/g apart, share a product, so that (j, slab) is
a run of stride M/g. In the second stage a product takes one slot, whose (part, m) lie side by side.
Products that fill only half of the array are done in pairs, by two row tiles side by side: slabs of
two rows where R divides 64, and two slots where M = 32.

    HBM [B, N] -> SBUF [128, rows, N] -> [128, rows, slots, 2, M] -> [128, 2, rows, N/2+1] -> HBM

The inverse needs the two runs of a slot as one run. So GpSimdE and ScalarE first lay out its
spectra by slots: slot 0, then (part, q, run) of each other slot. Where transposes mix rows (v2),
bad rows are set aside before the first stage, and ScalarE adds their marks to the results.

Why it is fast.  It has half the matrix products of a complex transform and half its DMA. A stage
reads what the stage before it wrote last. So that it need not wait, the second stage of a block
takes turns with the first stage of the next block, and the block after that is prepared beside
them. Where ScalarE shares PSUM's port with VectorE (v2), ScalarE alone evacuates, as VectorE sets
rows aside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import ClassVar

from ..base.arguments import check_factors, rows_and_length, two_of
from ..base.chip import transposes_mix_rows
from ..base.engines import DMA_RUN, PARTITIONS, evacuate, hbm, sbuf
from ..base.isa import Tensor, nisa, nki, nl
from ..base.launch import (
    HbmRows,
    Rows,
    Work,
    blocks_of,
    for_rows,
    load_rows,
    most_blocks,
    row_count,
    store_rows,
)
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Beside, Block, Order, by_age
from ..base.row_guard import RowGuard, guarded, mark_of, prepare_guard
from ..base.tables import load_identity
from .real_stages import (
    FlatRows,
    Stages,
    edge_outputs,
    flat_rows,
    into_slots,
    into_spectrum,
    new_spectra,
    new_state,
    slab_tasks,
    slot_tasks,
    tail_of,
)
from .real_stockham_tables import MAX_REAL_RADIX, MAX_SPECTRUM_RADIX, Geometry

MAX_LENGTH = MAX_REAL_RADIX * MAX_SPECTRUM_RADIX
_PAIRED = 512  # rows of a program, from which on a partition takes two long rows
_INTERLEAVED = 4096  # numbers of a row, up to which SBUF has room for the stages of two blocks
_FEWEST = 3  # blocks, from which on their stages take turns
_TILES = 3  # tiles into which DMA loads data in turn
_LONG = 4096  # numbers of a row, from which on DMA may write fewer tables ahead
_RING = 12544  # numbers a partition of these tiles, at most
_PIECES = 2  # parts in which spectra are laid out by slots


@nki.jit
def real_stockham(x, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute half spectra, frequencies 0 to N/2, of the rows of real ``x``.

    Args:
        x: float32 HBM [B, N].
        tables, places: the two results of ``pack(real_stockham_tables(N, radices, ...))``.
        radices: (R, M) with product N.

    Returns:
        (y_re, y_im), float32 HBM [B, N // 2 + 1].
    """
    batch, n = rows_and_length(x)
    check_factors(two_of(radices), n)
    half = n // 2 + 1
    y_re, y_im = hbm((batch, half)), hbm((batch, half))
    target = [HbmRows(y_re, half), HbmRows(y_im, half)]
    real_stockham_rows([HbmRows(x, n)], target, radices, unpack(tables, places))
    return y_re, y_im


def real_stockham_rows(
    source: Sequence[HbmRows],
    target: Sequence[HbmRows],
    radices: tuple[int, ...],
    tables: Sequence[Tensor],
) -> None:
    """Write half spectra of real rows, a source of one part, or real rows of half spectra.

    Zeros follow rows of fewer than N numbers. tables: those of the kernel, in HBM. The target keeps
    as many numbers of a result as it has columns.
    """
    direction = Forward if len(source) == 1 else Inverse
    direction(source, target, Geometry(*radices)).transform(tables)


@nki.jit
def inverse_real_stockham(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute real rows from half spectra ``x_re + i x_im``.

    Args:
        x_re, x_im: the half spectra, float32 HBM [B, N // 2 + 1].
        tables, places: the two results of ``pack(inverse_real_stockham_tables(N, radices, ...))``.
        radices: (R, M) with product N.

    Returns:
        y, float32 HBM [B, N].
    """
    batch, half = rows_and_length(x_re, x_im)
    n = math.prod(two_of(radices))
    y = hbm((batch, n))
    source = [HbmRows(x_re, half), HbmRows(x_im, half)]
    real_stockham_rows(source, [HbmRows(y, n)], radices, unpack(tables, places))
    return y


class RealWork(Work):
    """What all blocks of a launch share: rows, and tiles into which DMA loads them in turn."""

    def __init__(
        self,
        source: Sequence[HbmRows],
        target: Sequence[HbmRows],
        geometry: Geometry,
        batch: int | None = None,
    ) -> None:
        self.source, self.target, self.geometry = source, target, geometry
        self.batch = row_count(source[0].tensor) if batch is None else batch
        least, share = self.batch // nl.num_programs(), -(-self.batch // nl.num_programs())
        # Two long rows on a partition are for row tiles, where enough blocks remain to overlap.
        pair = 2 if least >= _PAIRED and geometry.pairs_rows else 1
        # The rows of a partition at once, at most, and a program's blocks of them.
        self.each = min(max(pair, DMA_RUN // geometry.n), -(-share // PARTITIONS))
        self.blocks = most_blocks(self.batch, self.split)
        self.identity = load_identity()
        self.ring: list[Tensor] = []

    def split(self, base: object, first: int, count: int) -> list[Rows]:
        """Return rows as blocks."""
        return blocks_of(base, first, count, self.each)

    def open_ring(self, size: int, tiles: int) -> None:
        """Allocate tiles of ``size`` numbers for loads."""
        if transposes_mix_rows() and self.batch > 1:
            prepare_guard()
        self.ring = [sbuf((PARTITIONS, size)) for _ in range(max(1, tiles))]

    def stages(self, tables: Sequence[Tensor], is_inverse: bool, is_scalar: bool) -> Stages:
        """Return the stages of one direction, which have tables in HBM."""
        pairs_rows = self.each > 1 and self.geometry.pairs_rows
        return Stages(self.geometry, tables, is_inverse, pairs_rows, self.identity, is_scalar)

    def run(self, order: Order, opened: int = 1) -> None:
        """Run the blocks of all rows of this program; opened: as for ``for_rows``."""
        for_rows(self.batch, self, PARTITIONS * self.each, self.split, order, opened=opened)

    def load_real(self, rows: Rows, number: int) -> FlatRows:
        """Load real rows into the tile whose turn it is."""
        tile = self.ring[number % len(self.ring)][0 : rows.partitions]
        x = flat_rows(tile[:, 0 : real_size(self.geometry, rows.each)], rows.each, self.geometry.n)
        load_rows(x.each, self.source[0].tensor, rows, self.source[0].columns)
        return x

    def load_spectra(self, rows: Rows, number: int) -> Tensor:
        """Load half spectra, part by part; return them as [P, row, part, n]."""
        length = self.geometry.length
        tile = self.ring[number % len(self.ring)][0 : rows.partitions]
        data = tile[:, 0 : 2 * rows.each * length].reshape_dim(1, (2, rows.each, length))
        for part, source in enumerate(self.source):
            load_rows(data[:, part], source.tensor, rows, source.columns)
        return data.permute((0, 2, 1, 3))

    def store(self, y: Tensor, rows: Rows) -> None:
        """Store results [P, part, row, n]."""
        for part, target in enumerate(self.target):
            store_rows(target.tensor, y[:, part], rows, target.columns)


class Transform(RealWork):
    """What all blocks share in either direction."""

    is_inverse: ClassVar[bool]

    def transform(self, tables: Sequence[Tensor]) -> None:
        """Transform all rows of this program."""
        size = real_size(self.geometry, self.each)  # numbers of a tile for loads
        if self.is_inverse:
            size = 2 * self.each * self.geometry.length
        self.open_ring(size, min(_TILES, _RING // size))
        self.both = self.stages(tables, self.is_inverse, is_scalar=transposes_mix_rows())
        self.run(self.order())

    def order(self) -> Order:
        """Return how blocks follow each other.

        While a block is in its second stage, the next one is in its first, or else prepared.
        """
        if self.geometry.n <= _INTERLEAVED and self.blocks >= _FEWEST:
            return Order(3, 1, by_age, begun=3, is_even=True)
        return Order(2, 0, apart=2, is_even=True)

    def setup(self) -> None:
        self.both.load(tiles=3 if self.geometry.n >= _LONG else 4)


class Forward(Transform):
    """From real rows to half spectra."""

    is_inverse = False

    @property
    def growth(self) -> float:
        """The square of the factor by which the norm of a row may grow."""
        return self.geometry.n

    def block(self, rows: Rows, number: int) -> Block:
        x = self.load_real(rows, number)
        steps = list[Beside]()
        if len(self.ring) == 1 and self.blocks > 1:  # the only tile is needed for the next rows
            tile = sbuf((rows.partitions, real_size(self.geometry, rows.each)))
            loaded, x = x, flat_rows(tile, rows.each, self.geometry.n)
            steps.append(Beside(partial(copy_aside, x.each, loaded.each)))
            del loaded, tile
        guard = guarded(x.each, self.growth)
        yield from prepared(number, chain(steps, guard.steps()))
        marks = self.marks_of(guard)
        state = new_state(self.both, rows.partitions, rows.each)
        tasks = slab_tasks(self.both, x, state.each)
        del x, steps  # A tile lives as long as it has a name here.
        yield from tasks
        yield TURN
        y = sbuf((rows.partitions, 2, rows.each, self.geometry.length))
        for row in range(rows.each):
            put = into_spectrum(self.both, y[:, :, row], mark_of(marks, row))
            yield from slot_tasks(self.both, state, row, put)
        del put, state, tasks
        yield from self.finish(y, rows, guard)

    def marks_of(self, guard: RowGuard) -> Tensor | None:
        """Return the marks that are added to spectra of rows that were set aside."""
        return guard.marks

    def finish(self, y: Tensor, rows: Rows, guard: RowGuard) -> Block:
        """Store spectra [P, part, row, k] of rows."""
        yield After(partial(self.store, y, rows))


class Inverse(Transform):
    """From half spectra to real rows."""

    is_inverse = True

    def block(self, rows: Rows, number: int) -> Block:
        data = self.load_spectra(rows, number)
        guard = guarded(data, 2 * self.geometry.n)
        spectra = new_spectra(self.geometry, rows.partitions, rows.each)
        steps = lay_out(data, spectra.each, self.geometry, is_scalar=True)
        yield from prepared(number, chain(guard.steps(), steps))
        stages = to_real(self.both, spectra, guard.marks, partial(self.store, rows=rows))
        del data, guard, spectra, steps  # A tile lives as long as it has a name here.
        yield from stages


# Parts of blocks.


def prepared(number: int, steps: Iterable[Beside]) -> Block:
    """Yield the steps that prepare a block beside tasks of others, or at once if there are none."""
    if number == 0:
        for step in steps:
            step.run()
        steps = ()
    yield TURN
    yield from steps
    yield TURN


def to_real(
    stages: Stages, spectra: FlatRows, marks: Tensor | None, store: Callable[[Tensor], None]
) -> Block:
    """Yield the inverse stages of spectra by slots; store: stores real rows [P, 1, rows, n]."""
    state = new_state(stages, spectra.tile.shape[0], spectra.rows)
    for row in range(state.rows):
        put = into_slots(stages, state.each[:, row], stages.geometry.state_place)
        yield from slot_tasks(stages, spectra, row, put)
    del spectra
    yield TURN
    y = sbuf((state.tile.shape[0], 1, state.rows, stages.geometry.n))
    yield from slab_tasks(stages, state, y[:, 0], marks)
    yield After(partial(store, y))


def real_size(geometry: Geometry, rows: int) -> int:
    """Return the numbers of so many real rows, and of zeros behind them for their slabs."""
    count, step = geometry.slabs * geometry.radix, geometry.left // geometry.slabs
    return rows * geometry.n + tail_of(count, step)


def lay_out(data: Tensor, spectra: Tensor, geometry: Geometry, is_scalar: bool) -> Iterator[Beside]:
    """Yield steps that lay out spectra [P, row, part, n] by slots in SBUF [P, row, ...].

    GpSimdE and another engine copy slots in turn: ScalarE if ``is_scalar``, else VectorE.
    """
    radix, run, slots = geometry.radix, geometry.run, geometry.slots

    def edge() -> None:
        *pairs, real = edge_outputs(geometry, data)
        count = geometry.edge - geometry.own
        for outputs in pairs:
            copy_aside(spectra[:, :, 0:count].reshape_dim(2, (2, count // 2)), outputs)
        copy_aside(spectra[:, :, count : geometry.edge], real[:, :, 0])

    def others(mine: range) -> None:
        runs = data[:, :, :, 0 : run * radix].reshape_dim(3, (run, radix))
        for slot in mine:
            low = geometry.slot_place(slot)
            both = runs[:, :, :, :, slot : radix - slot + 1 : radix - 2 * slot]
            place = spectra[:, :, low : low + 4 * run]
            if slot % 2 == 0:
                evacuate(both, place, is_scalar=is_scalar)
            else:
                copy_aside(place, both)

    yield Beside(edge)
    ends = [1 + (slots - 1) * piece // _PIECES for piece in range(_PIECES + 1)]
    for first, last in pairwise(ends):
        yield Beside(partial(others, range(first, last)))


def copy_aside(dst: Tensor, src: Tensor) -> None:
    """Copy within SBUF, on GpSimdE."""
    nisa.tensor_copy(dst=dst, src=src, engine=nisa.engine.gpsimd)
