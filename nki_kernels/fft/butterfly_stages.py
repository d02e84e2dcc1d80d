"""Stages of a butterfly transform on a state in SBUF: see butterfly.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..engines import sbuf, transfer
from ..isa import nisa, nl
from ..pipeline import Task, pipeline
from ..tensor import Tensor
from .butterfly_tables import FIRST_CONSTANT, SCALE, SIGN, Stage
from .butterfly_words import Words, by_columns, by_table, combine, fresh, twiddle

_ENTRIES = 512  # entries of a table that are loaded at once
_COMPENSATED_ENTRIES = 256  # the same in the compensated mode

# Takes a sum or difference out of a butterfly: the leg to which its real part belongs, that of its
# imaginary part, the two terms and the operation.
Put = Callable[[int, int, Words, Words, Any], None]


@dataclass(frozen=True)
class Tables:
    """The kernel's tables."""

    columns: Tensor  # SBUF [128, C], alike on all partitions: sign of w_4, scale, constant twiddles
    packed: Tensor  # HBM, all tables, whole, because `ap` of a view may be read in two ways
    first: int  # the number of ``packed`` with which the twiddles [rows, length] begin
    rows: int  # 2, or 6 in the compensated mode
    length: int  # entries of a row

    @property
    def compensated(self) -> bool:
        """Whether the tables are those of the compensated mode."""
        return self.rows == 6

    def load(self, tile: Tensor, first: int) -> None:
        """Load the twiddles from ``first`` on onto every partition of a tile [P, rows, size]."""
        partitions, rows, size = tile.shape
        pattern = [[0, partitions], [self.length, rows], [1, size]]
        transfer(tile, self.packed.ap(pattern, self.first + first))

    @property
    def most(self) -> int:
        """Entries of a stage's table that are loaded at once."""
        return _COMPENSATED_ENTRIES if self.compensated else _ENTRIES

    def tiles(self, partitions: int, size: int) -> list[Tensor]:
        """Allocate two tiles, for ``load`` in turn."""
        return [sbuf((partitions, self.rows, size)) for _ in range(2)]

    def constants(self, stage: Stage, quarter: int, partitions: int) -> list[Tensor]:
        """Return the columns that multiply the outputs of a quarter, for each row of factors."""
        each = (self.columns.shape[1] - FIRST_CONSTANT) // self.rows
        width = stage.outputs - 1
        place = FIRST_CONSTANT + stage.place + (quarter - 1) * width
        lows = [place + row * each for row in range(self.rows)]
        return [self.columns[0:partitions, low : low + width] for low in lows]

    def turned(self, x: Tensor) -> Tensor:
        """Return +-(b + ia) in a fresh tile for a + ib in x [P, 2 parts, ...]."""
        result, sign = sbuf(x.shape), self.columns[0 : x.shape[0], SIGN : SIGN + 1]
        for part in range(2):
            nisa.activation(dst=result[:, part], op=nl.copy, data=x[:, 1 - part], scale=sign)
        return result

    def scale(self, dst: Tensor, x: Words) -> None:
        """Set dst to scale * (hi + lo)."""
        total = x.hi
        if x.lo is not None:
            total = sbuf(x.shape)
            combine(total, x.hi, x.lo, nl.add)
        scale = self.columns[0 : x.shape[0], SCALE : SCALE + 1]
        nisa.activation(dst=dst, op=nl.copy, data=total, scale=scale)


def transform(state: Words, stages: Sequence[Stage], tables: Tables) -> Words:
    """Run all stages on a state [partitions, 2, R, N]; return another."""
    for stage in stages:
        state = _transform_stage(state, stage, tables)
    return state


