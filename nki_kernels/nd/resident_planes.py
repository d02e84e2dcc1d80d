"""FFT of images in one trip over HBM: between its stages an image rests in SBUF.

Mathematics.  An image [R, C] has R = r1 r2 and C = c1 c2, rows r = j r2 + m and columns c = i c2 +
n. Four stages contract i, j, n and m, in this order, and W_N = exp(-+2 pi i / N):

    X[K + r1 k, L + c1 l] =
        sum_m W_R^(m (K + r1 k)) sum_n W_C^(n (L + c1 l)) sum_j W_r1^(j K) sum_i W_c1^(i L) x[r, c]

The twiddles are part of the matrices of the last two stages, which have one matrix for each L and
for each K.

Layout on the NeuronCore.  Rows are loaded onto partitions (half, j), with m = half F + f, where f
and the columns lie on the free axis. The Tensor engine transposes runs (f, part, i) of two f, and
multiplies them as its stationary operand, so that rows return to the partitions. From then on the
data is the stationary operand, too: the partitions of a product are the free run of its stationary
operand, which here holds the digits that the next stage contracts. No stage needs a transposition
of its own:

    [(half, j), (f, part, i)] -> [(half, j), (part, L, n)] -> [(L, n), (part, K, m)]
        -> [(K, m), (part, L + c1 l)] -> [(part, K + r1 k), C]

The partitions form two halves of 64. Each half holds all numbers that one or several slabs
contract. Both halves are contracted at once, each on half of the array, real and imaginary part one
after the other. The last stage multiplies the data as its moving operand, and leaves rows on
partitions.

The rows K + r1 k of a half are r2 apart. Therefore K = a + r2 s, and a block of two halves stores
two neighbouring rows on each of 64 partitions.

Why it is fast.  HBM is read once and written once, 16 bytes a point; two passes move twice as much.
As modelled, a stage takes 26 ps a point of the Tensor engine at any radix up to 64; the first stage
takes as much together with its transposition. Products with the first rows run while other rows are
loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..isa import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import descriptors, share_rows
from ..table_terms import table_spec
from ..tiles import (
    HALF,
    PARTITIONS,
    PSUM_BANK,
    evacuate_in_turn,
    load_identity,
    load_tables,
    multiply_half,
    psum_banks,
    transpose,
    turns_of,
)

ROW_RADIX = 64  # r1
COLUMN_RADIX = 32  # c1
MAX_POINTS = 2**20  # points of an image, whose state the smallest chip holds twice
ROWS = (256, 4096)  # least and most rows of an image
COLUMNS = (128, 2048)  # least and most columns of an image
_TOGETHER = 4  # operands of 128 columns that share a PSUM bank
_LOADED = 48 << 10  # bytes a partition of rows that are loaded ahead


class Plane(nl.NKIObject):
    """What all images of a launch share."""

    rows: int  # r2
    columns: int  # c2
    # tables of the stages in SBUF; those of the last two stages are None until they are loaded
    opening: Any
    row_table: Any
    column_table: Any
    closing: Any
    identity: Any


class Image(nl.NKIObject):
    """One image of HBM arrays [B, R, C]."""

    base: Any  # the register with which a device loop counts, or None
    index: int  # counted from the base


class Piece(nl.NKIObject):
    """Rows of an image that are loaded together."""

    image: Image
    first: int  # f of the first of two rows of each partition
    tile: Any  # SBUF [(half, j), f, part, C]


def slabs_in_half(left: int) -> int:
    """Return how many slabs of ``left`` numbers half of the partitions hold."""
    return HALF // left


def check_shape(rows: int, columns: int) -> str:
    """Return why images of this shape are not transformed, or "" where they are."""
    for name, size, (least, most) in (("rows", rows, ROWS), ("columns", columns, COLUMNS)):
        if not least <= size <= most or size & (size - 1):
            return f"takes powers of two from {least} to {most} as {name}"
    return "" if rows * columns <= MAX_POINTS else f"takes up to {MAX_POINTS} points an image"


def stages(rows: int, columns: int) -> tuple[int, ...]:
    """Return the radices, in the order of the stages."""
    return COLUMN_RADIX, ROW_RADIX, columns // COLUMN_RADIX, rows // ROW_RADIX


def resident_planes_tables(
    rows: int, columns: int, inverse: bool = False, scale: float = 1.0
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return a table for each stage of ``resident_planes``.

    They are computed in float64 and rounded once. The first is [128, 64], rows (f, part, i),
    columns (part, L). The second is [128, 2, 128], rows (half, j), then part, columns (part, K),
    with K = a + r2 s at the place (a, s). The third is [128, blocks, 2, 128], rows (half, L, n),
    then part, columns (part, l, L). The fourth is [128, blocks, 2, 128], rows (half, s, m), then
    part, columns (part, k, s).

    Args:
        rows, columns: sizes of an image, powers of two from 256 to 4096 and from 128 to 2048,
            up to 2^20 points.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        Four float32 arrays.

    Raises:
        ValueError: the kernel does not accept the shape.
    """
    if reason := check_shape(rows, columns):
        raise ValueError(f"shape ({rows}, {columns}): the kernel {reason}")
    sign = 2j * np.pi * (1 if inverse else -1)
    r2, c2 = rows // ROW_RADIX, columns // COLUMN_RADIX
    i = np.arange(COLUMN_RADIX)
    opening = _parts(scale * np.exp(sign / COLUMN_RADIX * (np.outer(i, i) % COLUMN_RADIX)))
    opening = opening.reshape(2 * COLUMN_RADIX, -1)
    j, slabs = np.arange(ROW_RADIX), slabs_in_half(r2)
    order = (np.arange(r2)[:, None] + r2 * np.arange(slabs)).reshape(-1)
    row_table = _parts(np.exp(sign / ROW_RADIX * (np.outer(j, order) % ROW_RADIX)))
    row_table = row_table.transpose(1, 0, 2, 3).reshape(ROW_RADIX, 2, -1)
    firsts = np.arange(COLUMN_RADIX).reshape(-1, 2, slabs_in_half(c2))
    column_table = _twiddled(sign, firsts, c2, COLUMN_RADIX)
    closing = _twiddled(sign, order.reshape(-1, 2, slabs), r2, ROW_RADIX)
    tables = np.tile(opening, (2, 1))[:, None], np.tile(row_table, (2, 1, 1)), column_table, closing
    return tuple(table.astype(np.float32) for table in tables)


