"""FFT of N = 2 .. 2**14 (a power of two) on the Vector engine: one launch, natural order.

Mathematics.  Stockham's autosort. A stage of radix r turns x into y, with N = r m s:

    y[q + s (r p + k')] = w_{rm}^{p k'} sum_k w_r^{k k'} x[q + s (p + m k)],   p < m, q < s

for s = 1, 4, 16, ... All radices are 4, the last one is 2 where log2 N is odd. It reads four
contiguous runs and writes with a stride of 4 numbers at most, and no bit reversal is needed.
A twiddle may wait until the index it depends on is summed. So three stages form a block of 64:
inside it, output K of the block so far meets w_{rK'}^{pK} with p < r, constants (K' outputs, r
the next radix); only at its end comes the table w^{pK} over all p. The direction is the sign of
w_4 = -+i and of the twiddles, so it is part of the tables, as is the scale.

Layout on the NeuronCore.  Batch on partitions, R transforms on each so that R N fills a state of
4096 points (2048 compensated), both parts in one tile [128, 2, R, N]. A stage writes a fresh
tile: the tiles rotate. N larger than a state begins with one more radix-4 stage, from pieces of
the row in HBM to four transforms of N/4; the last pass interleaves their results. No instruction
works across partitions, so rows never meet.
DMA writes to a few tiles, used in turn: 32 KiB of input, free again after its first stage, and
pieces of the tables, repeated over the partitions.

Why it is fast.  It is bound by VectorE, which needs two cycles for every addition of two tiles:
2 log2 N of them a point. Constant twiddles are columns, so ScalarE multiplies by them, and by
-+i, beside VectorE: a stage goes by quarters, products a quarter ahead of their sums. VectorE
multiplies only by the tables.

Compensated (Kahan) mode.  Each number is an unevaluated sum hi + lo, and a list of one or two
tiles ("words") in this file. An addition is Knuth's TwoSum of the hi, whose exact error joins lo.
A product splits both factors after 12 bits, as Dekker does: x = x1 + x2 by a mask, w = w1 + w2 on
the host; then x1 w1 is exact and x1 w2 + x2 w joins lo. Roundings of lo are 2**-12 below one of hi;
hi + lo is rounded once at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..row_blocks import Rows, blocks_of, load_rows, share_rows, store_rows
from ..tiles import PARTITIONS

MAX_LENGTH = 2**14
MAX_COMPENSATED_LENGTH = 2**12  # of 2**13, hi and lo and what a stage needs exceed SBUF
_RUN = 4096  # points of a state, a partition, and of the tiles for input
_COMPENSATED_RUN = 2048
_ONE_STAGE_RUN = 1024  # of lengths that DMA binds: while one tile is worked on, others fill
_PIECE = 256  # points of each quarter of a long row that are loaded at once
_STORED = 2048  # points of a long row that are stored at once
_ENTRIES = 512  # of a table, that are loaded at once
_COMPENSATED_ENTRIES = 256
_BLOCK = 3  # stages between two tables
_SIGN, _SCALE, _FIRST_CONSTANT = 0, 1, 2  # columns of the first table
_HIGH_BITS = -4096  # 0xFFFFF000: sign, exponent and 12 significant bits of a float32


class Stage(nl.NKIObject):
    """One stage of a transform, and the twiddles that its outputs are multiplied by."""

    radix: int  # r, 4 or 2
    stride: int  # s
    count: int  # m: values of p
    block: int  # s of the stage that its block of stages begins with
    outputs: int  # K': outputs of its block so far, r s / block
    following: int  # radix of the stage after it, 0 of the last
    has_table: bool  # twiddles are a table over p and K, not constants
    place: int  # first entry of its table, or first column of its constants


class Tables(nl.NKIObject):
    """The kernel's tables, those of constants loaded."""

    columns: Any  # SBUF [128, C], alike on all partitions: sign of w_4, scale, constant twiddles
    factors: Any  # HBM [2 or 6, L]: twiddles; six rows are those of the compensated mode


