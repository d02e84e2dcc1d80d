"""Products of rows with a block circulant matrix, by transforms of blocks of k <= 256 numbers.

Mathematics.  y_i = F^-1 (sum_j F w_ij . F x_j) for blocks i of the output and j of the input, with
circular convolution of two blocks. Of real numbers a spectrum has h = (k + 1) / 2 complex slots:
frequency 0, in whose imaginary part stands the real frequency k/2, then 1, 2, ... In each slot the
sum over j is a real matrix product: rows (part, j) times [[Wr, Wi], [-Wi, Wr]], in slot 0 times
[[W0, 0], [0, W_k/2]]. Derivatives take the same matrices transposed, which conjugates spectra:

    dx_j = F^-1 (sum_i conj F w_ij . F dy_i)      dw_ij = F^-1 (sum_b conj F x_bj . F dy_bi)

Layout on the NeuronCore.  Three passes over HBM, each of which has on partitions what it contracts;
b stands for the rows, of the weight for i. Only the last dimension, the rows, stays contiguous.

    spectra    HBM [b, (j n)] -> SBUF [b, (j n)] -> PSUM [(j n), b] -> [(j part slot), b] -> HBM
    products   HBM [j, part, slot, b] -> SBUF [(u part j), slot, b] -> PSUM [(u part i), b] -> HBM
    rows       HBM [(i part slot), b] -> SBUF -> PSUM [b, (i n)], plus bias -> HBM [b, (i n)]

Transforms multiply g = 128 / 2h blocks at once, products up to 64 blocks with both parts, or u
slots side by side where there are few blocks: so 128 partitions are filled, which DMA needs, too.

Why it is fast.  k numbers of the weight are read in place of k^2, and every transform is made once.
What is left is DMA: about six times the bytes of x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..tiles import PARTITIONS, PSUM_BANK
from .dft_gemm import table_spec
from .old_stages import load_identity
from .real_dft_gemm import contracted_half, inverse_real_dft_gemm_matrix, real_dft_gemm_matrix
from .real_stockham import evacuate, multiply, transpose

MAX_BLOCK = 256
ROWS_SUMMED = 4096  # that gradients of the weight are summed over at once
_LOADED = 8192  # fp32 numbers of a partition that a load brings, at most
_BLOCKS = 64  # that a product takes, with both parts


def spectrum_rows(k: int) -> int:
    """Numbers of a block's spectrum, slots with two parts: k, or k + 1 for odd k."""
    return 2 * contracted_half(k)


def row_pitch(rows: int) -> int:
    """Numbers from row to row of spectra; gaps a power of two apart would halve the rate of DMA."""
    return rows + 16 if rows > PSUM_BANK and rows & (rows - 1) == 0 else rows


