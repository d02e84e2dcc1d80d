"""Stages of a butterfly transform on a state in SBUF: see butterfly.py."""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from .butterfly_tables import FIRST_CONSTANT, SCALE, SIGN, Stage
from .butterfly_words import Factors, add, begin_twiddle, finish_twiddle, leg_of, part_of, sbuf

_ENTRIES = 512  # entries of a table that are loaded at once
_COMPENSATED_ENTRIES = 256  # the same in the compensated mode


class Tables(nl.NKIObject):
    """The kernel's tables; the constants are loaded."""

    columns: Any  # SBUF [128, C], alike on all partitions: sign of w_4, scale, constant twiddles
    packed: Any  # HBM, all tables, whole, because `ap` of a view may be read in two ways
    first: int  # the number of ``packed`` with which the twiddles [rows, length] begin
    rows: int  # 2, or 6 in the compensated mode
    length: int  # entries of a row


def is_compensated(tables: Tables) -> bool:
    """Return whether the tables are those of the compensated mode, which have six rows.

    These are the high bits, the rest and the whole of each factor, cosines and sines.
    """
    return bool(tables.rows == 6)


def fresh_words(shape: Any, tables: Tables) -> Any:
    """Allocate tiles for numbers: [hi], or [hi, lo] in the compensated mode."""
    words = [sbuf(shape)]
    if is_compensated(tables):
        words.append(sbuf(shape))
    return words


def scaled_sum(dst: Any, words: Any, columns: Any) -> None:
    """Set dst = scale * (hi + lo)."""
    total = words[0]
    if len(words) > 1:
        total = sbuf(words[0].shape)
        nisa.tensor_tensor(dst=total, data1=words[0], data2=words[1], op=nl.add)
    scale = columns[0 : total.shape[0], SCALE : SCALE + 1]
    nisa.activation(dst=dst, op=nl.copy, data=total, scale=scale)


def load_factors(tile: Any, tables: Tables, first: int) -> None:
    """Load the twiddles from ``first`` on onto every partition of a tile [P, 2 or 6, size]."""
    partitions, rows, size = tile.shape
    pattern = [[0, partitions], [tables.length, rows], [1, size]]
    nisa.dma_copy(dst=tile, src=tables.packed.ap(pattern, offset=tables.first + first))


def factor_views(tile: Any, first: int, pattern: Any) -> Factors:
    """Return views of the twiddles in a tile [P, 2 or 6, size] that match both parts of the data.

    first: the first entry. pattern: [stride, count] for each of the data's dimensions after the
    part.
    """
    partitions, rows, size = tile.shape
    views = []
    for row in range(rows):
        whole = [[rows * size, partitions], [0, 2]] + pattern
        views.append(tile.ap(whole, offset=row * size + first))
    return Factors(views, 0)


def transform(state: Any, stages: Any, tables: Tables) -> Any:
    """Run all stages on ``state``, words [partitions, 2, R, N]; return words."""
    for index in range(len(stages)):
        state = transform_stage(state, stages[index], tables)
    return state


def transform_stage(state: Any, stage: Stage, tables: Tables) -> Any:
    """Run one stage on ``state``; return fresh words."""
    result = fresh_words(state[0].shape, tables)
    pieces = []
    if stage.has_table:
        entries = table_entries(stage, is_compensated(tables))
        for _ in range(2):
            pieces.append(sbuf((state[0].shape[0], tables.rows, entries)))
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
            multiply_by_table(result, stage, quarter, tables, pieces)
        elif has_constants and quarter > 0:
            words = twiddled(result, stage, quarter * run_of_p(stage), run_of_p(stage))
            products = begin_twiddle(words, constant_factors(stage, quarter, tables, words))
    return result


def run_of_p(stage: Stage) -> int:
    """Return how many values of p a quarter of a stage has."""
    return stage.count // min(4, stage.count)


def butterflies(state: Any, result: Any, stage: Stage, quarter: int, columns: Any) -> None:
    """Compute the stage's sums over k, for one of min(4, m) equal runs of p."""
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
    """Return views of output ``leg`` (1 or 3), real part, with the other's imaginary part."""
    partitions, _, rows, n = result[0].shape
    stride, each = stage.stride, run_of_p(stage)
    crossing = rows * n + (4 - 2 * leg) * stride  # from the one to the other
    pattern = [[2 * rows * n, partitions], [crossing, 2], [n, rows]]
    pattern = pattern + [[4 * stride, each], [1, stride]]
    views = []
    for word in result:
        views.append(word.ap(pattern, offset=(quarter * each * 4 + leg) * stride))
    return views


def radix_4(low: Any, high: Any, outputs: Any, crossed: Any, columns: Any) -> None:
    """Set outputs[k'] = sum over k of (-+i)^(k k') leg[k], with the legs in pairs: 0, 1 and 2, 3.

    Words of ``low`` and ``high`` are [partitions, 2 parts, 2 legs, ...], words of outputs are
    [partitions, 2 parts, ...]. ScalarE multiplies the difference of legs 1 and 3 by -+i. crossed:
    an empty list, or views of the real part of output 1 with the imaginary part of output 3, and of
    the real part of output 3 with the imaginary part of output 1.
    """
    partitions = low[0].shape[0]
    differences, sums, turned = [], [], []
    for _ in range(len(outputs[0])):
        differences.append(sbuf(low[0].shape))
        sums.append(sbuf(low[0].shape))
        turned.append(sbuf(leg_of(low, 1)[0].shape))
    add(low, high, differences, nl.subtract)
    sign = columns[0:partitions, SIGN : SIGN + 1]
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


def table_entries(stage: Stage, compensated: bool) -> int:
    """Return how many entries of a stage's table are loaded at once."""
    most = _COMPENSATED_ENTRIES if compensated else _ENTRIES
    return min(most, run_of_p(stage) * stage.outputs)


def multiply_by_table(result: Any, stage: Stage, quarter: int, tables: Tables, pieces: Any) -> None:
    """Multiply a quarter of a stage's outputs by its table, loaded into two tiles in turn."""
    rows = result[0].shape[2]
    outputs, each = stage.outputs, run_of_p(stage)
    step = pieces[0].shape[2] // outputs
    for first in range(quarter * each, (quarter + 1) * each, step):
        piece = pieces[first // step % 2]
        load_factors(piece, tables, stage.place + first * outputs)
        views = factor_views(piece, 1, [[0, rows], [outputs, step], [1, outputs - 1]])
        finish_twiddle(begin_twiddle(twiddled(result, stage, first, step), views))


def constant_factors(stage: Stage, quarter: int, tables: Tables, words: Any) -> Factors:
    """Return the columns of constants that multiply the outputs of a quarter."""
    rows = tables.rows
    total = (tables.columns.shape[1] - FIRST_CONSTANT) // rows
    width = stage.outputs - 1
    views = []
    for row in range(rows):
        first = FIRST_CONSTANT + row * total + stage.place + (quarter - 1) * width
        views.append(tables.columns[0 : words[0].shape[0], first : first + width])
    return Factors(views, stage.block)


def twiddled(result: Any, stage: Stage, first: int, count: int) -> Any:
    """Return views [partitions, 2, R, p, (K, q)] of the outputs of ``count`` values of p.

    K = 0 is left out, because its twiddle is 1.
    """
    partitions, _, rows, n = result[0].shape
    run = stage.outputs * stage.block
    pattern = [[2 * rows * n, partitions], [rows * n, 2], [n, rows]]
    pattern = pattern + [[run, count], [1, run - stage.block]]
    views = []
    for word in result:
        views.append(word.ap(pattern, offset=first * run + stage.block))
    return views
