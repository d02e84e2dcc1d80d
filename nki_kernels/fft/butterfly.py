"""FFT of N = 2 to 2**14 (a power of two) on the Vector engine: one launch, natural order.

Mathematics.  Stockham's autosort. A stage of radix r turns x into y, with N = r m s:

    y[q + s (r p + k')] = w_{rm}^{p k'} sum_k w_r^{k k'} x[q + s (p + m k)],   p < m, q < s

for s = 1, 4, 16, ... All radices are 4, except that the last one is 2 where log2 N is odd. A
radix-4 stage reads four contiguous runs and writes with a stride of 4 numbers at most; no bit
reversal is needed. A twiddle factor may be applied as late as the stage that sums over the index on
which it depends. So three stages form a block of 64. Inside a block, output K of the block so far
is multiplied by w_{rK'}^{pK} with p < r, which are constants (K' is the number of outputs so far, r
the next radix); only at the end of the block comes the table w^{pK} over all p. The direction of
the transform is the sign of w_4 = -+i and of the twiddles, so it is part of the tables, as is the
scale.

Layout on the NeuronCore.  The batch lies on partitions, R transforms on each, so that R N numbers
fill a state of 4096 points (2048 compensated). Both parts lie in one tile [128, 2, R, N]. Each
stage writes a fresh tile, and the tiles rotate. A transform that is larger than a state begins with
one more radix-4 stage, which reads pieces of the row in HBM and leaves four transforms of N/4; the
last pass interleaves their results. No instruction works across partitions, so rows never meet. DMA
writes to a few tiles in turn: 32 KiB of input, whose tiles are free again after the first stage,
and pieces of the tables, repeated over the partitions.

Why it is fast.  VectorE is the limit. It needs two cycles for every addition of two tiles, and each
point takes 2 log2 N additions. Constant twiddles are columns, so ScalarE multiplies by them, and by
-+i, while VectorE adds. For this a stage proceeds by quarters, and the products are a quarter ahead
of their sums. VectorE multiplies only by the tables.

Compensated (Kahan) mode.  Each number is an unevaluated sum hi + lo. In butterfly_words.py, numbers
are therefore a list of one or two tiles ("words"). An addition is Knuth's TwoSum of the hi, whose
exact error is added to lo. A product splits both factors after 12 bits, as Dekker does: x = x1 + x2
by a mask, w = w1 + w2 on the host; then x1 w1 is exact, and x1 w2 + x2 w is added to lo. Roundings
of lo are 2**-12 below a rounding of hi; hi + lo is rounded once at the end.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nki, nl
from ..row_blocks import Rows, blocks_of, load_rows, share_rows, store_rows
from ..tiles import PARTITIONS
from .butterfly_stages import (
    Tables,
    factor_views,
    fresh_words,
    is_compensated,
    load_factors,
    radix_4,
    scaled_sum,
    table_entries,
    transform,
)
from .butterfly_tables import RUN, schedule, split_count, state_points
from .butterfly_words import begin_twiddle, finish_twiddle, part_of, sbuf

_PIECE = 256  # points of each quarter of a long row that are loaded at once
_STORED = 2048  # points of a long row that are stored at once


class Launch(nl.NKIObject):
    """What all blocks of rows share."""

    x: Any  # HBM [B, N], [real part, imaginary part]
    y: Any  # the same for the result
    tables: Tables
    inputs: Any  # SBUF tiles [128, 2 run] into which rows are loaded in turn; none for long rows


def block_instructions(n: int, compensated: bool) -> int:
    """Return the instructions of a block of rows; compensated, a few more than that."""
    words, addition, factors = (2, 8, 3) if compensated else (1, 1, 1)
    twiddle = 2 * factors + 2 * addition + (5 if compensated else 0)
    parts = split_count(n, compensated)
    length = n // parts
    total = 0
    for stage in schedule(length, 0):
        quarters = min(4, stage.count)
        total += quarters * (6 * addition + 2 * words if stage.radix == 4 else 2 * addition)
        if stage.has_table:
            loads = stage.count * stage.outputs // table_entries(stage, compensated)
            total += loads * (1 + twiddle)
        elif stage.following > 0:
            total += (quarters - 1) * (twiddle + 2 * factors * (stage.outputs - 2))
    if parts == 1:
        return total + 4 + 2 * words
    pieces = length // _PIECE * (2 + 8 * addition + 2 * words + 3 * (1 + twiddle))
    states = n // state_points(n, compensated)
    return pieces + states * total + n // _STORED * (2 + 8 * words)


@nki.jit
def butterfly(x_re, x_im, tables, places, compensated=False):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``, on the Vector engine.

    The tables determine the direction and the scale.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, N]; N is a power of two from 2 to
            16384 (4096 compensated).
        tables, places: the two results of ``pack(butterfly_tables(N, ...,
            compensated=compensated))``.
        compensated: whether every number is computed as an unevaluated sum of two.

    Returns:
        (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    held = load_columns(tables, places)
    launch = Launch([x_re, x_im], [y_re, y_im], held, input_tiles(n, compensated))
    block = PARTITIONS * max(1, state_points(n, compensated) // n)
    share = share_rows(batch, block, block_instructions(n, compensated))
    last = share.first + share.trips * share.step
    if share.trips > 0:

        def body(row):  # type: ignore[no-untyped-def]
            transform_blocks(launch, row, 0, share.step)

        nl.fori_loop(share.first, last, body, share.step)
    transform_blocks(launch, None, last, share.rest)
    return y_re, y_im


def load_columns(packed: Any, places: Any) -> Tables:
    """Load the columns of the packed tables onto every partition; return the tables."""
    first, shape, _ = places[0]
    constants = shape[1]
    columns = sbuf((PARTITIONS, constants))
    nisa.dma_copy(dst=columns, src=packed.ap([[0, PARTITIONS], [1, constants]], offset=first))
    first, shape, _ = places[1]
    return Tables(columns, packed, first, shape[0], shape[1])


def input_tiles(n: int, compensated: bool) -> Any:
    """Allocate 32 KiB a partition of input tiles, for rows that do not exceed a state."""
    tiles: Any = []
    if split_count(n, compensated) == 1:
        run = state_points(n, compensated)
        for _ in range(RUN // run):
            tiles.append(sbuf((PARTITIONS, 2 * run)))
    return tiles


def transform_blocks(launch: Launch, base: Any, first: int, count: int) -> None:
    """Transform ``count`` rows of HBM, from the ``first`` after register ``base`` on."""
    n = launch.x[0].shape[1]
    points = state_points(n, is_compensated(launch.tables))
    blocks = blocks_of(base, first, count, max(1, points // n))
    for index in range(len(blocks)):
        if n > points:
            transform_long_rows(launch, blocks[index])
        else:
            transform_rows(launch, blocks[index], launch.inputs[index % len(launch.inputs)])


def transform_rows(launch: Launch, rows: Rows, tile: Any) -> None:
    """Transform a block of rows, which are loaded into ``tile`` [128, 2 run]."""
    n = launch.x[0].shape[1]
    pattern = [[tile.shape[1], rows.partitions], [rows.each * n, 2], [n, rows.each], [1, n]]
    state = tile.ap(pattern)
    for part in range(2):
        load_rows(state[:, part], launch.x[part], rows, n)
    words = transform([state], schedule(n, 1), launch.tables)
    for part in range(2):
        result = sbuf((rows.partitions, rows.each, n))
        scaled_sum(result, part_of(words, part), launch.tables.columns)
        store_rows(launch.y[part], result, rows, n)


def transform_long_rows(launch: Launch, rows: Rows) -> None:
    """Transform rows that exceed a state, one a partition: a radix-4 stage, then four of N/4."""
    length = launch.x[0].shape[1] // 4
    states = split_rows(launch, rows)
    stages = schedule(length, 3 * length)
    results = []
    for index in range(len(states)):
        results.append(transform(states[index], stages, launch.tables))
        states[index] = []
    for first in range(0, length, _STORED // 4):
        store_piece(launch, rows, results, first)


def piece_in_hbm(x: Any, rows: Rows, runs: int, first: int, size: int) -> Any:
    """Return a view of a piece of each of ``runs`` equal parts of rows of HBM x, [P, runs, size].

    The piece has the numbers from ``first`` to ``first + size`` of each part.
    """
    n = x.shape[1]
    pattern = [[n, rows.partitions], [n // runs, runs], [1, size]]
    return x.ap(pattern, rows.first * n + first, scalar_offset=rows.base)


def split_rows(launch: Launch, rows: Rows) -> Any:
    """Run the radix-4 stage of long rows, from HBM to the states of four transforms."""
    tables = launch.tables
    length = launch.x[0].shape[1] // 4
    each = state_points(4 * length, is_compensated(tables)) // length
    states, tiles, pieces = [], [], []
    for _ in range(4 // each):
        states.append(fresh_words((rows.partitions, 2, each, length), tables))
    for _ in range(2):
        tiles.append(sbuf((rows.partitions, 2, 4, 1, _PIECE)))
    for _ in range(3):
        pieces.append(sbuf((rows.partitions, tables.rows, _PIECE)))
    for first in range(0, length, _PIECE):
        tile = tiles[first // _PIECE % 2]
        for part in range(2):
            source = piece_in_hbm(launch.x[part], rows, 4, first, _PIECE)
            nisa.dma_copy(dst=tile[:, part, :, 0], src=source)
        split_piece(tile, states, first, tables, pieces)
    return states


def split_piece(tile: Any, states: Any, first: int, tables: Tables, pieces: Any) -> None:
    """Run the stage of ``split_rows`` on a tile of points from ``first`` of each quarter on.

    pieces: SBUF tiles for the twiddles of the second, third and fourth quarter.
    """
    each, length = states[0][0].shape[2:]
    outputs = []
    for leg in range(4):
        output = []
        for word in states[leg // each]:
            output.append(word[:, :, leg % each, first : first + _PIECE])
        outputs.append(output)
    radix_4([tile[:, :, 0:2]], [tile[:, :, 2:4]], outputs, [], tables.columns)
    for leg in range(1, 4):
        load_factors(pieces[leg - 1], tables, (leg - 1) * length + first)
        views = factor_views(pieces[leg - 1], 0, [[1, _PIECE]])
        finish_twiddle(begin_twiddle(outputs[leg], views))


def store_piece(launch: Launch, rows: Rows, results: Any, first: int) -> None:
    """Store a piece of the four transforms of long rows, interleaved and scaled."""
    size = _STORED // 4
    each = results[0][0].shape[2]
    for part in range(2):
        row = sbuf((rows.partitions, size, 4))
        for leg in range(4):
            words = []
            for word in results[leg // each]:
                words.append(word[:, part, leg % each, first : first + size])
            scaled_sum(row[:, :, leg], words, launch.tables.columns)
        target = piece_in_hbm(launch.y[part], rows, 1, 4 * first, _STORED)
        nisa.dma_copy(dst=target, src=row.reshape((rows.partitions, 1, _STORED)))
