"""Sums and products of numbers that are one word or, in the compensated mode, two: hi + lo.

A list of one or two tiles holds the words of all numbers. butterfly.py has the mathematics.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from .butterfly_tables import HIGH_BITS


class Factors(nl.NKIObject):
    """Twiddles beside the data that they multiply."""

    # views of cos and sin; compensated: of their 12 high bits, of what these leave, and of the
    # whole
    rows: Any
    # numbers that each column of the views multiplies, or 0 where the views are as large as the
    # data
    run: int


class Products(nl.NKIObject):
    """The products of a complex multiplication, before they are added."""

    # words of both parts times cos; compensated with a third word, which is added to lo
    by_cos: Any
    by_sin: Any  # the same times sin
    out: Any  # words for the sums


def sbuf(shape: Any) -> Any:
    """Allocate a float32 tile in SBUF."""
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def part_of(words: Any, part: int) -> Any:
    """Return the real or the imaginary part of every word (hi, lo)."""
    found = []
    for word in words:
        found.append(word[:, part])
    return found


def leg_of(words: Any, leg: int) -> Any:
    """Return one of the two legs in every word [partitions, parts, legs, ...]."""
    found = []
    for word in words:
        found.append(word[:, :, leg])
    return found


def add(a: Any, b: Any, out: Any, op: Any) -> None:
    """Set out = a + b or a - b for words [hi] or [hi, lo]; a missing lo of a and b is zero."""
    nisa.tensor_tensor(dst=out[0], data1=a[0], data2=b[0], op=op)
    if len(out) == 1:
        return
    # TwoSum: it computes how much of b and of a the rounded sum contains, and thereby what the
    # rounding lost.
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


def begin_twiddle(words: Any, factors: Factors) -> Products:
    """Multiply words [partitions, 2 parts, ...] by cos and sin, for ``finish_twiddle`` to add."""
    terms = words
    if len(words) > 1:
        terms = split_words(words)
    return Products(multiply(terms, factors, 0), multiply(terms, factors, 1), words)


def finish_twiddle(products: Products) -> None:
    """Write re cos - im sin and re sin + im cos to the places of re and im."""
    by_cos, by_sin, out = products.by_cos, products.by_sin, products.out
    for words in [by_cos, by_sin]:
        if len(words) > 1:
            nisa.tensor_tensor(dst=words[1], data1=words[1], data2=words[2], op=nl.add)
    by_cos, by_sin = by_cos[0:2], by_sin[0:2]
    add(part_of(by_cos, 0), part_of(by_sin, 1), part_of(out, 0), nl.subtract)
    add(part_of(by_sin, 0), part_of(by_cos, 1), part_of(out, 1), nl.add)


def split_words(words: Any) -> Any:
    """Split hi + lo into the 12 high bits of hi, and the rest."""
    high, rest = sbuf(words[0].shape), sbuf(words[0].shape)
    nisa.tensor_scalar(
        dst=high.view(nl.int32),
        data=words[0].view(nl.int32),
        op0=nl.bitwise_and,
        operand0=HIGH_BITS,
    )
    nisa.tensor_tensor(dst=rest, data1=words[0], data2=high, op=nl.subtract)
    nisa.tensor_tensor(dst=rest, data1=rest, data2=words[1], op=nl.add)
    return [high, rest]


def multiply(terms: Any, factors: Factors, index: int) -> Any:
    """Return x cos (index 0) or x sin (index 1) as a list of words.

    One word has one product. Of (x1 + x2) w the words are the exact x1 w1, then x1 w2 and x2 w.
    """
    if len(terms) == 1:
        return [product(terms[0], factors, index)]
    exact = product(terms[0], factors, index)
    first = product(terms[0], factors, 2 + index)
    return [exact, first, product(terms[1], factors, 4 + index)]


def product(data: Any, factors: Factors, row: int) -> Any:
    """Return data * factor in a fresh tile: by a table on VectorE, by columns on ScalarE."""
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
