"""Circular convolution of real images with a filter, by its spectrum: one launch, three passes.

Mathematics.  y = F^-1 (F x . H) with transforms along both axes of M x N points. The image holds
some of these points, and the others are zero; some points of y are kept.

    rows      x [h, w] -> half spectra of N points [h, N/2 + 1], only of rows that hold data
    columns   transform along M, times H, and back: [h, N/2 + 1] -> [kept, N/2 + 1]
    rows      half spectra -> y [kept rows, kept columns]

The spectrum of a column needs no particular order, because only H is multiplied with it. It stays
in the order in which the stages leave it: frequency K + r q at position K q' + q, with M = r q'. H
lies in HBM in the same order.

Layout on the NeuronCore.  The passes along rows are those of real_dft_gemm or real_stockham. The
pass along columns loads rows as they lie, like strided_stockham. After its first stage the columns
are on partitions, so that VectorE multiplies them by H, which has one row for each column. The last
inverse stage brings the rows back to the partitions.

    HBM -> [(part, j, s), M/(r g), C] -> [C, r, 2, q'], times H -> [(part, j, s), M/(r g), C] -> HBM

Where images lie side by side on the partitions, images that are not finite, or that become so by H,
are set aside before a transposition adds products with zero (row_guard). Between passes the
programs of a launch wait for each other, as in axes.

Why it is fast.  The full spectrum of the image never leaves SBUF, and half of it is never computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ..base.arguments import (
    are_positive,
    check_dimensions,
    check_factors,
    check_tables,
    two_of,
)
from ..base.chip import transposes_mix_rows
from ..base.engines import (
    PARTITIONS,
    PSUM_BANK,
    addressed,
    columns_read,
    evacuate,
    multiply,
    multiply_complex,
    psum,
    sbuf,
    transfer,
)
from ..base.isa import Tensor, nisa, nki, nl
from ..base.launch import meet
from ..base.packing import unpack
from ..base.pipeline import TURN, After, Block, Item, Order, Task
from ..base.table_terms import Array, TableSpec
from ..base.tables import load_tables
from ..nd.axes import REAL_STOCKHAM, Part, Pass, parts_of, run_rows
from ..nd.column_pass import ColumnPass, Piece, Results, Ring, in_parts
from ..nd.columns import ColumnBlock, HbmColumns, for_columns
from ..nd.strided_stockham import (
    radix_pairs,
    slabs_together,
    strided_stockham_specs,
    strided_stockham_tables,
)

_INSTRUCTIONS = 6_000  # instructions of an iteration of the pass along columns
_POINTS = 2**18  # points of a block of columns, as long as it has at least 128 columns
_TOGETHER = 2**16  # points of a block of several images
_MULTIPLIED = 512  # numbers of each part that are multiplied at a time
_SHORT = 2560  # points of a column, up to which SBUF holds three groups
_FILTER = 1024  # numbers of each part of a filter that are loaded at a time
# numbers a partition of images that are loaded at a time, and those loaded and not yet used
_ROOM = 1536, 5120


def column_tables(m: int, radices: tuple[int, int]) -> tuple[Array, ...]:
    """Return the tables of the pass along columns: two stages forward, two back, with 1/M.

    Their shapes are [2 g r, 2 g r], [2 q', r, P], [2 q', r, 2 q'] and [2 g r, P'], with g slabs as
    in strided_stockham. P and P' are 64, with columns of zeros, where there are 32 columns or
    fewer.

    Args:
        m: length of the columns.
        radices: two radices with product m, each 2 to 64.
    """
    if len(radices) != 2:
        raise ValueError(f"radices {radices}: must be two with the product m = {m}")
    opening, closing = strided_stockham_tables(m, radices)
    # The inverse is the transpose of the conjugate: of real matrices that is the transpose alone.
    reopening = closing[:, :, : len(closing)].transpose(2, 1, 0) / np.float32(m)
    size = len(opening)
    restoring = np.pad(opening.T, ((0, 0), (0, columns_read(size) - size)))
    return opening, closing, np.ascontiguousarray(reopening), restoring


def column_specs(radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``column_tables(m, radices)``."""
    opening, closing = strided_stockham_specs(radices)
    (size, _), dtype = opening
    (depth, count, _), _ = closing
    return opening, closing, ((depth, count, depth), dtype), ((size, columns_read(size)), dtype)