def _twiddled(sign: complex, firsts: Any, left: int, radix: int) -> np.ndarray[Any, Any]:
    """Return the table [128, blocks, 2, 128] of one of the last two stages.

    Its outputs are K + radix k, with K in ``firsts`` [blocks, half, slab]. Rows are (half, slab, m
    < left), columns (part, k, slab).
    """
    n, slabs = radix * left, firsts.shape[2]
    m = np.arange(left)
    outputs = firsts[..., None] + radix * m  # [block, half, slab, k]
    w = np.exp(sign / n * (m[:, None, None, None, None] * outputs % n))  # [m, block, half, slab, k]
    table = np.einsum("ambhskp,st->hsmbapkt", _parts_around(w), np.eye(slabs))
    return table.reshape(PARTITIONS, len(firsts), 2, PARTITIONS)


def _parts(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return complex [i, o] as real [part, i, part', o]."""
    return np.moveaxis(_parts_around(w), 3, 2)


def _parts_around(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return complex [...] as real [part, ..., part']."""
    real = np.stack([w.real, w.imag], -1)
    return np.stack([real, np.stack([-w.imag, w.real], -1)])


def resident_planes_specs(rows: int, columns: int) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``resident_planes_tables(rows, columns, ...)``."""
    r2, c2 = rows // ROW_RADIX, columns // COLUMN_RADIX
    blocks = [COLUMN_RADIX // (2 * slabs_in_half(c2)), ROW_RADIX // (2 * slabs_in_half(r2))]
    shapes: list[Any] = [(PARTITIONS, 1, 2 * COLUMN_RADIX), (PARTITIONS, 2, 2 * ROW_RADIX)]
    shapes += [(PARTITIONS, count, 2, PARTITIONS) for count in blocks]
    return tuple(table_spec(shape) for shape in shapes)


@nki.jit
def resident_planes(x_re, x_im, tables, places):  # type: ignore[no-untyped-def]
    """Transform the images of ``x_re + i x_im`` along both axes.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, R, C].
        tables, places: the two results of ``pack(resident_planes_tables(R, C, ...))``.

    Returns:
        (y_re, y_im), float32 HBM [B, R, C].
    """
    y_re = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    source, target = [x_re, x_im], [y_re, y_im]
    _, rows, columns = x_re.shape
    found = unpack(tables, places)
    plane = Plane(rows // ROW_RADIX, columns // COLUMN_RADIX, None, None, None, None, None)
    share = share_rows(x_re.shape[0], 1, image_instructions(plane))
    end = share.first + share.trips * share.step
    if share.trips > 0:
        load_plane(plane, found)
        load_last_tables(plane, found)

    def body(base: Any) -> None:
        transform_images(source, target, plane, images_of(base, 0, share.step), found)

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, share.step)
    transform_images(source, target, plane, images_of(None, end, share.rest), found)
    return y_re, y_im


def images_of(base: Any, first: int, count: int) -> Any:
    """Return ``count`` images from ``first`` on."""
    images = []
    for index in range(count):
        images.append(Image(base, first + index))
    return images


def image_instructions(plane: Any) -> int:
    """Return about how many instructions an image takes."""
    pairs = plane.rows // 4
    opening = pairs * plane.columns * 4
    return opening + (pairs * 4 + plane.rows) * plane.columns + 8 * plane.rows


def load_plane(plane: Any, tables: Any) -> None:
    """Load the tables of the first two stages."""
    plane.identity = load_identity(nl.float32)
    found = load_tables(tables[0:2])
    plane.opening, plane.row_table = found[0], found[1]


def load_last_tables(plane: Any, tables: Any) -> None:
    """Load the tables of the last two stages, which come after the rows of the first image."""
    found = load_tables(tables[2:4])
    plane.column_table, plane.closing = found[0], found[1]


def transform_images(source: Any, target: Any, plane: Any, images: Any, tables: Any) -> None:
    """Transform images one after the other, while rows of the next ones are loaded."""
    if len(images) == 0:
        if plane.identity == None:
            load_plane(plane, tables)  # both programs allocate the same constants
        return
    pieces = pieces_of(plane, images)
    each = len(pieces) // len(images)
    ahead = 0
    while ahead < len(pieces) and pieces[ahead].tile != None:
        load_piece(pieces[ahead], source)
        ahead += 1
        if plane.identity == None:
            load_plane(plane, tables)
    turns = turns_of(2)
    for index in range(len(images)):
        slabs = empty_slabs(plane)
        for number in range(index * each, (index + 1) * each):
            state = open_piece(pieces[number], plane, turns)
            if number + ahead < len(pieces):
                pieces[number + ahead].tile = pieces[number].tile
                load_piece(pieces[number + ahead], source)
            transform_rows(state, pieces[number].first, slabs, plane, turns)
        if plane.closing == None:
            load_last_tables(plane, tables)
        close_image(target, images[index], slabs, plane, turns)


def pieces_of(plane: Any, images: Any) -> Any:
    """Return all pieces of images; the first ones have tiles, which later pieces take over."""
    pieces: Any = []
    width = COLUMN_RADIX * plane.columns
    ahead = max(1, _LOADED // (16 * width))
    for image in images:
        for first in range(0, plane.rows // 2, 2):
            tile: Any = None
            if len(pieces) < ahead:
                tile = nl.ndarray((PARTITIONS, 2, 2, width), dtype=nl.float32, buffer=nl.sbuf)
            pieces.append(Piece(image, first, tile))
    return pieces


def load_piece(piece: Any, source: Any) -> None:
    """Load two rows of each partition."""
    for part in range(2):
        _, rows, columns = source[part].shape
        left = rows // ROW_RADIX
        for half in range(2):
            row = piece.image.index * rows + half * left // 2 + piece.first
            pattern = [[left * columns, ROW_RADIX], [columns, 2], [1, columns]]
            data = source[part].ap(pattern, row * columns, scalar_offset=piece.image.base)
            place = piece.tile[half * HALF : half * HALF + HALF, :, part]
            nisa.dma_copy(dst=place, src=data, dge_mode=descriptors(piece.image.base))


def open_piece(piece: Any, plane: Any, turns: Any) -> Any:
    """Run the first stage of a piece; return SBUF [(half, j), part, f, L, n]."""
    shape = (PARTITIONS, 2, 2, COLUMN_RADIX, plane.columns)
    state = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    pending: Any = None
    for first in range(0, plane.columns, _TOGETHER):
        turned = turn_columns(piece, first, plane, turns)
        if first > 0:
            open_columns(pending, state, first - _TOGETHER, plane, turns)
        pending = turned
    open_columns(pending, state, plane.columns - _TOGETHER, plane, turns)
    return state


def turn_columns(piece: Any, first: int, plane: Any, turns: Any) -> Any:
    """Transpose columns n from ``first`` on to SBUF [(f, part, i), n, (half, j)]."""
    data = piece.tile.reshape((PARTITIONS, 4 * COLUMN_RADIX * plane.columns))
    shape = (PARTITIONS, _TOGETHER, PARTITIONS)
    bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    for index in range(_TOGETHER):
        n = first + index
        run = data[:, n : n + (PARTITIONS - 1) * plane.columns + 1 : plane.columns]
        transpose(bank[:, index], run, plane.identity)
    turned = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    evacuate_in_turn(turned, bank, turns)
    return turned


def open_columns(turned: Any, state: Any, first: int, plane: Any, turns: Any) -> None:
    """Multiply columns n from ``first`` on, both f at once, each into a PSUM bank."""
    banks = psum_banks(2, (PARTITIONS, 2, COLUMN_RADIX, _TOGETHER))
    for index in range(_TOGETHER):
        for f in range(2):
            multiply_half(banks[f][:, :, :, index], turned[:, index], plane.opening[:, 0], f, False)
    for f in range(2):
        evacuate_in_turn(state[:, :, f, :, first : first + _TOGETHER], banks[f], turns)


def empty_slabs(plane: Any) -> Any:
    """Allocate SBUF [(L, n), part, K, m] for each block of 128 (L, n)."""
    slabs = []
    for _ in range(COLUMN_RADIX * plane.columns // PARTITIONS):
        shape = (PARTITIONS, 2, ROW_RADIX, plane.rows)
        slabs.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return slabs


def transform_rows(state: Any, first: int, slabs: Any, plane: Any, turns: Any) -> None:
    """Run the second stage of a piece, whose rows begin with f = ``first``."""
    width = COLUMN_RADIX * plane.columns
    runs = state.reshape((PARTITIONS, 2, 2, width))
    for block in range(len(slabs)):
        low = block * PARTITIONS
        for f in range(2):
            banks = psum_banks(2, (PARTITIONS, PARTITIONS))  # each sum of two has its own
            for part in range(2):
                for half in range(2):
                    run = runs[:, part, f, low : low + PARTITIONS]
                    multiply_half(banks[half], run, plane.row_table[:, part], half, part > 0)
            for half in range(2):
                m = half * plane.rows // 2 + first + f
                made = banks[half].reshape((PARTITIONS, 2, ROW_RADIX))
                evacuate_in_turn(slabs[block][:, :, :, m], made, turns)


def close_image(target: Any, image: Any, slabs: Any, plane: Any, turns: Any) -> None:
    """Run the last two stages, one block of 128 (K, m) after the other."""
    blocks = ROW_RADIX * plane.rows // PARTITIONS
    pending: Any = None
    for block in range(blocks):
        columns = transform_columns(slabs, block, plane, turns)
        if block > 0:
            close_block(target, image, pending, block - 1, plane, turns)
        pending = columns
    close_block(target, image, pending, blocks - 1, plane, turns)


def transform_columns(slabs: Any, block: int, plane: Any, turns: Any) -> Any:
    """Run the third stage of a block; return SBUF [(K, m), part, C]."""
    group = slabs_in_half(plane.columns)
    shape = (PARTITIONS, 2, COLUMN_RADIX * plane.columns)
    columns = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    places = columns.reshape((PARTITIONS, 2, plane.columns, COLUMN_RADIX))
    for index in range(len(slabs)):
        runs = slabs[index].reshape((PARTITIONS, 2, ROW_RADIX * plane.rows))
        banks = psum_banks(2, (PARTITIONS, PARTITIONS))  # each sum of two has its own
        for part in range(2):
            for half in range(2):
                run = runs[:, part, block * PARTITIONS : (block + 1) * PARTITIONS]
                table = plane.column_table[:, index, part]
                multiply_half(banks[half], run, table, half, part > 0)
        for half in range(2):
            first = (2 * index + half) * group
            made = banks[half].reshape((PARTITIONS, 2, plane.columns, group))
            evacuate_in_turn(places[:, :, :, first : first + group], made, turns)
    return columns


def close_block(target: Any, image: Any, columns: Any, block: int, plane: Any, turns: Any) -> None:
    """Run the fourth stage of a block, and store its rows in HBM."""
    width = columns.shape[2]
    result = nl.ndarray((PARTITIONS, 2, width), dtype=nl.float32, buffer=nl.sbuf)
    step = min(width, PSUM_BANK)
    for low in range(0, width, step):
        banks = psum_banks(2, (PARTITIONS, step))
        for part in range(2):
            for half in range(2):
                table = plane.closing[:, block, part]
                moving = columns[:, part, low : low + step]
                multiply_half(banks[half], table, moving, half, part > 0)
        for half in range(2):
            evacuate_in_turn(result[:, half, low : low + step], banks[half], turns)
    for part in range(2):
        pattern = [[plane.rows * width, HALF], [width, 2], [1, width]]
        offset = (image.index * ROW_RADIX * plane.rows + 2 * block) * width
        data = target[part].ap(pattern, offset, scalar_offset=image.base)
        place = result[part * HALF : (part + 1) * HALF]
        nisa.dma_copy(dst=data, src=place, dge_mode=descriptors(image.base))
