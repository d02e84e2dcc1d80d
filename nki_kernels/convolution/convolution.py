"""Circular convolution of real rows with a filter, by its spectrum: one launch.

Mathematics.  y = F^-1 (F x . H), where H is the half spectrum of the filter, N/2 + 1 numbers. Rows
x may be shorter than N; zeros follow them. Of y, only the first numbers are kept.

Layout on the NeuronCore.  real_stockham's forward stages leave half spectra in SBUF, in the order
of slots that its inverse stages read. Between the two, VectorE multiplies the spectra by H. H lies
in the same order, in which GpSimdE and VectorE lay it out, and is either repeated on all partitions
or has a row for each row of x. Only x, H and y pass through HBM.

    HBM [B, L] -> SBUF -> stages -> half spectra, times H -> stages -> SBUF -> HBM [B, kept]

Three blocks are in progress at any time: one in the forward stages, the block before it in the
product, and the block before that in the inverse stages, so that no stage waits for its own
results. VectorE multiplies, and ScalarE moves everything out of PSUM. Where transposes mix rows,
bad rows are set aside before the forward stages, and once more before the inverse stages, because
the product may overflow.

Why it is fast.  DMA moves 8 bytes a point instead of the 28 bytes of three launches, and moves
neither the padding nor the cropped outputs. The limit is the Tensor engine, with two real
transforms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from ..base.arguments import check_dimensions, rows_and_length, two_of
from ..base.engines import PARTITIONS, clear, hbm, multiply_complex, sbuf
from ..base.isa import Tensor, nisa, nki, nl
from ..base.launch import HbmRows, Rows, load_rows
from ..base.packing import unpack
from ..base.pipeline import TURN, Beside, Block, Order, by_age
from ..base.row_guard import guarded, mark_of
from ..base.table_terms import Array, TableSpec
from ..real.real_stages import (
    FlatRows,
    into_slots,
    new_spectra,
    new_state,
    slab_tasks,
    slot_tasks,
)
from ..real.real_stockham import RealWork, lay_out, prepared, real_size, to_real
from ..real.real_stockham_tables import (
    Geometry,
    inverse_real_stockham_specs,
    inverse_real_stockham_tables,
    real_stockham_specs,
    real_stockham_tables,
)

MAX_LENGTH = 5120
_LONG = 4096  # numbers of a partition's rows, from which a ring has one tile
_CHUNK = 2048  # numbers a partition that are multiplied at a time


def convolution_tables(n: int, radices: tuple[int, int]) -> tuple[Array, ...]:
    """Return the tables of ``convolve_rows``, float32.

    They are real_stockham's tables, then its inverse's, which contain 1/N.

    Args:
        n: length of the convolution, up to 5120.
        radices: two radices with product n, the first up to 128, the second up to 64.
    """
    if n > MAX_LENGTH:
        raise ValueError(f"n = {n}: convolutions in SBUF accept lengths up to {MAX_LENGTH}")
    forward = real_stockham_tables(n, radices)
    return *forward, *inverse_real_stockham_tables(n, radices, True, 1.0 / n)


def convolution_specs(radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``convolution_tables(n, radices)``."""
    return *real_stockham_specs(radices), *inverse_real_stockham_specs(radices)


@nki.jit
def convolve_rows(x, h_re, h_im, tables, places, radices, kept):  # type: ignore[no-untyped-def]
    """Convolve every row of real ``x`` with a filter, circularly in N points.

    Args:
        x: float32 HBM [B, L] with L <= N; zeros follow.
        h_re, h_im: the half spectrum of the filter, float32 HBM [1, N // 2 + 1] for all rows or
            [B, N // 2 + 1].
        tables, places: the two results of ``pack(convolution_tables(N, radices))``.
        radices: two radices with product N.
        kept: how many of the N results are returned, from the first on.

    Returns:
        y, float32 HBM [B, kept].
    """
    batch, held = rows_and_length(x)
    geometry = Geometry(*two_of(radices))
    half = geometry.n // 2 + 1
    check_dimensions("h_re", h_re, ("1 or B", "N // 2 + 1"))
    check_dimensions("h_im", h_im, ("1 or B", "N // 2 + 1"))
    y = hbm((batch, kept))
    filters = [HbmRows(h_re, half), HbmRows(h_im, half)]
    work = Convolution([HbmRows(x, held)], [HbmRows(y, kept)], geometry)
    work.convolve(filters, unpack(tables, places))
    return y


