"""Circular convolution of real images with a filter, by its spectrum: one launch, three passes.

Mathematics.  y = F^-1 (F x . H) with transforms along both axes of M x N points, of which the image
holds some, the rest is zero, and of y some are kept.

    rows      x [h, w] -> half spectra of N points [h, N/2 + 1], only of rows that hold data
    columns   transform along M, times H, and back: [h, N/2 + 1] -> [kept, N/2 + 1]
    rows      half spectra -> y [kept rows, kept columns]

The spectrum of a column needs no particular order, as only H meets it: it stays as the stages leave
it, frequency K + r q at position K q' + q, M = r q', and so lies H in HBM.

Layout on the NeuronCore.  The passes along rows are real_dft_gemm's or real_stockham's. The one
along columns loads rows as they lie, as strided_stockham does, and after its first stage has the
columns on partitions, so that H, one row a column, is multiplied by VectorE. The last inverse stage
brings the rows back to the partitions.

    HBM -> [(part, j, s), M/(r g), C] -> [C, 2, r, q'], times H -> [(part, j, s), M/(r g), C] -> HBM

Why it is fast.  The spectrum of the image never leaves SBUF, and half of it is never computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..hardware import DMA_WRITTEN_BYTES
from ..nki_api import nisa, nki, nl
from ..row_blocks import HbmRows
from ..tiles import PARTITIONS, PSUM_BANK, factor_views
from .axes import REAL_DFT_GEMM, as_rows, unpack_passes
from .old_stages import load_identity
from .real_dft_gemm import inverse_real_dft_gemm_rows, real_dft_gemm_rows
from .real_stockham import (
    evacuate,
    inverse_real_stockham_rows,
    load_whole,
    multiply,
    real_stockham_rows,
    transpose,
)
from .strided_stockham import (
    blocks_of,
    column_groups,
    load_chunks,
    load_columns,
    open_group,
    radix_pairs,
    slabs_together,
    strided_stockham_specs,
    strided_stockham_tables,
)

_CHUNK = 512  # numbers of each part that are multiplied at a time
_SHORT = 2048  # points of a column of which SBUF holds three groups
_PIECE = 1024  # numbers of each part that are loaded at a time, of longer spectra
_POINTS = 2**18  # of a block of columns, as long as 128 columns are more


def column_tables(m: int, radices: tuple[int, int]) -> tuple[np.ndarray[Any, Any], ...]:
    """The tables of the pass along columns, float32: two stages forward, two back, 1/M included.

    Shapes: [2 g r, 2 g r], [2 q', r, 2 q'], the same again in the opposite order; g slabs as in
    strided_stockham. Raises ValueError unless the two radices, each 2 to 64, multiply to m.
    """
    if len(radices) != 2:
        raise ValueError(f"radices {radices}: must be two with the product m = {m}")
    opening, closing = strided_stockham_tables(m, radices)
    # The inverse is the transpose of the conjugate: of real matrices that is the transpose alone.
    reopening = np.ascontiguousarray(closing.transpose(2, 1, 0)) / np.float32(m)
    return opening, closing, reopening, np.ascontiguousarray(opening.T)


def column_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """(shape, dtype) of each of ``column_tables(m, radices)``."""
    opening, closing = strided_stockham_specs(radices)
    return opening, closing, closing, opening


def column_radices(m: int) -> list[tuple[int, int]]:
    """Radices of columns of m points, the likeliest first. Spectra have the first one's order."""
    return sorted(radix_pairs(m), key=column_work)


def column_work(radices: tuple[int, int]) -> float:
    """What the pass along columns takes for each point, in no unit: DMA, then transpositions.

    DMA loads and stores by those engines whose partitions the first radix fills.
    """
    radix, left = radices
    filled = 2 * radix * slabs_together(radix, left) / PARTITIONS
    return 2 / filled + 32 / left


def stage_order(m: int, radices: tuple[int, int]) -> np.ndarray[Any, Any]:
    """The frequency at each position of a column's spectrum, int64 [m]."""
    radix, left = radices
    return np.arange(m).reshape(left, radix).T.reshape(-1)


