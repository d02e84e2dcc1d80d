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

from typing import Any

import numpy as np

from nki_sim.hardware import PARTITIONS

from ..isa import nisa, nki, nl
from ..nd.axes import REAL_DFT_GEMM, Array, as_array, as_columns, as_rows, meet
from ..nd.column_blocks import (
    Walk,
    block_size,
    blocks_of,
    columns_of,
    groups_of,
    member_count,
    rows_in_hbm,
    share_columns,
    walk_of,
)
from ..nd.strided_stockham import (
    Turned,
    load_piece,
    open_piece,
    piece_rows,
    pieces_of,
    radix_pairs,
    ring_of,
    slabs_together,
    stages_of,
    strided_stockham_specs,
    strided_stockham_tables,
    turn_marks,
)
from ..packing import unpack
from ..real.real_dft_gemm import inverse_real_dft_gemm_rows, real_dft_gemm_rows
from ..real.real_stockham import inverse_real_stockham_rows, real_stockham_rows
from ..row_blocks import LAUNCH_INSTRUCTIONS
from ..row_guard import set_rows_aside, transposes_mix_rows
from ..tiles import (
    PSUM_BANK,
    columns_read,
    evacuate,
    load_tables,
    multiply,
    multiply_complex,
    transpose,
)

_INSTRUCTIONS = LAUNCH_INSTRUCTIONS // 5  # instructions of an iteration of the pass along columns
_POINTS = 2**18  # points of a block of columns, as long as it has at least 128 columns
_TOGETHER = 2**16  # points of a block of several images
_MULTIPLIED = 512  # numbers of each part that are multiplied at a time
_SHORT = 2560  # points of a column, up to which SBUF holds three groups
_FILTER = 1024  # numbers of each part of a filter that are loaded at a time
_PIECE = 1536  # numbers a partition of images that are loaded at a time
_RING = 6144  # numbers a partition of images that are loaded and not yet used


class Filters(nl.NKIObject):
    """Spectra of filters, which the images use in turn."""

    parts: Any  # a list of the real and the imaginary part, HBM [F, N/2 + 1, M]
    # the dimension that a device loop counts, or -1 where each iteration has the same filters
    dimension: int


class FilterPiece(nl.NKIObject):
    """Slabs of a group's filters, which are loaded at a time."""

    block: Any
    group: Any  # Columns of the block
    first: int  # the first slab
    count: int  # number of slabs
    tile: Any  # SBUF [128, 2, numbers]


class Convolver(nl.NKIObject):
    """Tables and filters of the pass along columns."""

    stages: Any  # forward, with tables and identity
    reopening: Any  # SBUF table of the inverse of the last stage, [2 q', r, 2 q']
    restoring: Any  # SBUF table of the inverse of the first stage, [2 g r, at least 64]
    filters: Any


class Flight(nl.NKIObject):
    """A group of columns on its way through the pass."""

    block: Any
    group: Any  # Columns of the block
    # SBUF [columns, (K, part, q)], and numbers that a stationary operand reads beyond these
    state: Any
    result: Any  # the whole block's result, SBUF [(part, j, s), images, M / (r g), columns]
    marks: Any  # a list of SBUF [columns, 1] to be added to the results of columns, or []
    is_last: bool  # whether it is the last group of the block


