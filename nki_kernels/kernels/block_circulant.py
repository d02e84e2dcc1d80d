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

Transforms multiply slabs of g = 128 / 2h blocks, a last slab of fewer with zeros in place of the
others. Products take up to 64 blocks with both parts, or u slots side by side where there are few
blocks: so 128 partitions are filled, which DMA needs, too. Up to 128 rows may be cut into pieces,
which lie on partitions as (piece, b).

Every pass walks along one axis of the spectra, blocks, slots or rows: the programs of a launch on
two cores share its positions, and many of them are a loop on the device. Where passes end, the
programs wait for each other. Data that DMA brings lies in five tiles, which are used again and
again, so that loads run ahead of the engines, but not far.

Rows of x meet in one place, the transposes of v2: rows that are not finite are set aside before,
and marked by NaN when the transposed numbers are evacuated. From there on a row is a column.

Why it is fast.  k numbers of the weight are read in place of k^2, and every transform is made once.
What is left is DMA: about six times the bytes of x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import Share, share_rows
from ..row_guard import marks_of, set_rows_aside, transposes_mix_rows
from ..tiles import (
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    load_identity,
    load_tables,
    multiply,
    transpose,
)
from .dft_gemm import table_spec
from .real_dft_gemm import contracted_half, inverse_real_dft_gemm_matrix, real_dft_gemm_matrix

MAX_BLOCK = 256
ROWS_SUMMED = 1024  # whose spectra gradients of the weight take at once
_LOADED = 4096  # fp32 numbers of a partition that a load brings, at most
_STAGED = 1024  # of those of the weight
_SUMS = 8192  # fp32 numbers of a partition in which gradients of the weight are summed
_BLOCKS = 64  # that a product takes, with both parts
_WIDE = 64  # columns that a stationary operand has at least
_PASSES = 3  # of a launch that may be as long as the budget allows, others are short
BLOCKS, SLOTS, ROWS = 0, 1, 2  # axes of spectra
_NONE = -1


class Layout(nl.NKIObject):
    """How transforms and products fill partitions and time, see ``layouts``."""

    side: int  # slots that share a product
    tiles: int  # of 128 rows, that a transform takes at once
    of_weight: int  # pieces that rows of the weight are cut into
    of_input: int  # of x
    of_output: int  # of y


class Tools(nl.NKIObject):
    """What all passes of a launch use, in SBUF."""

    k: int  # numbers of a block
    identity: Any
    there: Any  # transform of a slab, in pieces of at most 128 rows
    back: Any  # its inverse
    masks: Any  # of matrices, see product_masks
    loaded: Any  # three tiles that loads take turns with
    staged: Any  # two for those of the weight


class Area(nl.NKIObject):
    """A box in spectra [blocks, slots, rows]; a loop's register may move it along one axis."""

    base: Any  # the register, or None
    axis: int  # the axis, or -1
    block: int  # the first
    blocks: int
    slot: int  # the first
    slots: int
    row: int  # the first
    rows: int


class Transform(nl.NKIObject):
    """Rows of blocks and their spectra, both in HBM."""

    numbers: Any  # [rows, blocks, k]
    spectra: Any  # [blocks, 2h, pitch]
    split: int  # pieces that a row is cut into
    tiles: int  # of 128 rows, taken at once
    bias: Any  # HBM [1, blocks k], of rows that are made; or None
    has_bias: bool
    turn: int  # the first of the tiles that its loads take turns with


class RowTile(nl.NKIObject):
    """Rows of an area on partitions: number t P + p, counted from ``low``, is row p of part t."""

    tile: Any  # SBUF [P, parts, ...]
    low: int
    partitions: int
    parts: int


class Load(nl.NKIObject):
    """A tile of rows of a box of blocks, on its way to their spectra."""

    area: Any  # the box
    tile: Any  # RowTile
    columns: int  # numbers of a row, whole slabs
    is_last: bool  # of the box
    marks: Any  # of rows where transposes mix them, [128, parts, P]


class Product(nl.NKIObject):
    """Spectra in HBM, and what multiplies them."""

    source: Any  # [blocks, 2h, pitch]
    weights: Any  # [q, 2h, pitch of p]
    target: Any  # [blocks, 2h, pitch]
    side: int  # slots side by side, at most
    is_turned: bool  # whether matrices are transposed: spectra of dx of those of dy


class Group(nl.NKIObject):
    """Slots that a product takes: ``side`` times ``together``, the latter one after the other."""

    slot: int  # the first
    side: int
    together: int
    is_first: bool  # of slot 0, whose parts are two real frequencies


class Columns(nl.NKIObject):
    """A stationary matrix for each of some slots: SBUF [K, slots, columns], zeros past ``used``."""

    tile: Any
    used: int


class Chunk(nl.NKIObject):
    """Blocks that a product makes at once, as columns of its matrix."""

    first: int
    blocks: int


class Correlation(nl.NKIObject):
    """Spectra in HBM whose products are summed over rows."""

    of_x: Any  # [q, 2h, pitch]
    of_y: Any  # [p, 2h, pitch]
    target: Any  # [q, 2h, pitch of p]
    side: int  # slots side by side, at most


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


