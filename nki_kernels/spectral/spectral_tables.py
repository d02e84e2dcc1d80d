"""Matrices of truncated transforms: only the frequencies that a layer keeps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.table_terms import Array, TableSpec, rounded_table, table_spec


def kept_frequencies(length: int, count: int, is_last: bool, is_centered: bool = False) -> Array:
    """Return the frequencies of an axis in the order of the weight, int64 [count].

    Args:
        length: points along the axis.
        count: how many frequencies are kept.
        is_last: whether it is the last axis, whose frequencies are 0, 1, ..., count - 1. Along
            another axis they are 0, 1, ..., then the negative ones, which are as many or one less.
        is_centered: whether the negative ones come first.
    """
    k = np.arange(count)
    if is_last:
        return k
    negative = count // 2
    return k - negative if is_centered else np.roll(k - negative, -negative)


def spectral_tables(
    lengths: Sequence[int],
    counts: Sequence[int],
    is_centered: bool = False,
    scale: float = 1.0,
    is_gradient: bool = False,
    dtype: str = "float32",
) -> tuple[Array, ...]:
    """Return the tables of a spectral convolution, computed in float64 and rounded once.

    First come the tables into spectra, from the last axis to the first: for the last one
    [1, L, 2 F], columns (part, f); for each other one [2, L, 2 F], for both parts of the numbers
    that it transforms. The tables back follow: for the last axis [2, F,
    L] for both parts of its spectrum, and for each axis before it [2, F, L], cosines and sines.

    Args:
        lengths: points along each axis.
        counts: frequencies that are kept along each axis.
        is_centered: as for ``kept_frequencies``.
        scale: a factor on the result.
        is_gradient: whether the factors of the inverse belong to the tables into spectra.
        dtype: "float32" or "bfloat16", in which products are computed.
    """
    last = len(lengths) - 1
    forward, back = list[Array](), list[Array]()
    for axis, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        f = kept_frequencies(length, count, axis == last, is_centered)
        angle = 2 * np.pi * (np.outer(np.arange(length), f) % length) / length
        cos, sin = np.cos(angle), np.sin(angle)
        factors = np.full(count, 1.0 / length)
        if axis == last:
            factors *= scale * np.where((f == 0) | (2 * f == length), 1.0, 2.0)
        first, second = (factors, 1.0) if is_gradient else (1.0, factors)
        rows = [np.hstack([cos * first, -sin * first])]
        if axis < last:
            rows.append(np.hstack([sin * first, cos * first]))
        forward.append(np.stack(rows))
        sign = -1.0 if axis == last else 1.0
        back.append(np.stack([(cos * second).T, sign * (sin * second).T]))
    tables = [*reversed(forward), back[last], *back[:last]]
    return tuple(rounded_table(table, dtype, False) for table in tables)


def spectral_specs(
    lengths: Sequence[int], counts: Sequence[int], dtype: str = "float32"
) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``spectral_tables(lengths, counts, ...)``."""
    last = len(lengths) - 1
    sizes = list(zip(lengths, counts, strict=True))
    forward = [
        (1 + (axis < last), sizes[axis][0], 2 * sizes[axis][1]) for axis in range(last, -1, -1)
    ]
    back = [(2, sizes[axis][1], sizes[axis][0]) for axis in (last, *range(last))]
    return tuple(table_spec(shape, dtype) for shape in (*forward, *back))
