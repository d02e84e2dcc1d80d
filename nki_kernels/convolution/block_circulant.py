"""Products of rows with a block circulant matrix, by transforms of blocks of k <= 256 numbers.

Mathematics.  y_i = F^-1 (sum_j F w_ij . F x_j), where i counts blocks of the output, j counts
blocks of the input, and the product of two blocks is their circular convolution. The spectrum of k
real numbers has h = (k + 1) / 2 complex slots: slot 0 holds frequency 0, with the real frequency
k/2 in the place of its imaginary part, and frequencies 1, 2, ... follow. In each slot the sum over
j is a real matrix product: rows (part, j) times [[Wr, Wi], [-Wi, Wr]], or, in slot 0, times [[W0,
0], [0, W_k/2]]. The derivatives use the same matrices transposed, which conjugates spectra:

    dx_j = F^-1 (sum_i conj F w_ij . F dy_i)      dw_ij = F^-1 (sum_b conj F x_bj . F dy_bi)

Layout on the NeuronCore.  The kernel makes three passes over HBM: transforms, products and inverse
transforms. Each pass places on the partitions what it contracts. In the diagram, b stands for the
rows; for the weight, b stands for i. Only the last dimension, the rows, stays contiguous. A fourth
pass, ``sum_spectra``, computes the gradients of the weight.

    spectra    HBM [b, (j n)] -> SBUF [b, (j n)] -> PSUM [(j n), b] -> [(j part slot), b] -> HBM
    products   HBM [j, part, slot, b] -> SBUF [(u part j), slot, b] -> PSUM [(u part i), b] -> HBM
    rows       HBM [(i part slot), b] -> SBUF -> PSUM [b, (i n)], plus bias -> HBM [b, (i n)]

Transforms multiply slabs of g = 128 / 2h blocks; a last slab with fewer blocks is filled with
zeros. Products take up to 64 blocks with both parts or, where there are few blocks, u slots side by
side. In this way 128 partitions are filled, which DMA needs, too. Up to 128 rows may be cut into
pieces, which then lie on partitions as (piece, b).

Every pass is work on an area of the spectra, a box of blocks, slots and rows. One walk serves them
all (``circulant_walk``): the programs of a launch on two cores share the area along one axis, and
where it takes many instructions it is a loop on the device, in wide layers over several axes at
once. The programs wait for each other where a pass ends. Data that DMA brings lies in five tiles,
which are used again and again, so that loads run ahead of the engines, but not far.

The rows of x meet in one place only, the transposes of NeuronCore-v2. Rows that are not finite are
set aside before these transposes, and are marked by NaN when the transposed numbers leave PSUM.
From there on, a row is a column of every operand, and columns do not meet.

Why it is fast.  k numbers of the weight are read in place of k^2, and every transform is computed
once. What remains is DMA, which moves about six times the bytes of x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.arguments import are_positive, check_dimensions
from ..base.engines import PARTITIONS, chunks, clear, element_count, hbm, sbuf, transfer
from ..base.isa import Tensor, nki, nl
from ..base.launch import meet
from ..base.packing import unpack
from ..base.table_terms import Array, TableSpec, table_spec
from ..base.tables import load_identity, load_tables
from ..real.real_dft_gemm import contracted_half, inverse_real_dft_gemm_matrix, real_dft_gemm_matrix
from .circulant_areas import (
    BLOCKS,
    LOADED,
    ROWS,
    STAGED,
    TOPS,
    WIDE,
    Area,
    Operand,
    Spectra,
    blocks_together,
    chunk_size,
    for_area,
    row_pitch,
    spectrum_rows,
)
from .circulant_products import Product, Sums, sum_spectra
from .circulant_transforms import Tools, ToRows, ToSpectra, transform

MAX_BLOCK = 256


@dataclass(frozen=True)
class Blocking:
    """How transforms and products fill partitions and time; ``layouts`` lists candidates."""

    side: int  # slots that share a product
    tiles: int  # tiles of 128 rows that a transform takes at once
    of_weight: int  # pieces into which rows of the weight are cut
    of_input: int  # pieces into which rows of x are cut
    of_output: int  # pieces into which rows of y are cut


def block_circulant_tables(k: int) -> tuple[Array, Array]:
    """Return the transform of real blocks to slots, and its inverse.

    Rows and columns of spectra are (block, part, slot), for a slab of g blocks.

    Args:
        k: numbers of a block, 1 to 256.

    Returns:
        Two float32 arrays, [gk, g 2h] and [g 2h, gk].
    """
    if not 1 <= k <= MAX_BLOCK:
        raise ValueError(f"k = {k}: block circulant kernels accept blocks of 1 to {MAX_BLOCK}")
    half = contracted_half(k)
    w = real_dft_gemm_matrix(k)[:k].reshape(k, -1)[:, : 2 * (k // 2 + 1)].reshape(k, 2, -1)
    there = w[:, :, :half].copy()
    there[:, 1, 0] = w[:, 0, k // 2] if k % 2 == 0 else 0
    back = inverse_real_dft_gemm_matrix(k, scale=1.0 / k)[: 2 * half, :k]
    copies = np.eye(blocks_together(k), dtype=np.float32)
    return np.kron(copies, there.reshape(k, -1)), np.kron(copies, back)


def block_circulant_specs(k: int) -> tuple[TableSpec, TableSpec]:
    """Return the (shape, dtype) of each of ``block_circulant_tables(k)``."""
    g = blocks_together(k)
    shape = g * k, g * spectrum_rows(k)
    return table_spec(shape), table_spec(shape[::-1])


def spectra_shape(blocks: int, k: int, rows: int) -> tuple[int, int, int]:
    """Return the shape of the kernels' spectra of a real matrix [rows, blocks k]."""
    return blocks, spectrum_rows(k), row_pitch(rows)


