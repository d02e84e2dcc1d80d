"""Sums and products of numbers that are one word or, in the compensated mode, two: hi + lo.

butterfly.py has the mathematics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.engines import PSUM_BANK, element_count, psum, sbuf
from ..base.isa import nisa, nl
from ..base.pipeline import Task
from ..base.tensor import Tensor
from .butterfly_tables import HIGH_BITS


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
