"""Sums and products of numbers that are one word or, in the compensated mode, two: hi + lo.

butterfly.py has the mathematics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..engines import sbuf
from ..isa import nisa, nl
from ..pipeline import Task
from ..tensor import Tensor
from .butterfly_tables import HIGH_BITS

# The product of a tile with one row of the factors, in a fresh tile. The rows are cos and sin;
# compensated, of their 12 high bits, of what these leave, and of the whole.
Times = Callable[[Tensor, int], Tensor]


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
        # rounding lost.
        kept = sbuf(a.shape)
        combine(kept, self.hi, a.hi, nl.subtract)
        combine(self.lo, self.hi, kept, nl.subtract)
        combine(self.lo, a.hi, self.lo, nl.subtract)
        combine(kept, b.hi, kept, nl.add if op == nl.subtract else nl.subtract)
        combine(self.lo, self.lo, kept, op)
        if a.lo is not None and b.lo is not None:
            combine(self.lo, self.lo, a.lo, nl.add)
            combine(self.lo, self.lo, b.lo, op)


def fresh(shape: Sequence[int], compensated: bool) -> Words:
    """Allocate tiles for numbers."""
    return Words(sbuf(shape), sbuf(shape) if compensated else None)


def combine(dst: Tensor, a: Tensor, b: Tensor, op: Any) -> None:
    """Set dst to a op b, rounded, on VectorE."""
    nisa.tensor_tensor(dst=dst, data1=a, data2=b, op=op)


def twiddle(x: Words, times: Times) -> Task:
    """Multiply numbers [P, 2 parts, ...] by cos + i sin, in their places."""
    by_cos, by_sin = _products(x, times)
    yield
    x_re, x_im = x[:, 0], x[:, 1]
    for words in (by_cos, by_sin):
        for term in words[2:]:
            combine(words[1], words[1], term, nl.add)
    cos, sin = Words(*by_cos[:2]), Words(*by_sin[:2])
    x_re.become(cos[:, 0], sin[:, 1], nl.subtract)
    x_im.become(sin[:, 0], cos[:, 1], nl.add)


def _products(x: Words, times: Times) -> list[list[Tensor]]:
    """Return the terms of both parts times cos, and times sin, of which all but the first are lo.

    Of (x1 + x2) w the terms are the exact x1 w1, then x1 w2 and x2 w.
    """
    if x.lo is None:
        return [[times(x.hi, row)] for row in range(2)]
    high, rest = sbuf(x.shape), sbuf(x.shape)
    nisa.tensor_scalar(
        dst=high.view(nl.int32),
        data=x.hi.view(nl.int32),
        op0=nl.bitwise_and,
        operand0=HIGH_BITS,
    )
    combine(rest, x.hi, high, nl.subtract)
    combine(rest, rest, x.lo, nl.add)
    return [[times(high, row), times(high, 2 + row), times(rest, 4 + row)] for row in range(2)]


def by_table(table: Tensor, pattern: Sequence[Sequence[int]], first: int = 0) -> Times:
    """Return products, on VectorE, with factors that are as many as the numbers of a part.

    table: a whole tile [P, 2 or 6 rows, size]. pattern: [stride, count] in a row of the table for
    each dimension of the data after the part. first: the first entry.
    """
    partitions, rows, size = table.shape

    def times(data: Tensor, row: int) -> Tensor:
        product = sbuf(data.shape)
        factor = table.ap([[rows * size, partitions], [0, 2], *pattern], row * size + first)
        combine(product, data, factor, nl.multiply)
        return product

    return times


def by_columns(columns: Sequence[Tensor], run: int) -> Times:
    """Return products, on ScalarE, with factors each of which multiplies ``run`` numbers.

    columns: [P, count] for each row of the factors. The numbers are the last dimension.
    """

    def times(data: Tensor, row: int) -> Tensor:
        product = sbuf(data.shape)
        for index in range(columns[row].shape[1]):
            part = slice(index * run, (index + 1) * run)
            factor = columns[row][:, index : index + 1]
            nisa.activation(dst=product[..., part], op=nl.copy, data=data[..., part], scale=factor)
        return product

    return times