def product_masks(q: int, side: int) -> Array:
    """Return signs that turn spectra of the weight into matrices, float32 [128, 2, 1 + side, 2].

    The first axis has the rows (u, part, block) of a product. The second axis has a mask for whole
    chunks of the q blocks and a mask for the last chunk. The third axis has slot 0, whose parts are
    independent, then each of ``side`` slots that lie side by side, with zeros in the rows of the
    other slots. The last axis has the real and the imaginary columns.
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


def masks_spec(side: int) -> TableSpec:
    """Return the (shape, dtype) of ``product_masks(q, side)``."""
    return table_spec((PARTITIONS, 2, 1 + side, 2))


def layouts(p: int, q: int, k: int) -> list[tuple[int, ...]]:
    """Return the layouts that are worth a price: the fields of ``Blocking`` as tuples.

    Rows may be cut into up to four pieces, so that four times as many partitions work, where at
    most 128 pieces result: see ``most_rows``.
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
    """Return the largest number of rows that a layout takes, or None where it takes any number.

    Where rows are cut, all pieces of all rows lie on the 128 partitions.
    """
    pieces = max(layout[3:])
    return None if pieces == 1 else PARTITIONS // pieces


def pieces_of(blocks: int, k: int, most: int) -> int:
    """Return 4, 2 or 1: the largest number of pieces up to ``most``, each of whole slabs."""
    for pieces in (4, 2):
        if pieces <= most and blocks % (pieces * blocks_together(k)) == 0:
            return pieces
    return 1


