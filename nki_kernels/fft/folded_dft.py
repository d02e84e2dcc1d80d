"""DFT of any length N from 129 to 2047, as products of half its size: one launch.

Mathematics.  Cosines are even in n and sines are odd. So with the even and odd parts of a row,

    E[n] = x[n] + x[N - n],  O[n] = x[n] - x[N - n]      (E[n] = O[n] = x[n] where n = -n mod N)
    A[k] = sum_n cos(2 pi n k / N) E[n],  B[k] = sum_n sin(2 pi n k / N) O[n]      n, k = 0 .. N/2

the transform is X[k] = A[k] -+ i B[k] and X[N - k] = A[k] +- i B[k]. These are four real products
with matrices of (N/2)^2 numbers, in place of four products with N^2. In real and imaginary parts,
where O and B have the imaginary part first,

    S = A + B = (Xr[k], Xi[N - k]),  D = A - B = (Xr[N - k], Xi[k])

(S and D change places with exp(+...), whose sines are negative). A scale is part of the matrices.

Layout on the NeuronCore.  n and k are cut into chunks of at most 128, which lie on partitions:

    HBM [B, N] -> SBUF [rows, 2, N] -> transposed: x[n], and x[N - n] in descending order of n
        -> its product with the reversal matrix J, in ascending order -> E, O [n, part, rows]
        -> A, B, summed over the chunks of n -> S, D [k, part, rows]
        -> transposed by products with I for k, with J for N - k -> SBUF [rows, 2, N] -> HBM

The matrices are the stationary operand and the rows are the moving operand, so that both folds add
numbers on equal partitions. Only the product with J reverses an order, because access patterns
cannot. Each accumulation has a PSUM bank of its own. Up to N = 255 a block takes two rows of each
partition; beyond, it takes one.

Rows are columns of every operand except in the first transposes. On NeuronCore-v2 these transposes
are products, which mix rows: there bad rows are set aside before (row_guard.py).

Why blocks overlap.  While one block is multiplied, the next block is transposed and folded, the
previous block is transposed back, and the block after the next is guarded. These four jobs take
turns, a step of each at a time, so that no engine waits for the engine before it. ScalarE evacuates
the transposes and A. VectorE computes E, O, S and D, each from one operand in PSUM and one in SBUF.

Why it is fast.  With c chunks, a row moves 4 c^2 columns of products, at 4 cycles each, and 10 c
columns of transposes and reversals, at 2 cycles each, over the Tensor engine. At N = 997, where c =
4, the modelled time is 2.3 times the DMA floor on trn1; Bluestein's two transforms of 2 N points
take 5 times the floor. Up to N = 2047 the matrices stay in SBUF.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..isa import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import HbmRows, Rows, blocks_of, load_rows, share_rows, store_rows
from ..row_guard import advance_guard, begin_guard, guard_steps, transposes_mix_rows
from ..tiles import (
    PARTITIONS,
    PSUM_BANK,
    evacuate,
    load_identity,
    load_tables,
    multiply,
    padded_columns,
    transpose,
)

MIN_LENGTH, MAX_LENGTH = 129, 2047
_AHEAD = 2  # blocks that are loaded before they are folded
_DMA_WRITTEN = 56 << 10  # bytes a partition of input and tables that may stay where DMA wrote them
_SPAN = PSUM_BANK // PARTITIONS  # chunks of results in a PSUM bank


class Chunk(nl.NKIObject):
    """Values of n or k on partitions; values from ``paired`` to ``last`` have a partner N - n."""

    low: int
    end: int  # the value after the last one
    paired: int
    last: int  # the value after the last one with a partner


class Work(nl.NKIObject):
    """What all blocks of a launch need."""

    n: int
    chunks: Any  # list of Chunk
    inputs: Any  # SBUF tiles [128, 2, rows, N] that DMA fills in turn
    identity: Any  # SBUF [128, 128]
    reversal: Any = None  # SBUF [128, 129]: ones on the antidiagonal, then zeros
    tables: Any = None  # for each chunk of n, SBUF [n, cosines and sines, k]


class Block(nl.NKIObject):
    """Rows on their way through SBUF; operands are [partitions, part, each, columns]."""

    rows: Rows
    columns: int  # columns that one row of each partition takes in an operand
    x: Any  # SBUF [partitions, 2, each, N]
    guard: Any  # the guard of its rows, where transposes mix them
    transposed: Any  # for each chunk of n: the chunk, and its partners in descending order
    even: Any  # E, for each chunk of n
    odd: Any  # O, for each chunk of n, imaginary part first
    cosines: Any  # products with cosines of the chunk of k whose sines come next
    sums: Any  # S, for each chunk of k
    differences: Any  # D, for each chunk of k
    result: Any  # SBUF [partitions, 2, each, N]


def chunks_of(n: int) -> Any:
    """Return 0 .. N/2 in chunks of at most 128, of about equal size."""
    half = n // 2 + 1
    count = -(-half // PARTITIONS)
    chunks = []
    for index in range(count):
        low, end = half * index // count, half * (index + 1) // count
        chunks.append(Chunk(low, end, max(low, 1), min(end, (n + 1) // 2)))
    return chunks


def folded_dft_tables(
    n: int, inverse: bool = False, scale: float = 1.0
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the tables of ``folded_dft``, float32.

    The first is J followed by zeros, [128, 129]. Then follows a table for each chunk of n, with
    scale * cos a and scale * +-sin a of a = 2 pi n k / N, [n, 2, N // 2 + 1]. The tables are
    computed in float64 with n k mod N, and rounded once.

    Args:
        n: length of the transform, 129 to 2047.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        A tuple of float32 arrays.

    Raises:
        ValueError: n is out of range.
    """
    if not MIN_LENGTH <= n <= MAX_LENGTH:
        raise ValueError(f"n = {n}: the folded DFT accepts lengths {MIN_LENGTH} to {MAX_LENGTH}")
    index = np.arange(n // 2 + 1)
    exponent = np.outer(index, index) % n
    angle = 2 * np.pi / n * exponent
    # The odd part of a number without a partner is not zero, so its sine has to be.
    sine = np.where(2 * exponent % n == 0, 0.0, np.sin(angle))
    matrices = scale * np.stack([np.cos(angle), -sine if inverse else sine], 1)
    reversal = np.eye(PARTITIONS, PARTITIONS + 1)
    reversal[:, :PARTITIONS] = reversal[::-1, :PARTITIONS]
    tables = [reversal] + [matrices[chunk.low : chunk.end] for chunk in chunks_of(n)]
    return tuple(table.astype(np.float32) for table in tables)


def folded_dft_specs(n: int) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``folded_dft_tables(n, ...)``."""
    specs: list[Any] = [((PARTITIONS, PARTITIONS + 1), "float32")]
    for chunk in chunks_of(n):
        specs.append(((chunk.end - chunk.low, 2, n // 2 + 1), "float32"))
    return tuple(specs)


@nki.jit
def folded_dft(x_re, x_im, tables, places):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, by products of half its size.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N], 129 <= N <= 2047.
        tables, places: the two results of ``pack(folded_dft_tables(N, ...))``.

    Returns:
        (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    source = [HbmRows(x_re, n), HbmRows(x_im, n)]
    target = [HbmRows(y_re, n), HbmRows(y_im, n)]
    chunks = chunks_of(n)
    most = 2 if len(chunks) == 1 else 1
    share = share_rows(batch, PARTITIONS * most, block_instructions(len(chunks), most))
    end = share.first + share.trips * share.step
    rows = blocks_of(None, end, share.rest, most)
    work = plan_work(n, chunks, most)
    # The first rows come before the tables, and are folded while these come.
    blocks: Any = []
    if share.trips == 0:
        for index in range(min(_AHEAD, len(rows))):
            blocks.append(open_block(source, rows[index], work, index))
    load_matrices(work, unpack(tables, places))

    def body(row: Any) -> None:
        transform_blocks(source, target, work, blocks_of(row, 0, share.step, most), [])

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, share.step)
    if share.rest > 0:
        transform_blocks(source, target, work, rows, blocks)
    return y_re, y_im


def block_instructions(chunks: int, each: int) -> int:
    """Return how many instructions a block takes, or a few more."""
    return chunks * (2 * chunks + 8 * each + 9) + 10 * each + 16


def plan_work(n: int, chunks: Any, most: int) -> Work:
    """Allocate what blocks share, before the tables are loaded."""
    inputs = []
    for _ in range(_AHEAD + 1):
        inputs.append(nl.ndarray((PARTITIONS, 2, most, n), dtype=nl.float32, buffer=nl.sbuf))
    return Work(n, chunks, inputs, load_identity(nl.float32))


def load_matrices(work: Work, tables: Any) -> None:
    """Load the tables into SBUF; a few stay where DMA wrote them, which is quicker."""
    numbers = 0
    for tile in work.inputs + tables[1:]:
        numbers += tile.shape[1] * tile.shape[2] * (tile.shape[3] if len(tile.shape) > 3 else 1)
    loaded: Any = []
    if 4 * numbers <= _DMA_WRITTEN:
        for table in tables:
            tile = nl.ndarray(table.shape, dtype=table.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=table, dge_mode=nisa.dge_mode.none)
            loaded.append(tile)
    else:
        loaded = load_tables(tables)
    work.reversal = loaded[0]
    work.tables = loaded[1:]


def transform_blocks(source: Any, target: Any, work: Work, rows: Any, blocks: Any) -> None:
    """Transform blocks one after the other; ``blocks`` has those that are loaded."""
    for index in range(len(blocks), min(_AHEAD, len(rows))):
        blocks.append(open_block(source, rows[index], work, index))
    share_of_guard(blocks[0], 1)
    for step in range(len(rows) + 2):
        if len(blocks) < len(rows):
            blocks.append(open_block(source, rows[len(blocks)], work, len(blocks)))
        run_step(blocks, step, target, work)


def run_step(blocks: Any, step: int, target: Any, work: Work) -> None:
    """Guard a block, fold the previous block, multiply the one before it, finish an earlier one."""
    turns = 2 * len(work.chunks)
    for turn in range(turns):
        if step + 1 < len(blocks):
            share_of_guard(blocks[step + 1], turns - turn)
        if step < len(blocks):
            fold_turn(blocks[step], turn, work)
        if 1 <= step <= len(blocks):
            multiply_turn(blocks[step - 1], turn, work)
        if step >= 2:
            finish_turn(blocks[step - 2], turn, target, work)


def open_block(source: Any, rows: Rows, work: Work, index: int) -> Block:
    """Load the rows of a block."""
    x = work.inputs[index % len(work.inputs)][0 : rows.partitions, :, 0 : rows.each]
    for part in range(2):
        load_rows(x[:, part], source[part].tensor, rows, source[part].columns)
    guard = None
    if transposes_mix_rows() and rows.partitions > 1:
        # No sum exceeds sqrt(2 N) times the norm.
        guard = begin_guard(x.permute((0, 2, 1, 3)), 2.0 * work.n)
    columns = padded_columns(rows.partitions, PARTITIONS)
    return Block(rows, columns, x, guard, [], [], [], None, [], [], None)


def share_of_guard(block: Block, turns: int) -> None:
    """Run steps of a block's guard, as one of so many turns that are left for it."""
    if block.guard != None:
        left = guard_steps(block.guard) - block.guard.step
        advance_guard(block.guard, -(-left // turns))


def fold_turn(block: Block, turn: int, work: Work) -> None:
    """Transpose a chunk, or fold a chunk two turns after its transpose, so that nothing waits."""
    last = 2 * len(work.chunks) - 1
    if turn < last and turn % 2 == 1 or turn == 0:
        transpose_chunk(block, work.chunks[(turn + 1) // 2], work)
    else:
        fold_chunk(block, turn // 2 - 1 if turn < last else len(work.chunks) - 1, work)


def transpose_chunk(block: Block, chunk: Chunk, work: Work) -> None:
    """Bring a chunk of n, and its partners, onto partitions."""
    partners = transpose_columns(block, work.n - chunk.last + 1, work.n - chunk.paired + 1, work)
    chosen = transpose_columns(block, chunk.low, chunk.end, work)
    block.transposed.append([chosen, partners])


def transpose_columns(block: Block, low: int, end: int, work: Work) -> Any:
    """Bring columns of x onto partitions of SBUF."""
    each = block.rows.each
    bank = nl.ndarray((end - low, 2, each, block.columns), dtype=nl.float32, buffer=nl.psum)
    for part in range(2):
        for row in range(each):
            transpose(bank[:, part, row], block.x[:, part, row, low:end], work.identity)
    return evacuate(bank, nl.float32, True)


def reversal_column(chunk: Chunk) -> int:
    """Return the first column of J for a product that reverses the order of a chunk's partners."""
    return PARTITIONS - (chunk.last - chunk.low)


def fold_chunk(block: Block, index: int, work: Work) -> None:
    """Compute the even and the odd part of a chunk of n; J has a column of zeros for no partner."""
    chunk = work.chunks[index]
    chosen, partners = block.transposed[index][0], block.transposed[index][1]
    column = reversal_column(chunk)
    mirrored = nl.ndarray(chosen.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(
        dst=mirrored,
        stationary=work.reversal[0 : partners.shape[0], column : column + chosen.shape[0]],
        moving=partners,
        is_stationary_onezero=True,
        accumulate=False,
    )
    even = nl.ndarray(chosen.shape, dtype=nl.float32, buffer=nl.sbuf)
    odd = nl.ndarray(chosen.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=even, data1=chosen, data2=mirrored, op=nl.add)
    for part in range(2):
        place = odd[:, 1 - part]
        nisa.tensor_tensor(
            dst=place, data1=chosen[:, part], data2=mirrored[:, part], op=nl.subtract
        )
    block.even.append(even)
    block.odd.append(odd)


def multiply_turn(block: Block, turn: int, work: Work) -> None:
    """Multiply a chunk of k by cosines; or by sines, and compute sums and differences."""
    index, function = turn // 2, turn % 2
    chunk = work.chunks[index]
    operands = block.even if function == 0 else block.odd
    shape = (chunk.end - chunk.low,) + operands[0].shape[1:]
    bank = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    for number in range(len(operands)):
        matrix = work.tables[number][:, function, chunk.low : chunk.end]
        multiply(bank, matrix, operands[number], number > 0)
    if function == 0:
        block.cosines = evacuate(bank, nl.float32, True)
        return
    sums = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    differences = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=sums, data1=block.cosines, data2=bank, op=nl.add)
    nisa.tensor_tensor(dst=differences, data1=block.cosines, data2=bank, op=nl.subtract)
    block.sums.append(sums)
    block.differences.append(differences)


def finish_turn(block: Block, turn: int, target: Any, work: Work) -> None:
    """Make a share of a block's results, real parts first; a block has two turns for each chunk."""
    rows, turns = block.rows, 2 * len(work.chunks)
    if turn == 0:
        shape = (rows.partitions, 2, rows.each, work.n)
        block.result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    spans = -(-len(work.chunks) // _SPAN)
    each = 2 * rows.each * spans  # banks of a part
    for number in range(2 * each * turn // turns, 2 * each * (turn + 1) // turns):
        part, row, rest = number // each, number // (2 * spans) % rows.each, number % (2 * spans)
        first = rest // 2 * _SPAN
        last = min(first + _SPAN, len(work.chunks))
        finish_span(block, part, row, rest % 2 == 1, work, first, last)
        if number % each == each - 1:
            store_rows(target[part].tensor, block.result[:, part], rows, target[part].columns)


def finish_span(
    block: Block, part: int, row: int, is_mirrored: bool, work: Work, first: int, last: int
) -> None:
    """Make the results of chunks of k, or of N - k, for a part and one row of each partition."""
    chunks, n = work.chunks, work.n
    low, end = chunks[first].low, chunks[last - 1].end
    if is_mirrored:
        low, end = n - chunks[last - 1].last + 1, n - chunks[first].paired + 1
    operands = block.sums if is_mirrored == (part == 1) else block.differences
    bank = nl.ndarray((block.columns, end - low), dtype=nl.float32, buffer=nl.psum)
    for index in range(first, last):
        chunk = chunks[index]
        data = operands[index][:, part, row]
        if is_mirrored:
            at = n - chunk.last + 1 - low
            reverse(bank[:, at : at + chunk.last - chunk.paired], data, chunk, work)
        else:
            transpose(bank[:, chunk.low - low : chunk.end - low], data, work.identity)
    place = block.result[:, part, row, low:end]
    found = bank[0 : block.rows.partitions]
    if block.guard == None:
        nisa.activation(dst=place, op=nl.copy, data=found)
    else:
        marks = block.guard.marks[:, row : row + 1]
        nisa.activation(dst=place, op=nl.copy, data=found, bias=marks)


def reverse(dst: Any, data: Any, chunk: Chunk, work: Work) -> None:
    """Bring SBUF data [k, columns] to PSUM [columns, N - k], in ascending order."""
    column = reversal_column(chunk)
    nisa.nc_matmul(
        dst=dst,
        stationary=data,
        moving=work.reversal[0 : data.shape[0], column : column + dst.shape[1]],
        is_moving_onezero=True,
        accumulate=False,
    )