def _transform_stage(state: Words, stage: Stage, tables: Tables) -> Words:
    """Run one stage by up to four equal runs of p, called quarters.

    ScalarE's products are a quarter ahead of their sums. The quarter without twiddles comes last.
    """
    result = fresh(state.shape, tables.compensated)
    step = min(stage.run, tables.most // stage.outputs)  # values of p of a piece of the table
    pieces = tables.tiles(state.shape[0], step * stage.outputs) if stage.has_table else []
    size = stage.run * stage.stride
    legs = state.map(lambda word: word.reshape_dim(3, (stage.radix, stage.count * stage.stride)))
    legs = legs.map(lambda word: word.permute((0, 1, 3, 2, 4)))
    before: Iterator[None] = iter(())
    for quarter in (*range(1, stage.following), 0):
        put = _into(result, stage, quarter * stage.run)
        butterflies(legs[..., quarter * size : (quarter + 1) * size], tables, put)
        next(before, None)
        before = _twiddles(result, stage, quarter, tables, pieces)
        next(before, None)
    next(before, None)
    return result


def _twiddles(
    result: Words, stage: Stage, quarter: int, tables: Tables, pieces: Sequence[Tensor]
) -> Task:
    """Multiply outputs of a quarter by constants, as a task, or by a table that passes ``pieces``."""
    first = quarter * stage.run
    if stage.has_table:
        step = pieces[0].shape[2] // stage.outputs
        for number, p in enumerate(range(first, first + stage.run, step)):
            piece = pieces[number % 2]
            tables.load(piece, stage.place + p * stage.outputs)
            pattern = [[0, result.shape[2]], [stage.outputs, step], [1, stage.outputs - 1]]
            pipeline([twiddle(_twiddled(result, stage, p, step), by_table(piece, pattern, 1))])
    elif quarter > 0:
        columns = tables.constants(stage, quarter, result.shape[0])
        yield from twiddle(
            _twiddled(result, stage, first, stage.run), by_columns(columns, stage.block)
        )


def butterflies(legs: Words, tables: Tables, put: Put) -> None:
    """Put the sums over k of w_r^(k k') leg k, of legs [P, 2 parts, r, ...].

    ScalarE multiplies the difference of legs 1 and 3 by -+i.
    """
    half = legs.shape[2] // 2
    low, high = legs[:, :, 0:half], legs[:, :, half:]
    if half == 1:
        put(0, 0, low[:, :, 0], high[:, :, 0], nl.add)
        put(1, 1, low[:, :, 0], high[:, :, 0], nl.subtract)
        return
    differences, sums = (fresh(low.shape, tables.compensated) for _ in range(2))
    differences.become(low, high, nl.subtract)
    turned = differences.map(lambda tile: tables.turned(tile[:, :, 1]))
    sums.become(low, high, nl.add)
    put(0, 0, sums[:, :, 0], sums[:, :, 1], nl.add)
    put(2, 2, sums[:, :, 0], sums[:, :, 1], nl.subtract)
    # -+i (a + ib) = +-(b - ia): the real part is added where the imaginary part is subtracted.
    put(1, 3, differences[:, :, 0], turned, nl.add)
    put(3, 1, differences[:, :, 0], turned, nl.subtract)


def _into(result: Words, stage: Stage, first: int) -> Put:
    """Return the put into the outputs of a quarter, which begins with p = ``first``."""
    partitions, _, rows, n = result.shape
    stride, run = stage.stride, stage.radix * stage.stride

    def put(real: int, imaginary: int, a: Words, b: Words, op: Any) -> None:
        parts = rows * n + (imaginary - real) * stride  # from the one to the other
        pattern = [[2 * rows * n, partitions], [parts, 2], [n, rows], [run, stage.run], [1, stride]]
        offset = first * run + real * stride
        result.map(lambda word: word.ap(pattern, offset)).become(a, b, op)

    return put


def _twiddled(result: Words, stage: Stage, first: int, count: int) -> Words:
    """Return views [partitions, 2, R, p, (K, q)] of the outputs of ``count`` values of p.

    K = 0 is left out, because its twiddle is 1.
    """
    partitions, _, rows, n = result.shape
    block, run = stage.block, stage.outputs * stage.block
    pattern = [[2 * rows * n, partitions], [rows * n, 2], [n, rows], [run, count], [1, run - block]]
    return result.map(lambda word: word.ap(pattern, first * run + block))
