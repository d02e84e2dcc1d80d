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
the row in HBM to four transforms of N/4; the last pass interleaves their results.
Tables come from HBM a piece at a time, repeated over the partitions.

Why it is fast.  It is bound by VectorE, which needs two cycles for every addition of two tiles:
2 log2 N of them a point. Constant twiddles are columns, so ScalarE multiplies by them, and by
-+i, beside VectorE: a stage goes by quarters, products a quarter ahead of their sums. VectorE
multiplies only by the tables.

Compensated (Kahan) mode.  Each number is an unevaluated sum hi + lo. An addition is Knuth's
TwoSum of the hi, whose exact error joins lo. A product splits both factors after 12 bits, as
Dekker does: x = x1 + x2 by a mask, w = w1 + w2 on the host; then x1 w1 is exact and x1 w2 + x2 w
joins lo. Roundings of lo are 2**-12 below one of hi; hi + lo is rounded once at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nki_api import nisa, nki, nl
from ..packing import unpack
from ..tiles import PARTITIONS

MAX_LENGTH = 2**14
MAX_COMPENSATED_LENGTH = 2**12  # of 2**13, hi and lo and what a stage needs exceed SBUF
_RUN = 4096  # points of a state, a partition
_COMPENSATED_RUN = 2048
_PIECE = 2048  # points of a long row that are loaded, and stored, at once
_COMPENSATED_PIECE = 1024
_BLOCK = 3  # stages between two tables
_SIGN, _SCALE, _FIRST_CONSTANT = 0, 1, 2  # columns of the first table
_HIGH_BITS = -4096  # 0xFFFFF000: sign, exponent and 12 significant bits of a float32


