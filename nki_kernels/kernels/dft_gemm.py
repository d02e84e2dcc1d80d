"""DFT of any length N <= 256 as matrix products: one launch, natural order in and out.

Mathematics.  y[b, k] = sum_n x[b, n] W[n, k] with W[n, k] = exp(-+2 pi i n k / N). Split into
real and imaginary parts it is one real product of rows: [yr yi] = [xr xi] M with
M = [[Wr, Wi], [-Wi, Wr]], contracted over 2N numbers. A scale (1/N of an inverse) is part of M.

Layout on the NeuronCore.  A DMA puts R consecutive transforms on each partition, so that every
descriptor moves R*N contiguous numbers (4 KiB where the batch allows). The contraction must lie
on partitions, so the Tensor engine first transposes: stationary = data, moving = identity. Then
the transposed data is the stationary operand once more and M the moving one, and the product
lands with the batch on partitions again, in natural order, ready for contiguous stores:

    HBM [B, N] -> SBUF [128, 2, R, N] -> PSUM [2gN, 128] -> SBUF -> PSUM [128, 2gN] -> SBUF -> HBM

A slab is what one product takes. For N <= 64 it holds g = 64 // N transforms with both parts, M is
repeated g times along the diagonal and the contraction fills 2gN <= 128 rows. For larger N it is
one transform, whose contraction is cut by part and into pieces of at most 128, accumulated in
PSUM. VectorE evacuates the transposes, ScalarE the results; the transposes of a group of slabs
are issued before the products of the group ahead, so that the Tensor engine never waits.

Precision.  The table's dtype decides. With a bfloat16 table the DMA rounds the data on its way
in, and every matmul runs at four times the fp32 rate; PSUM and HBM stay fp32. A refined table is
two of them, W = W_hi + W_lo, on a leading axis. Then the data is transposed in fp32 and split the
same way, d = d_hi + d_lo, as it leaves PSUM, and the product is d_hi W_hi + d_hi W_lo + d_lo W_hi,
summed in PSUM: what is dropped is 2^-16 of the result. (Correcting the result by the transform of
x - inverse(X) would not do: a bfloat16 inverse has errors as large as those it should find.)

Why it is fast.  The matmuls cost 8N fp32 cycles a transform against 2N loaded numbers, which on
trn1 is about what DMA needs for 16 bytes a point; see README for the modelled figures.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..nki_api import nisa, nki, nl
from ..tiles import DMA_RUN, PARTITIONS, PSUM_BANK

MAX_LENGTH = 256
# Terms of (data, table) that are multiplied: high by high, and each rounding once. Low by low
# is smaller than the rounding of either. One term each leaves the first pair only.
PAIRS = ((0, 0), (0, 1), (1, 0))


def transforms_per_slab(n: int) -> int:
    """Transforms of length ``n`` that one product takes: 2 * g * n <= 128, at least 1."""
    return max(1, PARTITIONS // (2 * n))


def dft_gemm_matrix(
    n: int,
    inverse: bool = False,
    scale: float = 1.0,
    dtype: str = "float32",
    refined: bool = False,
) -> np.ndarray[Any, Any]:
    """The kernel's table: [2gN, 2gN], g copies of scale * [[Wr, Wi], [-Wi, Wr]].

    Computed in float64 with the exponent reduced exactly (n k mod N), rounded once, to float32 or
    bfloat16; ``refined`` (bfloat16 only): [2, 2gN, 2gN], rounded and what rounding lost. Raises
    ValueError unless 1 <= n <= 256.
    """
    if not 1 <= n <= MAX_LENGTH:
        raise ValueError(f"n = {n}: DFT-GEMM takes lengths 1 to {MAX_LENGTH}")
    index = np.arange(n)
    angle = 2 * np.pi / n * (np.outer(index, index) % n)
    real = scale * np.cos(angle)
    imaginary = scale * np.sin(angle) * (1 if inverse else -1)
    one = np.block([[real, imaginary], [-imaginary, real]])
    return rounded_table(np.kron(np.eye(transforms_per_slab(n)), one), dtype, refined)


def rounded_table(table: np.ndarray[Any, Any], dtype: str, refined: bool) -> np.ndarray[Any, Any]:
    """``table`` in float32 or bfloat16; refined: [2, ...], rounded and what rounding lost."""
    types: dict[str, Any] = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
    if dtype not in types or (refined and dtype != "bfloat16"):
        raise ValueError(f"dtype {dtype!r}: float32 or bfloat16, refined bfloat16 only")
    high = table.astype(types[dtype])
    if not refined:
        return high
    return np.stack([high, (table - high.astype(np.float64)).astype(high.dtype)])


def dft_gemm_spec(n: int, dtype: str = "float32", refined: bool = False) -> Any:
    """(shape, dtype) of ``dft_gemm_matrix(n, ...)``."""
    size = 2 * n * transforms_per_slab(n)
    return table_spec((size, size), dtype, refined)


def table_spec(shape: tuple[int, ...], dtype: str = "float32", refined: bool = False) -> Any:
    """(shape, dtype) of ``rounded_table(table, dtype, refined)`` for a table of this shape."""
    return ((2, *shape) if refined else shape), dtype


@nki.jit
def dft_gemm(x_re, x_im, matrix):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N], 1 <= N <= 256, B >= 1. matrix: ``dft_gemm_matrix(N, ...)``,
    whose dtype is that of the products. Returns (y_re, y_im), float32 HBM [B, N].
    """
    n = x_re.shape[1]
    assert n <= 256, f"N = {n}: DFT-GEMM takes at most 256"
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    y_re = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray(x_re.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    dft_gemm_rows([x_re, x_im], [y_re, y_im], matrix, n)
    return y_re, y_im


def dft_gemm_rows(source: Any, target: Any, matrix: Any, n: int) -> None:
    """Transform the rows of HBM source into HBM target, each a list of two parts [B, <= N].

    Zeros follow rows of the source that are shorter; the rest of the outputs is not stored.
    """
    batch = source[0].shape[0]
    dtype = data_dtype(matrix, 2)
    identity = nl.shared_identity_matrix(PARTITIONS, dtype=dtype)
    tables = load_tables(matrix, n)

    pending: Any = []
    start = 0
    while start < batch:
        rows = block_rows(batch - start, n)
        partitions = min(PARTITIONS, (batch - start) // rows)
        stop = start + rows * partitions
        x = nl.ndarray((partitions, 2, rows, n), dtype=dtype, buffer=nl.sbuf)
        y = nl.ndarray((partitions, 2, rows, n), dtype=nl.float32, buffer=nl.sbuf)
        for part in range(2):
            load_rows(x[:, part], source[part], start, stop)
        row = 0
        while row < rows:
            count = group_rows(rows - row, n)
            turned = transpose_group(x, identity, row, count, matrix.dtype, len(tables))
            if len(pending) > 0:
                multiply_group(pending, tables)
            pending = [turned, y, row, count, target, start, stop]
            row += count
        start = stop
    multiply_group(pending, tables)


def block_rows(left: int, n: int) -> int:
    """Transforms a partition takes in the next block, of ``left`` still to do."""
    group = group_rows(left, n)
    wanted = max(1, DMA_RUN // n)
    if wanted > group:
        wanted = wanted // group * group
    return min(max(wanted, 1), max(1, -(-left // PARTITIONS)))


def group_rows(left: int, n: int) -> int:
    """Transforms a partition sends through one PSUM bank: whole slabs, or one partial slab."""
    per_slab = transforms_per_slab(n)
    if left < per_slab:
        return left
    pieces = parts(n)
    slabs = min(
        PSUM_BANK // (pieces * PARTITIONS), PSUM_BANK // (2 * per_slab * n), left // per_slab
    )
    return slabs * per_slab


def parts(n: int) -> int:
    """2 where real and imaginary part are contracted one after the other, else 1."""
    return 1 if 2 * n <= PARTITIONS else 2


def piece_count(n: int) -> int:
    """Pieces of at most 128 that a part's contraction is cut into."""
    return -(-n // PARTITIONS)


def as_block(x: Any, start: int, stop: int, rows: int) -> Any:
    """Rows start..stop of an HBM tensor [B, N] as [partitions, rows, N]."""
    return x[start:stop].reshape_dim(0, ((stop - start) // rows, rows))


def load_rows(tile: Any, x: Any, start: int, stop: int) -> None:
    """Load rows start..stop of HBM [B, length] into SBUF [partitions, rows, N], then zeros."""
    _, rows, n = tile.shape
    held = x.shape[1]
    if held < n:
        nisa.memset(dst=tile[:, :, held:n], value=0.0)
    nisa.dma_copy(dst=tile[:, :, 0:held], src=as_block(x, start, stop, rows))


def store_rows(y: Any, tile: Any, start: int, stop: int) -> None:
    """Store SBUF [partitions, rows, N] as rows start..stop of HBM [B, length], length <= N."""
    rows, kept = tile.shape[1], y.shape[1]
    nisa.dma_copy(dst=as_block(y, start, stop, rows), src=tile[:, :, 0:kept])


def table_terms(table: Any, dimensions: int) -> Any:
    """The tables that add up to ``table``: two where it is refined, of one dimension more."""
    if len(table.shape) > dimensions:
        return [table[0], table[1]]
    return [table]


def data_dtype(table: Any, dimensions: int) -> Any:
    """What the data is transposed in: the table's dtype, or float32 to be split afterwards."""
    return nl.float32 if len(table.shape) > dimensions else table.dtype


def load_tables(matrix: Any, n: int) -> Any:
    """For each term, row pieces of the table in SBUF, in the order the contraction takes them."""
    tables = []
    for term in table_terms(matrix, 2):
        size = term.shape[1]
        rows = size // parts(n)
        pieces = []
        for part in range(parts(n)):
            for first in range(0, rows, PARTITIONS):
                length = min(PARTITIONS, rows - first)
                piece = nl.ndarray((length, size), dtype=matrix.dtype, buffer=nl.sbuf)
                row = part * rows + first
                nisa.dma_copy(dst=piece, src=term[row : row + length, :])
                pieces.append(piece)
        tables.append(pieces)
    return tables


def transpose_group(x: Any, identity: Any, row: int, count: int, dtype: Any, terms: int) -> Any:
    """Operands [K, slabs, parts, partitions] of transforms row..row+count, [piece][term]."""
    partitions, _, _, n = x.shape
    per_slab = min(count, transforms_per_slab(n))
    slabs = count // per_slab
    turned = []
    for piece in range(piece_count(n)):
        first = piece * PARTITIONS
        length = min(PARTITIONS, n - first)
        depth = 2 * per_slab * n if parts(n) == 1 else length
        shape = (depth, slabs, parts(n), partitions)
        bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for slab in range(slabs):
            at = row + slab * per_slab
            for part in range(parts(n)):
                if parts(n) == 1:
                    data = x[:, :, at : at + per_slab, :].permute((0, 2, 1, 3))
                else:
                    data = x[:, part, at, first : first + length]
                nisa.nc_matmul(
                    dst=bank[:, slab, part, :],
                    stationary=data,
                    moving=identity[0:partitions, 0:partitions],
                    is_moving_onezero=True,
                    is_transpose=is_float32(x),
                    accumulate=False,
                )
        turned.append(evacuate_operand(bank, dtype, terms, False))
    return turned


def is_float32(x: Any) -> bool:
    """Whether transposes of ``x`` may say so: v3 would want a bfloat16 PSUM tile, v2 forbids it."""
    return bool(x.dtype == nl.float32)


def evacuate_operand(bank: Any, dtype: Any, terms: int, is_scalar: bool) -> Any:
    """A PSUM bank as an operand of products: SBUF tiles of ``dtype``, ``terms`` that add up."""
    high = nl.ndarray(bank.shape, dtype=dtype, buffer=nl.sbuf)
    if terms == 1:
        if is_scalar:
            nisa.activation(dst=high, op=nl.copy, data=bank)
        else:
            nisa.tensor_copy(dst=high, src=bank, engine=nisa.engine.vector)
        return [high]
    low = nl.ndarray(bank.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.activation(dst=high, op=nl.copy, data=bank)
    nisa.tensor_tensor(dst=low, data1=bank, data2=high, op=nl.subtract)
    return [high, low]


def multiply_group(pending: Any, tables: Any) -> None:
    """Products of a transposed group, their evacuation, and the store after a block's last."""
    turned, y, row, count, target, start, stop = pending
    partitions, _, rows, n = y.shape
    per_slab = min(count, transforms_per_slab(n))
    slabs = count // per_slab
    width = 2 * per_slab * n
    products = 2 * len(tables) - 1
    # Sums of several products have a bank each: it may not hold two of them.
    together = slabs if products * parts(n) * len(turned) == 1 else 1
    for first in range(0, slabs, together):
        bank = nl.ndarray((partitions, together, width), dtype=nl.float32, buffer=nl.psum)
        for slab in range(together):
            for product in range(products):
                pair = PAIRS[product]
                for part in range(parts(n)):
                    for piece in range(len(turned)):
                        tile = turned[piece][pair[0]]
                        table = tables[pair[1]][part * len(turned) + piece]
                        nisa.nc_matmul(
                            dst=bank[:, slab, :],
                            stationary=tile[:, first + slab, part, :],
                            moving=table[0 : tile.shape[0], 0:width],
                            accumulate=product + part + piece > 0,
                        )
        low = row + first * per_slab
        nisa.activation(
            dst=y[:, :, low : low + together * per_slab, :].permute((0, 2, 1, 3)),
            op=nl.copy,
            data=bank.reshape((partitions, together * per_slab, 2, n)),
        )
    if row + count == rows:
        for part in range(2):
            store_rows(target[part], y[:, part], start, stop)
