"""DFT of any length N <= 256 as matrix products: one launch, natural order in and out.

Mathematics.  y[b, k] = sum_n x[b, n] W[n, k] with W[n, k] = exp(-+2 pi i n k / N). Split into real
and imaginary parts, this is one real product of rows: [yr yi] = [xr xi] M with M = [[Wr, Wi], [-Wi,
Wr]], contracted over 2N numbers. A scale (1/N of an inverse) is part of M.

Layout on the NeuronCore.  A DMA puts R consecutive transforms on each partition, so that every
descriptor moves R*N contiguous numbers (4 KiB where the batch allows). The contraction must lie on
partitions, so the Tensor engine first transposes: stationary = data, moving = identity. Then the
transposed data is the stationary operand once more and M the moving one. The product arrives with
the batch on partitions again, in natural order, ready for contiguous stores:

    HBM [B, N] -> SBUF [128, 2, R, N] -> [128, R, 2, N] -> PSUM [2gN, 128] -> SBUF
        -> PSUM [128, 2gN] -> SBUF [128, 2, R, N] -> HBM

A slab is what one transpose takes, and is one strided run in SBUF. Up to N = 64, a copy brings the
two parts of each row together; a slab then holds g = 64 // N transforms, M is repeated g times
along the diagonal, and the contraction fills 2gN <= 128 rows. A longer transform is a slab of its
own. Its contraction is cut by part, and into pieces of at most 128 numbers, which are accumulated
in PSUM.

Rows are independent. Where the chip transposes by a product (v2), or where several rows share a
product with the diagonal blocks, rows that are not finite are set aside (row_guard). From v3 on
transposes are exact, and rows of 20 numbers or more stay apart in products, too: each row begins at
its own 32 or 64 partitions, and row tiles of the array multiply the rows side by side, in less time
than the zeros of a block-diagonal matrix take. Shorter rows would leave too much of the array
empty.

Why blocks overlap.  DMA fills a few tiles in turn. While one block is multiplied, the bad rows of
the next block are overwritten, and the parts of the block after that are brought together: by
GpSimdE, or by ScalarE where GpSimdE shares VectorE's port (v2). ScalarE evacuates the transposes.
VectorE evacuates the results, and marks bad rows as it does so. The transposes of a group of slabs
are issued before the products of the previous group, so that the Tensor engine does not wait. A
small batch is cut into smaller blocks.

Precision.  The table's dtype decides. With a bfloat16 table, DMA rounds the data on its way in, and
every matmul runs at four times the fp32 rate; PSUM and HBM stay fp32. A refined table consists of
two tables, W = W_hi + W_lo, on a leading axis. Then the data is transposed in fp32 and split in the
same way, d = d_hi + d_lo, as it leaves PSUM, and the product is d_hi W_hi + d_hi W_lo + d_lo W_hi,
summed in PSUM; the term that is dropped is 2^-16 of the result. (Correcting the result by the
transform of x - inverse(X) would not do: a bfloat16 inverse has errors as large as the errors that
it should find.)

Why it is fast.  The matmuls cost 8N fp32 cycles a transform against 2N loaded numbers, which on
trn1 is about the time that DMA needs for 16 bytes a point (docs/benchmarks.md has modelled times).

The same blocks, slabs and guard serve any table that multiplies rows: ``multiply_rows``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..isa import nisa, nki, nl
from ..roots import roots
from ..row_blocks import (
    HbmRows,
    Rows,
    blocks_of,
    load_rows,
    ramped,
    row_count,
    share_rows,
    store_rows,
)
from ..row_guard import advance_guard, begin_guard, guard_steps, transposes_mix_rows
from ..table_terms import (
    PAIRS,
    data_dtype,
    evacuate_operand,
    rounded_table,
    table_spec,
    table_terms,
)
from ..tiles import (
    DMA_RUN,
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    even_columns,
    load_identity,
    load_tables,
    multiply,
    multiply_row_tile,
    padded_columns,
    psum_banks,
    transpose,
)

MAX_LENGTH = 256
_BLOCKS = 16  # blocks of a batch that is too small for as many blocks of 8 KiB a partition
_LITTLE = 8192  # numbers of a batch up to which the data arrives before the tables
# Numbers a partition of the blocks of a small batch: enough that an engine takes longer to move
# them than to prepare a copy, and fewer where the batch would be a single block.
_SMALL_BLOCK = 1056  # 8 rows of 66 complex numbers
_LEAST_BLOCK = 512
_INPUTS = 4  # tiles that DMA fills in turn
_SLABS = 3  # tiles that hold slabs: for two blocks ahead, and for the block that is computed
# numbers of a row, from which on a row tile of the array for each row is faster
_SHORTEST_TILED = 20


def transforms_per_slab(n: int) -> int:
    """Return how many transforms of length n one product takes: 2 * g * n <= 128, at least 1."""
    return max(1, PARTITIONS // (2 * n))


def dft_gemm_matrix(
    n: int,
    inverse: bool = False,
    scale: float = 1.0,
    dtype: str = "float32",
    refined: bool = False,
) -> np.ndarray[Any, Any]:
    """Return the table of ``dft_gemm``: g copies of scale * [[Wr, Wi], [-Wi, Wr]].

    It is computed in float64 with the exponent reduced exactly (n k mod N), and rounded once.

    Args:
        n: length of the transform, 1 to 256.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.
        dtype: "float32" or "bfloat16".
        refined: with "bfloat16" only, whether to return the rounded table and what rounding lost.

    Returns:
        [2gN, 2gN], or refined [2, 2gN, 2gN].

    Raises:
        ValueError: n is out of range, or the dtype is not known.
    """
    if not 1 <= n <= MAX_LENGTH:
        raise ValueError(f"n = {n}: DFT-GEMM accepts lengths 1 to {MAX_LENGTH}")
    index = np.arange(n)
    w = scale * roots(np.outer(index, index), n, inverse)
    real, imaginary = w.real, w.imag
    one = np.block([[real, imaginary], [-imaginary, real]])
    return rounded_table(np.kron(np.eye(transforms_per_slab(n)), one), dtype, refined)


def dft_gemm_spec(n: int, dtype: str = "float32", refined: bool = False) -> Any:
    """Return the (shape, dtype) of ``dft_gemm_matrix(n, ...)``."""
    size = 2 * n * transforms_per_slab(n)
    return table_spec((size, size), dtype, refined)


class Product(nl.NKIObject):
    """The numbers of a row, and of its product with the table."""

    parts: int  # parts of a row: two of complex data, one of real data
    held: int  # numbers of each part in HBM
    contracted: int  # how many of these are contracted
    has_nyquist: bool  # whether Xr[N/2] takes the place of Xi[0], in half spectra
    result_parts: int  # parts of a result
    result: int  # numbers of each part of a result


class Piece(nl.NKIObject):
    """Part of a row that is too long to be contracted at once."""

    part: int
    first: int  # the first number of that part
    end: int  # the number after the last


class Slab(nl.NKIObject):
    """How rows lie in the operand that the Tensor engine takes at a time."""

    rows: int  # rows of a slab
    tiles: int  # row tiles of the array, side by side: 1 for all rows together, or 1 for each row
    pitch: int  # numbers from row to row
    pieces: Any  # list of Piece for a row that is too long, or empty


class Work(nl.NKIObject):
    """What all blocks of a launch need."""

    product: Product
    slab: Slab
    matrix: Any  # the table in HBM, whose dtype is that of the operands
    identity: Any  # SBUF [128, 128]
    tables: Any  # for each term, the table's pieces in SBUF
    inputs: Any  # SBUF tiles [128, parts, rows, held] that DMA fills in turn
    slabs: Any  # SBUF tiles [128, rows, pitch] for slabs, where the data has to be moved


class Block(nl.NKIObject):
    """Rows on their way through SBUF."""

    rows: Rows
    data: Any  # the numbers that are contracted, SBUF [partitions, rows, parts, contracted]
    slabs: Any  # the same as [partitions, rows of whole slabs, pitch], if it is not in pieces
    result: Any  # SBUF [partitions, result_parts, rows, result]
    is_guarded: bool  # whether rows meet in transposes or products
    guard: Any = None  # the guard of its rows, if they meet; ScalarE squares them first
    marks: Any = None  # [partitions, rows], 0 or NaN to be added to results, if rows meet


class Group(nl.NKIObject):
    """Slabs of a block that are transposed together."""

    block: Block
    first: int  # the first row of a partition
    slabs: int  # number of slabs
    operands: Any  # [piece][term] of the transposed data, SBUF [K, slabs, columns]


@nki.jit
def dft_gemm(x_re, x_im, matrix):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, by one matrix product.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N], 1 <= N <= 256, B >= 1.
        matrix: ``dft_gemm_matrix(N, ...)``, whose dtype is that of the products.

    Returns:
        (y_re, y_im), float32 HBM [B, N].
    """
    n = x_re.shape[1]
    y_re = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    source = [HbmRows(x_re, n), HbmRows(x_im, n)]
    target = [HbmRows(y_re, n), HbmRows(y_im, n)]
    dft_gemm_rows(source, target, n, matrix)
    return y_re, y_im