def column_tables(m: int, radices: tuple[int, int]) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the tables of the pass along columns: two stages forward, two back, with 1/M.

    Their shapes are [2 g r, 2 g r], [2 q', r, P], [2 q', r, 2 q'] and [2 g r, P'], with g slabs as
    in strided_stockham. P and P' are 64, with columns of zeros, where there are 32 columns or
    fewer.

    Args:
        m: length of the columns.
        radices: two radices with product m, each 2 to 64.

    Returns:
        Four float32 arrays.

    Raises:
        ValueError: the radices do not fit.
    """
    if len(radices) != 2:
        raise ValueError(f"radices {radices}: must be two with the product m = {m}")
    opening, closing = strided_stockham_tables(m, radices)
    # The inverse is the transpose of the conjugate: of real matrices that is the transpose alone.
    reopening = closing[:, :, : len(closing)].transpose(2, 1, 0) / np.float32(m)
    size = len(opening)
    restoring = np.pad(opening.T, ((0, 0), (0, columns_read(size) - size)))
    return opening, closing, np.ascontiguousarray(reopening), restoring


def column_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
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


def stage_order(m: int, radices: tuple[int, int]) -> np.ndarray[Any, Any]:
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
    kind, n, row_radices, m, radices, kept_rows, kept_columns = passes
    batch, held, _ = x.shape
    half = n // 2 + 1
    spectra = parts_in_hbm((batch, held, half))
    products = parts_in_hbm((batch, kept_rows, half))
    y = nl.ndarray((batch, kept_rows, kept_columns), dtype=nl.float32, buffer=nl.shared_hbm)
    found = [unpack(tables, places[0]), unpack(tables, places[1]), unpack(tables, places[2])]
    rows = [as_rows(spectra[0]), as_rows(spectra[1])]
    if kind == REAL_DFT_GEMM:
        real_dft_gemm_rows(as_rows(as_array(x)), rows, n, found[0][0])
    else:
        real_stockham_rows(as_rows(as_array(x)), rows, row_radices, found[0])
    meet(spectra)
    source = [as_columns(spectra[0], 1), as_columns(spectra[1], 1)]
    target = [as_columns(products[0], 1), as_columns(products[1], 1)]
    convolve_columns(source, target, [h_re, h_im], found[1], radices)
    meet(products)
    rows = [as_rows(products[0]), as_rows(products[1])]
    if kind == REAL_DFT_GEMM:
        inverse_real_dft_gemm_rows(rows, as_rows(as_array(y)), n, found[2][0])
    else:
        inverse_real_stockham_rows(rows, as_rows(as_array(y)), row_radices, found[2])
    return y


def parts_in_hbm(shape: Any) -> Any:
    """Allocate the real and the imaginary part of an array between passes, in HBM."""
    parts = []
    for _ in range(2):
        parts.append(Array(nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm), shape))
    return parts


def convolve_columns(source: Any, target: Any, spectrum: Any, tables: Any, radices: Any) -> None:
    """Convolve columns of source [B, held, C] to target [B, kept, C], lists of two HbmColumns."""
    images, count = member_count(source[0]), spectrum[0].shape[0]
    found = load_tables(tables)
    stages = stages_of(radices, found, _PIECE, _RING)
    sides = share_columns(images, source[0].columns)
    n = radices[0] * radices[1]
    most = min(PSUM_BANK, _POINTS // n, _RING // stages.length)
    size = block_size(sides, most, min(_TOGETHER // n, _RING // stages.length))
    walk = walk_of(sides, size, _INSTRUCTIONS // block_instructions(size, stages))
    if walk.dimension == 0 and count < images:
        walk = whole_periods(walk, sides[0], images, count)
    dimension = walk.dimension // 2
    if walk.dimension == 0 and count < images:
        dimension = -1
    tools = Convolver(stages, found[2], found[3], Filters(spectrum, dimension))
    end = walk.first + walk.trips * walk.step

    def body(base: Any) -> None:
        blocks = blocks_of(walk, base, nisa.dge_mode.unknown, 0, walk.step)
        convolve_blocks(source, target, tools, blocks)

    if walk.trips > 0:
        nl.fori_loop(walk.first, end, body, step=walk.step)
    if walk.rest > 0:
        blocks = blocks_of(walk, None, nisa.dge_mode.none, end, walk.rest)
        convolve_blocks(source, target, tools, blocks)


def whole_periods(walk: Any, side: Any, images: int, filters: int) -> Any:
    """Return a walk along images in which every iteration begins with the first filter."""
    if walk.trips == 0:
        return walk
    end = side.first + side.count
    if end < images:
        end = end // filters * filters
    first = side.first // filters * filters
    step = filters * max(1, walk.step // filters)
    trips = side.least // filters * filters // step
    if trips < 2:
        trips = 0
    return Walk(0, first, step, trips, end - first - trips * step, walk.across, walk.size)


def block_instructions(size: Any, stages: Any) -> int:
    """Return how many instructions a block takes, at most."""
    groups = len(groups_of(size))
    pieces = -(-stages.length // piece_rows(columns_of(size), stages))
    loads = 2 * -(-stages.radix * stages.left // _FILTER) * -(-size.members // groups)
    return 16 + 6 * pieces + groups * (5 * stages.length + 6 * stages.radix + loads + 72)


def convolve_blocks(source: Any, target: Any, tools: Any, blocks: Any) -> None:
    """Convolve blocks; loads run as far ahead as the ring of pieces reaches.

    Three groups are in progress at a time where SBUF has room, so that no group waits for its own
    results.
    """
    stages = tools.stages
    ring = ring_of(blocks, stages)
    pieces = pieces_of(blocks, stages, ring)
    for index in range(min(len(ring), len(pieces))):
        load_piece(pieces[index], source, stages)
    filters = filter_pieces(blocks, stages)
    load_filter(filters[0], tools.filters, stages.left)
    groups = 0
    for block in blocks:
        groups += len(block_groups(block))
    lag = 1 if stages.radix * stages.left <= _SHORT else 0
    flights: Any = []
    opened = 0
    for step in range(groups + 2 * lag):
        if step < groups:
            if step == len(flights):
                flights += open_block(pieces, opened, len(ring), source, stages)
                opened += block_pieces(pieces[opened].block, stages)
            each = len(filters) // groups
            multiply_filters(flights[step], filters, step * each, each, tools)
        if lag <= step < groups + lag:
            change_slabs(flights[step - lag], tools.reopening, stages)
        if step >= 2 * lag:
            flight = flights[step - 2 * lag]
            restore_rows(flight, tools.restoring, stages)
            if flight.is_last:
                store_rows(target, flight, stages)


def block_groups(block: Any) -> Any:
    """Return the groups of a block's columns, each the stationary operand of one product."""
    groups = []
    for chunk in block.chunks:
        for group in groups_of(chunk):
            groups.append(group)
    return groups