@nki.jit
def convolve_images(x, h_re, h_im, tables, places, passes):  # type: ignore[no-untyped-def]
    """Convolve every real image with a filter.

    x: float32 HBM [B, h, w]. h_re, h_im: the filter's spectrum [1, N // 2 + 1, M] for all images
    or [F, ...] for image b the one of b % F, in the order of ``stage_order``. tables, places:
    ``pack`` of (tables of the real rows, ``column_tables(M, ...)``, tables of their inverse with
    1/N). passes: (kind of the passes along rows, N, their radices, M, its radices, kept rows, kept
    columns). Returns y, float32 HBM [B,
    kept rows, kept columns].
    """
    kind, n, row_radices, m, radices, kept_rows, kept_columns = passes
    batch, held, _ = x.shape
    half = n // 2 + 1
    assert h_re.shape[1:] == (half, m), f"spectrum {h_re.shape} for {half} columns of {m}"
    spectra = []
    products = []
    for _ in range(2):
        spectra.append(nl.ndarray((batch, held, half), dtype=nl.float32, buffer=nl.private_hbm))
        products.append(
            nl.ndarray((batch, kept_rows, half), dtype=nl.float32, buffer=nl.private_hbm)
        )
    found = unpack_passes(tables, places)
    rows = [as_rows(spectra[0]), as_rows(spectra[1])]
    if kind == REAL_DFT_GEMM:
        target = [HbmRows(rows[0], half), HbmRows(rows[1], half)]
        real_dft_gemm_rows(HbmRows(as_rows(x), x.shape[2]), target, n, found[0][0])
    else:
        real_stockham_rows(as_rows(x), rows, found[0], row_radices)
    convolve_columns(spectra, products, [h_re, h_im], found[1], radices)
    y = nl.ndarray((batch, kept_rows, kept_columns), dtype=nl.float32, buffer=nl.shared_hbm)
    rows = [as_rows(products[0]), as_rows(products[1])]
    if kind == REAL_DFT_GEMM:
        source = [HbmRows(rows[0], half), HbmRows(rows[1], half)]
        inverse_real_dft_gemm_rows(source, HbmRows(as_rows(y), kept_columns), n, found[2][0])
    else:
        inverse_real_stockham_rows(rows, as_rows(y), found[2], row_radices)
    return y