def dft_gemm_rows(source: Any, target: Any, n: int, matrix: Any) -> None:
    """Transform the rows of source into target, each a list of two ``HbmRows``.

    Zeros follow rows of the source that are shorter than N; outputs beyond the target's columns are
    not stored.
    """
    multiply_rows(source, target, Product(2, n, n, False, 2, n), matrix)


def multiply_rows(source: Any, target: Any, product: Product, matrix: Any) -> None:
    """Multiply the rows of source by a table, which contains a copy for every row of a slab.

    source, target: lists of ``HbmRows``, one for each part. matrix: HBM [numbers contracted,
    numbers of results], both times the rows of a slab; or two such tables, whose sum is meant.
    """
    batch = row_count(source[0].tensor)
    is_refined = len(matrix.shape) > 2
    numbers = product.parts * product.contracted
    slab = slab_of(product, matrix.shape[len(matrix.shape) - 2] // numbers)
    most = block_rows(batch, product, slab)
    share = share_rows(batch, PARTITIONS * most, block_instructions(slab, most, is_refined))
    is_late = share.trips == 0 and is_data_first(source[0], product.contracted)
    work = load_work(matrix, product, slab, most, is_late)

    def body(row: Any) -> None:
        blocks = blocks_of(row, share.first, share.step, most)
        transform_blocks(source, target, work, ramped(blocks, slab.rows))

    if share.trips > 0:
        nl.fori_loop(0, share.trips * share.step, body, share.step)
    if share.rest > 0:
        first = share.first + share.trips * share.step
        blocks = ramped(blocks_of(None, first, share.rest, most), slab.rows)
        transform_blocks(source, target, work, blocks)


def slab_of(product: Product, per_slab: int) -> Slab:
    """Return the layout of slabs; exactly transposed rows stay apart unless they are short."""
    numbers = product.parts * product.contracted
    if numbers > PARTITIONS:
        return Slab(1, 1, numbers, pieces_of(product))
    if transposes_mix_rows() or per_slab == 1 or numbers < _SHORTEST_TILED:
        return Slab(per_slab, 1, numbers, [])
    pitch = NARROW if numbers <= NARROW else 2 * NARROW
    return Slab(PARTITIONS // pitch, PARTITIONS // pitch, pitch, [])


def pieces_of(product: Product) -> Any:
    """Return pieces of at most 128 numbers, of about equal length."""
    count = -(-product.contracted // PARTITIONS)
    pieces = []
    for part in range(product.parts):
        for index in range(count):
            first = product.contracted * index // count
            pieces.append(Piece(part, first, product.contracted * (index + 1) // count))
    return pieces


def slabs_together(slab: Slab) -> int:
    """Return how many slabs a group has.

    PSUM has a bank for each piece, beside the banks of the previous group.
    """
    return PSUM_BANK // PARTITIONS if len(slab.pieces) <= 2 else PSUM_BANK // PARTITIONS // 2


def block_rows(batch: int, product: Product, slab: Slab) -> int:
    """Return how many rows a partition takes in a block: whole slabs of 8 KiB, or less.

    A small batch has smaller blocks, so that one block is loaded while another is computed.
    """
    rows = -(-batch // (nl.num_programs() * PARTITIONS))
    numbers = product.parts * product.held
    least = max(_LEAST_BLOCK, min(_SMALL_BLOCK, rows * numbers // 2))
    wanted = min(2 * DMA_RUN, max(least, rows * numbers // _BLOCKS)) // numbers
    slabs = max(1, min(wanted // slab.rows, -(-rows // slab.rows)))
    together = slabs_together(slab)
    if slabs > together:
        slabs = slabs // together * together
    return slabs * slab.rows


def is_data_first(rows: HbmRows, n: int) -> bool:
    """Return whether rows of n numbers are loaded before the identity and the tables.

    A small amount of data would only wait for these, unless its rows are checked before it is
    transposed. Where an earlier pass makes the data, the tables would have to wait for that pass.
    """
    if rows.is_made:
        return False
    batch = row_count(rows.tensor)
    if transposes_mix_rows():
        return bool(batch > 1)
    return bool(batch > NARROW and batch * n > _LITTLE)


def block_instructions(slab: Slab, rows: int, is_refined: bool) -> int:
    """Return how many instructions a block takes, or a few more."""
    pieces = max(1, len(slab.pieces))
    products = pieces * (3 if is_refined else 1)
    return -(-rows // slab.rows) * (3 * pieces + slab.tiles * (products + 1)) + rows + 30


def load_work(matrix: Any, product: Product, slab: Slab, most: int, is_late: bool) -> Work:
    """Allocate tiles, and load the identity and the tables unless these come later."""
    dtype = data_dtype(matrix, 2)
    inputs: Any = []
    slabs: Any = []
    work = Work(product, slab, matrix, None, [], inputs, slabs)
    if not is_late:
        load_operands(work)
    for _ in range(_INPUTS):
        shape = (PARTITIONS, product.parts, most, product.held)
        inputs.append(nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf))
    numbers = product.parts * product.contracted
    if len(slab.pieces) == 0 and (product.parts > 1 or numbers < slab.pitch):
        for _ in range(_SLABS):
            tile = nl.ndarray((PARTITIONS, most, slab.pitch), dtype=dtype, buffer=nl.sbuf)
            if numbers < slab.pitch:
                gap = tile[:, :, numbers : slab.pitch]
                nisa.memset(dst=gap, value=0.0, engine=nisa.engine.gpsimd)
            slabs.append(tile)
    return work


def load_operands(work: Work) -> None:
    """Load the identity and the tables into SBUF, unless they are there."""
    if work.identity != None:
        return
    work.identity = load_identity(data_dtype(work.matrix, 2))
    for term in table_terms(work.matrix, 2):
        work.tables.append(load_pieces(term, work.product, work.slab))


def load_pieces(term: Any, product: Product, slab: Slab) -> Any:
    """Load a table as it is contracted: in pieces, or the table of one row for each row tile."""
    if slab.tiles > 1:
        depth = product.parts * product.contracted
        width = product.result_parts * product.result
        # Half a KiB a partition may stay where DMA wrote it.
        table = nl.ndarray((PARTITIONS, width), dtype=term.dtype, buffer=nl.sbuf)
        for tile in range(slab.tiles):
            low = tile * slab.pitch
            one = term[0:depth, 0:width]
            nisa.dma_copy(dst=table[low : low + depth], src=one, dge_mode=nisa.dge_mode.none)
        return [table]
    if len(slab.pieces) == 0:
        return load_tables([term])
    pieces = []
    for piece in slab.pieces:
        row = piece.part * product.contracted
        pieces.append(term[row + piece.first : row + piece.end])
    return load_tables(pieces)


def transform_blocks(source: Any, target: Any, work: Work, rows: Any) -> None:
    """Transform blocks one after the other; each engine works on the block that is needed next.

    Two blocks ahead, parts are brought together and squared; one block ahead, bad rows are set
    aside. A group of slabs is multiplied after the next group has been transposed.
    """
    blocks: Any = []
    pending: Any = []
    for step in range(len(rows) + 2):
        if step < len(rows):
            blocks.append(open_block(source, rows[step], work, step))
        load_operands(work)
        if 1 <= step <= len(rows):
            guard_block(blocks[step - 1])
        if step >= 2:
            block = blocks[step - 2]
            first = 0
            while first < block.rows.each:
                group = transpose_group(block, first, work)
                if len(pending) > 0:
                    multiply_group(pending[0], target, work)
                pending = [group]
                first += group.slabs * work.slab.rows
    multiply_group(pending[0], target, work)


def open_block(source: Any, rows: Rows, work: Work, index: int) -> Block:
    """Load a block's rows and bring the parts of each row together."""
    product, slab = work.product, work.slab
    whole = -(-rows.each // slab.rows) * slab.rows
    x = work.inputs[index % len(work.inputs)][0 : rows.partitions]
    for part in range(product.parts):
        end = source[part]
        load_rows(x[:, part, 0 : rows.each], end.tensor, rows, end.columns)
    if product.has_nyquist:
        nyquist = x[:, 0, 0 : rows.each, product.held - 1]
        nisa.tensor_copy(dst=x[:, 1, 0 : rows.each, 0], src=nyquist, engine=nisa.engine.gpsimd)
    data = x[:, :, 0 : rows.each, 0 : product.contracted].permute((0, 2, 1, 3))
    slabs = x[:, 0, 0:whole]
    if len(work.slabs) > 0:
        slabs = work.slabs[index % len(work.slabs)][0 : rows.partitions, 0:whole]
        data = bring_together(slabs, data)
    if rows.each < whole:
        nisa.memset(dst=slabs[:, rows.each : whole], value=0.0, engine=nisa.engine.gpsimd)
    shape = (rows.partitions, product.result_parts, rows.each, product.result)
    result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    do_rows_meet = transposes_mix_rows() or slab.tiles < slab.rows
    is_guarded = do_rows_meet and rows.partitions * rows.each > 1
    block = Block(rows, data, slabs, result, is_guarded)
    if is_guarded:
        block.guard = begin_guard(data, 2.0 * product.parts * product.contracted)
        advance_guard(block.guard, len(block.guard.pieces))
    return block


def bring_together(slabs: Any, data: Any) -> Any:
    """Copy data [P, rows, parts, n] to slabs [P, rows of whole slabs, pitch]; return the copy."""
    _, rows, parts, n = data.shape
    dst = slabs[:, 0:rows, 0 : parts * n].reshape_dim(2, (parts, n))
    # GpSimdE would keep VectorE waiting where both share a port.
    if transposes_mix_rows():
        nisa.activation(dst=dst, op=nl.copy, data=data)
    else:
        nisa.tensor_copy(dst=dst, src=data, engine=nisa.engine.gpsimd)
    return dst


def guard_block(block: Block) -> None:
    """Set aside rows that are not finite, where rows meet."""
    if block.is_guarded:
        advance_guard(block.guard, guard_steps(block.guard))
        block.marks = block.guard.marks


def transpose_group(block: Block, first: int, work: Work) -> Group:
    """Return the operands of the slabs from row ``first`` on."""
    slab = work.slab
    left = -(-(block.rows.each - first) // slab.rows)
    slabs = min(slabs_together(slab), left)
    if len(slab.pieces) == 0:
        return Group(block, first, slabs, [transpose_slabs(block.slabs, block, first, slabs, work)])
    operands = []
    for piece in slab.pieces:
        data = block.data[:, :, piece.part, piece.first : piece.end]
        operands.append(transpose_slabs(data, block, first, slabs, work))
    return Group(block, first, slabs, operands)


def transpose_slabs(data: Any, block: Block, first: int, slabs: int, work: Work) -> Any:
    """Transpose slabs of data [P, rows, numbers] to operands [K, slabs, columns] of each term."""
    per_slab = work.slab.rows
    columns = padded_columns(block.rows.partitions, 0)
    dtype = nl.float32 if transposes_mix_rows() else data.dtype  # exact transposes keep the dtype
    shape = (per_slab * data.shape[2], slabs, even_columns(columns, dtype))
    bank = nl.ndarray(shape, dtype=dtype, buffer=nl.psum)[:, :, 0:columns]
    for index in range(slabs):
        at = first + index * per_slab
        transpose(bank[:, index], data[:, at : at + per_slab], work.identity)
    return evacuate_operand(bank, work.matrix.dtype, len(work.tables), True)


def multiply_group(group: Group, target: Any, work: Work) -> None:
    """Make and evacuate the products of a group; after a block's last group, store the block."""
    product, slab = work.product, work.slab
    block = group.block
    each = slab.rows // slab.tiles
    # A sum of several products has a bank of its own; single products share a bank as they fit.
    together = 1
    if len(group.operands) * len(work.tables) == 1:
        width = each * product.result_parts * product.result
        together = min(group.slabs, PSUM_BANK // width)
    for first in range(0, group.slabs, together):
        count = min(together, group.slabs - first)
        shape = (
            padded_columns(block.rows.partitions, 0),
            count * each,
            product.result_parts,
            product.result,
        )
        banks = psum_banks(slab.tiles, shape)
        for index in range(count):
            for tile in range(slab.tiles):
                bank = banks[tile][:, index * each : (index + 1) * each]
                multiply_slab(bank, group, first + index, tile, work)
        for tile in range(slab.tiles):
            row = group.first + first * slab.rows + tile
            # VectorE computes the second term of operands, so ScalarE helps it here.
            is_scalar = len(work.tables) > 1 and not block.is_guarded and tile % 2 == 1
            evacuate_rows(banks[tile], block, row, slab.tiles, is_scalar)
    if group.first + group.slabs * slab.rows >= block.rows.each:
        for part in range(product.result_parts):
            end = target[part]
            store_rows(end.tensor, block.result[:, part], block.rows, end.columns)


def multiply_slab(bank: Any, group: Group, index: int, tile: int, work: Work) -> None:
    """Sum all terms of the product of a group's slab, or of its row in one of the row tiles."""
    is_more = False
    for term in range(2 * len(work.tables) - 1):
        pair = PAIRS[term]
        for piece in range(len(group.operands)):
            operand = group.operands[piece][pair[0]][:, index]
            table = work.tables[pair[1]][piece]
            if work.slab.tiles == 1:
                multiply(bank, operand, table, is_more)
            else:
                multiply_row(bank, operand, table, tile, work, is_more)
            is_more = True


def multiply_row(
    bank: Any, operand: Any, table: Any, tile: int, work: Work, accumulate: bool
) -> None:
    """Multiply a row in its row tile of the array."""
    pitch = work.slab.pitch
    low = tile * pitch
    end = low + work.product.parts * work.product.contracted
    multiply_row_tile(bank, operand[low:end], table[low:end], low, pitch, accumulate)


def evacuate_rows(bank: Any, block: Block, row: int, step: int, is_scalar: bool) -> None:
    """Evacuate every ``step``-th row of the block from ``row`` on; add marks where rows meet."""
    partitions, parts, each, n = block.result.shape
    count = min(bank.shape[1], -(-(each - row) // step))
    if count < 1:
        return
    end = row + (count - 1) * step + 1
    dst = block.result[:, :, row:end:step].permute((0, 2, 1, 3))
    data = bank[0:partitions, 0:count]
    if is_scalar:
        nisa.activation(dst=dst, op=nl.copy, data=data)
    elif not block.is_guarded:
        nisa.tensor_copy(dst=dst, src=data, engine=nisa.engine.vector)
    else:
        pattern = [[block.marks.shape[1], partitions], [step, count], [0, parts], [0, n]]
        marks = block.marks.ap(pattern, row)
        nisa.tensor_tensor(dst=dst, data1=data, data2=marks, op=nl.add, engine=nisa.engine.vector)
