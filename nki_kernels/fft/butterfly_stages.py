"""Stages of a butterfly transform on a state in SBUF, and their sums and products.

Numbers are one word or, in the compensated mode, two: hi + lo. butterfly.py has the mathematics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.arguments import check_tables
from ..base.engines import PARTITIONS, PSUM_BANK, element_count, psum, sbuf, transfer
from ..base.isa import Tensor, nisa, nl
from ..base.packing import check_places
from ..base.pipeline import Task, pipeline
from .butterfly_tables import FIRST_CONSTANT, HIGH_BITS, SCALE, SIGNS, Stage

_ENTRIES = 512  # entries of a table that are loaded at once


@dataclass(frozen=True)
class Words:
    """Numbers hi + lo in two tiles, or in the one tile hi."""

    hi: Tensor
    lo: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of each tile."""
        return self.hi.shape

    def map(self, of: Callable[[Tensor], Tensor]) -> Words:
        """Return the words that a function makes of each tile, such as views."""
        return Words(of(self.hi), None if self.lo is None else of(self.lo))

    def __getitem__(self, key: Any) -> Words:
        return self.map(lambda tile: tile[key])

    def become(self, a: Words, b: Words, op: Any) -> None:
        """Turn into a + b or a - b; a missing lo of a and b is zero."""
        combine(self.hi, a.hi, b.hi, op)
        if self.lo is None:
            return
        # TwoSum: it computes how much of b and of a the rounded sum contains, and thereby what the
        # rounding lost. VectorE reads an operand in PSUM and one in SBUF at the same time.
        place = psum if element_count(a.shape[1:]) <= PSUM_BANK else sbuf
        of_b, lost, kept = place(a.shape), place(a.shape), sbuf(a.shape)
        combine(of_b, self.hi, a.hi, nl.subtract)
        combine(lost, self.hi, of_b, nl.subtract)
        combine(lost, a.hi, lost, nl.subtract)
        combine(kept, b.hi, of_b, nl.add if op == nl.subtract else nl.subtract)
        if a.lo is None or b.lo is None:
            combine(self.lo, lost, kept, op)
            return
        combine(lost, lost, kept, op)
        combine(lost, lost, a.lo, nl.add)
        combine(self.lo, lost, b.lo, op)


def fresh(shape: Sequence[int], compensated: bool) -> Words:
    """Allocate tiles for numbers."""
    return Words(sbuf(shape), sbuf(shape) if compensated else None)


def combine(dst: Tensor, a: Tensor, b: Tensor, op: Any) -> None:
    """Set dst to a op b, rounded, on VectorE."""
    nisa.tensor_tensor(dst=dst, data1=a, data2=b, op=op)


# Products. Factors are rows: cos and sin; compensated, of their 12 high bits, of what these leave,
# and of the whole. ``Times`` returns the product of a tile with one row, in a fresh tile.
Times = Callable[[Tensor, Tensor], Tensor]