def column_radices(m: int) -> list[tuple[int, int]]:
    """Return radices of columns of m points, the likeliest first.

    The first pair decides the order of the filters' spectra.
    """
    return sorted(radix_pairs(m), key=column_work)


def column_work(radices: tuple[int, int]) -> float:
    """Return an estimate, without a unit, of the pass's work for each point: DMA, then transposes.

    Only the DMA engines of those partitions that the first radix fills load and store.
    """
    radix, left = radices
    filled = 2 * radix * slabs_together(radix, left) / PARTITIONS
    return 2 / filled + 32 / left


def stage_order(m: int, radices: tuple[int, int]) -> Array:
    """Return the frequency at each position of a column's spectrum, int64 [m]."""
    radix, left = radices
    return np.arange(m).reshape(left, radix).T.reshape(-1)


@nki.jit
def convolve_images(x, h_re, h_im, tables, places, passes):  # type: ignore[no-untyped-def]
    """Convolve every real image with a filter.

    Args:
        x: float32 HBM [B, h, w].
        h_re, h_im: the filter's spectrum in the order of ``stage_order``, float32 HBM [1, N //
            2 + 1, M] for all images, or [F, N // 2 + 1, M], where image b has filter b % F.
        tables, places: the two results of ``pack`` for (tables of the real rows,
            ``column_tables(M, ...)``, tables of their inverse with 1/N).
        passes: (kind of the passes along rows, N, their radices, M, its radices, kept rows,
            kept columns).

    Returns:
        y, float32 HBM [B, kept rows, kept columns].
    """
    check_dimensions("x", x, ("B", "h", "w"))
    check_dimensions("h_re", h_re, ("1 or F", "N // 2 + 1", "M"))
    check_dimensions("h_im", h_im, ("1 or F", "N // 2 + 1", "M"))
    _check_passes(passes)
    kind, n, row_radices, m, radices, kept_rows, kept_columns = passes
    batch, held, _ = x.shape
    if not isinstance(places, (tuple, list)) or len(places) != 3:
        raise TypeError(f"argument 'places' is {places!r}, allowed is a tuple of three places")
    forward, middle, inverse = (unpack(tables, place) for place in places)
    check_tables(middle, 4)
    rows = Pass(kind, 2, n, n // 2 + 1, row_radices, forward)
    back = Pass(kind, 2, n, kept_columns, row_radices, inverse)
    image = [Part(x, x.shape)]
    spectra, products = parts_of((batch, held, rows.kept)), parts_of((batch, kept_rows, rows.kept))
    result = parts_of((batch, kept_rows, kept_columns), 1)
    run_rows(image, spectra, rows)
    meet(*(part.tensor for part in spectra))
    source, target = [part.columns(1) for part in spectra], [part.columns(1) for part in products]
    convolve_columns(source, target, [h_re, h_im], middle, radices)
    meet(*(part.tensor for part in products))
    run_rows(products, result, back)
    return result[0].tensor


def _check_passes(passes: Any) -> None:
    """Raise TypeError unless ``passes`` is what ``convolve_images`` describes."""
    is_tuple = isinstance(passes, (tuple, list)) and len(passes) == 7
    if not is_tuple or not are_positive([passes[1], passes[3], *passes[5:]]):
        raise TypeError(
            f"argument 'passes' is {passes!r}, allowed is (kind, N, radices of N, M, radices of M, "
            f"kept rows, kept columns), all positive"
        )
    check_factors(two_of(passes[4]), passes[3])
    if passes[0] == REAL_STOCKHAM:
        check_factors(two_of(passes[2]), passes[1])


def convolve_columns(
    source: Sequence[HbmColumns],
    target: Sequence[HbmColumns],
    spectra: Sequence[Tensor],
    tables: Sequence[Tensor],
    radices: tuple[int, int],
) -> None:
    """Convolve columns of source [B, held, C] to target [B, kept, C], each of two parts."""
    work = _Convolution(source, target, radices, load_tables(tables), spectra)
    # Three groups are in progress where SBUF has room, so that none waits for its own results.
    order = Order(3 if work.n <= _SHORT else 1, 0)
    loaded = _ROOM[1] // work.length
    size = min(PSUM_BANK, _POINTS // work.n, loaded), min(_TOGETHER // work.n, loaded)
    filters = spectra[0].shape[0]
    period = filters if filters < source[0].members else 1
    for_columns(source[0], work.blocks, size, _INSTRUCTIONS, order, period)


class _Convolution(ColumnPass):
    """What all blocks of columns share."""

    def __init__(
        self,
        source: Sequence[HbmColumns],
        target: Sequence[HbmColumns],
        radices: tuple[int, int],
        tables: Sequence[Tensor],
        spectra: Sequence[Tensor],
    ) -> None:
        """tables: those of ``column_tables`` in SBUF. spectra: those of filters in HBM."""
        opening, closing, self.reopening, self.restoring = tables
        super().__init__(source, target, radices, [opening, closing], _ROOM)
        self.spectra = spectra

    def blocks(self, blocks: Sequence[ColumnBlock]) -> Iterator[Block]:
        """Yield a block of tasks for every group; loads run as far ahead as there are tiles."""
        ring, filters = self.ring(blocks), self._filters(blocks)
        factors, rows = iter(filters.pieces), 2 * self.rows
        for block, pieces in zip(blocks, ring.pieces, strict=True):
            tile = sbuf((rows, block.place.members, self.length, block.place.columns))
            states = self.new_states(block, columns_read(rows) * self.length)
            # The block is opened with its first group, and stored with its last one.
            opening: Block = (ring.use(piece, partial(self.open, states)) for piece in pieces)
            storing: list[Item] = [After(partial(self.store, block, tile))]
            for group, state in zip(block.groups(), states, strict=True):
                tasks = self._group(state, Results(tile, group, []), next(factors), filters)
                yield chain(opening, tasks, storing if state is states[-1] else [])

    def _filters(self, blocks: Sequence[ColumnBlock]) -> Ring:
        """Begin to load the filters of every group."""
        left, radix = self.left, self.radix
        step = min(max(1, _FILTER // left), radix)  # slabs of a piece
        groups = [block.of_group(group) for block in blocks for group in block.groups()]
        tiles = [sbuf((PARTITIONS, 2, step * left)) for _ in range(2)]
        return Ring(groups, radix, [step] * len(groups), tiles, self._load_filter)

    def _load_filter(self, piece: Piece) -> None:
        """Load slabs of a group's filters, SBUF [columns, 2, numbers], image by image."""
        block, place, left = piece.block, piece.block.place, self.left
        filters, half, m = self.spectra[0].shape
        # A loop along images has the same filters in every iteration, or a filter for each image.
        is_apart = block.dimension == 1 or filters == self.source[0].members
        base = block.base if is_apart else None
        pattern = [[m, place.columns], [1, piece.count * left]]
        for part, spectrum in enumerate(self.spectra):
            for index in range(place.members):
                column = (place.member + index) % filters * half + place.low
                offset = column * m + piece.part.start * left
                data = addressed(spectrum, pattern, offset, base, block.dimension)
                at = index * place.columns
                here = piece.tile[at : at + place.columns, part, 0 : piece.count * left]
                transfer(here, data, base)

    def _group(
        self, state: Tensor, results: Results, factors: Sequence[Piece], filters: Ring
    ) -> Block:
        """Transform a group of columns, multiply its spectrum, and transform it back.

        state: SBUF [columns, (K, part, q)], and what a stationary operand reads beyond.
        """
        mixes, marks = transposes_mix_rows() and results.place.members > 1, list[Tensor]()
        if mixes:
            yield self._set_aside(state, marks)
        yield from self._change(state, self.closing)
        for piece in factors:
            yield self._multiply(state, piece, filters)
        yield TURN
        if mixes:
            yield self._set_aside(state, marks)
        yield from self._change(state, self.reopening)
        yield TURN
        if mixes:
            yield self._turn_marks(results, marks)
        for numbers in in_parts(self.length, max(1, PSUM_BANK // state.shape[0])):
            yield self._restore(state, results, numbers)

    def _set_aside(self, state: Tensor, marks: list[Tensor]) -> Task:
        """Write zeros to bad columns, which transposes would mix with columns of other images."""
        marks.append(self.set_aside(state, self.n))
        yield

    def _turn_marks(self, results: Results, marks: Sequence[Tensor]) -> Task:
        """Mark the results of columns that were set aside before or after the multiplication."""
        first, second = marks
        nisa.tensor_tensor(dst=first, data1=first, data2=second, op=nl.add)
        results.marks.append(self.turned_marks([first], 2 * self.rows))
        yield

    def _change(self, state: Tensor, table: Tensor) -> Block:
        """Run a stage within each slab K of q' numbers, in place."""
        for slabs in in_parts(self.radix, min(4, PSUM_BANK // (2 * self.left))):
            yield self._change_slabs(state, table, slabs)

    def _change_slabs(self, state: Tensor, table: Tensor, slabs: range) -> Task:
        """Transpose some slabs, and multiply them.

        Only ScalarE moves results out of PSUM, while VectorE multiplies the previous group.
        """
        left, columns = 2 * self.left, state.shape[0]
        if transposes_mix_rows():  # where a transpose is a product, also with columns of zeros
            columns = columns_read(columns)
        tiles = [[state[:, K * left : K * left + columns_read(left)]] for K in slabs]
        data = self.transposed(tiles, left, columns, True)
        yield
        bank = psum((columns, len(slabs), left))
        for index, K in enumerate(slabs):
            multiply(bank[:, index], data[:, index], table[:, K, 0:left], False)
        made = bank[0 : state.shape[0]].flatten_dims(1, 2)
        evacuate(made, state[:, slabs.start * left : slabs.stop * left])

    def _multiply(self, state: Tensor, piece: Piece, filters: Ring) -> Task:
        """Multiply slabs of a spectrum by those of the filters, in place, on VectorE."""
        yield  # the products before are issued first, so that they wait for no other group
        columns, left, length = state.shape[0], self.left, piece.tile.shape[2]
        slabs = state[:, 0 : 2 * self.n].reshape((columns, self.radix, 2, left))
        slabs = slabs[:, piece.part.start : piece.part.stop]
        for part in in_parts(piece.count, max(1, _MULTIPLIED // left)):
            x = slabs[:, part.start : part.stop].permute((0, 2, 1, 3))
            pattern = [[2 * length, columns], [0, 2], [left, len(part)], [1, left]]
            real = piece.tile.ap(pattern, part.start * left)
            imaginary = piece.tile.ap(pattern, length + part.start * left)
            multiply_complex(x, x, [real, imaginary])
        filters.load_next()

    def _restore(self, state: Tensor, results: Results, numbers: range) -> Task:
        """Run the last stage for some rows of every partition; ScalarE evacuates the results."""
        rows, length = 2 * self.rows, self.length
        read = columns_read(rows)
        tiles = [[state[:, at : at + (read - 1) * length + 1 : length]] for at in numbers]
        data = self.transposed(tiles, rows, state.shape[0], True)
        yield
        bank = psum((read, *data.shape[1:]))
        multiply(bank, self.restoring, data, False)
        results.put(bank[0:rows], numbers.start)