def schedule(n: int, first_entry: int) -> list[Any]:
    """The stages of a transform of length ``n``, each a list

    [radix, stride s, count m, block stride, outputs K of its block, next radix, place]

    where ``next radix`` is that of a stage with constants, 0 of one with a table, -1 of the last;
    ``place`` is its first column of the constants or its first entry of the table.
    """
    left = n
    total = 0
    while left > 1:
        left = left // min(4, left)
        total += 1
    stages: list[Any] = []
    stride, block, column, entry = 1, 1, 0, first_entry
    for index in range(total):
        radix = min(4, n // stride)
        count = n // (stride * radix)
        if (total - index) % _BLOCK == 0:
            block = stride
        outputs = stride * radix // block
        if count == 1:
            stages.append([radix, stride, count, block, outputs, -1, 0])
        elif (total - index - 1) % _BLOCK == 0:
            stages.append([radix, stride, count, block, outputs, 0, entry])
            entry += count * outputs
        else:
            following = min(4, count)
            stages.append([radix, stride, count, block, outputs, following, column])
            column += (following - 1) * (outputs - 1)  # the others are 1
        stride *= radix
    return stages


def split_count(n: int, compensated: bool) -> int:
    """4 where a row exceeds a state and begins with a radix-4 stage of its own, else 1."""
    return 4 if n > (_COMPENSATED_RUN if compensated else _RUN) else 1


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
    for _, _, count, _, outputs, following, _ in schedule(length, len(entries[0].ravel())):
        if following == 0:
            powers = np.outer(np.arange(count), np.arange(outputs))
            entries.append(_twiddles(powers, count * outputs, sign))
        elif following > 0:
            powers = np.outer(np.arange(1, following), np.arange(1, outputs))
            constants.append(_twiddles(powers, following * outputs, sign))
    columns = np.concatenate([[sign, scale], _factors(constants, compensated).ravel()])
    return columns.astype(np.float32).reshape(1, -1), _factors(entries, compensated)


def butterfly_specs(n: int, compensated: bool = False) -> tuple[Any, Any]:
    """(shape, dtype) of each of ``butterfly_tables(n, ..., compensated=compensated)``."""
    rows = 6 if compensated else 2
    parts = split_count(n, compensated)
    length = n // parts
    constants, entries = 0, 3 * length if parts > 1 else 1
    for _, _, count, _, outputs, following, _ in schedule(length, entries):
        if following == 0:
            entries += count * outputs
        elif following > 0:
            constants += (following - 1) * (outputs - 1)
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
    limit = MAX_COMPENSATED_LENGTH if compensated else MAX_LENGTH
    assert 2 <= n <= limit, f"N = {n}: the butterfly takes powers of two from 2 to {limit}"
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    tables = unpack(tables, places)
    expected = 6 if compensated else 2
    found = tables[1].shape[0]
    assert found == expected, f"tables have {found} rows of factors, not {expected}"
    y_re = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((batch, n), dtype=nl.float32, buffer=nl.shared_hbm)
    constants = tables[0].shape[1]
    columns = nl.ndarray((PARTITIONS, constants), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=columns, src=tables[0].ap([[0, PARTITIONS], [1, constants]]))

    run = _COMPENSATED_RUN if compensated else _RUN
    start = 0
    while start < batch:
        rows = min(max(1, run // n), -(-(batch - start) // PARTITIONS))
        stop = start + rows * min(PARTITIONS, (batch - start) // rows)
        x = [x_re[start:stop], x_im[start:stop]]
        y = [y_re[start:stop], y_im[start:stop]]
        if split_count(n, compensated) == 1:
            transform_rows(x, y, rows, columns, tables[1])
        else:
            transform_long_rows(x, y, columns, tables[1])
        start = stop
    return y_re, y_im


def is_compensated(factors: Any) -> bool:
    """The table of the compensated mode has six rows: high bits, rest and whole of a factor."""
    return factors.shape[0] == 6


def sbuf(shape: Any) -> Any:
    """A fresh float32 tile."""
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def transform_rows(x: Any, y: Any, rows: int, columns: Any, factors: Any) -> None:
    """Transform HBM rows [b, N] with ``rows`` of them a partition."""
    count, n = x[0].shape
    partitions = count // rows
    tile = sbuf((partitions, 2, rows, n))
    for part in range(2):
        nisa.dma_copy(dst=tile[:, part], src=x[part].reshape_dim(0, (partitions, rows)))
    state = transform([tile], schedule(n, 1), columns, factors)
    for part in range(2):
        result = scaled_sum(state, part, columns)
        nisa.dma_copy(dst=y[part].reshape_dim(0, (partitions, rows)), src=result)


def scaled_sum(state: Any, part: int, columns: Any) -> Any:
    """scale * (hi + lo) of one part."""
    partitions, _, rows, n = state[0].shape
    total = state[0][:, part]
    if len(state) > 1:
        total = sbuf((partitions, rows, n))
        nisa.tensor_tensor(dst=total, data1=state[0][:, part], data2=state[1][:, part], op=nl.add)
    result = sbuf((partitions, rows, n))
    scale = columns[0:partitions, _SCALE : _SCALE + 1]
    nisa.activation(dst=result, op=nl.copy, data=total, scale=scale)
    return result


def transform_long_rows(x: Any, y: Any, columns: Any, factors: Any) -> None:
    """Transform HBM rows [b, N] of which one exceeds a state: radix 4, then four of N/4."""
    partitions, n = x[0].shape
    compensated = is_compensated(factors)
    length = n // 4
    rows = (_COMPENSATED_RUN if compensated else _RUN) // length
    states = []
    for _ in range(4 // rows):
        state = [sbuf((partitions, 2, rows, length))]
        if compensated:
            state.append(sbuf((partitions, 2, rows, length)))
        states.append(state)
    size = (_COMPENSATED_PIECE if compensated else _PIECE) // 4
    for first in range(0, length, size):
        split_piece(x, states, first, size, columns, factors)
    results = []
    stages = schedule(length, 3 * length)
    for index in range(len(states)):
        results.append(transform(states[index], stages, columns, factors))
        states[index] = []
    for first in range(0, length, size):
        store_piece(results, y, first, size, columns)


def split_piece(x: Any, states: Any, first: int, size: int, columns: Any, factors: Any) -> None:
    """Radix-4 stage of a long row on p = first .. first+size, from HBM to four transforms."""
    partitions, n = x[0].shape
    length = n // 4
    rows = states[0][0].shape[2]
    tile = sbuf((partitions, 2, 4, 1, size))
    for part in range(2):
        source = x[part].reshape_dim(1, (4, length))[:, :, first : first + size]
        nisa.dma_copy(dst=tile[:, part, :, 0], src=source)
    outputs = []
    for leg in range(4):
        output = []
        for word in states[leg // rows]:
            output.append(word[:, :, leg % rows, first : first + size])
        outputs.append(output)
    radix_4([tile[:, :, 0:2]], [tile[:, :, 2:4]], outputs, [], columns)
    for leg in range(1, 4):
        table = load_factors(factors, (leg - 1) * length + first, size, partitions)
        views = []
        for row in range(factors.shape[0]):
            views.append(table[:, row])
        output = outputs[leg]
        shape = (partitions, size)
        twiddle(part_of(output, 0), part_of(output, 1), shape, views, False)


def part_of(words: Any, part: int) -> Any:
    """Real or imaginary part of every word (hi, lo)."""
    found = []
    for word in words:
        found.append(word[:, part])
    return found


def load_factors(factors: Any, first: int, size: int, partitions: int) -> Any:
    """Entries first .. first+size of the table, on every partition: [partitions, 2 or 6, size]."""
    rows, length = factors.shape
    table = sbuf((partitions, rows, size))
    source = factors.ap([[0, partitions], [length, rows], [1, size]], offset=first)
    nisa.dma_copy(dst=table, src=source)
    return table


def store_piece(results: Any, y: Any, first: int, size: int, columns: Any) -> None:
    """Results first .. first+size of the four transforms of a long row, interleaved and scaled."""
    partitions, _, rows, _ = results[0][0].shape
    scale = columns[0:partitions, _SCALE : _SCALE + 1]
    for part in range(2):
        row = sbuf((partitions, size, 4))
        for leg in range(4):
            words = results[leg // rows]
            total = words[0][:, part, leg % rows, first : first + size]
            if len(words) > 1:
                low = words[1][:, part, leg % rows, first : first + size]
                high = total
                total = sbuf((partitions, size))
                nisa.tensor_tensor(dst=total, data1=high, data2=low, op=nl.add)
            nisa.activation(dst=row[:, :, leg], op=nl.copy, data=total, scale=scale)
        nisa.dma_copy(
            dst=y[part][:, 4 * first : 4 * (first + size)],
            src=row.reshape((partitions, 4 * size)),
        )


def transform(state: Any, stages: Any, columns: Any, factors: Any) -> Any:
    """All stages of the transforms in ``state``: a list of tiles [partitions, 2, R, N], hi (lo)."""
    for index in range(len(stages)):
        partitions, parts, rows, n = state[0].shape
        result = [sbuf((partitions, parts, rows, n))]
        if is_compensated(factors):
            result.append(sbuf((partitions, parts, rows, n)))
        _, stride, count, _, _, following, _ = stages[index]
        # The quarter without twiddles comes last, so that ScalarE's products are always ready.
        quarters = min(4, count)
        pending: Any = []
        for turn in range(quarters):
            quarter = (turn + 1) % quarters
            butterflies(state, result, stages[index], quarter, columns)
            if len(pending) > 0:
                finish_twiddle(pending)
            pending = []
            if following >= 0:
                pending = begin_quarter(result, stages[index], quarter, columns, factors)
        if len(pending) > 0:
            finish_twiddle(pending)
        state = result
    return state


def butterflies(state: Any, result: Any, stage: Any, quarter: int, columns: Any) -> None:
    """The stage's sums over k, for one of min(4, m) equal runs of p."""
    radix, stride, count, _, _, _, _ = stage
    each = count // min(4, count)
    size = each * stride
    low, high, outputs = [], [], []
    for word in state:
        legs = word.reshape_dim(3, (radix, count * stride))
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
        add(part_of_pair(low, 0), part_of_pair(high, 0), outputs[0], nl.add)
        add(part_of_pair(low, 0), part_of_pair(high, 0), outputs[1], nl.subtract)


def crossed_outputs(result: Any, stage: Any, quarter: int, leg: int) -> Any:
    """Real part of output ``leg`` (1 or 3) with the imaginary part of the other one of them."""
    _, stride, count, _, _, _, _ = stage
    partitions, _, rows, n = result[0].shape
    each = count // min(4, count)
    crossing = rows * n + (4 - 2 * leg) * stride  # from the one to the other
    pattern = [[2 * rows * n, partitions], [crossing, 2], [n, rows]]
    pattern = pattern + [[4 * stride, each], [1, stride]]
    views = []
    for word in result:
        views.append(word.ap(pattern, offset=(quarter * each * 4 + leg) * stride))
    return views


def part_of_pair(words: Any, leg: int) -> Any:
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
        turned.append(sbuf(part_of_pair(low, 1)[0].shape))
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
    add(part_of_pair(sums, 0), part_of_pair(sums, 1), outputs[0], nl.add)
    add(part_of_pair(sums, 0), part_of_pair(sums, 1), outputs[2], nl.subtract)
    even = part_of_pair(differences, 0)
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


def begin_quarter(result: Any, stage: Any, quarter: int, columns: Any, factors: Any) -> Any:
    """Multiply a quarter of a stage's outputs by their twiddles.

    Returns what ``finish_twiddle`` needs after constants, else [].
    """
    _, _, count, block, outputs, following, place = stage
    partitions, _, rows, _ = result[0].shape
    each = count // min(4, count)
    shape = (partitions, rows, each, outputs - 1, block)
    re = twiddled(result, stage, quarter, 0)
    im = twiddled(result, stage, quarter, 1)
    views = []
    if following == 0:
        size = each * outputs
        table = load_factors(factors, place + quarter * size, size, partitions)
        entries = [[factors.shape[0] * size, partitions], [0, rows], [outputs, each]]
        entries = entries + [[1, outputs - 1], [0, block]]
        for row in range(factors.shape[0]):
            views.append(table.ap(entries, offset=row * size + 1))
        twiddle(re, im, shape, views, False)
        return []
    if quarter == 0:
        return []
    total = (columns.shape[1] - _FIRST_CONSTANT) // factors.shape[0]
    for row in range(factors.shape[0]):
        first = _FIRST_CONSTANT + row * total + place + (quarter - 1) * (outputs - 1)
        views.append(columns[0:partitions, first : first + outputs - 1])
    return begin_twiddle(re, im, shape, views, True)


def twiddled(result: Any, stage: Any, quarter: int, part: int) -> Any:
    """Views [partitions, R, p, K, q] of a quarter, without output K = 0: its twiddle is 1."""
    _, _, count, block, outputs, _, _ = stage
    partitions, _, rows, n = result[0].shape
    each = count // min(4, count)
    pattern = [[2 * rows * n, partitions], [n, rows], [outputs * block, each]]
    pattern = pattern + [[block, outputs - 1], [1, block]]
    offset = (part * rows * n) + (quarter * each * outputs + 1) * block
    views = []
    for word in result:
        views.append(word.ap(pattern, offset=offset))
    return views


def twiddle(re: Any, im: Any, shape: Any, factors: Any, constant: bool) -> None:
    """re + i im times cos + i sin, in place."""
    finish_twiddle(begin_twiddle(re, im, shape, factors, constant))


def begin_twiddle(re: Any, im: Any, shape: Any, factors: Any, constant: bool) -> Any:
    """The four products of a complex multiplication, and where their sums belong.

    re, im: words [hi] or [hi, lo] of ``shape``. factors: cos and sin, compensated also their
    parts; columns where ``constant``, which hold one number for every index of dimension -2.
    """
    products: Any = []
    for words in [re, im]:
        if len(words) > 1:
            words = split_word(words, shape)
        for index in range(2):
            if len(words) == 1:
                products.append([multiply(words[0], factors[index], shape, constant)])
            else:
                products.append(pair_product(words, factors, index, shape, constant))
    return [products, re, im]


def finish_twiddle(pending: Any) -> None:
    """Sums of the products into their place."""
    products, re, im = pending
    for product in products:
        if len(product) == 3:
            nisa.tensor_tensor(dst=product[1], data1=product[1], data2=product[2], op=nl.add)
    add(products[0][0:2], products[3][0:2], re, nl.subtract)
    add(products[1][0:2], products[2][0:2], im, nl.add)


def split_word(words: Any, shape: Any) -> Any:
    """hi + lo as the 12 high bits of hi, and the rest."""
    high, rest = sbuf(shape), sbuf(shape)
    nisa.tensor_scalar(
        dst=high.view(nl.int32),
        data=words[0].view(nl.int32),
        op0=nl.bitwise_and,
        operand0=_HIGH_BITS,
    )
    nisa.tensor_tensor(dst=rest, data1=words[0], data2=high, op=nl.subtract)
    nisa.tensor_tensor(dst=rest, data1=rest, data2=words[1], op=nl.add)
    return [high, rest]


def pair_product(words: Any, factors: Any, index: int, shape: Any, constant: bool) -> Any:
    """(x1 + x2) w as the exact x1 w1, and x1 w2 and x2 w."""
    high, rest = words
    exact = multiply(high, factors[index], shape, constant)
    first = multiply(high, factors[2 + index], shape, constant)
    second = multiply(rest, factors[4 + index], shape, constant)
    return [exact, first, second]


def multiply(data: Any, factor: Any, shape: Any, constant: bool) -> Any:
    """data * factor in a fresh tile: by a table on VectorE, by columns on ScalarE."""
    product = sbuf(shape)
    if constant:
        for index in range(shape[3]):
            nisa.activation(
                dst=product[:, :, :, index],
                op=nl.copy,
                data=data[:, :, :, index],
                scale=factor[:, index : index + 1],
            )
    else:
        nisa.tensor_tensor(dst=product, data1=data, data2=factor, op=nl.multiply)
    return product