def blocks_together(k: int) -> int:
    """Blocks that one product transforms, at least 1."""
    return max(1, PARTITIONS // spectrum_rows(k))


def block_circulant_tables(k: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Transform [gk, g 2h] of real blocks to slots, and its inverse [g 2h, gk], float32.

    Rows and columns of spectra are (block, part, slot). Raises ValueError unless 1 <= k <= 256.
    """
    if not 1 <= k <= MAX_BLOCK:
        raise ValueError(f"k = {k}: block circulant kernels take blocks of 1 to {MAX_BLOCK}")
    half = contracted_half(k)
    w = real_dft_gemm_matrix(k)[:k].reshape(k, -1)[:, : 2 * (k // 2 + 1)].reshape(k, 2, -1)
    there = w[:, :, :half].copy()
    there[:, 1, 0] = w[:, 0, k // 2] if k % 2 == 0 else 0
    back = inverse_real_dft_gemm_matrix(k, scale=1.0 / k)[: 2 * half, :k]
    copies = np.eye(blocks_together(k), dtype=np.float32)
    return np.kron(copies, there.reshape(k, -1)), np.kron(copies, back)


def block_circulant_specs(k: int) -> tuple[Any, Any]:
    """(shape, dtype) of each of ``block_circulant_tables(k)``."""
    g = blocks_together(k)
    shape = g * k, g * spectrum_rows(k)
    return table_spec(shape), table_spec(shape[::-1])


def spectra_shape(blocks: int, k: int, rows: int) -> tuple[int, int, int]:
    """Shape of the spectra of a real matrix [rows, blocks k], as the kernels leave them."""
    return blocks, spectrum_rows(k), row_pitch(rows)


def signs_of(blocks: int) -> np.ndarray[Any, Any]:
    """[128, 2]: 1 and -1 on rows (part, block), for whole chunks of blocks and for the last."""
    chunk = chunk_size(blocks)
    last = blocks - (blocks - 1) // chunk * chunk
    rows = np.arange(PARTITIONS)
    columns = [1 - 2 * (rows // width % 2) for width in (chunk, last)]
    return np.stack(columns, 1).astype(np.float32)


def signs_spec() -> Any:
    """(shape, dtype) of ``signs_of(blocks)``."""
    return table_spec((PARTITIONS, 2))


def layouts(p: int, q: int, k: int) -> list[tuple[int, ...]]:
    """Layouts worth a price: how transforms fill partitions and time.

    (slots that share a product, tiles of 128 rows that a transform takes at once, pieces that rows
    of the weight, of x and of y are cut into). Up to 128 rows may be cut so that four times as many
    partitions work; not every layout takes every number of rows.
    """
    most = PARTITIONS // (2 * max(chunk_size(p), chunk_size(q)))
    side = max(1, min(most, contracted_half(k) - 1))
    found = []
    for pieces in (4, 2, 1):
        of_weight = pieces_of(q, k, min(pieces, max(1, PARTITIONS // p)))
        cut = (of_weight, pieces_of(q, k, pieces), pieces_of(p, k, pieces))
        found += [(side, 4, *cut), (side, 1, *cut), (1, 4, *cut)]
    return list(dict.fromkeys(found))


def pieces_of(blocks: int, k: int, most: int) -> int:
    """4, 2 or 1, the largest up to ``most`` that cuts rows of blocks into pieces of whole slabs."""
    for pieces in (4, 2):
        if pieces <= most and blocks % (pieces * blocks_together(k)) == 0:
            return pieces
    return 1


def chunk_size(blocks: int) -> int:
    """Blocks that a product takes: all, or equal parts of at most 64."""
    return -(-blocks // -(-blocks // _BLOCKS))


@nki.jit
def block_circulant(x, weight, bias, tables, places, layout):  # type: ignore[no-untyped-def]
    """Rows times a block circulant matrix, plus a bias, and the spectra of both.

    x: float32 HBM [B, q k]. weight: [p, q, k], 1 <= k <= 256. bias: [1, p k]. tables, places:
    ``pack((*block_circulant_tables(k), signs_of(q)))``. layout: one of ``layouts(p, q, k)``.
    Returns y [B, p k], and [q, 2h, pitch] for x and for the weight.
    """
    p, q, k = weight.shape
    rows = x.shape[0]
    assert x.shape[1] == q * k, f"x {x.shape} for a weight {weight.shape}"
    height = spectrum_rows(k)
    y = nl.ndarray((rows, p * k), dtype=nl.float32, buffer=nl.shared_hbm)
    of_x = nl.ndarray((q, height, row_pitch(rows)), dtype=nl.float32, buffer=nl.shared_hbm)
    of_w = nl.ndarray((q, height, row_pitch(p)), dtype=nl.float32, buffer=nl.shared_hbm)
    of_y = nl.ndarray((p, height, row_pitch(rows)), dtype=nl.float32, buffer=nl.private_hbm)
    identity = load_identity(nl.float32)
    tables = unpack(tables, places)
    there = load_pieces(tables[0])
    back = load_pieces(tables[1])
    side, tiles, of_weight, of_input, of_output = layout
    make_spectra(weight.flatten_dims(1, 2), of_w, k, there, identity, tiles, of_weight)
    make_spectra(x, of_x, k, there, identity, tiles, of_input)
    fill_gap(of_x, rows)
    fill_gap(of_w, p)
    multiply_spectra(of_x, of_w, of_y, [rows, side, False], tables[2], identity)
    make_rows(of_y, y, k, back, [bias], tiles, of_output)
    return y, of_x, of_w


@nki.jit
def block_circulant_gradients(grad, of_x, of_w, tables, places, layout):  # type: ignore[no-untyped-def]
    """Gradients of x and of the weight, from that of y and the spectra of ``block_circulant``.

    grad: float32 HBM [B, p k]. of_x, of_w: [q, 2h, pitch]. The rest: as there. Returns (dx
    [B, q k], dw [p, q k]). All of it shares the one transform of ``grad``.
    """
    rows = grad.shape[0]
    q, height, pitch = of_x.shape
    tables = unpack(tables, places)
    k = tables[0].shape[0] // (tables[0].shape[1] // height)
    p = grad.shape[1] // k
    assert pitch == row_pitch(rows), f"spectra of x {of_x.shape} for {rows} rows"
    assert of_w.shape[2] == row_pitch(p), f"spectra of the weight {of_w.shape} for {p} blocks"
    by_x = nl.ndarray((rows, q * k), dtype=nl.float32, buffer=nl.shared_hbm)
    by_w = nl.ndarray((p, q * k), dtype=nl.float32, buffer=nl.shared_hbm)
    of_y = nl.ndarray((p, height, pitch), dtype=nl.float32, buffer=nl.private_hbm)
    x_spectra = nl.ndarray(of_x.shape, dtype=nl.float32, buffer=nl.private_hbm)
    w_spectra = nl.ndarray(of_w.shape, dtype=nl.float32, buffer=nl.private_hbm)
    identity = load_identity(nl.float32)
    there = load_pieces(tables[0])
    back = load_pieces(tables[1])
    side, tiles, of_weight, of_input, of_output = layout
    make_spectra(grad, of_y, k, there, identity, tiles, of_output)
    multiply_spectra(of_y, of_w, x_spectra, [rows, side, True], tables[2], identity)
    correlate_spectra(of_x, of_y, w_spectra, rows, side, identity)
    make_rows(x_spectra, by_x, k, back, [], tiles, of_input)
    make_rows(w_spectra, by_w, k, back, [], tiles, of_weight)
    return by_x, by_w


def load_pieces(matrix: Any) -> Any:
    """A table in SBUF in pieces of 128 rows."""
    total, width = matrix.shape
    pieces = []
    for first in range(0, total, PARTITIONS):
        length = min(PARTITIONS, total - first)
        staged = nl.ndarray((length, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=staged, src=matrix[first : first + length])
        piece = nl.ndarray((length, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=piece, src=staged, engine=nisa.engine.gpsimd)
        pieces.append(piece)
    return pieces


def fill_gap(spectra: Any, rows: int) -> None:
    """Zeros after the rows of spectra HBM [blocks, 2h, pitch], which are a result."""
    lines = spectra.flatten_dims(0, 1)
    total, pitch = lines.shape
    if pitch > rows:
        zeros = nl.ndarray((min(PARTITIONS, total), pitch - rows), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=zeros, value=0.0)
        for first in range(0, total, PARTITIONS):
            count = min(PARTITIONS, total - first)
            nisa.dma_copy(dst=lines[first : first + count, rows:pitch], src=zeros[0:count])


def make_spectra(
    x: Any, spectra: Any, k: int, table: Any, identity: Any, tiles: int, split: int
) -> None:
    """Spectra HBM [blocks, 2h, pitch] of the rows of HBM x [R, blocks k], cut into ``split``."""
    x = x.reshape((x.shape[0] * split, x.shape[1] // split))
    rows, numbers = x.shape
    blocks = numbers // k
    target = split_spectra(spectra, rows, split)
    # Whole rows where they fit: runs of them, a power of two apart, would halve the rate of DMA.
    together = blocks_together(k)
    most = max(1, _LOADED // 2 // (k * together)) * together
    step = rows_at_once(rows, min(blocks, most) * k, tiles)
    assert split == 1 or rows <= step, f"{rows} rows in {split} pieces each"
    for start in range(0, rows, step):
        count = min(step, rows - start)
        for first in range(0, blocks, most):
            held = min(most, blocks - first)
            loaded = []
            for low in range(0, count, PARTITIONS):
                length = min(PARTITIONS, count - low)
                tile = nl.ndarray((length, held * k), dtype=nl.float32, buffer=nl.sbuf)
                source = x[start + low : start + low + length, first * k : (first + held) * k]
                nisa.dma_copy(dst=tile, src=source)
                loaded.append(tile)
            full = held // together * together
            if full > 0:
                transform_slabs(loaded, target, [start, count, first, 0, full], k, table, identity)
            if held > full:
                part = [start, count, first, full, held - full]
                transform_slabs(loaded, target, part, k, table, identity)


def split_spectra(spectra: Any, rows: int, split: int) -> Any:
    """Spectra HBM [blocks, 2h, pitch] of rows cut into pieces as [split, blocks, 2h, R]."""
    pieces = spectra.reshape_dim(0, (split, spectra.shape[0] // split))
    return pieces[:, :, :, 0 : rows // split]


def rows_at_once(rows: int, numbers: int, tiles: int) -> int:
    """Rows that a pass takes at once: ``tiles`` of 128, fewer where their numbers do not fit."""
    fitting = max(1, _LOADED // numbers)
    return min(rows, PARTITIONS * min(tiles, fitting))


def slabs_of(target: Any, block: int, slabs: int, together: int) -> Any:
    """Blocks of [split, blocks, 2h, R] from ``block`` on as [(g part slot), slabs, split, R]."""
    held = target[:, block : block + slabs * together].flatten_dims(1, 2)
    return held.reshape_dim(1, (slabs, together * target.shape[2])).permute((2, 1, 0, 3))


def transform_slabs(
    loaded: Any, target: Any, where: Any, k: int, table: Any, identity: Any
) -> None:
    """Transform loaded rows, slabs of g blocks, or one slab of fewer, and store their spectra."""
    start, count, first, low, blocks = where
    split = target.shape[0]
    together = min(blocks, blocks_together(k))
    height = together * spectrum_rows(k)
    slabs = blocks // together
    group = max(1, min(slabs, PSUM_BANK // count))
    for slab in range(0, slabs, group):
        number = min(group, slabs - slab)
        block = low + slab * together
        moved = turn_slabs(loaded, block * k, together * k, number, count, identity, split)
        rows = slabs_of(target, first + block, number, together)
        for top in range(0, height, PARTITIONS):
            bottom = min(top + PARTITIONS, height)
            shape = (bottom - top, number, split, count // split)
            bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
            for piece in range(len(moved)):
                part = table[piece][0 : moved[piece].shape[0], top:bottom]
                multiply(bank, part, moved[piece], piece > 0)
            made = evacuate(bank, True)
            nisa.dma_copy(
                dst=rows[top:bottom, :, :, start : start + count // split],
                src=made,
            )


def turn_slabs(
    loaded: Any, column: int, width: int, number: int, count: int, identity: Any, split: int
) -> Any:
    """Columns of loaded rows as tiles [<= 128 of the width, slabs, split, rows]."""
    tiles = []
    for top in range(0, width, PARTITIONS):
        length = min(PARTITIONS, width - top)
        bank = nl.ndarray((length, number, count), dtype=nl.float32, buffer=nl.psum)
        for index in range(number):
            left = column + index * width + top
            for tile in range(len(loaded)):
                data = loaded[tile][:, left : left + length]
                low = tile * PARTITIONS
                transpose(bank[:, index, low : low + data.shape[0]], data, identity)
        shape = (length, number, split, count // split)
        moved = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        pieces = bank.reshape((length, number, count // split, split)).permute((0, 1, 3, 2))
        nisa.tensor_copy(dst=moved, src=pieces, engine=nisa.engine.vector)
        tiles.append(moved)
    return tiles


def multiply_spectra(
    source: Any, weights: Any, target: Any, how: Any, signs: Any, identity: Any
) -> None:
    """Spectra of y, HBM [p, 2h, pitch], of those of x [q, 2h, pitch] and of the weight.

    how: (rows, slots side by side, whether matrices are transposed: spectra of dx of those of dy).
    """
    rows, wanted, turned = how
    taken, made = source.shape[0], target.shape[0]
    half = source.shape[1] // 2
    chunk, wide = chunk_size(taken), chunk_size(made)
    pieces = -(-taken // chunk)
    # Of the weight as many columns as fit: short runs, a power of two apart, are slow.
    span = wide * max(1, min(-(-made // wide), _LOADED // (2 * pieces * wide)))
    if turned:
        span = wide
    room = max(1, _LOADED // pieces)
    step = min(rows, max(PSUM_BANK, room // PSUM_BANK * PSUM_BANK), 4 * PSUM_BANK)
    sign = nl.ndarray((PARTITIONS, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=sign, src=signs)
    for start in range(0, rows, step):
        count = min(step, rows - start)
        slot = 0
        while slot < half:
            # Slot 0 is alone: its matrix is another one.
            side = min(wanted, half - slot) if slot > 0 else 1
            most = max(1, min(room // count, room // (2 * side * span)))
            together = min(most, (half - slot) // side) if slot > 0 else 1
            where = [slot, together, side, start, count]
            loaded = []
            for piece in range(pieces):
                low = piece * chunk
                loaded.append(load_spectra(source, low, min(chunk, taken - low), where))
            for left in range(0, made, span):
                matrices = []
                width = min(span, made - left)
                for piece in range(pieces):
                    low = piece * chunk
                    held = min(chunk, taken - low)
                    if turned:
                        block = [left, width, low, held]
                        matrix = load_matrices(weights, block, where, sign)
                        matrices.append(turn_matrices(matrix, identity))
                    else:
                        matrices.append(
                            load_matrices(weights, [low, held, left, width], where, sign)
                        )
                for inner in range(0, width, wide):
                    block = [left, inner, min(wide, width - inner)]
                    multiply_slots(matrices, loaded, target, block, where)
            slot += together * side


def load_spectra(source: Any, low: int, blocks: int, where: Any) -> Any:
    """Some slots and rows of blocks from ``low`` on, SBUF [(u part block), slots, rows]."""
    slot, together, side, start, count = where
    half = source.shape[1] // 2
    shape = (2 * side * blocks, together, count)
    tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    for index in range(side):
        for part in range(2):
            first = part * half + slot + index * together
            at = (2 * index + part) * blocks
            nisa.dma_copy(
                dst=tile[at : at + blocks],
                src=source[low : low + blocks, first : first + together, start : start + count],
            )
    return tile


def load_matrices(weights: Any, blocks: Any, where: Any, sign: Any) -> Any:
    """Matrices of some slots, SBUF [(u part j), u, part, slots, i], zeros beside the diagonal."""
    low, held, left, width = blocks
    slot, together, side, _, _ = where
    half = weights.shape[1] // 2
    shape = (2 * side * held, side, 2, together, width)
    tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    if side > 1 or slot == 0:
        nisa.memset(dst=tile, value=0.0)
    for index in range(side):
        for taken in range(2):
            at = (2 * index + taken) * held
            for made in range(2):
                # Slot 0 holds two real frequencies, which do not meet.
                part = taken if slot == 0 else (taken + made) % 2
                first = part * half + slot + index * together
                if slot > 0 or taken == made:
                    nisa.dma_copy(
                        dst=tile[at : at + held, index, made],
                        src=weights[
                            low : low + held, first : first + together, left : left + width
                        ],
                    )
    if slot > 0:
        column = 1 if low + held == weights.shape[0] else 0
        nisa.activation(
            dst=tile[:, :, 0],
            op=nl.copy,
            data=tile[:, :, 0],
            scale=sign[0 : 2 * side * held, column : column + 1],
        )
    return tile


def turn_matrices(matrices: Any, identity: Any) -> Any:
    """Matrices [(u part j), u, part, slots, i] transposed, [(u part i), u, part, slots, j]."""
    height, side, _, together, width = matrices.shape
    held = height // (2 * side)
    shape = (2 * side * width, side, 2, together, held)
    result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    group = PSUM_BANK // height
    for first in range(0, together, group):
        number = min(group, together - first)
        bank = nl.ndarray((shape[0], number, side, 2, held), dtype=nl.float32, buffer=nl.psum)
        for index in range(number):
            transpose(bank[:, index], matrices[:, :, :, first + index], identity)
        for index in range(number):
            nisa.tensor_copy(
                dst=result[:, :, :, first + index],
                src=bank[:, index],
                engine=nisa.engine.vector,
            )
    return result


def multiply_slots(matrices: Any, loaded: Any, target: Any, blocks: Any, where: Any) -> None:
    """Products of some slots, summed over all pieces, and their store as blocks of the target."""
    left, inner, width = blocks
    slot, together, side, start, count = where
    half = target.shape[1] // 2
    height = 2 * side * width
    made = nl.ndarray((height, together, count), dtype=nl.float32, buffer=nl.sbuf)
    # Sums of several products have a bank each: it may not hold two of them.
    group = max(1, min(together, PSUM_BANK // count)) if len(loaded) == 1 else 1
    turn = 0
    for first in range(0, together, group):
        number = min(group, together - first)
        for low in range(0, count, PSUM_BANK):
            length = min(PSUM_BANK, count - low)
            bank = nl.ndarray((height, number, length), dtype=nl.float32, buffer=nl.psum)
            for index in range(number):
                for piece in range(len(loaded)):
                    matrix = matrices[piece][:, :, :, first + index, inner : inner + width]
                    data = loaded[piece][:, first + index, low : low + length]
                    multiply(bank[:, index], matrix, data, piece > 0)
            result = made[:, first : first + number, low : low + length]
            if turn % 2 == 0:
                nisa.tensor_copy(dst=result, src=bank, engine=nisa.engine.vector)
            else:
                nisa.activation(dst=result, op=nl.copy, data=bank)
            turn += 1
    for index in range(side):
        for part in range(2):
            first = part * half + slot + index * together
            at = (2 * index + part) * width
            top = left + inner
            nisa.dma_copy(
                dst=target[top : top + width, first : first + together, start : start + count],
                src=made[at : at + width],
            )


def make_rows(spectra: Any, y: Any, k: int, table: Any, bias: Any, tiles: int, split: int) -> None:
    """Rows of HBM y [R, blocks k], cut into ``split``, of spectra, plus a bias if there is."""
    y = y.reshape((y.shape[0] * split, y.shape[1] // split))
    rows, numbers = y.shape
    blocks = numbers // k
    source = split_spectra(spectra, rows, split)
    together = blocks_together(k)
    most = max(1, _LOADED // 2 // (k * together)) * together
    # What the engines write may be twice what DMA does.
    step = rows_at_once(rows, -(-min(blocks, most) * k // 2), tiles)
    assert split == 1 or rows <= step, f"{rows} rows in {split} pieces each"
    for first in range(0, blocks, most):
        held = min(most, blocks - first)
        full = held // together * together
        added: Any = []
        if len(bias) > 0:
            added.append(repeat_bias(bias[0], first * k, held * k, min(rows, PARTITIONS), split))
        for start in range(0, rows, step):
            count = min(step, rows - start)
            made = []
            for low in range(0, count, PARTITIONS):
                length = min(PARTITIONS, count - low)
                made.append(nl.ndarray((length, held * k), dtype=nl.float32, buffer=nl.sbuf))
            if full > 0:
                restore_slabs(source, made, [start, count, first, 0, full], k, table, added)
            if held > full:
                part = [start, count, first, full, held - full]
                restore_slabs(source, made, part, k, table, added)
            for tile in range(len(made)):
                low = start + tile * PARTITIONS
                length = made[tile].shape[0]
                nisa.dma_copy(
                    dst=y[low : low + length, first * k : (first + held) * k], src=made[tile]
                )


def repeat_bias(bias: Any, first: int, width: int, partitions: int, split: int) -> Any:
    """Columns of a bias HBM [1, N], cut into ``split`` pieces, on all partitions, by a product.

    DMA would have to move it once a partition.
    """
    pieces = bias.reshape((split, bias.shape[1] // split))[:, first : first + width]
    row = nl.ndarray((split, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=pieces)
    identity = load_identity(nl.float32)
    one = nl.ndarray((split, partitions // split, split), dtype=nl.float32, buffer=nl.sbuf)
    own = identity.ap([[PARTITIONS, split], [0, partitions // split], [1, split]])
    nisa.tensor_copy(dst=one, src=own, engine=nisa.engine.vector)
    result = nl.ndarray((partitions, width), dtype=nl.float32, buffer=nl.sbuf)
    for low in range(0, width, PSUM_BANK):
        high = min(low + PSUM_BANK, width)
        bank = nl.ndarray((partitions, high - low), dtype=nl.float32, buffer=nl.psum)
        multiply(bank, one, row[:, low:high], False)
        nisa.activation(dst=result[:, low:high], op=nl.copy, data=bank)
    return result


def restore_slabs(source: Any, made: Any, where: Any, k: int, table: Any, bias: Any) -> None:
    """Load spectra of slabs of g blocks, or of one of fewer, and transform them to rows in SBUF."""
    start, count, first, low, blocks = where
    split = source.shape[0]
    together = min(blocks, blocks_together(k))
    width = together * k
    slabs = blocks // together
    # Sums of several products have a bank each: it may not hold two of them.
    is_sum = together * spectrum_rows(k) > PARTITIONS
    number = 1 if is_sum else max(1, min(slabs, PSUM_BANK // width))
    group = max(number, min(slabs, 4 * PSUM_BANK // count) // number * number)
    for slab in range(0, slabs, group):
        held = min(group, slabs - slab)
        block = first + low + slab * together
        loaded = load_slabs(source, block, held, together, start, count)
        for tile in range(len(made)):
            partitions = made[tile].shape[0]
            row = tile * PARTITIONS
            stop = row + partitions // split
            for inner in range(0, held, number):
                taken = min(number, held - inner)
                bank = nl.ndarray((partitions, taken, width), dtype=nl.float32, buffer=nl.psum)
                for index in range(taken):
                    for piece in range(len(loaded)):
                        data = loaded[piece][:, inner + index, :, row:stop].permute((0, 2, 1))
                        part = table[piece][0 : data.shape[0], 0:width]
                        multiply(bank[:, index], data, part, piece > 0)
                column = low * k + (slab + inner) * width
                result = made[tile][:, column : column + taken * width]
                if len(bias) > 0:
                    added = bias[0][0:partitions, column : column + taken * width]
                    nisa.tensor_tensor(
                        dst=result,
                        data1=bank.reshape((partitions, taken * width)),
                        data2=added,
                        op=nl.add,
                    )
                else:
                    nisa.activation(
                        dst=result, op=nl.copy, data=bank.reshape((partitions, taken * width))
                    )


def load_slabs(source: Any, block: int, slabs: int, together: int, start: int, count: int) -> Any:
    """Spectra of slabs, tiles [<= 128 of (block part slot), slabs, split, rows]."""
    rows = slabs_of(source, block, slabs, together)
    height, split = rows.shape[0], source.shape[0]
    tiles = []
    for top in range(0, height, PARTITIONS):
        length = min(PARTITIONS, height - top)
        shape = (length, slabs, split, count // split)
        tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        held = rows[top : top + length, :, :, start : start + count // split]
        nisa.dma_copy(dst=tile, src=held)
        tiles.append(tile)
    return tiles


def correlate_spectra(
    of_x: Any, of_y: Any, target: Any, rows: int, wanted: int, identity: Any
) -> None:
    """Spectra of dw, HBM [q, 2h, pitch of p]: conj X times dY, summed over the rows.

    wanted: slots that lie side by side on the partitions where spectra are loaded.
    """
    q, blocks = of_x.shape[0], of_y.shape[0]
    half = of_x.shape[1] // 2
    wide, tall = chunk_size(blocks), chunk_size(q)
    step = min(rows, ROWS_SUMMED)
    most = max(1, _LOADED // (2 * max(step, wide)))
    slot = 0
    while slot < half:
        side = min(wanted, half - slot) if slot > 0 else 1
        together = min(most, (half - slot) // side) if slot > 0 else 1
        for left in range(0, blocks, wide):
            width = min(wide, blocks - left)
            sums: Any = []  # of the rows so far, where these are more than fit
            for start in range(0, rows, step):
                count = min(step, rows - start)
                where = [slot, together, side, start, count]
                right = turn_rows(load_spectra(of_y, left, width, where), side, True, identity)
                for top in range(0, q, tall):
                    held = min(tall, q - top)
                    turned = turn_rows(load_spectra(of_x, top, held, where), side, False, identity)
                    made = correlate_slots(turned, right, slot == 0)
                    if start > 0:
                        total = sums[top // tall]
                        nisa.tensor_tensor(dst=made, data1=total, data2=made, op=nl.add)
                    if start + count < rows:
                        if start == 0:
                            sums.append(made)
                        else:
                            sums[top // tall] = made
                    else:
                        store_sums(made, target, [top, slot, left])
        slot += together * side


def store_sums(made: Any, target: Any, where: Any) -> None:
    """Some slots of spectra [j, part, slots, i] to HBM [q, 2h, pitch of p]."""
    top, slot, left = where
    held, _, slots, width = made.shape
    for part in range(2):
        first = part * (target.shape[1] // 2) + slot
        nisa.dma_copy(
            dst=target[top : top + held, first : first + slots, left : left + width],
            src=made[:, part],
        )


def turn_rows(loaded: Any, side: int, is_third: bool, identity: Any) -> Any:
    """Spectra [(u part block), slots, rows] as tiles [<= 128 rows, slots, u, (part block)].

    is_third: with parts real, imaginary and minus real.
    """
    height, together, rows = loaded.shape
    width = height // (2 * side)
    parts = 3 if is_third else 2
    group = PSUM_BANK // height
    tiles = []
    for low in range(0, rows, PARTITIONS):
        length = min(PARTITIONS, rows - low)
        shape = (length, together, side, parts * width)
        tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        for first in range(0, together, group):
            number = min(group, together - first)
            shape = (length, number, side, 2 * width)
            bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
            for index in range(number):
                transpose(bank[:, index], loaded[:, first + index, low : low + length], identity)
            result = tile[:, first : first + number]
            nisa.tensor_copy(
                dst=result[:, :, :, 0 : 2 * width], src=bank, engine=nisa.engine.vector
            )
            if is_third:
                nisa.activation(
                    dst=result[:, :, :, 2 * width : 3 * width],
                    op=nl.copy,
                    data=bank[:, :, :, 0:width],
                    scale=-1.0,
                )
        tiles.append(tile)
    return tiles


def correlate_slots(left: Any, right: Any, is_first: bool) -> Any:
    """SBUF [j, part, slots, i] of sums over rows: of (Xr, Xi) with (Yr, Yi) and (Yi, -Yr).

    is_first: of slot 0, whose parts are two real frequencies.
    """
    _, together, side, held = left[0].shape
    held = held // 2
    width = right[0].shape[3] // 3
    made = nl.ndarray((held, 2, side * together, width), dtype=nl.float32, buffer=nl.sbuf)
    # Sums of several products have a bank each: it may not hold two of them.
    group = max(1, PSUM_BANK // (2 * width)) if is_first and len(left) == 1 else 1
    for first in range(0, side * together, group):
        number = min(group, side * together - first)
        for half in range(2 if is_first else 1):
            columns = 1 if is_first else 2  # of parts that one sum makes
            bank = nl.ndarray((held, number, columns, width), dtype=nl.float32, buffer=nl.psum)
            for index in range(number):
                own = (first + index) // together
                slot = (first + index) % together
                for tile in range(len(left)):
                    for part in range(half, half + columns):
                        data = left[tile][:, slot, own, part * held : (part + 1) * held]
                        end = (part + columns) * width
                        other = right[tile][:, slot, own, part * width : end]
                        multiply(bank[:, index], data, other, tile + part - half > 0)
            nisa.activation(
                dst=made[:, half : half + columns, first : first + number],
                op=nl.copy,
                data=bank.permute((0, 2, 1, 3)),
            )
    return made