class Convolution(RealWork):
    """What all blocks of a launch share."""

    def convolve(self, filters: Sequence[HbmRows], tables: Sequence[Tensor]) -> None:
        """Convolve all rows of this program; filters: the real and the imaginary part of H."""
        self.filters = filters
        self.is_shared = filters[0].tensor.shape[0] == 1  # whether all rows have the same filter
        self.spectrum: FlatRows | None = None  # that filter by slots
        size = real_size(self.geometry, self.each)
        # Beside a filter for each row, DMA may write only one tile of long rows.
        is_alone = size >= _LONG and not self.is_shared
        self.open_ring(size, 1 if is_alone or size > _LONG else 2)
        half = len(tables) // 2
        self.forward = self.stages(tables[:half], is_inverse=False, is_scalar=True)
        self.inverse = self.stages(tables[half:], is_inverse=True, is_scalar=True)
        order = Order(4, 0, by_age, apart=2, begun=4, is_even=True)
        # Two blocks of shorter rows are loaded before what blocks share.
        self.run(order, opened=2 if size <= _LONG // 2 else 1)

    def setup(self) -> None:
        """Load the tables and, if all rows have the same, the filter."""
        self.forward.load()
        self.spectrum = None  # the tile of an earlier call
        if self.is_shared:
            self.spectrum = self.by_slots(self.load_filter(Rows(None, 0, PARTITIONS, 1)))
        # Beside long rows and a long filter, DMA may write less.
        self.inverse.load(tiles=2 if self.geometry.n > _LONG else 3)

    def block(self, rows: Rows, number: int) -> Block:
        geometry = self.geometry
        is_late = len(self.ring) == 1 and number > 0
        if is_late:
            yield TURN  # the block before has to leave the only tile
        x = self.load_real(rows, number)
        guard = guarded(x.each, geometry.n)
        yield from chain(guard.steps(), [TURN]) if is_late else prepared(number, guard.steps())
        marks = guard.marks
        state = new_state(self.forward, rows.partitions, rows.each)
        tasks = slab_tasks(self.forward, x, state.each)
        del x, guard  # A tile lives as long as it has a name here.
        yield from tasks
        yield TURN
        spectra = new_spectra(geometry, rows.partitions, rows.each)
        for row in range(rows.each):
            place = geometry.slot_place
            put = into_slots(self.forward, spectra.each[:, row], place, mark_of(marks, row))
            yield from slot_tasks(self.forward, state, row, put)
        del state
        yield TURN
        h = self.by_slots(self.load_filter(rows)) if self.spectrum is None else self.spectrum
        yield from multiply_spectra(geometry, spectra.each, h)
        del h
        yield TURN
        guard = guarded(spectra.each, 2 * geometry.n)
        yield from guard.steps()
        yield TURN
        stages = to_real(self.inverse, spectra, guard.marks, partial(self.store, rows=rows))
        del spectra, guard
        yield from stages

    def load_filter(self, rows: Rows) -> Tensor:
        """Load H for these rows, or the one H of all rows, as SBUF [P, rows, part, n]."""
        loaded = sbuf((rows.partitions, 2, rows.each, self.geometry.length))
        for part, held in enumerate(self.filters):
            if not self.is_shared:
                load_rows(loaded[:, part], held.tensor, rows, held.columns)
                continue
            if held.columns < self.geometry.length:
                clear(loaded[:, part, :, held.columns :])
            repeated = held.tensor.ap([[0, rows.partitions], [1, held.columns]]).expand_dim(1)
            nisa.dma_copy(dst=loaded[:, part, :, 0 : held.columns], src=repeated)
        return loaded.permute((0, 2, 1, 3))

    def by_slots(self, loaded: Tensor) -> FlatRows:
        """Return H, as ``load_filter`` returned it, in the order of slots."""
        spectra = new_spectra(self.geometry, *loaded.shape[0:2])
        for step in lay_out(loaded, spectra.each, self.geometry, is_scalar=False):
            step.run()
        return spectra


def multiply_spectra(geometry: Geometry, x: Tensor, h: FlatRows) -> Iterator[Beside]:
    """Yield steps that multiply spectra by slots [P, row, ...] by H in place, on VectorE.

    H has one row on each partition, or as many as there are in x.
    """
    edge, own = geometry.edge, geometry.own
    pairs = (edge - own) // 2

    def real() -> None:
        data = x[:, :, edge - own : edge]
        factors = factors_of(h, x, edge - own, [[1, own]])
        nisa.tensor_tensor(dst=data, data1=data, data2=factors, op=nl.multiply)

    if pairs > 0:
        yield Beside(partial(multiply_slots, x, h, 0, 1, pairs))
    yield Beside(real)
    step = max(1, _CHUNK // (4 * geometry.run * x.shape[1]))
    for first in range(1, geometry.slots, step):
        count = min(step, geometry.slots - first)
        place = geometry.slot_place(first)
        yield Beside(partial(multiply_slots, x, h, place, count, 2 * geometry.run))


def multiply_slots(x: Tensor, h: FlatRows, low: int, slots: int, length: int) -> None:
    """Multiply some slots of ``length`` complex numbers, from ``low`` on, by those of H."""
    data = x[:, :, low : low + slots * 2 * length].reshape_dim(2, (slots, 2, length))
    data = data.permute((0, 3, 1, 2, 4))
    pattern = [[2 * length, slots], [1, length]]
    real = factors_of(h, x, low, pattern, [[0, 2]])
    imaginary = factors_of(h, x, low + length, pattern, [[0, 2]])
    multiply_complex(data, data, [real, imaginary])


def factors_of(
    h: FlatRows, x: Tensor, low: int, pattern: list[list[int]], parts: Sequence[list[int]] = ()
) -> Tensor:
    """Return a view of H from number ``low`` of each row on, for all rows of x [P, rows, ...].

    pattern, parts: the dimensions behind and before the rows.
    """
    partitions, rows = x.shape[0:2]
    pitch = h.size if h.rows == rows else 0
    whole = [[h.tile.shape[1], partitions], *parts, [pitch, rows], *pattern]
    return h.tile.ap(whole, low)