def product_masks(q: int, side: int) -> np.ndarray[Any, Any]:
    """Signs of real and imaginary columns on rows (u, part, block), float32 [128, 2, 1 + side, 2].

    For whole chunks of the q blocks and for the last; for slot 0, where parts do not meet, then
    for each of ``side`` slots side by side, with zeros in the others' rows.
    """
    chunk = chunk_size(q)
    masks = np.zeros((PARTITIONS, 2, 1 + side, 2), np.float32)
    rows = np.arange(PARTITIONS)
    for kind, width in enumerate((chunk, q - (q - 1) // chunk * chunk)):
        own, part = np.divmod(rows // width, 2)
        for made in range(2):
            masks[:, kind, 0, made] = (own == 0) & (part == made)
        for slot in range(side):
            masks[:, kind, 1 + slot, 0] = (own == slot) * (1 - 2 * part)
            masks[:, kind, 1 + slot, 1] = own == slot
    return masks


def masks_spec(side: int) -> Any:
    """(shape, dtype) of ``product_masks(q, side)``."""
    return table_spec((PARTITIONS, 2, 1 + side, 2))


def layouts(p: int, q: int, k: int) -> list[tuple[int, ...]]:
    """Layouts worth a price: how transforms fill partitions and time, the fields of ``Layout``.

    Up to 128 rows may be cut so that four times as many partitions work, see ``most_rows``.
    """
    most = PARTITIONS // (2 * max(chunk_size(p), chunk_size(q)))
    side = max(1, min(most, contracted_half(k) - 1))
    found = []
    for pieces in (4, 2, 1):
        of_weight = pieces_of(q, k, min(pieces, max(1, PARTITIONS // p)))
        cut = (of_weight, pieces_of(q, k, pieces), pieces_of(p, k, pieces))
        found += [(side, 4, *cut), (side, 1, *cut), (1, 4, *cut)]
    return list(dict.fromkeys(found))


def most_rows(layout: tuple[int, ...]) -> int | None:
    """Rows up to which the kernels take a layout: as many as pieces lie on partitions, or any."""
    pieces = max(layout[3:])
    return None if pieces == 1 else PARTITIONS // pieces


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
    ``pack((*block_circulant_tables(k), product_masks(q, side)))``. layout: one of
    ``layouts(p, q, k)``, whose first is the side. Returns y [B, p k], and [q, 2h, pitch] for x
    and for the weight.
    """
    p, q, k = weight.shape
    rows = x.shape[0]
    height = spectrum_rows(k)
    y = nl.ndarray((rows, p * k), dtype=nl.float32, buffer=nl.shared_hbm)
    of_x = nl.ndarray((q, height, row_pitch(rows)), dtype=nl.float32, buffer=nl.shared_hbm)
    of_w = nl.ndarray((q, height, row_pitch(p)), dtype=nl.float32, buffer=nl.shared_hbm)
    of_y = nl.ndarray((p, height, row_pitch(rows)), dtype=nl.float32, buffer=nl.shared_hbm)
    cut = Layout(layout[0], layout[1], layout[2], layout[3], layout[4])
    tools = load_tools(unpack(tables, places), k)
    x = x.reshape((rows, q, k))
    make_spectra(Transform(weight, of_w, cut.of_weight, cut.tiles, None, False, 0), tools)
    make_spectra(Transform(x, of_x, cut.of_input, cut.tiles, None, False, 1), tools)
    fill_gap(of_x, rows)
    fill_gap(of_w, p)
    meet(of_w)
    meet(of_x)
    multiply_spectra(Product(of_x, of_w, of_y, cut.side, False), tools, rows)
    meet(of_y)
    result = y.reshape((rows, p, k))
    make_rows(Transform(result, of_y, cut.of_output, cut.tiles, bias, True, 0), tools)
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
    by_x = nl.ndarray((rows, q * k), dtype=nl.float32, buffer=nl.shared_hbm)
    by_w = nl.ndarray((p, q * k), dtype=nl.float32, buffer=nl.shared_hbm)
    of_y = nl.ndarray((p, height, pitch), dtype=nl.float32, buffer=nl.shared_hbm)
    x_spectra = nl.ndarray(of_x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    w_spectra = nl.ndarray(of_w.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    cut = Layout(layout[0], layout[1], layout[2], layout[3], layout[4])
    tools = load_tools(tables, k)
    grad = grad.reshape((rows, p, k))
    make_spectra(Transform(grad, of_y, cut.of_output, cut.tiles, None, False, 0), tools)
    meet(of_y)
    multiply_spectra(Product(of_y, of_w, x_spectra, cut.side, True), tools, rows)
    correlate_spectra(Correlation(of_x, of_y, w_spectra, cut.side), tools, rows)
    meet(x_spectra)
    meet(w_spectra)
    x = by_x.reshape((rows, q, k))
    weight = by_w.reshape((p, q, k))
    make_rows(Transform(x, x_spectra, cut.of_input, cut.tiles, None, False, 0), tools)
    make_rows(Transform(weight, w_spectra, cut.of_weight, cut.tiles, None, False, 1), tools)
    return by_x, by_w


def meet(tensor: Any) -> None:
    """Wait until the other program has written its part of shared HBM, where there is another."""
    if nl.num_programs() > 1:
        nisa.core_barrier(tensor, (0, 1))


def load_tools(tables: Any, k: int) -> Any:
    """Tables in SBUF, and the tiles that DMA writes."""
    loaded = []
    staged = []
    for _ in range(3):
        # Stationary operands may be read a little beyond what was loaded.
        loaded.append(nl.ndarray((PARTITIONS, _LOADED + _WIDE), dtype=nl.float32, buffer=nl.sbuf))
    for _ in range(2):
        staged.append(nl.ndarray((PARTITIONS, _STAGED), dtype=nl.float32, buffer=nl.sbuf))
    identity = load_identity(nl.float32)
    size = tables[2].shape[1] * tables[2].shape[2] * tables[2].shape[3]
    there = table_pieces(tables[0])
    pieces = [tables[2].reshape((PARTITIONS, size))]
    for piece in there:
        pieces.append(piece)
    for piece in table_pieces(tables[1]):
        pieces.append(piece)
    found = load_tables(pieces)
    back = len(there) + 1
    return Tools(k, identity, found[1:back], found[back:], found[0], loaded, staged)


def table_pieces(table: Any) -> Any:
    """A table of HBM in equal pieces of at most 128 rows."""
    height = table.shape[0]
    step = -(-height // -(-height // PARTITIONS))
    pieces = []
    for first in range(0, height, step):
        pieces.append(table[first : min(first + step, height)])
    return pieces


def fill_gap(spectra: Any, rows: int) -> None:
    """Zeros after the rows of spectra HBM [blocks, 2h, pitch], which are a result."""
    lines = spectra.flatten_dims(0, 1)
    total, pitch = lines.shape
    if pitch > rows and nl.program_id(0) == 0:
        gap = pitch - rows
        most = PARTITIONS * _STAGED // gap
        zeros = nl.ndarray((PARTITIONS, _STAGED // gap, gap), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=zeros, value=0.0)
        for first in range(0, total, most):
            held = min(most, total - first)
            each = max(1, held // PARTITIONS)
            for low in range(0, held, PARTITIONS * each):
                count = min(PARTITIONS, (held - low) // each)
                at = first + low
                gaps = lines[at : at + count * each, rows:pitch]
                nisa.dma_copy(dst=gaps.reshape_dim(0, (count, each)), src=zeros[0:count, 0:each])


def copy(dst: Any, src: Any, area: Any) -> None:
    """A transfer of an area; the host writes its descriptors where the address is known."""
    if area.axis == _NONE:
        nisa.dma_copy(dst=dst, src=src, dge_mode=nisa.dge_mode.none)
    else:
        nisa.dma_copy(dst=dst, src=src)


def part_of(area: Any, axis: int, first: int, count: int) -> Any:
    """``count`` positions of an area along an axis, from ``first`` on."""
    found = Area(
        area.base, area.axis, area.block, area.blocks, area.slot, area.slots, area.row, area.rows
    )
    if axis == BLOCKS:
        found.block += first
        found.blocks = count
    elif axis == SLOTS:
        found.slot += first
        found.slots = count
    else:
        found.row += first
        found.rows = count
    return found


def moved_by(base: Any, area: Any, axis: int, count: int) -> Any:
    """``count`` positions of an area along an axis, from where a register points."""
    found = part_of(area, axis, 0, count)
    found.base = base
    found.axis = axis
    return found


def size_of(area: Any, axis: int) -> int:
    """Positions of an area along an axis."""
    if axis == BLOCKS:
        return int(area.blocks)
    return int(area.slots if axis == SLOTS else area.rows)


def in_spectra(spectra: Any, pattern: Any, area: Any) -> Any:
    """A view of HBM [blocks, 2h, pitch] whose pattern begins where the area does."""
    _, height, pitch = spectra.shape
    offset = (area.block * height + area.slot) * pitch + area.row
    axis = max(0, area.axis)
    return spectra.ap(pattern, offset, scalar_offset=area.base, indirect_dim=axis)


def in_numbers(numbers: Any, pattern: Any, area: Any) -> Any:
    """A view of HBM [rows, blocks, k] whose pattern begins where the area does."""
    _, blocks, k = numbers.shape
    offset = (area.row * blocks + area.block) * k
    axis = 1 if area.axis == BLOCKS else 0
    return numbers.ap(pattern, offset, scalar_offset=area.base, indirect_dim=axis)


def row_tiles(rows: int, numbers: int, parts: int) -> Any:
    """Rows as tiles [P, parts, numbers] without memory, of whole partitions but for the last."""
    tiles = []
    low = 0
    while low < rows:
        partitions = min(PARTITIONS, rows - low)
        held = min(max(1, parts), (rows - low) // partitions)
        tiles.append(RowTile(None, low, partitions, held))
        low += partitions * held
    return tiles


def by_rows(transform: Any) -> bool:
    """Whether a transform walks along its rows: they are many, or blocks too few to share."""
    rows, blocks, k = transform.numbers.shape
    return (rows > PSUM_BANK and 8 * rows >= blocks * k) or blocks < 2 * transform.split


def blocks_loaded(k: int) -> int:
    """Blocks of a row that are in SBUF at once, whole slabs."""
    slab = blocks_together(k)
    return max(1, _LOADED // (k * slab)) * slab


def area_of(transform: Any) -> Any:
    """All rows of a transform, and the blocks of one piece of them."""
    rows, blocks, _ = transform.numbers.shape
    return Area(None, _NONE, 0, blocks // transform.split, 0, 0, 0, rows)


def share_transform(transform: Any, axis: int) -> Any:
    """This program's share of a transform along an axis."""
    rows, blocks, k = transform.numbers.shape
    blocks = blocks // transform.split
    most = min(blocks, blocks_loaded(k))
    step = min(rows * transform.split, PARTITIONS * transform.tiles)
    slabs = -(-most // blocks_together(k))
    pieces = 2 if k > PARTITIONS else 1
    tiles = -(-step // PARTITIONS)
    once = 24 + 14 * tiles + slabs * pieces * (tiles * 5 // 4 + pieces + 2)
    if axis == ROWS:
        return share_rows(rows, step // transform.split, _PASSES * once * -(-blocks // most))
    return share_rows(blocks, most, _PASSES * once * -(-rows // step))


def make_spectra(transform: Any, tools: Any) -> None:
    """Spectra of rows in HBM."""
    axis = ROWS if by_rows(transform) else BLOCKS
    whole = area_of(transform)
    share = share_transform(transform, axis)
    end = share.first + share.trips * share.step

    def body(base: Any) -> None:
        transform_area(transform, tools, moved_by(base, whole, axis, share.step))

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, step=share.step)
    transform_area(transform, tools, part_of(whole, axis, end, share.rest))


def transform_area(transform: Any, tools: Any, area: Any) -> None:
    """Spectra of the rows of an area, as many rows and blocks at a time as fit.

    A tile is loaded, and looked at, while the one before it is transformed.
    """
    loads = loads_of(transform, tools, area)
    moved = []
    for index in range(len(loads)):
        load = loads[index]
        if index == 0:
            load.marks = load_numbers(transform, tools, load, index)
        if index + 1 < len(loads):
            later = loads[index + 1]
            later.marks = load_numbers(transform, tools, later, index + 1)
        if load.tile.low == 0:
            slabs = load.columns // (blocks_together(tools.k) * tools.k)
            moved = allocate_slabs(tools.there, slabs, load.area.rows * transform.split)
        for part in range(load.tile.parts):
            turn_slabs(moved, load.tile, part, load.marks, tools.identity)
        if load.is_last:
            store_spectra(transform, tools, load.area, moved)


def loads_of(transform: Any, tools: Any, area: Any) -> Any:
    """Boxes of rows and blocks, tile by tile."""
    most = blocks_loaded(tools.k)
    step = PARTITIONS * transform.tiles
    loads = []
    for row in range(0, area.rows, step):
        rows = part_of(area, ROWS, row, min(step, area.rows - row))
        for block in range(0, area.blocks, most):
            box = part_of(rows, BLOCKS, block, min(most, area.blocks - block))
            slabs = -(-box.blocks // blocks_together(tools.k))
            columns = slabs * blocks_together(tools.k) * tools.k
            tiles = row_tiles(box.rows * transform.split, columns, _LOADED // columns)
            for tile in tiles:
                loads.append(Load(box, tile, columns, False, None))
            loads[len(loads) - 1].is_last = True
    return loads


def allocate_slabs(table: Any, slabs: int, count: int) -> Any:
    """Tiles [<= 128 of a slab's numbers, slabs, rows], one for each piece of a table."""
    moved = []
    for piece in table:
        shape = (piece.shape[0], slabs, count)
        moved.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    return moved


def pattern_of_numbers(transform: Any, area: Any, tile: Any) -> Any:
    """Where rows of a tile are in HBM, those of an area, as [P, parts, blocks k]."""
    _, blocks, k = transform.numbers.shape
    pitch = blocks * k
    columns = [1, area.blocks * k]
    if transform.split > 1:
        return [[pitch // transform.split, transform.split], [pitch, area.rows], columns]
    return [[pitch, tile.partitions], [PARTITIONS * pitch, tile.parts], columns]


def first_of(area: Any, tile: Any) -> Any:
    """An area from where a tile of its rows begins; one of pieces of rows begins where it does."""
    return part_of(area, ROWS, tile.low, tile.partitions)


def load_numbers(transform: Any, tools: Any, load: Any, index: int) -> Any:
    """Load a tile of rows [P, parts, columns]; returns marks [128, parts, P] where they mix."""
    area, tile, columns = load.area, load.tile, load.columns
    turn = transform.turn + index
    held = area.blocks * tools.k
    memory = tools.loaded[turn % len(tools.loaded)]
    whole = memory[0 : tile.partitions, 0 : tile.parts * columns]
    data = whole.reshape((tile.partitions, tile.parts, columns))
    if held < columns:
        nisa.memset(dst=data[:, :, held:columns], value=0.0)
    numbers = data[:, :, 0:held]
    pattern = pattern_of_numbers(transform, area, tile)
    copy(numbers, in_numbers(transform.numbers, pattern, first_of(area, tile)), area)
    tile.tile = data
    if not transposes_mix_rows():
        return None
    return turn_marks(set_rows_aside(numbers.expand_dim(2), 1.0), tools.identity)


def turn_marks(marks: Any, identity: Any) -> Any:
    """Marks of rows [P, parts] along the free axis of all partitions, [128, parts, P]."""
    partitions, parts = marks.shape
    good = nl.ndarray((partitions, parts, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)
    repeated = marks.ap([[parts, partitions], [1, parts], [0, PARTITIONS]])
    nisa.tensor_scalar(
        dst=good, data=repeated, op0=nl.equal, operand0=0.0, engine=nisa.engine.vector
    )
    bank = nl.ndarray((PARTITIONS, parts, partitions), dtype=nl.float32, buffer=nl.psum)
    for index in range(parts):
        transpose(bank[:, index], good[:, index], identity)
    return marks_of(bank)


def turn_slabs(moved: Any, tile: Any, index: int, marks: Any, identity: Any) -> None:
    """Part ``index`` of a tile of rows to tiles [a slab's numbers, slabs, rows], marked."""
    partitions = tile.partitions
    low = tile.low + index * PARTITIONS
    slabs = moved[0].shape[1]
    group = PSUM_BANK // partitions
    width = tile.tile.shape[2] // slabs
    top = 0
    for piece in moved:
        length = piece.shape[0]
        for first in range(0, slabs, group):
            number = min(group, slabs - first)
            bank = nl.ndarray((length, number, partitions), dtype=nl.float32, buffer=nl.psum)
            for slab in range(number):
                left = (first + slab) * width + top
                transpose(bank[:, slab], tile.tile[:, index, left : left + length], identity)
            result = piece[:, first : first + number, low : low + partitions]
            if transposes_mix_rows():
                pattern = [[tile.parts * partitions, length], [0, number], [1, partitions]]
                repeated = marks.ap(pattern, index * partitions)
                nisa.tensor_tensor(dst=result, data1=bank, data2=repeated, op=nl.add)
            else:
                nisa.tensor_copy(dst=result, src=bank, engine=nisa.engine.vector)
        top += length


def store_spectra(transform: Any, tools: Any, area: Any, moved: Any) -> None:
    """Transform slabs of numbers, and store their spectra."""
    count = moved[0].shape[2]
    slabs = moved[0].shape[1]
    group = max(1, 4 * PSUM_BANK // count)
    number = max(1, PSUM_BANK // count)
    total = tools.there[0].shape[1]
    height = total if total <= PARTITIONS else total // 2
    for slab in range(0, slabs, group):
        held = min(group, slabs - slab)
        for top in range(0, total, height):
            made = nl.ndarray((height, held, count), dtype=nl.float32, buffer=nl.sbuf)
            for first in range(0, held, number):
                taken = min(number, held - first)
                bank = nl.ndarray((height, taken, count), dtype=nl.float32, buffer=nl.psum)
                for piece in range(len(moved)):
                    data = moved[piece][:, slab + first : slab + first + taken]
                    multiply(bank, tools.there[piece][:, top : top + height], data, piece > 0)
                nisa.activation(dst=made[:, first : first + taken], op=nl.copy, data=bank)
            move_slabs(transform, tools, area, slab, top, made, True)


def move_slabs(
    transform: Any, tools: Any, area: Any, slab: int, top: int, tile: Any, is_store: bool
) -> None:
    """Spectra of slabs between HBM and a tile [lines, slabs, rows]; the last may have fewer blocks.

    top: the first of the lines (block, part, slot) of each slab.
    """
    together = blocks_together(tools.k)
    blocks, height, pitch = transform.spectra.shape
    lines, slabs, count = tile.shape
    full = min(slabs, area.blocks // together - slab)
    rows = [[blocks // transform.split * height * pitch, transform.split], [1, area.rows]]
    for first in range(0, slabs, max(1, full)):
        number = full if first < full else 1
        if first >= full:
            lines = area.blocks % together * height
        box = part_of(area, BLOCKS, (slab + first) * together, 0)
        box.slot = top
        pattern = [[pitch, lines], [together * height * pitch, number], rows[0], rows[1]]
        held = tile[0:lines, first : first + number]
        other = in_spectra(transform.spectra, pattern, box)
        if is_store:
            copy(other, held, area)
        else:
            copy(held, other, area)


def make_rows(transform: Any, tools: Any) -> None:
    """Rows in HBM of their spectra, plus a bias if there is."""
    axis = ROWS if by_rows(transform) else BLOCKS
    whole = area_of(transform)
    share = share_transform(transform, axis)
    end = share.first + share.trips * share.step

    def body(base: Any) -> None:
        restore_area(transform, tools, moved_by(base, whole, axis, share.step))

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, step=share.step)
    restore_area(transform, tools, part_of(whole, axis, end, share.rest))


def restore_area(transform: Any, tools: Any, area: Any) -> None:
    """Rows of an area of their spectra, as many rows and blocks at a time as fit."""
    most = blocks_loaded(tools.k)
    step = PARTITIONS * transform.tiles
    turn = transform.turn
    if area.rows == 0:
        return
    for block in range(0, area.blocks, most):
        blocks = part_of(area, BLOCKS, block, min(most, area.blocks - block))
        bias = None
        if transform.has_bias:
            bias = repeat_bias(transform, tools, blocks)
        for row in range(0, area.rows, step):
            box = part_of(blocks, ROWS, row, min(step, area.rows - row))
            turn = restore_box(transform, tools, box, bias, turn)


def repeat_bias(transform: Any, tools: Any, area: Any) -> Any:
    """A bias HBM [1, N] of an area's blocks on partitions (piece, row), by a product.

    DMA would have to move it once a partition.
    """
    split = transform.split
    _, blocks, k = transform.numbers.shape
    width = area.blocks * k
    rows = PARTITIONS if split == 1 else area.rows
    one = nl.ndarray((split, PARTITIONS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=one, value=0.0)
    own = tools.identity.ap([[PARTITIONS, split], [1, split], [0, rows]])
    nisa.tensor_copy(dst=one[:, 0 : split * rows], src=own, engine=nisa.engine.vector)
    result = nl.ndarray((PARTITIONS, width), dtype=nl.float32, buffer=nl.sbuf)
    flat = transform.bias.reshape((1, blocks, k))
    for low in range(0, width, _STAGED):
        high = min(low + _STAGED, width)
        row = tools.staged[low // _STAGED % 2][0:split]
        pattern = [[blocks // split * k, split], [1, high - low]]
        source = bias_columns(flat, pattern, area, low)
        copy(row[:, 0 : high - low], source, area)
        for first in range(low, high, PSUM_BANK):
            last = min(first + PSUM_BANK, high)
            bank = nl.ndarray((PARTITIONS, last - first), dtype=nl.float32, buffer=nl.psum)
            multiply(bank, one, row[:, first - low : last - low], False)
            nisa.activation(dst=result[:, first:last], op=nl.copy, data=bank)
    return result


def bias_columns(bias: Any, pattern: Any, area: Any, low: int) -> Any:
    """A view of a bias HBM [1, blocks, k] from number ``low`` of an area's blocks on."""
    offset = area.block * bias.shape[2] + low
    if area.axis == BLOCKS:
        return bias.ap(pattern, offset, scalar_offset=area.base, indirect_dim=1)
    return bias.ap(pattern, offset)


def restore_box(transform: Any, tools: Any, area: Any, bias: Any, turn: int) -> int:
    """Rows of an area, stored; returns which tile loads take next."""
    count = area.rows * transform.split
    slabs = -(-area.blocks // blocks_together(tools.k))
    numbers = area.blocks * tools.k
    pieces = len(tools.back)
    group = max(1, _LOADED // (pieces * count))
    tiles = row_tiles(count, numbers, _LOADED // numbers)
    for tile in tiles:
        shape = (tile.partitions, tile.parts, numbers)
        tile.tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    for slab in range(0, slabs, group):
        held = min(group, slabs - slab)
        data = load_slabs(transform, tools, area, slab, held, turn)
        turn += 1
        for tile in tiles:
            for index in range(tile.parts):
                restore_slabs(transform, tools, data, tile, index, slab, bias)
    for tile in tiles:
        pattern = pattern_of_numbers(transform, area, tile)
        copy(in_numbers(transform.numbers, pattern, first_of(area, tile)), tile.tile, area)
    return turn


def load_slabs(transform: Any, tools: Any, area: Any, slab: int, slabs: int, turn: int) -> Any:
    """Spectra of slabs, [lines, pieces, slabs, rows], zeros for blocks that a slab lacks."""
    pieces = len(tools.back)
    lines = tools.back[0].shape[0]
    count = area.rows * transform.split
    size = slabs * count
    tile = tools.loaded[turn % len(tools.loaded)]
    if NARROW // 2 < count % PARTITIONS <= NARROW:
        nisa.memset(dst=tile[0:lines, pieces * size : pieces * size + _WIDE], value=0.0)
    if (slab + slabs) * blocks_together(tools.k) > area.blocks:
        nisa.memset(dst=tile[0:lines, size - count : size], value=0.0)
    data = tile[0:lines, 0 : pieces * size].reshape((lines, pieces, slabs, count))
    for piece in range(pieces):
        move_slabs(transform, tools, area, slab, piece * lines, data[:, piece], False)
    return data


def restore_slabs(
    transform: Any, tools: Any, data: Any, tile: Any, index: int, slab: int, bias: Any
) -> None:
    """Rows of a part of a tile, of spectra of slabs from number ``slab`` on."""
    lines, pieces, slabs, count = data.shape
    width = tools.back[0].shape[1]
    partitions = tile.partitions
    numbers = tile.tile.shape[2]
    columns = partitions if partitions <= NARROW // 2 or partitions > NARROW else _WIDE
    low = tile.low + index * PARTITIONS
    number = max(1, PSUM_BANK // width) if pieces == 1 else 1
    for first in range(0, slabs, number):
        taken = min(number, slabs - first)
        bank = nl.ndarray((columns, taken, width), dtype=nl.float32, buffer=nl.psum)
        for inner in range(taken):
            for piece in range(pieces):
                at = (piece * slabs + first + inner) * count + low
                part = data.ap([[_LOADED + _WIDE, lines], [1, columns]], at)
                multiply(bank[:, inner], part, tools.back[piece], piece > 0)
        left = (slab + first) * width
        right = min(left + taken * width, numbers)
        made = bank.reshape((columns, taken * width))[0:partitions, 0 : right - left]
        result = tile.tile[:, index, left:right]
        if transform.has_bias:
            added = bias[0:partitions, left:right]
            nisa.tensor_tensor(dst=result, data1=made, data2=added, op=nl.add)
        else:
            nisa.activation(dst=result, op=nl.copy, data=made)


def step_of_rows(product: Any, rows: int) -> int:
    """Rows whose products are taken at once."""
    taken = product.source.shape[0]
    pieces = -(-taken // chunk_size(taken))
    return max(1, min(rows, PSUM_BANK, _LOADED // pieces))


def multiply_spectra(product: Any, tools: Any, rows: int) -> None:
    """Spectra of y of those of x and of the weight, or those of dx of those of dy."""
    made, height, _ = product.target.shape
    whole = Area(None, _NONE, 0, made, 0, height // 2, 0, rows)
    # Slot 0 is alone: its matrix is another one.
    multiply_along(product, tools, part_of(whole, SLOTS, 0, 1))
    if height > 2:
        multiply_along(product, tools, part_of(whole, SLOTS, 1, height // 2 - 1))


def multiply_along(product: Any, tools: Any, area: Any) -> None:
    """Products of an area, along the axis that has the most to share."""
    wide = chunk_size(area.blocks)
    step = step_of_rows(product, area.rows)
    side = min(product.side, area.slots)
    units = [-(-area.blocks // wide), -(-area.slots // side), -(-area.rows // step)]
    axis = SLOTS
    for other in (ROWS, BLOCKS):
        if units[other] > units[axis]:
            axis = other
    unit = [wide, side, step][axis]
    one = products_instructions(product, part_of(area, axis, 0, unit))
    two = products_instructions(product, part_of(area, axis, 0, 2 * unit))
    once = max(1, two - one)
    if axis == BLOCKS:
        share = share_chunks(area.blocks, wide, _PASSES * once)
    else:
        share = share_rows(size_of(area, axis), unit, _PASSES * once)
    end = share.first + share.trips * share.step

    def body(base: Any) -> None:
        multiply_area(product, tools, moved_by(base, area, axis, share.step))

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, step=share.step)
    multiply_area(product, tools, part_of(area, axis, end, share.rest))


def share_chunks(blocks: int, chunk: int, instructions: int) -> Any:
    """This program's share of blocks, whole chunks but for the last."""
    share = share_rows(blocks // chunk, 1, instructions)
    rest = share.rest * chunk
    if nl.program_id(0) == nl.num_programs() - 1:
        rest += blocks % chunk
    return Share(share.first * chunk, share.step * chunk, share.trips, rest)


def group_of(product: Any, area: Any, first: int) -> Any:
    """Slots of an area from its ``first`` on that are multiplied together."""
    taken, made = product.source.shape[0], product.target.shape[0]
    chunk, wide = chunk_size(taken), chunk_size(made)
    pieces = -(-taken // chunk)
    left = area.slots - first
    side = min(product.side, left)
    columns = max(_WIDE, 2 * side * max(chunk, wide))
    rows = step_of_rows(product, area.rows)
    fitting = min(_LOADED // (pieces * rows), _STAGED // (2 * max(chunk, wide)))
    together = max(1, min(fitting, _LOADED // (pieces * columns), left // side))
    is_first = area.axis != SLOTS and area.slot + first == 0
    return Group(first, side, together, is_first)


def products_instructions(product: Any, area: Any) -> int:
    """About how many instructions the products of an area take, at most."""
    taken, made = product.source.shape[0], product.target.shape[0]
    pieces = -(-taken // chunk_size(taken))
    group = group_of(product, area, 0)
    groups = -(-area.slots // (group.side * group.together))
    steps = -(-area.rows // step_of_rows(product, area.rows))
    chunks = -(-area.blocks // chunk_size(made))
    spans = -(-area.blocks // span_of(product, group))
    masks = 2 + min(group.together, 2 * group.side)
    masks += 2 * group.together + 2 if product.is_turned else 0
    matrices = pieces * (spans * 3 * group.side + chunks * masks) * (1 if spans == 1 else steps)
    product_count = group.together * (pieces + 1) + 2
    return groups * (matrices + steps * (2 * pieces + chunks * product_count))


def span_of(product: Any, group: Any) -> int:
    """Made blocks whose matrices are loaded at once, whole chunks: long runs are faster."""
    taken, made = product.source.shape[0], product.target.shape[0]
    chunk, wide = chunk_size(taken), chunk_size(made)
    pieces = -(-taken // chunk)
    if product.is_turned:
        return wide
    columns = max(_WIDE, 2 * group.side * wide)
    held = min(
        _STAGED // (2 * group.together * wide), 4 * _LOADED // (pieces * group.together * columns)
    )
    return wide * max(1, held)


def multiply_area(product: Any, tools: Any, area: Any) -> None:
    """Products of an area: slots, and of them rows, as many at a time as fit."""
    wide = chunk_size(product.target.shape[0])
    step = step_of_rows(product, area.rows)
    turn = 0 if area.axis != SLOTS and area.slot == 0 else 1
    staged = turn
    slot = 0
    while slot < area.slots and area.rows > 0 and area.blocks > 0:
        group = group_of(product, area, slot)
        span = span_of(product, group)
        matrices = []
        if area.blocks <= span:
            matrices = load_matrices(product, tools, area, group, staged)
        for row in range(0, area.rows, step):
            rows = part_of(area, ROWS, row, min(step, area.rows - row))
            loaded = load_spectra(product.source, tools, rows, group, turn)
            turn += 1
            for block in range(0, area.blocks, span):
                box = part_of(rows, BLOCKS, block, min(span, area.blocks - block))
                if area.blocks > span:
                    matrices = load_matrices(product, tools, box, group, block // span)
                for inner in range(0, box.blocks, wide):
                    own = part_of(box, BLOCKS, inner, min(wide, box.blocks - inner))
                    multiply_group(product, matrices[inner // wide], loaded, own, group)
        staged += 1
        slot += group.side * group.together


def slots_of(spectra: Any, area: Any, group: Any, blocks: int) -> Any:
    """A group's slots in HBM, [side, part, blocks, together, rows], from an area's block on."""
    _, height, pitch = spectra.shape
    together = group.together
    pattern = [[together * pitch, group.side], [height // 2 * pitch, 2], [height * pitch, blocks]]
    pattern.append([pitch, together])
    pattern.append([1, area.rows])
    return in_spectra(spectra, pattern, part_of(area, SLOTS, group.slot, 0))


def load_spectra(spectra: Any, tools: Any, area: Any, group: Any, turn: int) -> Any:
    """A group's slots of all blocks, [(u part block), slots, rows] for each chunk of them."""
    blocks = spectra.shape[0]
    chunk = chunk_size(blocks)
    rows = Area(area.base, area.axis, 0, 0, area.slot, area.slots, area.row, area.rows)
    if area.axis == BLOCKS:
        rows.base = None
        rows.axis = _NONE
    size = group.together * area.rows
    loaded = []
    for first in range(0, blocks, chunk):
        held = min(chunk, blocks - first)
        height = 2 * group.side * held
        at = first // chunk * size
        tile = tools.loaded[turn % len(tools.loaded)][0:height, at : at + size]
        tile = tile.reshape((height, group.together, area.rows))
        source = slots_of(spectra, part_of(rows, BLOCKS, first, held), group, held)
        copy(tile, source, rows)
        loaded.append(tile)
    return loaded


def load_matrices(product: Any, tools: Any, area: Any, group: Any, turn: int) -> Any:
    """Matrices of a group's slots: for each chunk of an area's blocks those from all taken ones."""
    taken = product.source.shape[0]
    chunk, wide = chunk_size(taken), chunk_size(product.target.shape[0])
    found: Any = []
    for _ in range(0, area.blocks, wide):
        found.append([])
    for first in range(0, taken, chunk):
        held = min(chunk, taken - first)
        weights = Area(None, _NONE, first, held, area.slot, area.slots, area.block, area.blocks)
        if product.is_turned:
            weights = Area(None, _NONE, area.block, area.blocks, area.slot, area.slots, first, held)
        axis = ROWS if area.axis == BLOCKS and not product.is_turned else area.axis
        if area.axis != ROWS:
            weights.base = area.base
            weights.axis = axis
        staged = stage_weights(product.weights, tools, weights, group, turn + first // chunk)
        for index in range(len(found)):
            left = index * wide
            width = held if product.is_turned else min(wide, area.blocks - left)
            columns = Chunk(left, width)
            matrix = mask_weights(product.weights, tools, weights, group, staged, columns)
            if product.is_turned:
                matrix = turn_matrices(matrix, group, tools.identity)
            found[index].append(matrix)
    return found


def stage_weights(weights: Any, tools: Any, area: Any, group: Any, turn: int) -> Any:
    """Spectra of an area's weights, SBUF [(u taken j), made, slots, i], with part taken + made."""
    _, height, pitch = weights.shape
    half = height // 2
    together = group.together
    size = 2 * together * area.rows
    rows = 2 * group.side * area.blocks
    tile = tools.staged[turn % 2][0:rows, 0:size].reshape((rows, 2, together, area.rows))
    lines = [height * pitch, area.blocks]
    for own in range(group.side):
        for taken in range(2):
            at = (2 * own + taken) * area.blocks
            part = tile[at : at + area.blocks]
            slots = part_of(area, SLOTS, group.slot + own * together, 0)
            rest = [pitch, together]
            if taken == 0 or group.is_first:
                pattern = [lines, [half * pitch, 2], rest, [1, area.rows]]
                copy(part, in_spectra(weights, pattern, slots), area)
            else:
                for made in range(2):
                    other = part_of(slots, SLOTS, (1 - made) * half, 0)
                    pattern = [lines, rest, [1, area.rows]]
                    copy(part[:, made], in_spectra(weights, pattern, other), area)
    return tile


def mask_weights(weights: Any, tools: Any, area: Any, group: Any, staged: Any, chunk: Any) -> Any:
    """Matrices of slots, columns (u part i), of staged weights: with signs, and zeros of others."""
    rows, _, together, total = staged.shape
    width = chunk.blocks
    side = group.side
    used = 2 * side * width
    columns = max(used, _WIDE) if used <= NARROW else used
    tile = nl.ndarray((rows, together, columns), dtype=nl.float32, buffer=nl.sbuf)
    if used < columns:
        nisa.memset(dst=tile[:, :, used:columns], value=0.0)
    masks = tools.masks.shape[1]
    # The last chunk of blocks, where it is shorter, has masks of its own.
    is_last = area.axis != BLOCKS and area.block + area.blocks == weights.shape[0]
    is_other = area.blocks != chunk_size(weights.shape[0])
    first = masks // 2 if is_last and is_other else 0
    if not group.is_first:
        first += 2
    if side > together:
        mask = tools.masks.ap([[masks, rows], [2, side], [1, 2], [0, width]], first)
        for slot in range(together):
            made = tile[:, slot, 0:used].reshape_dim(1, (side, 2, width))
            pattern = [[_STAGED, rows], [0, side], [together * total, 2], [1, width]]
            data = staged.ap(pattern, slot * total + chunk.first)
            nisa.tensor_tensor(dst=made, data1=data, data2=mask, op=nl.multiply)
        return Columns(tile, used)
    for column in range(2 * side):
        nisa.activation(
            dst=tile[:, :, column * width : (column + 1) * width],
            op=nl.copy,
            data=staged[:, column % 2, :, chunk.first : chunk.first + width],
            scale=tools.masks[0:rows, first + column : first + column + 1],
        )
    return Columns(tile, used)


def turn_matrices(matrix: Any, group: Any, identity: Any) -> Any:
    """Matrices [(u part j), slots, (u part i)] transposed."""
    height, together, columns = matrix.tile.shape
    wide = max(height, _WIDE) if height <= NARROW else height
    shape = (matrix.used, together, wide)
    result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    if wide > height:
        nisa.memset(dst=result[:, :, height:wide], value=0.0)
    number = PSUM_BANK // height
    for first in range(0, together, number):
        taken = min(number, together - first)
        bank = nl.ndarray((columns, taken, height), dtype=nl.float32, buffer=nl.psum)
        for index in range(taken):
            transpose(bank[:, index], matrix.tile[:, first + index], identity)
        nisa.tensor_copy(
            dst=result[:, first : first + taken, 0:height],
            src=bank[0 : matrix.used],
            engine=nisa.engine.vector,
        )
    return Columns(result, height)


def multiply_group(product: Any, matrices: Any, loaded: Any, area: Any, group: Any) -> None:
    """Products of a group's slots, summed over all chunks of blocks, and their store."""
    count = area.rows
    used = matrices[0].used
    together = group.together
    made = nl.ndarray((used, together, count), dtype=nl.float32, buffer=nl.sbuf)
    # Sums of several products have a bank each: it may not hold two of them.
    number = max(1, PSUM_BANK // count) if len(loaded) == 1 else 1
    for first in range(0, together, number):
        taken = min(number, together - first)
        columns = matrices[0].tile.shape[2]
        bank = nl.ndarray((columns, taken, count), dtype=nl.float32, buffer=nl.psum)
        for index in range(taken):
            for piece in range(len(loaded)):
                matrix = matrices[piece].tile[:, first + index]
                multiply(bank[:, index], matrix, loaded[piece][:, first + index], piece > 0)
        result = made[:, first : first + taken]
        if first // number % 2 == 0:
            nisa.tensor_copy(dst=result, src=bank[0:used], engine=nisa.engine.vector)
        else:
            nisa.activation(dst=result, op=nl.copy, data=bank[0:used])
    copy(slots_of(product.target, area, group, area.blocks), made, area)


def correlate_spectra(correlation: Any, tools: Any, rows: int) -> None:
    """Spectra of dw, HBM [q, 2h, pitch of p]: conj X times dY, summed over the rows.

    Programs share slots. Few rows are summed slots by slots; many are a loop on the device.
    """
    half = correlation.of_x.shape[1] // 2
    p = correlation.of_y.shape[0]
    wide = chunk_size(p)
    for left in range(0, p, wide):
        whole = Area(None, _NONE, left, min(wide, p - left), 0, half, 0, rows)
        if rows > 4 * sums_at_once(correlation):
            sum_by_rows(correlation, tools, whole)
        else:
            if nl.program_id(0) == 0:
                sum_slots(correlation, tools, part_of(whole, SLOTS, 0, 1))
            if half > 1:
                sum_by_slots(correlation, tools, part_of(whole, SLOTS, 1, half - 1))


def sums_at_once(correlation: Any) -> int:
    """Rows whose products are summed at once: fewer where blocks are many."""
    q, p = correlation.of_x.shape[0], correlation.of_y.shape[0]
    chunks = -(-q // chunk_size(q)) * -(-p // chunk_size(p))
    return PARTITIONS * max(1, ROWS_SUMMED // (PARTITIONS * chunks))


def sum_by_slots(correlation: Any, tools: Any, area: Any) -> None:
    """Sums over rows of this program's share of an area's slots."""
    group = group_of_sums(correlation, area, 0)
    unit = group.side * group.together
    once = sums_instructions(correlation, area, unit)
    share = share_rows(area.slots, unit, _PASSES * once * 2 // 3)
    end = share.first + share.trips * share.step

    def body(base: Any) -> None:
        sum_slots(correlation, tools, moved_by(base, area, SLOTS, share.step))

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, step=share.step)
    sum_slots(correlation, tools, part_of(area, SLOTS, end, share.rest))


def sum_slots(correlation: Any, tools: Any, area: Any) -> None:
    """Sums over rows, group of slots by group."""
    slot = 0
    while slot < area.slots:
        group = group_of_sums(correlation, area, slot)
        taken = part_of(area, SLOTS, slot, group.side * group.together)
        sums = clear_sums(correlation, taken)
        add_products(correlation, tools, taken, sums)
        store_sums(correlation, taken, sums)
        slot += taken.slots


def sum_by_rows(correlation: Any, tools: Any, area: Any) -> None:
    """Sums over rows of this program's share of an area's slots, by loops over the rows.

    Each is for as many slots as fit; both programs have as many loops.
    """
    q = correlation.of_x.shape[0]
    most = -(-area.slots // nl.num_programs())
    fitting = max(1, _SUMS // (2 * area.blocks * -(-q // chunk_size(q))))
    loops = -(-most // fitting)
    step = -(-most // loops)
    share = share_rows(area.slots, area.slots, 1)
    for slot in range(0, loops * step, step):
        held = max(0, min(step, share.rest - slot))
        loop_over_rows(correlation, tools, part_of(area, SLOTS, share.first + slot, held), step)


def loop_over_rows(correlation: Any, tools: Any, area: Any, slots: int) -> None:
    """Sums over rows by a loop on the device, of up to ``slots`` slots."""
    step = min(area.rows, sums_at_once(correlation))
    once = sums_instructions(correlation, part_of(area, ROWS, 0, step), slots)
    share = share_rows(area.rows * nl.num_programs(), step, _PASSES * once * 2 // 3)
    end = share.trips * share.step
    sums = clear_sums(correlation, area)

    def body(base: Any) -> None:
        add_products(correlation, tools, moved_by(base, area, ROWS, share.step), sums)

    if share.trips > 0:
        nl.fori_loop(0, end, body, step=share.step)
    add_products(correlation, tools, part_of(area, ROWS, end, area.rows - end), sums)
    store_sums(correlation, area, sums)


def group_of_sums(correlation: Any, area: Any, first: int) -> Any:
    """Slots of an area from its ``first`` on whose products are summed together."""
    left = area.slots - first
    if area.axis != SLOTS and area.slot + first == 0:
        return Group(first, 1, 1, True)
    q, p = correlation.of_x.shape[0], correlation.of_y.shape[0]
    side = min(correlation.side, left)
    rows = min(area.rows, sums_at_once(correlation))
    widest = side * max(chunk_size(q), chunk_size(p))
    fitting = min(
        _LOADED // (4 * widest), _SUMS // (2 * side * chunk_size(p) * -(-q // chunk_size(q)))
    )
    together = max(1, min(_LOADED // rows, fitting, left // side))
    return Group(first, side, together, False)


def sums_instructions(correlation: Any, area: Any, slots: int) -> int:
    """About how many instructions sums of so many slots take over an area's rows, at most.

    Of those for one chunk of the blocks of y as many as its share of the launch's allows.
    """
    q, p = correlation.of_x.shape[0], correlation.of_y.shape[0]
    tops, lefts = -(-q // chunk_size(q)), -(-p // chunk_size(p))
    later = part_of(area, SLOTS, 1 if area.slot == 0 and slots > 1 else 0, slots)
    group = group_of_sums(correlation, later, 0)
    at_once = sums_at_once(correlation)
    steps = -(-area.rows // at_once)
    tiles = -(-min(area.rows, at_once) // PARTITIONS)
    height = 2 * group.side * max(chunk_size(q), chunk_size(p))
    moves = 2 * -(-group.together // (PSUM_BANK // height)) + 1
    turned = 2 + tiles * (group.together + moves)
    whole = group.side * group.together
    groups = -(-slots // whole) + (2 if slots > whole else 0)
    products = slots * (2 * tiles + 1)
    return lefts * (steps * (groups * (tops + 1) * turned + tops * products) + 2 * tops)


def clear_sums(correlation: Any, area: Any) -> Any:
    """Zeros, SBUF [j, part, slots, i], for each chunk of blocks of x."""
    q = correlation.of_x.shape[0]
    tall = chunk_size(q)
    sums: Any = []
    if area.slots == 0:
        return sums
    for top in range(0, q, tall):
        shape = (min(tall, q - top), 2, area.slots, area.blocks)
        tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=tile, value=0.0)
        sums.append(tile)
    return sums


def store_sums(correlation: Any, area: Any, sums: Any) -> None:
    """Sums of an area's slots to HBM."""
    target = correlation.target
    _, height, pitch = target.shape
    first = 0
    for tile in sums:
        held, _, slots, width = tile.shape
        box = Area(area.base, area.axis, first, held, area.slot, slots, area.block, width)
        pattern = [[height * pitch, held], [height // 2 * pitch, 2], [pitch, slots], [1, width]]
        copy(in_spectra(target, pattern, box), tile, box)
        first += held


def add_products(correlation: Any, tools: Any, area: Any, sums: Any) -> None:
    """Add the products of an area's slots, rows, and blocks of y, to their sums."""
    q = correlation.of_x.shape[0]
    tall = chunk_size(q)
    step = sums_at_once(correlation)
    slot = 0
    while slot < area.slots and area.rows > 0:
        group = group_of_sums(correlation, area, slot)
        for row in range(0, area.rows, step):
            rows = part_of(area, ROWS, row, min(step, area.rows - row))
            right = load_turned(correlation.of_y, tools, rows, group, 0)
            for top in range(0, q, tall):
                box = part_of(rows, BLOCKS, top - area.block, min(tall, q - top))
                turned = load_turned(correlation.of_x, tools, box, group, 1)
                correlate_slots(turned, right, group, sums[top // tall], slot)
        slot += group.side * group.together


def load_turned(spectra: Any, tools: Any, area: Any, group: Any, turn: int) -> Any:
    """A group's slots of an area's blocks as tiles [<= 128 rows, (slots, u, part, block)].

    turn: 0 for a third part, minus the real one.
    """
    height = 2 * group.side * area.blocks
    size = group.together * area.rows
    memory = tools.loaded[turn]
    tile = memory[0:height, 0:size].reshape((height, group.together, area.rows))
    nisa.memset(dst=memory[0:height, size : size + _WIDE], value=0.0)
    copy(tile, slots_of(spectra, area, group, area.blocks), area)
    parts = 3 if turn == 0 else 2
    tiles = []
    for low in range(0, area.rows, PARTITIONS):
        length = min(PARTITIONS, area.rows - low)
        tiles.append(turn_rows(tile, tools.identity, low, length, group.side, parts))
    return tiles


def turn_rows(loaded: Any, identity: Any, low: int, length: int, side: int, parts: int) -> Any:
    """Some rows of spectra [(u part block), slots, rows] as a tile [rows, (slots, u, part, block)].

    With 64 zeros at the end, as stationary operands are wide.
    """
    height, together, count = loaded.shape
    width = height // (2 * side)
    columns = length if length > NARROW else _WIDE
    total = together * side * parts * width
    memory = nl.ndarray((length, total + _WIDE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=memory[:, total : total + _WIDE], value=0.0)
    tile = memory[:, 0:total].reshape((length, together, side, parts * width))
    group = PSUM_BANK // height
    for first in range(0, together, group):
        number = min(group, together - first)
        bank = nl.ndarray((columns, number, height), dtype=nl.float32, buffer=nl.psum)
        for index in range(number):
            at = (first + index) * count + low
            data = loaded.ap([[_LOADED + _WIDE, height], [1, columns]], at)
            transpose(bank[:, index], data, identity)
        result = tile[:, first : first + number]
        made = bank[0:length].reshape_dim(2, (side, 2 * width))
        nisa.tensor_copy(dst=result[:, :, :, 0 : 2 * width], src=made, engine=nisa.engine.vector)
        if parts == 3:
            nisa.activation(
                dst=result[:, :, :, 2 * width : 3 * width],
                op=nl.copy,
                data=made[:, :, :, 0:width],
                scale=-1.0,
            )
    return tile


def correlate_slots(left: Any, right: Any, group: Any, sums: Any, start: int) -> None:
    """Add to sums [j, part, slots, i]: over rows of (Xr, Xi) with (Yr, Yi) and (Yi, -Yr)."""
    side, together = group.side, group.together
    held, _, _, width = sums.shape
    columns = held if held > NARROW else _WIDE
    parts = 1 if group.is_first else 2  # that one sum makes
    for index in range(side * together):
        own, slot = index // together, index % together
        for half in range(2 if group.is_first else 1):
            bank = nl.ndarray((columns, parts, width), dtype=nl.float32, buffer=nl.psum)
            for tile in range(len(left)):
                length, _, _, row = left[tile].shape
                for part in range(half, half + parts):
                    at = (slot * side + own) * row + part * held
                    pitch = together * side * row + _WIDE
                    data = left[tile].ap([[pitch, length], [1, columns]], at)
                    other = right[tile][:, slot, own, part * width : (part + parts) * width]
                    is_more = tile + part - half > 0
                    multiply(bank, data, other, is_more)
            total = sums[:, half : half + parts, start + index]
            nisa.tensor_tensor(dst=total, data1=total, data2=bank[0:held], op=nl.add)