@nki.jit
def block_circulant(x, weight, bias, tables, places, layout):  # type: ignore[no-untyped-def]
    """Multiply rows by a block circulant matrix and add a bias.

    The spectra of x and of the weight are returned, too, for ``block_circulant_gradients``.

    Args:
        x: float32 HBM [B, q, k].
        weight: float32 HBM [p, q, k], 1 <= k <= 256: the first column of each circulant block.
        bias: float32 HBM [1, p, k].
        tables, places: the two results of ``pack((*block_circulant_tables(k), product_masks(q,
            side)))``.
        layout: one of ``layouts(p, q, k)``, whose first number is the side.

    Returns:
        (y [B, p k], spectra of x [q, 2h, pitch], spectra of the weight [q, 2h, pitch]), float32
            HBM.
    """
    check_dimensions("x", x, ("B", "q", "k"))
    check_dimensions("weight", weight, ("p", "q", "k"))
    check_dimensions("bias", bias, ("1", "p", "k"))
    p, q, k = weight.shape
    rows, height = x.shape[0], spectrum_rows(k)
    cut, tools = _layout_of(layout, p, q, k), load_tools(unpack(tables, places, 3), k)
    y = hbm((rows, p, k))
    of_x, of_w = hbm(spectra_shape(q, k, rows)), hbm(spectra_shape(q, k, p))
    of_y = hbm(spectra_shape(p, k, rows))
    w_spectra, x_spectra = Spectra(of_w, BLOCKS, ROWS), Spectra(of_x, BLOCKS, ROWS)
    y_spectra = Spectra(of_y, BLOCKS, ROWS)
    transform(ToSpectra(tools, rows_of(weight), w_spectra, cut.of_weight, cut.tiles))
    transform(ToSpectra(tools, rows_of(x), x_spectra, cut.of_input, cut.tiles, turn=1))
    fill_gap(of_x, rows)
    fill_gap(of_w, p)
    meet(of_w, of_x)
    source, weights = Spectra(of_x, None, ROWS), Spectra(of_w, None, BLOCKS)
    product = Product(tools, source, weights, y_spectra, cut.side, is_turned=False)
    for_area(product, Area(p, height // 2, rows))
    meet(of_y)
    row = Operand(bias, {BLOCKS: k})
    transform(ToRows(tools, rows_of(y), y_spectra, cut.of_output, cut.tiles, bias=row))
    return y.reshape((rows, p * k)), of_x, of_w


@nki.jit
def block_circulant_gradients(grad, of_x, of_w, tables, places, layout):  # type: ignore[no-untyped-def]
    """Compute the gradients of x and of the weight from the gradient of y.

    Both use the same transform of ``grad``.

    Args:
        grad: the gradient of y, float32 HBM [B, p, k].
        of_x, of_w: the spectra that ``block_circulant`` returned, [q, 2h, pitch].
        tables, places, layout: as for ``block_circulant``.

    Returns:
        (dx [B, q k], dw [p, q k]), float32 HBM.
    """
    check_dimensions("grad", grad, ("B", "p", "k"))
    check_dimensions("of_x", of_x, ("q", "2 h", "pitch"))
    check_dimensions("of_w", of_w, ("q", "2 h", "pitch"))
    rows, p, k = grad.shape
    q, height, _ = of_x.shape
    cut, tools = _layout_of(layout, p, q, k), load_tools(unpack(tables, places, 3), k)
    by_x, by_w = hbm((rows, q, k)), hbm((p, q, k))
    of_y = hbm(spectra_shape(p, k, rows))
    of_dx, of_dw = hbm(of_x.shape), hbm(of_w.shape)
    y_spectra, dx_spectra = Spectra(of_y, BLOCKS, ROWS), Spectra(of_dx, BLOCKS, ROWS)
    transform(ToSpectra(tools, rows_of(grad), y_spectra, cut.of_output, cut.tiles))
    meet(of_y)
    source, weights = Spectra(of_y, None, ROWS), Spectra(of_w, BLOCKS, None)
    product = Product(tools, source, weights, dx_spectra, cut.side, is_turned=True)
    for_area(product, Area(q, height // 2, rows))
    target = Spectra(of_dw, TOPS, BLOCKS)
    sums = Sums(tools, Spectra(of_x, TOPS, ROWS), y_spectra, target, cut.side)
    sum_spectra(sums, Area(p, height // 2, rows, q))
    meet(of_dx, of_dw)
    dw_spectra = Spectra(of_dw, BLOCKS, ROWS)
    transform(ToRows(tools, rows_of(by_x), dx_spectra, cut.of_input, cut.tiles))
    transform(ToRows(tools, rows_of(by_w), dw_spectra, cut.of_weight, cut.tiles, turn=1))
    return by_x.reshape((rows, q * k)), by_w.reshape((p, q * k))


def _layout_of(numbers: Any, p: int, q: int, k: int) -> Blocking:
    """Return the layout with these numbers; raise ValueError unless it is one of ``layouts``."""
    allowed = layouts(p, q, k)
    if not are_positive(numbers, 5) or tuple(numbers) not in allowed:
        raise ValueError(
            f"argument 'layout' is {numbers!r}, allowed for a weight of {p} x {q} blocks of {k} "
            f"are {', '.join(map(str, allowed))}"
        )
    return Blocking(*numbers)


def rows_of(tensor: Tensor) -> Operand:
    """Return rows of blocks in HBM, [rows, blocks, k], as an operand."""
    _, blocks, k = tensor.shape
    return Operand(tensor, {BLOCKS: k, ROWS: blocks * k})


def load_tools(tables: Sequence[Tensor], k: int) -> Tools:
    """Load the tables into SBUF and allocate the tiles that DMA writes."""
    # A stationary operand may be read a little beyond what was loaded.
    loaded = [sbuf((PARTITIONS, LOADED + WIDE)) for _ in range(3)]
    staged = [sbuf((PARTITIONS, STAGED)) for _ in range(2)]
    identity = load_identity()
    there, back = table_pieces(tables[0]), table_pieces(tables[1])
    masks = tables[2].reshape((PARTITIONS, element_count(tables[2].shape[1:])))
    found = load_tables([masks, *there, *back])
    end = len(there) + 1
    return Tools(k, identity, found[1:end], found[end:], found[0], loaded, staged)


def table_pieces(table: Tensor) -> list[Tensor]:
    """Cut a table in HBM into equal pieces of at most 128 rows."""
    height = table.shape[0]
    step = -(-height // -(-height // PARTITIONS))
    return [table[first : first + count] for first, count in chunks(height, step)]


def fill_gap(found: Tensor, rows: int) -> None:
    """Write zeros behind the rows of spectra HBM [blocks, 2h, pitch], which are a result."""
    lines = found.flatten_dims(0, 1)
    total, pitch = lines.shape
    gap = pitch - rows
    if gap == 0 or nl.program_id(0) > 0:
        return
    zeros = sbuf((PARTITIONS, STAGED // gap, gap))
    clear(zeros)
    while total > 0:
        each = max(1, min(total, PARTITIONS * STAGED // gap) // PARTITIONS)
        count = min(PARTITIONS, total // each)
        total -= count * each
        gaps = lines[total : total + count * each, rows:pitch].reshape_dim(0, (count, each))
        transfer(gaps, zeros[0:count, 0:each])