def convolve_columns(source: Any, target: Any, spectrum: Any, tables: Any, radices: Any) -> None:
    """HBM source [B, held, C] to target [B, kept, C], lists of two parts, times the spectrum."""
    radix, left = radices
    identity = load_identity(nl.float32)
    resident = [
        load_whole(tables[0]),
        load_chunks(tables[1]),
        load_chunks(tables[2]),
        load_whole(tables[3]),
    ]
    batch, _, columns = source[0].shape
    size = radix * left
    # Of columns whose next block is loaded before the first one's stages, 8 bytes a row; beside
    # them DMA writes two pieces of the spectrum.
    room = max(0, DMA_WRITTEN_BYTES - 16 * size) // (8 * left // slabs_together(radix, left))
    blocks = blocks_of(batch, columns, radix, left, min(_POINTS, room * size))
    lag = 1 if size <= _SHORT else 0
    is_early = blocks[0][1] * blocks[0][3] <= room
    work = []
    for index in range(len(blocks)):
        groups = column_groups(blocks[index][1], blocks[index][3])
        for group in range(len(groups)):
            work.append([index, groups[group], group == 0, group == len(groups) - 1])
    pieces = spectrum_pieces(blocks, work, size)
    ahead = load_columns(source, blocks[0], radix, left)
    tile = ahead
    next_factors = load_spectrum(spectrum, pieces[0])
    at = 0
    results: Any = []
    states: Any = []
    # Three groups are on their way at a time where there is room: none waits for its own results.
    for step in range(len(work) + 2 * lag):
        if step < len(work):
            index, group, is_first, is_last = work[step]
            if is_first:
                tile = ahead
                results.append(nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf))
            has_next = index + 1 < len(blocks)
            if has_next and is_first and is_early:
                ahead = load_columns(source, blocks[index + 1], radix, left)
            state = open_group(tile, group, resident[0], radix, left)
            if has_next and is_last and not is_early:
                ahead = load_columns(source, blocks[index + 1], radix, left)
            state = change_slabs(state, resident[1], radices, identity)
            for _ in range(len(pieces) // len(work)):
                factors = next_factors
                if at + 1 < len(pieces):
                    next_factors = load_spectrum(spectrum, pieces[at + 1])
                multiply_columns(state, factors, pieces[at][2])
                at += 1
            states.append(state)
        if lag <= step < len(work) + lag:
            states[step - lag] = change_slabs(states[step - lag], resident[2], radices, identity)
        if step >= 2 * lag:
            last = step - 2 * lag
            index, group, _, is_last = work[last]
            restore_rows(states[last], resident[3], radices, identity, results[index], group)
            states[last] = []
            if is_last:
                store_rows_of(target, results[index], blocks[index])
                results[index] = []


def spectrum_pieces(blocks: Any, work: Any, length: int) -> Any:
    """What is loaded of the spectrum at a time: [block, group, first number, numbers]."""
    size = length if length <= _SHORT else _PIECE
    pieces = []
    for item in work:
        block = blocks[item[0]]
        for low in range(0, length, size):
            pieces.append([block, item[1], low, min(size, length - low)])
    return pieces


def load_spectrum(spectrum: Any, piece: Any) -> Any:
    """SBUF [columns of the group, 2, numbers] of the filter, member by member."""
    block, group, start, length = piece
    member, _, low, _ = block
    members, first, width = group
    tile = nl.ndarray((members * width, 2, length), dtype=nl.float32, buffer=nl.sbuf)
    for part in range(2):
        for index in range(members):
            factors = spectrum[part][(member + index) % spectrum[part].shape[0]]
            columns = factors[low + first : low + first + width]
            nisa.dma_copy(
                dst=tile[index * width : (index + 1) * width, part],
                src=columns[:, start : start + length],
            )
    return tile


def change_slabs(state: Any, table: Any, radices: Any, identity: Any) -> Any:
    """A stage [C, 2, r, q'] -> [C, 2, r, q'] within each slab K of q' numbers, in place.

    ScalarE alone takes results from PSUM, while VectorE multiplies the columns before.
    """
    radix, left = radices
    columns = state.shape[0]
    slabs = state.reshape((columns, 2, radix, left))
    group = min(4, PSUM_BANK // (2 * left))
    pending: Any = []
    for first in range(0, radix, group):
        count = min(group, radix - first)
        bank = nl.ndarray((2 * left, count, columns), dtype=nl.float32, buffer=nl.psum)
        for index in range(count):
            transpose(bank[:, index], slabs[:, :, first + index], identity)
        moved = evacuate(bank, True)
        if len(pending) > 0:
            make_slabs(pending, table, slabs)
        pending = [moved, first, count]
    make_slabs(pending, table, slabs)
    return slabs


def make_slabs(pending: Any, table: Any, result: Any) -> None:
    """Products of transposed slabs, and their evacuation by ScalarE."""
    moved, first, count = pending
    columns, _, _, left = result.shape
    bank = nl.ndarray((columns, count, 2, left), dtype=nl.float32, buffer=nl.psum)
    for index in range(count):
        multiply(bank[:, index], moved[:, index], table[:, first + index], False)
    nisa.activation(
        dst=result[:, :, first : first + count], op=nl.copy, data=bank.permute((0, 2, 1, 3))
    )


def multiply_columns(state: Any, factors: Any, start: int) -> None:
    """SBUF state [C, 2, r, q'], from ``start`` on, times complex factors [C, 2, ...], in place."""
    columns, _, length = factors.shape
    x = state.flatten_dims(2, 3)[:, :, start : start + length]
    for low in range(0, length, _CHUNK):
        high = min(low + _CHUNK, length)
        piece = x[:, :, low:high]
        by_real = nl.ndarray(piece.shape, dtype=nl.float32, buffer=nl.sbuf)
        by_imaginary = nl.ndarray(piece.shape, dtype=nl.float32, buffer=nl.sbuf)
        views = factor_views(factors, low, piece.shape)
        nisa.tensor_tensor(dst=by_real, data1=piece, data2=views[0], op=nl.multiply)
        nisa.tensor_tensor(dst=by_imaginary, data1=piece, data2=views[1], op=nl.multiply)
        nisa.tensor_tensor(
            dst=piece[:, 0], data1=by_real[:, 0], data2=by_imaginary[:, 1], op=nl.subtract
        )
        nisa.tensor_tensor(
            dst=piece[:, 1], data1=by_imaginary[:, 0], data2=by_real[:, 1], op=nl.add
        )


def restore_rows(
    state: Any, table: Any, radices: Any, identity: Any, result: Any, group: Any
) -> None:
    """The last stage: SBUF [C, 2, r, q'] to the group's columns of [(part, j, s), B, q'/g, C]."""
    radix, left = radices
    members, low, width = group
    columns = state.shape[0]
    together = slabs_together(radix, left)
    length = left // together
    digits = state.flatten_dims(1, 2).reshape_dim(2, (together, length))
    step = max(1, PSUM_BANK // columns)
    pending: Any = []
    for first in range(0, length, step):
        count = min(step, length - first)
        bank = nl.ndarray((table.shape[0], count, columns), dtype=nl.float32, buffer=nl.psum)
        for index in range(count):
            transpose(bank[:, index], digits[:, :, :, first + index], identity)
        moved = evacuate(bank, True)
        if len(pending) > 0:
            make_rows(pending, table, result, group)
        pending = [moved, first, count]
    make_rows(pending, table, result, group)


def make_rows(pending: Any, table: Any, result: Any, group: Any) -> None:
    """One product of all transposed slabs at once, and its evacuation by ScalarE."""
    moved, first, count = pending
    members, low, width = group
    bank = nl.ndarray(moved.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=table, moving=moved, accumulate=False)
    for index in range(members):
        nisa.activation(
            dst=result[:, index, first : first + count, low : low + width],
            op=nl.copy,
            data=bank[:, :, index * width : (index + 1) * width],
        )


def store_rows_of(target: Any, result: Any, block: Any) -> None:
    """Store [(part, j, s), members, M/(r g), columns] as the rows that the target holds."""
    member, members, low, columns = block
    length = result.shape[2]
    kept = target[0].shape[1]
    full = kept // length
    rest = kept - full * length
    for part in range(2):
        at = part * (result.shape[0] // 2)
        for index in range(members):
            data = target[part][member + index]
            if full > 0:
                whole = data[0 : full * length].reshape_dim(0, (full, length))
                nisa.dma_copy(
                    dst=whole[:, :, low : low + columns], src=result[at : at + full, index]
                )
            if rest > 0:
                tail = data[full * length : kept, low : low + columns].expand_dim(0)
                nisa.dma_copy(dst=tail, src=result[at + full : at + full + 1, index, 0:rest])
