"""Spectra of overlapping frames, their powers, or sums of powers in bands: one launch.

Mathematics.  Frame t of a signal begins at sample t h. With a window w of N numbers,

    X[t, k] = sum_n w[n] x[t h + n] exp(-2 pi i n k / N),    S[t, k] = |X[t, k]|^p,  p = 1 or 2
    M[m, t] = sum_k b[k, m] S[t, k]

where a bank b of m bands has weights for all bins k <= N/2. These are a short-time transform, a
spectrogram, and a mel spectrogram for the bank of that name. A factor on X belongs to the tables.

Layout on the NeuronCore.  Frames are rows that begin h numbers apart in HBM, so that DMA reads the
overlapping samples again and no frame is ever stored. The stages are those of real_stockham. The
first one contracts samples that are M/g apart, with one table for all slabs; here each slab has a
table of its own, whose rows ScalarE has multiplied by the window. ScalarE squares both parts of the
spectra where they are, VectorE adds them. For bands the Tensor engine transposes the powers, so
that bins are contracted, with the bank as the stationary operand:

    HBM, h apart -> [(t), N] -> stages, times w -> [t, part, k] -> HBM 2 x [t, k]
                                                   S [t, k] -> HBM [t, k]
                                    S transposed [k, t], b [k, m] -> [m, t] -> HBM [m, t]

Frames that are not finite are set aside where transposes mix rows (see row_guard.py). Squares of
spectra above 2^64 overflow. For p = 1 ScalarE takes the root of the power plus 2^-116, because its
root is valid from 2^-116 to 2^118; what is 0 stays 0. So |X| is correct from 1e-14 to 5e17.

Why it is fast.  Neither frames nor spectra behind powers pass through HBM: the samples are read,
and only the results are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ..base.arguments import check_dimensions, rows_and_length, two_of
from ..base.chip import psum_port_is_shared, transposes_mix_rows
from ..base.engines import (
    PARTITIONS,
    PSUM_BANK,
    addressed,
    chunks,
    clear,
    cuts,
    evacuate,
    hbm,
    multiply,
    padded_columns,
    psum,
    sbuf,
    transfer,
    transpose,
)
from ..base.isa import Tensor, nisa, nki, nl
from ..base.launch import HbmRows, Rows, store_rows
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Beside, Block, Order, Single, Task, by_age
from ..base.row_guard import RowGuard
from ..real.real_stockham import Forward
from ..real.real_stockham_tables import Geometry
from .products import columns_of, slack

_ORDER = Order(5, 1, by_age, begun=4, is_even=True)


MAX_BANDS = PARTITIONS
_BAD = 1e30  # its square is infinite
_LEAST = 2.0**-116  # ScalarE's square root is valid from here on
_WINDOW = 2.0**60  # square of a number of a window; powers of frames set aside would overflow


def frame_count(blocks: int, hop: int, n: int) -> int:
    """Return how many frames of n samples begin in ``blocks`` blocks of ``hop`` samples."""
    return blocks - (n - 1) // hop


@nki.jit
def frame_spectra(x, window, tables, places, radices):  # type: ignore[no-untyped-def]
    """Compute the half spectra of frames.

    Args:
        x: samples, float32 HBM [S, h]; frames begin with each block of h.
        window: float32 HBM [1, N].
        tables, places: the two results of ``pack(real_stockham_tables(N, radices, ...))``.
        radices: (R, M) with product N.

    Returns:
        (y_re, y_im), float32 HBM [S, N // 2 + 1]; zeros follow those of the frames.
    """
    geometry = Geometry(*two_of(radices))
    rows_and_length(x)
    y = [hbm((x.shape[0], geometry.n // 2 + 1)) for _ in range(2)]
    work = Frames(x, y, window, geometry)
    work.transform(unpack(tables, places))
    for part in y:
        _clear_after(part, work.batch)
    return y[0], y[1]


@nki.jit
def frame_powers(x, window, tables, places, radices, exponent):  # type: ignore[no-untyped-def]
    """Compute the powers of the spectra of frames.

    exponent: p, 1 or 2. The other arguments are those of ``frame_spectra``, and the result is
    one of its parts.
    """
    geometry, (blocks, _) = Geometry(*two_of(radices)), rows_and_length(x)
    y = hbm((blocks, geometry.n // 2 + 1))
    work = Powers(x, y, window, geometry, exponent)
    work.transform(unpack(tables, places))
    _clear_after(y, work.batch)
    return y


@nki.jit
def frame_bands(x, window, bank, tables, places, radices, exponent):  # type: ignore[no-untyped-def]
    """Compute sums of powers of the spectra of frames, in bands.

    bank: weights of the bins, float32 HBM [N // 2 + 1, M], M <= 128. The other arguments are
    those of ``frame_powers``.

    Returns:
        y, float32 HBM [M, S]; zeros follow those of the frames.
    """
    rows_and_length(x)
    check_dimensions("bank", bank, ("N // 2 + 1", "M"))
    y = hbm((bank.shape[1], x.shape[0]))
    work = Bands(x, y, window, Geometry(*two_of(radices)), exponent, bank)
    work.transform(unpack(tables, places))
    if work.batch < y.shape[1]:
        _clear(y[:, work.batch :])
    return y


def _clear_after(y: Tensor, rows: int) -> None:
    if rows < y.shape[0]:
        _clear(y[rows:])


def _clear(place: Tensor) -> None:
    """Write zeros to the first program's part of HBM [rows, n] that no frame fills."""
    rows, columns = place.shape
    if nl.program_id(0) != 0:
        return
    for low, count in chunks(rows):
        tile = sbuf((count, columns))
        clear(tile)
        transfer(place[low : low + count], tile)


class Frames(Forward):
    """Frames of a launch, whose spectra are stored."""

    def __init__(
        self, x: Tensor, results: Sequence[Tensor], window: Tensor, geometry: Geometry
    ) -> None:
        blocks, hop = rows_and_length(x)
        self.bins, self.window = geometry.n // 2 + 1, window
        target = [HbmRows(y, self.bins) for y in results]
        batch = frame_count(blocks, hop, geometry.n)
        if batch < 1:
            raise ValueError(
                f"argument 'x' has shape {(blocks, hop)}, allowed are at least {geometry.n} "
                f"samples, as many as a frame has"
            )
        super().__init__([HbmRows(x, geometry.n)], target, geometry, batch)

    @property
    def growth(self) -> float:
        """The square of the factor by which the norm of a frame may grow, with a large window."""
        return self.geometry.n * _WINDOW

    def setup(self) -> None:
        """Load the tables, and multiply those of the first stage by the window."""
        super().setup()
        stages, n = self.both, self.geometry.n
        table, spacing = stages.held[0], stages.spacing
        runs = n // spacing
        # The window at spacing r + m, where row r of the table multiplies slab m; for each row of a
        # pair.
        window = sbuf((PARTITIONS, spacing))
        source = self.window.reshape((runs, spacing))
        copies = 2 if stages.pairs_rows else 1
        for copy in range(copies):
            transfer(window[copy * runs : (copy + 1) * runs], source)
        held = copies * runs
        weighted = []
        for slab in range(spacing):
            tile = sbuf(table.shape)
            scale = window[0:held, slab : slab + 1]
            nisa.activation(dst=tile[0:held], op=nl.copy, data=table[0:held], scale=scale)
            weighted.append(tile)
        stages.weighted = tuple(weighted)


class Powers(Frames):
    """Frames of a launch, whose powers are stored."""

    def __init__(
        self, x: Tensor, target: Tensor, window: Tensor, geometry: Geometry, exponent: int
    ) -> None:
        super().__init__(x, [target], window, geometry)
        self.exponent = exponent
        self.least = list[Tensor]()  # [P, 1], where roots are computed

    def setup(self) -> None:
        """Load the tables, and the least number whose square root ScalarE computes."""
        super().setup()
        if self.exponent == 1:
            self.least = [sbuf((PARTITIONS, 1))]
            nisa.memset(dst=self.least[0], value=_LEAST)

    def order(self) -> Order:
        """Return how blocks follow each other: what follows the stages is done beside others."""
        return _ORDER

    def finish(self, y: Tensor, rows: Rows, guard: RowGuard) -> Block:
        """Store the powers of spectra [P, part, row, k]."""
        columns = self.columns
        # numbers follow, with which transposes widen a last narrow run
        tile = sbuf((rows.partitions, rows.each * columns + slack()))
        if slack() > 0:
            clear(tile[:, rows.each * columns :])
        held = tile[:, 0 : rows.each * columns].reshape_dim(1, (rows.each, columns))
        powers, squares = held[:, :, 0 : self.bins], sbuf((*held.shape[:2], self.bins))
        square = partial(nisa.activation, op=nl.square)
        add = partial(nisa.tensor_tensor, data1=powers, data2=squares, op=nl.add)
        yield TURN
        yield Beside(partial(square, dst=powers, data=y[:, 0, :, 0 : self.bins]))
        yield Beside(partial(square, dst=squares, data=y[:, 1, :, 0 : self.bins]))
        yield Beside(partial(add, dst=powers))
        if self.exponent == 1:
            yield from self._roots(powers, squares)
        yield from self.marked(held, guard)
        del y, squares, square, add, guard
        yield TURN
        yield from self.stored(tile, rows)

    def _roots(self, powers: Tensor, roots: Tensor) -> Iterator[Beside]:
        """Yield what replaces powers [P, row, k] by their square roots; that of 0 is 0."""
        least = self.least[0][0 : powers.shape[0]]
        yield Beside(partial(nisa.activation, dst=roots, op=nl.sqrt, data=powers, bias=least))
        select = partial(nisa.scalar_tensor_tensor, data=powers, op0=nl.not_equal, operand0=0.0)
        yield Beside(partial(select, dst=powers, op1=nl.multiply, operand1=roots))

    @property
    def columns(self) -> int:
        """Numbers of a row of powers."""
        return self.bins

    def marked(self, powers: Tensor, guard: RowGuard) -> Iterator[Beside]:
        """Yield what marks bad frames in powers; their spectra are marked already."""
        yield from ()

    def stored(self, tile: Tensor, rows: Rows) -> Block:
        """Store powers [P, (row, k)]."""
        target = self.target[0].tensor
        powers = tile[:, 0 : rows.each * self.bins].reshape_dim(1, (rows.each, self.bins))
        yield Single(partial(store_rows, target, powers, rows, self.bins))


class Bands(Powers):
    """Frames of a launch, of which sums in bands are stored.

    Where transposes mix rows, a bad frame has the bin ``_BAD`` after its others, whose weight in
    all bands is ``_BAD`` too, so that its sums are infinite, and then made NaN.
    """

    def __init__(
        self,
        x: Tensor,
        target: Tensor,
        window: Tensor,
        geometry: Geometry,
        exponent: int,
        bank: Tensor,
    ) -> None:
        """Describe a launch; bank: HBM [k, m]."""
        super().__init__(x, target, window, geometry, exponent)
        self.bank, self.bands = bank, bank.shape[1]
        self.mixes = transposes_mix_rows()
        self.chunks = cuts(0, bank.shape[0] + self.mixes)
        self.weights = list[Tensor]()  # by chunks of bins

    def setup(self) -> None:
        """Load the tables, and the bank."""
        super().setup()
        bins = self.bank.shape[0]
        self.weights = list[Tensor]()
        for low, high in self.chunks:
            tile = sbuf((PARTITIONS, columns_of(self.bands)))
            if columns_of(self.bands) > self.bands:
                clear(tile)
            if high > bins:
                nisa.memset(dst=tile, value=_BAD)
            transfer(
                tile[0 : min(high, bins) - low, 0 : self.bands], self.bank[low : min(high, bins)]
            )
            self.weights.append(tile)

    def marks_of(self, guard: RowGuard) -> Tensor | None:
        """Return none where transposes would mix them."""
        return None if transposes_mix_rows() else guard.marks

    @property
    def columns(self) -> int:
        """Numbers of a row of powers, with a bin for bad frames."""
        return self.bins + transposes_mix_rows()

    def marked(self, powers: Tensor, guard: RowGuard) -> Iterator[Beside]:
        """Yield what marks bad frames."""
        if transposes_mix_rows():
            yield Beside(partial(guard.bad, powers[:, :, self.bins], _BAD))

    def stored(self, tile: Tensor, rows: Rows) -> Block:
        """Store the bands of powers [P, (row, k)]."""
        results = sbuf((self.bands, rows.partitions, rows.each))
        for first, count in chunks(rows.each, PSUM_BANK // PARTITIONS):
            some = slice(first, first + count)
            yield self._sum(tile, some, results[:, :, some])
        yield After(partial(self._store, results, rows))

    def _store(self, results: Tensor, rows: Rows) -> None:
        """Store bands [m, P, row]."""
        target, frames = self.target[0].tensor, rows.partitions * rows.each
        pattern = [[target.shape[1], self.bands], [1, frames]]
        place = addressed(target, pattern, rows.first, rows.base, 1)
        transfer(place, results.reshape((self.bands, frames)), rows.base)

    def _sum(self, tile: Tensor, some: slice, results: Tensor) -> Task:
        """Sum some rows of powers [P, (row, k)] in bands [m, P, row]."""
        partitions, rows = tile.shape[0], some.stop - some.start
        turned = list[Tensor]()
        for low, high in self.chunks:
            wide = padded_columns(high - low, partitions)
            bank = psum((wide, rows, partitions))
            for row in range(rows):
                start = (some.start + row) * self.columns + low
                transpose(bank[:, row], tile[:, start : start + wide], self.identity)
            is_scalar = len(turned) % 2 == 0 or psum_port_is_shared()
            turned.append(evacuate(bank[0 : high - low], is_scalar=is_scalar))
        yield
        bank = psum((columns_of(self.bands), rows, partitions))
        for index, (weights, moved) in enumerate(zip(self.weights, turned, strict=True)):
            held = weights[0 : moved.shape[0]]
            multiply(bank.flatten_dims(1, 2), held, moved.flatten_dims(1, 2), index > 0)
        place = results.permute((0, 2, 1))
        evacuate(bank[0 : self.bands], place, is_scalar=psum_port_is_shared())
        if self.mixes:  # infinity times 0 is NaN
            nisa.scalar_tensor_tensor(
                dst=place, data=place, op0=nl.multiply, operand0=0.0, op1=nl.add, operand1=place
            )