def block_pieces(block: Any, stages: Any) -> int:
    """Return the number of pieces in which a block is loaded."""
    return int(-(-stages.length // piece_rows(columns_of(block.place), stages)))


def open_block(pieces: Any, first: int, ahead: int, source: Any, stages: Any) -> Any:
    """Run the first stage of a block, whose first piece is ``first``; return a Flight a group."""
    block = pieces[first].block
    place = block.place
    n, rows = stages.radix * stages.left, 2 * stages.rows
    # Products read these columns of the state; some of the columns lie beyond the data.
    beyond = columns_read(2 * stages.left) - 2 * stages.left
    size = max(2 * n + beyond, columns_read(rows) * stages.length)
    shape = (rows, place.members, stages.length, place.columns)
    result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    states = []
    flights = []
    groups = block_groups(block)
    for group in groups:
        state = nl.ndarray((columns_of(group), size), dtype=nl.float32, buffer=nl.sbuf)
        if size > 2 * n:
            nisa.memset(dst=state[:, 2 * n : size], value=0.0, engine=nisa.engine.gpsimd)
        states.append(state)
        is_last = len(states) == len(groups)
        flights.append(Flight(block, group, state, result, [], is_last))
    for index in range(first, first + block_pieces(block, stages)):
        open_piece(pieces[index], states, stages)
        if index + ahead < len(pieces):
            load_piece(pieces[index + ahead], source, stages)
    return flights


def filter_pieces(blocks: Any, stages: Any) -> Any:
    """Return the pieces in which filters are loaded, into two tiles in turn."""
    step = max(1, _FILTER // stages.left)
    ring = []
    for _ in range(2):
        shape = (PARTITIONS, 2, min(step, stages.radix) * stages.left)
        ring.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    pieces: Any = []
    for block in blocks:
        for group in block_groups(block):
            for first in range(0, stages.radix, step):
                count = min(step, stages.radix - first)
                pieces.append(FilterPiece(block, group, first, count, ring[len(pieces) % 2]))
    return pieces


def load_filter(piece: Any, filters: Any, left: int) -> None:
    """Load a piece of the filters, SBUF [columns of the group, 2, numbers], image by image."""
    group, place = piece.group, piece.block.place
    count, half, m = filters.parts[0].shape
    numbers = piece.count * left
    base, descriptors = None, nisa.dge_mode.none
    if filters.dimension >= 0:
        base, descriptors = piece.block.base, piece.block.descriptors
    for part in range(2):
        for index in range(group.members):
            image = (place.member + group.member + index) % count
            offset = (image * half + place.low + group.low) * m + piece.first * left
            pattern = [[m, group.columns], [1, numbers]]
            data = filters.parts[part].ap(
                pattern, offset, scalar_offset=base, indirect_dim=max(0, filters.dimension)
            )
            at = index * group.columns
            tile = piece.tile[at : at + group.columns, part, 0:numbers]
            nisa.dma_copy(dst=tile, src=data, dge_mode=descriptors)


def multiply_filters(flight: Any, filters: Any, first: int, count: int, tools: Any) -> None:
    """Run the last forward stage of a group, and multiply its spectrum by its filters."""
    stages = tools.stages
    set_images_aside(flight, stages)
    change_slabs(flight, stages.closing, stages)
    for index in range(first, first + count):
        if index + 1 < len(filters):
            load_filter(filters[index + 1], tools.filters, stages.left)
        multiply_slabs(flight, filters[index], stages)
    set_images_aside(flight, stages)


def set_images_aside(flight: Any, stages: Any) -> None:
    """Write zeros to bad columns, which a transposition would mix with columns of other images."""
    if transposes_mix_rows() and flight.group.members > 1:
        n = stages.radix * stages.left
        columns = flight.state[:, 0 : 2 * n].reshape((flight.state.shape[0], 1, 2 * n))
        flight.marks.append(set_rows_aside(columns, float(n)))


def multiply_slabs(flight: Any, piece: Any, stages: Any) -> None:
    """Multiply slabs of a spectrum by those of the filters, in place, on VectorE."""
    columns, left = flight.state.shape[0], stages.left
    slabs = slabs_in(flight.state, stages)
    length = piece.tile.shape[2]
    step = max(1, _MULTIPLIED // left)
    for first in range(0, piece.count, step):
        count = min(step, piece.count - first)
        at = piece.first + first
        x = slabs[:, at : at + count].permute((0, 2, 1, 3))
        pattern = [[2 * length, columns], [0, 2], [left, count], [1, left]]
        real = piece.tile.ap(pattern, first * left)
        multiply_complex(x, x, [real, piece.tile.ap(pattern, length + first * left)])


def slabs_in(state: Any, stages: Any) -> Any:
    """Return a view of a state as [columns, K, part, q]."""
    n = stages.radix * stages.left
    return state[:, 0 : 2 * n].reshape((state.shape[0], stages.radix, 2, stages.left))


def change_slabs(flight: Any, table: Any, stages: Any) -> None:
    """Run a stage within each slab K of q' numbers, in place.

    Only ScalarE moves results out of PSUM, while VectorE multiplies the previous group.
    """
    left = 2 * stages.left
    columns = flight.state.shape[0]
    if transposes_mix_rows():  # where a transpose is a product, also with columns of zeros
        columns = columns_read(columns)
    step = min(4, PSUM_BANK // left)
    pending: Any = None
    for first in range(0, stages.radix, step):
        count = min(step, stages.radix - first)
        shape = (columns_read(left), count, columns)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for index in range(count):
            at = (first + index) * left
            data = flight.state[:, at : at + columns_read(left)]
            transpose(bank[:, index], data, stages.identity)
        turned = Turned(evacuate(bank[0:left], nl.float32, True), first)
        if first > 0:
            make_slabs(pending, table, flight.state)
        pending = turned
    make_slabs(pending, table, flight.state)


def make_slabs(turned: Any, table: Any, state: Any) -> None:
    """Multiply transposed slabs; ScalarE evacuates the products."""
    left, count, columns = turned.data.shape
    bank = nl.ndarray((columns, count, left), dtype=nl.float32, buffer=nl.psum)
    for index in range(count):
        factors = table[:, turned.first + index, 0:left]
        multiply(bank[:, index], turned.data[:, index], factors, False)
    columns = state.shape[0]
    at = turned.first * left
    made = bank[0:columns].reshape((columns, count * left))
    nisa.activation(dst=state[:, at : at + count * left], op=nl.copy, data=made)


def restore_rows(flight: Any, table: Any, stages: Any) -> None:
    """Run the last stage: a group's columns of its block's result."""
    marks: Any = []
    if len(flight.marks) > 0:
        marks.append(turn_marks_of(flight, stages))
    columns, size = flight.state.shape
    read = columns_read(2 * stages.rows)
    step = max(1, PSUM_BANK // columns)
    pending: Any = None
    for first in range(0, stages.length, step):
        count = min(step, stages.length - first)
        bank = nl.ndarray((read, count, columns), dtype=nl.float32, buffer=nl.psum)
        for index in range(count):
            data = flight.state.ap([[size, columns], [stages.length, read]], first + index)
            transpose(bank[:, index], data, stages.identity)
        turned = Turned(evacuate(bank[0 : 2 * stages.rows], nl.float32, True), first)
        if first > 0:
            make_rows(pending, table, flight, marks)
        pending = turned
    make_rows(pending, table, flight, marks)


def turn_marks_of(flight: Any, stages: Any) -> Any:
    """Return the marks of a group's columns, SBUF [(part, j, s), columns]."""
    first, second = flight.marks
    nisa.tensor_tensor(dst=first, data1=first, data2=second, op=nl.add)
    return turn_marks([first], first.shape[0], 2 * stages.rows, stages.identity)


def make_rows(turned: Any, table: Any, flight: Any, marks: Any) -> None:
    """Multiply all transposed slabs in one product, and evacuate it by ScalarE.

    marks: an empty list, or marks that VectorE adds as it evacuates instead.
    """
    group = flight.group
    rows, count, columns = turned.data.shape
    bank = nl.ndarray((table.shape[1], count, columns), dtype=nl.float32, buffer=nl.psum)
    multiply(bank, table, turned.data, False)
    made = bank[0:rows].reshape((rows, count, group.members, group.columns))
    end = group.member + group.members
    place = flight.result[:, group.member : end, turned.first : turned.first + count]
    place = place[:, :, :, group.low : group.low + group.columns].permute((0, 2, 1, 3))
    if len(marks) > 0:
        pattern = [[columns, rows], [0, count], [group.columns, group.members], [1, group.columns]]
        nisa.tensor_tensor(dst=place, data1=made, data2=marks[0].ap(pattern), op=nl.add)
    else:
        nisa.activation(dst=place, op=nl.copy, data=made)


def store_rows(target: Any, flight: Any, stages: Any) -> None:
    """Store a block's result in the rows that the target holds."""
    block, length = flight.block, stages.length
    kept = target[0].tensor.shape[target[0].axis]
    full = kept // length
    rest = kept - full * length
    for part in range(2):
        at = part * stages.rows
        if full > 0:
            rows = rows_in_hbm(target[part], block, 0, full, length, length)
            data = flight.result[at : at + full]
            nisa.dma_copy(dst=rows, src=data, dge_mode=block.descriptors)
        if rest > 0:
            rows = rows_in_hbm(target[part], block, full * length, 1, length, rest)
            data = flight.result[at + full : at + full + 1, :, 0:rest]
            nisa.dma_copy(dst=rows, src=data, dge_mode=block.descriptors)