class Launch(nl.NKIObject):
    """What all blocks of rows share."""

    x: Any  # HBM [B, N], real and imaginary part
    y: Any  # the same of the result
    tables: Tables
    inputs: Any  # SBUF tiles [128, 2 run] that rows come to, in turn; none for long rows


class Factors(nl.NKIObject):
    """Twiddles beside the data that they multiply."""

    rows: Any  # views of cos and sin; compensated: of 12 high bits, what these leave, the whole
    run: int  # numbers that each column of the views multiplies; 0: views are as large as the data


class Products(nl.NKIObject):
    """A complex multiplication before its sums."""

    by_cos: Any  # words of both parts times cos; compensated with a third, which joins lo
    by_sin: Any
    out: Any  # words that the sums belong to


def schedule(n: int, first_entry: int) -> list[Stage]:
    """The stages of a transform of length ``n``, whose tables begin at ``first_entry``."""
    left = n
    total = 0
    while left > 1:
        left = left // min(4, left)
        total += 1
    stages: list[Stage] = []
    stride, block, column, entry = 1, 1, 0, first_entry
    for index in range(total):
        radix = min(4, n // stride)
        count = n // (stride * radix)
        if (total - index) % _BLOCK == 0:
            block = stride
        outputs = stride * radix // block
        following = min(4, count) if count > 1 else 0
        has_table = following > 0 and (total - index - 1) % _BLOCK == 0
        place = entry if has_table else column
        stages.append(Stage(radix, stride, count, block, outputs, following, has_table, place))
        if has_table:
            entry += count * outputs
        elif following > 0:
            column += (following - 1) * (outputs - 1)  # the others are 1
        stride *= radix
    return stages


def state_points(n: int, compensated: bool) -> int:
    """Points a partition of a state of transforms of length ``n``."""
    if compensated:
        return _COMPENSATED_RUN
    return _ONE_STAGE_RUN if n <= 4 else _RUN


def split_count(n: int, compensated: bool) -> int:
    """4 where a row exceeds a state and begins with a radix-4 stage of its own, else 1."""
    return 4 if n > state_points(n, compensated) else 1


def block_instructions(n: int, compensated: bool) -> int:
    """How many instructions a block of rows takes; compensated, a few more than that."""
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


def butterfly_tables(
    n: int, inverse: bool = False, scale: float = 1.0, compensated: bool = False
) -> tuple[np.ndarray[Any, Any], ...]:
    """The kernel's float32 tables: columns [1, C] and twiddle factors [2 or 6, L].

    Columns are the sign of w_4, the scale, and the constant twiddles. Computed in
    float64 with the exponent reduced exactly, rounded once. Raises ValueError unless ``n`` is a
    power of two from 2 to 16384 (4096 compensated).
    """
    limit = MAX_COMPENSATED_LENGTH if compensated else MAX_LENGTH
    if not 2 <= n <= limit or n & (n - 1):
        mode = "the compensated butterfly" if compensated else "the butterfly"
        raise ValueError(f"n = {n}: {mode} takes powers of two from 2 to {limit}")
    sign = -1 if inverse else 1
    constants, entries = [np.ones(0, complex)], [np.ones(1, complex)]  # no table is empty
    parts = split_count(n, compensated)
    length = n // parts
    if parts > 1:
        entries = [_twiddles(np.outer([1, 2, 3], np.arange(length)), n, sign)]
    for stage in schedule(length, entries[0].size):
        if stage.has_table:
            powers = np.outer(np.arange(stage.count), np.arange(stage.outputs))
            entries.append(_twiddles(powers, stage.count * stage.outputs, sign))
        elif stage.following > 0:
            powers = np.outer(np.arange(1, stage.following), np.arange(1, stage.outputs))
            constants.append(_twiddles(powers, stage.following * stage.outputs, sign))
    columns = np.concatenate([[sign, scale], _factors(constants, compensated).ravel()])
    return columns.astype(np.float32).reshape(1, -1), _factors(entries, compensated)


def butterfly_specs(n: int, compensated: bool = False) -> tuple[Any, Any]:
    """(shape, dtype) of each of ``butterfly_tables(n, ..., compensated=compensated)``."""
    rows = 6 if compensated else 2
    parts = split_count(n, compensated)
    length = n // parts
    constants, entries = 0, 3 * length if parts > 1 else 1
    for stage in schedule(length, entries):
        if stage.has_table:
            entries += stage.count * stage.outputs
        elif stage.following > 0:
            constants += (stage.following - 1) * (stage.outputs - 1)
    columns = _FIRST_CONSTANT + rows * constants
    return ((1, columns), "float32"), ((rows, entries), "float32")


def _twiddles(powers: Any, size: int, sign: int) -> Any:
    angle = -2 * np.pi * sign / size * (powers % size)
    return np.cos(angle) + 1j * np.sin(angle)


def _factors(pieces: list[Any], compensated: bool) -> np.ndarray[Any, Any]:
    """Rows cos, sin; compensated: their 12 high bits, what these leave, and the whole."""
    values = np.concatenate([piece.ravel() for piece in pieces])
    both = np.stack([values.real, values.imag])
    if not compensated:
        return both.astype(np.float32)
    high = (both.astype(np.float32).view(np.int32) & np.int32(_HIGH_BITS)).view(np.float32)
    return np.concatenate([high, both - high, both]).astype(np.float32)


@nki.jit
def butterfly(x_re, x_im, tables, places, compensated=False):  # type: ignore[no-untyped-def]
    """Transform every row of ``x_re + i x_im``.

    x_re, x_im: float32 HBM [B, N], N a power of two from 2 to 16384 (4096 compensated), B >= 1.
    tables, places: ``pack(butterfly_tables(N, ..., compensated=compensated))``, which set direction
    and scale.
    Returns (y_re, y_im), float32 HBM [B, N].
    """
    batch, n = x_re.shape
    tables = unpack(tables, places)
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    launch = Launch([x_re, x_im], [y_re, y_im], load_columns(tables), input_tiles(n, compensated))
    block = PARTITIONS * max(1, state_points(n, compensated) // n)
    share = share_rows(batch, block, block_instructions(n, compensated))
    last = share.first + share.trips * share.step
    if share.trips > 0:

        def body(row):  # type: ignore[no-untyped-def]
            transform_blocks(launch, row, 0, share.step)

        nl.fori_loop(share.first, last, body, share.step)
    transform_blocks(launch, None, last, share.rest)
    return y_re, y_im


def load_columns(tables: Any) -> Tables:
    """The kernel's tables of HBM, with the columns on every partition of SBUF."""
    constants = tables[0].shape[1]
    columns = sbuf((PARTITIONS, constants))
    nisa.dma_copy(dst=columns, src=tables[0].ap([[0, PARTITIONS], [1, constants]]))
    return Tables(columns, tables[1])


def input_tiles(n: int, compensated: bool) -> Any:
    """32 KiB a partition for rows that do not exceed a state."""
    tiles: Any = []
    if split_count(n, compensated) == 1:
        run = state_points(n, compensated)
        for _ in range(_RUN // run):
            tiles.append(sbuf((PARTITIONS, 2 * run)))
    return tiles


def is_compensated(tables: Tables) -> bool:
    """The table of the compensated mode has six rows: high bits, rest and whole of a factor."""
    return bool(tables.factors.shape[0] == 6)


def sbuf(shape: Any) -> Any:
    """A fresh float32 tile."""
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def fresh_words(shape: Any, tables: Tables) -> Any:
    """Fresh tiles for numbers: [hi], or [hi, lo] in the compensated mode."""
    words = [sbuf(shape)]
    if is_compensated(tables):
        words.append(sbuf(shape))
    return words


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
    """Transform a block of rows, which come to ``tile`` [128, 2 run]."""
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


def scaled_sum(dst: Any, words: Any, columns: Any) -> None:
    """dst = scale * (hi + lo)."""
    total = words[0]
    if len(words) > 1:
        total = sbuf(words[0].shape)
        nisa.tensor_tensor(dst=total, data1=words[0], data2=words[1], op=nl.add)
    scale = columns[0 : total.shape[0], _SCALE : _SCALE + 1]
    nisa.activation(dst=dst, op=nl.copy, data=total, scale=scale)


def transform_long_rows(launch: Launch, rows: Rows) -> None:
    """Transform rows of which one exceeds a state, one a partition: radix 4, then four of N/4."""
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
    """Numbers first .. first+size of each of ``runs`` parts of rows of HBM x, [P, runs, size]."""
    n = x.shape[1]
    pattern = [[n, rows.partitions], [n // runs, runs], [1, size]]
    return x.ap(pattern, rows.first * n + first, scalar_offset=rows.base)


def split_rows(launch: Launch, rows: Rows) -> Any:
    """Radix-4 stage of long rows, from HBM to the states of four transforms."""
    tables = launch.tables
    length = launch.x[0].shape[1] // 4
    each = state_points(4 * length, is_compensated(tables)) // length
    states, tiles, pieces = [], [], []
    for _ in range(4 // each):
        states.append(fresh_words((rows.partitions, 2, each, length), tables))
    for _ in range(2):
        tiles.append(sbuf((rows.partitions, 2, 4, 1, _PIECE)))
    for _ in range(3):
        pieces.append(sbuf((rows.partitions, tables.factors.shape[0], _PIECE)))
    for first in range(0, length, _PIECE):
        tile = tiles[first // _PIECE % 2]
        for part in range(2):
            source = piece_in_hbm(launch.x[part], rows, 4, first, _PIECE)
            nisa.dma_copy(dst=tile[:, part, :, 0], src=source)
        split_piece(tile, states, first, tables, pieces)
    return states


def split_piece(tile: Any, states: Any, first: int, tables: Tables, pieces: Any) -> None:
    """The stage of ``split_rows`` on a tile of points from ``first`` of each quarter on.

    pieces: SBUF tiles for the twiddles of the second quarter to the fourth.
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
        load_factors(pieces[leg - 1], tables.factors, (leg - 1) * length + first)
        views = factor_views(pieces[leg - 1], 0, [[1, _PIECE]])
        finish_twiddle(begin_twiddle(outputs[leg], views))


def part_of(words: Any, part: int) -> Any:
    """Real or imaginary part of every word (hi, lo)."""
    found = []
    for word in words:
        found.append(word[:, part])
    return found


def load_factors(tile: Any, factors: Any, first: int) -> None:
    """Entries of the table from ``first`` on, on every partition of tile [P, 2 or 6, size]."""
    partitions, rows, size = tile.shape
    pattern = [[0, partitions], [factors.shape[1], rows], [1, size]]
    nisa.dma_copy(dst=tile, src=factors.ap(pattern, offset=first))


def factor_views(tile: Any, first: int, pattern: Any) -> Factors:
    """Entries of a tile [P, 2 or 6, size], from ``first`` on, for both parts of the data.

    pattern: [stride, count] of the data's dimensions after the part.
    """
    partitions, rows, size = tile.shape
    views = []
    for row in range(rows):
        whole = [[rows * size, partitions], [0, 2]] + pattern
        views.append(tile.ap(whole, offset=row * size + first))
    return Factors(views, 0)


def store_piece(launch: Launch, rows: Rows, results: Any, first: int) -> None:
    """A piece of the results of four transforms of long rows, interleaved and scaled."""
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


def transform(state: Any, stages: Any, tables: Tables) -> Any:
    """All stages of the transforms in ``state``, words [partitions, 2, R, N]; returns words."""
    for index in range(len(stages)):
        state = transform_stage(state, stages[index], tables)
    return state


def transform_stage(state: Any, stage: Stage, tables: Tables) -> Any:
    """One stage of the transforms in ``state``, in fresh words."""
    result = fresh_words(state[0].shape, tables)
    pieces = []
    if stage.has_table:
        entries = table_entries(stage, is_compensated(tables))
        for _ in range(2):
            pieces.append(sbuf((state[0].shape[0], tables.factors.shape[0], entries)))
    has_constants = stage.following > 0 and not stage.has_table
    products: Any = None
    # The quarter without twiddles comes last, so that ScalarE's products are always ready.
    quarters = min(4, stage.count)
    for turn in range(quarters):
        quarter = (turn + 1) % quarters
        butterflies(state, result, stage, quarter, tables.columns)
        if has_constants and turn > 0:
            finish_twiddle(products)
        if stage.has_table:
            multiply_by_table(result, stage, quarter, tables.factors, pieces)
        elif has_constants and quarter > 0:
            words = twiddled(result, stage, quarter * run_of_p(stage), run_of_p(stage))
            products = begin_twiddle(words, constant_factors(stage, quarter, tables, words))
    return result


def run_of_p(stage: Stage) -> int:
    """Values of p in a quarter of a stage."""
    return stage.count // min(4, stage.count)


def butterflies(state: Any, result: Any, stage: Stage, quarter: int, columns: Any) -> None:
    """The stage's sums over k, for one of min(4, m) equal runs of p."""
    radix, stride = stage.radix, stage.stride
    each = run_of_p(stage)
    size = each * stride
    low, high, outputs = [], [], []
    for word in state:
        legs = word.reshape_dim(3, (radix, stage.count * stride))
        legs = legs[:, :, :, :, quarter * size : (quarter + 1) * size].permute((0, 1, 3, 2, 4))
        low.append(legs[:, :, 0 : radix // 2])
        high.append(legs[:, :, radix // 2 : radix])
    for leg in range(radix):
        output = []
        for word in result:
            run = word[:, :, :, quarter * radix * size : (quarter + 1) * radix * size]
            output.append(run.reshape_dim(3, (each, radix, stride))[:, :, :, :, leg])
        outputs.append(output)
    if radix == 4:
        crossed = [crossed_outputs(result, stage, quarter, 1)]
        crossed.append(crossed_outputs(result, stage, quarter, 3))
        radix_4(low, high, outputs, crossed, columns)
    else:
        add(leg_of(low, 0), leg_of(high, 0), outputs[0], nl.add)
        add(leg_of(low, 0), leg_of(high, 0), outputs[1], nl.subtract)


def crossed_outputs(result: Any, stage: Stage, quarter: int, leg: int) -> Any:
    """Real part of output ``leg`` (1 or 3) with the imaginary part of the other one of them."""
    partitions, _, rows, n = result[0].shape
    stride, each = stage.stride, run_of_p(stage)
    crossing = rows * n + (4 - 2 * leg) * stride  # from the one to the other
    pattern = [[2 * rows * n, partitions], [crossing, 2], [n, rows]]
    pattern = pattern + [[4 * stride, each], [1, stride]]
    views = []
    for word in result:
        views.append(word.ap(pattern, offset=(quarter * each * 4 + leg) * stride))
    return views


def leg_of(words: Any, leg: int) -> Any:
    """One of the two legs in every word [partitions, parts, legs, ...]."""
    found = []
    for word in words:
        found.append(word[:, :, leg])
    return found


def radix_4(low: Any, high: Any, outputs: Any, crossed: Any, columns: Any) -> None:
    """outputs[k'] = sum over k of (-+i)^(k k') leg[k], with the legs in pairs: 0, 1 and 2, 3.

    Words of ``low`` and ``high`` are [partitions, 2 parts, 2 legs, ...], of outputs
    [partitions, 2 parts, ...]. ScalarE turns the difference of legs 1 and 3 by -+i.
    ``crossed``, where there are such views: re of output 1 with im of 3, re of 3 with im of 1.
    """
    partitions = low[0].shape[0]
    differences, sums, turned = [], [], []
    for _ in range(len(outputs[0])):
        differences.append(sbuf(low[0].shape))
        sums.append(sbuf(low[0].shape))
        turned.append(sbuf(leg_of(low, 1)[0].shape))
    add(low, high, differences, nl.subtract)
    sign = columns[0:partitions, _SIGN : _SIGN + 1]
    for index in range(len(turned)):
        for part in range(2):
            nisa.activation(
                dst=turned[index][:, part],
                op=nl.copy,
                data=differences[index][:, 1 - part, 1],
                scale=sign,
            )
    add(low, high, sums, nl.add)
    add(leg_of(sums, 0), leg_of(sums, 1), outputs[0], nl.add)
    add(leg_of(sums, 0), leg_of(sums, 1), outputs[2], nl.subtract)
    even = leg_of(differences, 0)
    # -+i (a + ib) = +-(b - ia): the real part is added where the imaginary part is subtracted.
    if len(crossed) > 0:
        add(even, turned, crossed[0], nl.add)
        add(even, turned, crossed[1], nl.subtract)
        return
    add(part_of(even, 0), part_of(turned, 0), part_of(outputs[1], 0), nl.add)
    add(part_of(even, 1), part_of(turned, 1), part_of(outputs[1], 1), nl.subtract)
    add(part_of(even, 0), part_of(turned, 0), part_of(outputs[3], 0), nl.subtract)
    add(part_of(even, 1), part_of(turned, 1), part_of(outputs[3], 1), nl.add)


def add(a: Any, b: Any, out: Any, op: Any) -> None:
    """out = a + b or a - b for words [hi] or [hi, lo]; a missing lo of a and b is zero."""
    nisa.tensor_tensor(dst=out[0], data1=a[0], data2=b[0], op=op)
    if len(out) == 1:
        return
    # TwoSum: what the rounded sum kept of b and of a, and from these what it lost.
    opposite = nl.add if op == nl.subtract else nl.subtract
    kept = sbuf(a[0].shape)
    nisa.tensor_tensor(dst=kept, data1=out[0], data2=a[0], op=nl.subtract)
    nisa.tensor_tensor(dst=out[1], data1=out[0], data2=kept, op=nl.subtract)
    nisa.tensor_tensor(dst=out[1], data1=a[0], data2=out[1], op=nl.subtract)
    nisa.tensor_tensor(dst=kept, data1=b[0], data2=kept, op=opposite)
    nisa.tensor_tensor(dst=out[1], data1=out[1], data2=kept, op=op)
    if len(a) > 1:
        nisa.tensor_tensor(dst=out[1], data1=out[1], data2=a[1], op=nl.add)
        nisa.tensor_tensor(dst=out[1], data1=out[1], data2=b[1], op=op)


def table_entries(stage: Stage, compensated: bool) -> int:
    """Entries of a stage's table that are loaded at once."""
    most = _COMPENSATED_ENTRIES if compensated else _ENTRIES
    return min(most, run_of_p(stage) * stage.outputs)


def multiply_by_table(result: Any, stage: Stage, quarter: int, factors: Any, pieces: Any) -> None:
    """Multiply a quarter of a stage's outputs by its table, which comes to two tiles in turn."""
    rows = result[0].shape[2]
    outputs, each = stage.outputs, run_of_p(stage)
    step = pieces[0].shape[2] // outputs
    for first in range(quarter * each, (quarter + 1) * each, step):
        piece = pieces[first // step % 2]
        load_factors(piece, factors, stage.place + first * outputs)
        views = factor_views(piece, 1, [[0, rows], [outputs, step], [1, outputs - 1]])
        finish_twiddle(begin_twiddle(twiddled(result, stage, first, step), views))


def constant_factors(stage: Stage, quarter: int, tables: Tables, words: Any) -> Factors:
    """The columns of constants that multiply the outputs of a quarter."""
    rows = tables.factors.shape[0]
    total = (tables.columns.shape[1] - _FIRST_CONSTANT) // rows
    width = stage.outputs - 1
    views = []
    for row in range(rows):
        first = _FIRST_CONSTANT + row * total + stage.place + (quarter - 1) * width
        views.append(tables.columns[0 : words[0].shape[0], first : first + width])
    return Factors(views, stage.block)


def twiddled(result: Any, stage: Stage, first: int, count: int) -> Any:
    """Outputs [partitions, 2, R, p, (K, q)] of ``count`` values of p, without K = 0, times 1."""
    partitions, _, rows, n = result[0].shape
    run = stage.outputs * stage.block
    pattern = [[2 * rows * n, partitions], [rows * n, 2], [n, rows]]
    pattern = pattern + [[run, count], [1, run - stage.block]]
    views = []
    for word in result:
        views.append(word.ap(pattern, offset=first * run + stage.block))
    return views


def begin_twiddle(words: Any, factors: Factors) -> Products:
    """Words [partitions, 2 parts, ...] times cos and sin; ``finish_twiddle`` puts sums in place."""
    terms = words
    if len(words) > 1:
        terms = split_words(words)
    return Products(multiply(terms, factors, 0), multiply(terms, factors, 1), words)


def finish_twiddle(products: Products) -> None:
    """re cos - im sin and re sin + im cos, where re and im were."""
    by_cos, by_sin, out = products.by_cos, products.by_sin, products.out
    for words in [by_cos, by_sin]:
        if len(words) > 1:
            nisa.tensor_tensor(dst=words[1], data1=words[1], data2=words[2], op=nl.add)
    by_cos, by_sin = by_cos[0:2], by_sin[0:2]
    add(part_of(by_cos, 0), part_of(by_sin, 1), part_of(out, 0), nl.subtract)
    add(part_of(by_sin, 0), part_of(by_cos, 1), part_of(out, 1), nl.add)


def split_words(words: Any) -> Any:
    """hi + lo as the 12 high bits of hi, and the rest."""
    high, rest = sbuf(words[0].shape), sbuf(words[0].shape)
    nisa.tensor_scalar(
        dst=high.view(nl.int32),
        data=words[0].view(nl.int32),
        op0=nl.bitwise_and,
        operand0=_HIGH_BITS,
    )
    nisa.tensor_tensor(dst=rest, data1=words[0], data2=high, op=nl.subtract)
    nisa.tensor_tensor(dst=rest, data1=rest, data2=words[1], op=nl.add)
    return [high, rest]


def multiply(terms: Any, factors: Factors, index: int) -> Any:
    """x cos (index 0) or x sin (1): one word, or of (x1 + x2) w the exact x1 w1, x1 w2 and x2 w."""
    if len(terms) == 1:
        return [product(terms[0], factors, index)]
    exact = product(terms[0], factors, index)
    first = product(terms[0], factors, 2 + index)
    return [exact, first, product(terms[1], factors, 4 + index)]


def product(data: Any, factors: Factors, row: int) -> Any:
    """data * factor in a fresh tile: by a table on VectorE, by columns on ScalarE."""
    result = sbuf(data.shape)
    factor = factors.rows[row]
    if factors.run == 0:
        nisa.tensor_tensor(dst=result, data1=data, data2=factor, op=nl.multiply)
        return result
    for index in range(factor.shape[1]):
        low, high = index * factors.run, (index + 1) * factors.run
        nisa.activation(
            dst=result[:, :, :, :, low:high],
            op=nl.copy,
            data=data[:, :, :, :, low:high],
            scale=factor[:, index : index + 1],
        )
    return result