def twiddle(x: Words, factors: Sequence[Tensor], times: Times) -> Task:
    """Multiply numbers [P, 2 parts, ...] by cos + i sin, in their places."""
    terms = _split(x)
    # (x1 + x2) w is the exact x1 w1, and x1 w2 + x2 w; these products are of words 0, 0 and 1.
    products = [
        [times(terms[row // 4], factors[row]) for row in range(part, len(factors), 2)]
        for part in range(2)
    ]
    yield
    for words in products:
        for least in words[2:]:
            combine(words[1], words[1], least, nl.add)
    cos, sin = (Words(*words[:2]) for words in products)
    x[:, 0].become(cos[:, 0], sin[:, 1], nl.subtract)
    x[:, 1].become(sin[:, 0], cos[:, 1], nl.add)


def _split(x: Words) -> list[Tensor]:
    """Return the 12 high bits of hi, and the rest of hi + lo; or hi, where it is all."""
    if x.lo is None:
        return [x.hi]
    high, rest = sbuf(x.shape), sbuf(x.shape)
    bits = high.view(nl.int32)
    nisa.tensor_scalar(bits, x.hi.view(nl.int32), nl.bitwise_and, HIGH_BITS)
    combine(rest, x.hi, high, nl.subtract)
    combine(rest, rest, x.lo, nl.add)
    return [high, rest]


def by_table(data: Tensor, factor: Tensor) -> Tensor:
    """Return the product with as many factors, on VectorE."""
    product = sbuf(data.shape)
    combine(product, data, factor, nl.multiply)
    return product


def by_columns(data: Tensor, factor: Tensor) -> Tensor:
    """Return the product of equal parts of the last dimension with columns, on ScalarE."""
    product = sbuf(data.shape)
    count = factor.shape[1]
    run = data.shape[-1] // count
    for index in range(count):
        part = slice(index * run, (index + 1) * run)
        column = factor[:, index : index + 1]
        nisa.activation(dst=product[..., part], op=nl.copy, data=data[..., part], scale=column)
    return product


# Stages.


class Tables:
    """The kernel's tables, of which the columns are loaded onto every partition."""

    def __init__(self, packed: Tensor, places: Any) -> None:
        check_places(places, 2)
        check_tables(places, 2)
        (low, (_, count), _), (self.first, (self.rows, self.length), _) = places
        self.compensated = self.rows == 6
        self.packed = packed  # HBM, whole, because `ap` of a view may be read in two ways
        self.columns = sbuf((PARTITIONS, count))
        transfer(self.columns, packed.ap([[0, PARTITIONS], [1, count]], low))

    def column(self, index: int, partitions: int, count: int = 1) -> Tensor:
        """Return columns, [P, count]."""
        return self.columns[0:partitions, index : index + count]

    def constants(self, stage: Stage, quarter: int, partitions: int) -> list[Tensor]:
        """Return the factors of a quarter's outputs as columns, [P, K' - 1] a row."""
        each = (self.columns.shape[1] - FIRST_CONSTANT) // self.rows
        width = stage.outputs - 1
        first = FIRST_CONSTANT + stage.place + (quarter - 1) * width
        return [self.column(first + row * each, partitions, width) for row in range(self.rows)]

    def factors(self, tile: Tensor, first: int, pattern: Any, skipped: int = 0) -> list[Tensor]:
        """Load entries from ``first`` on into SBUF [P, rows, size]; return factors of both parts.

        pattern: [stride, count] for each of the data's dimensions after the part, behind the
        entries that are skipped.
        """
        partitions, rows, size = tile.shape
        source = [[0, partitions], [self.length, rows], [1, size]]
        transfer(tile, self.packed.ap(source, self.first + first))
        whole = [[rows * size, partitions], [0, 2], *pattern]
        return [tile.ap(whole, row * size + skipped) for row in range(rows)]


def scale(dst: Tensor, x: Words, tables: Tables) -> None:
    """Set dst = scale * (hi + lo)."""
    total = x.hi
    if x.lo is not None:
        total = sbuf(x.shape)
        combine(total, x.hi, x.lo, nl.add)
    nisa.activation(dst=dst, op=nl.copy, data=total, scale=tables.column(SCALE, x.shape[0]))


def transform(state: Words, stages: Sequence[Stage], tables: Tables) -> Words:
    """Run all stages on a state [partitions, 2, R, N]; return another."""
    for stage in stages:
        state = _transform_stage(state, stage, tables)
    return state


def _transform_stage(state: Words, stage: Stage, tables: Tables) -> Words:
    """Run one stage, quarter by quarter.

    ScalarE's products are a quarter ahead of their sums. The quarter without twiddles comes last.
    """
    result = fresh(state.shape, tables.compensated)
    legs = state.map(lambda word: word.reshape_dim(3, (stage.radix, stage.count * stage.stride)))
    legs = legs.map(lambda word: word.permute((0, 1, 3, 2, 4)))
    size = stage.run * stage.stride
    step = min(stage.run, _ENTRIES // stage.outputs)  # values of p of a piece of the table
    shape = (state.shape[0], tables.rows, step * stage.outputs)
    pieces = [sbuf(shape) for _ in range(2)] if stage.has_table else []
    before: Iterator[None] = iter(())  # the twiddles of the quarter before
    for quarter in (*range(1, stage.following), 0):
        whole = _outputs(result, stage, quarter * stage.run, stage.run)
        ends = range(0, whole.shape[4], stage.stride)
        outputs = [whole[..., end : end + stage.stride] for end in ends]
        butterflies(legs[..., quarter * size : (quarter + 1) * size], outputs, tables)
        next(before, None)
        if stage.has_table:
            _multiply_by_table(result, stage, quarter, tables, pieces)
        elif quarter > 0:
            columns = tables.constants(stage, quarter, state.shape[0])
            before = twiddle(whole[..., stage.block :], columns, by_columns)
            next(before)
    next(before, None)
    return result


def _outputs(result: Words, stage: Stage, first: int, count: int) -> Words:
    """Return [P, 2 parts, R, p, (K, q)], the outputs of ``count`` values of p."""
    each = stage.radix * stage.stride
    result = result[..., first * each : (first + count) * each]
    return result.map(lambda word: word.reshape_dim(3, (count, each)))


def _multiply_by_table(
    result: Words, stage: Stage, quarter: int, tables: Tables, pieces: Sequence[Tensor]
) -> None:
    """Multiply the outputs of a quarter by the stage's table, loaded into two tiles in turn."""
    step = pieces[0].shape[2] // stage.outputs
    pattern = [[0, result.shape[2]], [stage.outputs, step], [1, stage.outputs - 1]]
    for first in range(quarter * stage.run, (quarter + 1) * stage.run, step):
        place = stage.place + first * stage.outputs
        factors = tables.factors(pieces[first // step % 2], place, pattern, 1)
        x = _outputs(result, stage, first, step)[..., stage.block :]
        pipeline([twiddle(x, factors, by_table)])


def butterflies(legs: Words, outputs: Sequence[Words], tables: Tables) -> None:
    """Set outputs[k'] to the sum over k of w_r^(k k') leg k, with legs [P, 2 parts, r, ...].

    ScalarE multiplies the difference of legs 1 and 3 by -+i.
    """
    half = len(outputs) // 2
    low, high = legs[:, :, 0:half], legs[:, :, half:]
    if half == 1:
        outputs[0].become(low[:, :, 0], high[:, :, 0], nl.add)
        outputs[1].become(low[:, :, 0], high[:, :, 0], nl.subtract)
        return
    differences, sums = (fresh(low.shape, tables.compensated) for _ in range(2))
    differences.become(low, high, nl.subtract)
    turned = differences.map(lambda tile: _turned(tile[:, :, 1], tables))
    sums.become(low, high, nl.add)
    outputs[0].become(sums[:, :, 0], sums[:, :, 1], nl.add)
    outputs[2].become(sums[:, :, 0], sums[:, :, 1], nl.subtract)
    outputs[1].become(differences[:, :, 0], turned, nl.add)
    outputs[3].become(differences[:, :, 0], turned, nl.subtract)


def _turned(x: Tensor, tables: Tables) -> Tensor:
    """Return -+i (a + ib) = +-(b - ia) in a fresh tile, for a tile [P, 2 parts, ...]."""
    turned = sbuf(x.shape)
    for part in range(2):
        sign = tables.column(SIGNS + part, x.shape[0])
        nisa.activation(dst=turned[:, part], op=nl.copy, data=x[:, 1 - part], scale=sign)
    return turned
