"""Rows that are not finite, or may overflow, are set aside before they meet other rows.

NeuronCore-v2 transposes by a product with the identity, so that a NaN or an infinity in one row
reaches every row of the tile: 0 NaN = NaN. So do products of several rows with a block-diagonal
matrix, on every chip. From v3 on transposes are exact, and a row that is a column of the stationary
operand meets no other.

Mathematics.  Nothing on the way from a row x to its spectrum of N numbers exceeds sqrt(N) ||x||. So
a row is taken as it is if S = sum (2^-75 x)^2 <= 2^102 / N: then sqrt(N) ||x|| <= 2^126. S does not
overflow for finite x, and is not finite where x is not. Other rows are replaced by zeros, and their
results by NaN: they hold a NaN or an infinity, or come within sqrt(N) of the largest float.

Layout on the NeuronCore.  Rows lie along the free axis. ScalarE squares them and sums, VectorE
compares and overwrites: a pass of each over the data. A row's mark, 0 or NaN, is added to its
results; ScalarE does that as the bias of an evacuation, at no cost, where it evacuates one row.
"""

from __future__ import annotations

from typing import Any

from .nki_api import nisa, nl

_SCALE = 2.0**-75
_LIMIT = 2.0**102
_HUGE = 3e38  # whose square is infinite
_CHUNK = 2048  # numbers a partition that are squared at a time
_SHORT = 128  # numbers of a row, up to which all rows are squared at once


def transposes_mix_rows() -> bool:
    """Whether the chip's transposes multiply by the identity."""
    return bool(nisa.get_nc_version() == nisa.nc_version.gen2)


def set_rows_aside(x: Any, growth: float) -> Any:
    """Zeros in place of bad rows of SBUF x [P, rows, ...]; returns their marks, float32 [P, rows].

    growth: N of the transform that follows, or the square of what it may multiply a norm by.
    """
    return set_aside(x, row_squares(x), growth)


def set_aside(x: Any, squares: Any, growth: float) -> Any:
    """``set_rows_aside`` from the squares on, which ScalarE may have made some time before."""
    good = good_rows(squares, growth)
    overwrite_bad_rows(x, good)
    return marks_of(good)


def good_rows(squares: Any, growth: float) -> Any:
    """1 where a row's squares say that it is taken as it is, else 0; uint8 [P, rows]."""
    sums = sums_of(squares)
    good = nl.ndarray(sums.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=good, data=sums, op0=nl.less_equal, operand0=_LIMIT / growth, engine=nisa.engine.vector
    )
    return good


def overwrite_bad_rows(x: Any, good: Any) -> None:
    """Zeros in place of bad rows of SBUF x [P, rows, ...], or of some columns of them."""
    free = 1
    for size in x.shape[2:]:
        free *= size
    partitions, rows = good.shape
    predicate = good.ap([[rows, partitions], [1, rows], [0, free]])
    nisa.tensor_copy_predicated(dst=x, src=0.0, predicate=predicate, reverse_pred=True)


def row_sums(x: Any) -> Any:
    """S of every row of SBUF x [P, rows, ...], float32 [P, rows]."""
    return sums_of(row_squares(x))


def sums_of(squares: Any) -> Any:
    """Sums along the last dimension of [P, rows, m], float32 [P, rows]."""
    partitions, rows, count = squares.shape
    if count == 1:
        return squares.reshape((partitions, rows))
    sums = nl.ndarray((partitions, rows), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=sums, op=nl.add, data=squares, axis=2)
    return sums


def row_squares(x: Any) -> Any:
    """Squares of SBUF x [P, rows, ...], or sums of some: float32 [P, rows, m] that add up to S."""
    partitions, rows = x.shape[0], x.shape[1]
    size = 1
    for length in x.shape[2:]:
        size *= length
    if size <= _SHORT:
        squares = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=squares, op=nl.square, data=x, scale=_SCALE)
        return squares.reshape((partitions, rows, size))
    last = len(x.shape) - 1
    step = min(x.shape[last], _CHUNK * x.shape[last] // size)
    pieces = -(-x.shape[last] // step)
    partial = nl.ndarray((partitions, rows * pieces), dtype=nl.float32, buffer=nl.sbuf)
    for row in range(rows):
        for piece in range(pieces):
            low = piece * step
            high = min(low + step, x.shape[last])
            data = x[:, row, low:high] if last == 2 else x[:, row, :, low:high]
            squares = nl.ndarray(data.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
            at = row * pieces + piece
            nisa.activation_reduce(
                dst=squares,
                op=nl.square,
                data=data,
                reduce_op=nl.add,
                reduce_res=partial[:, at : at + 1],
                scale=_SCALE,
            )
    return partial.reshape((partitions, rows, pieces))


def marks_of(good: Any) -> Any:
    """0 where ``good`` is 1, NaN where it is 0: infinity less infinity."""
    marks = nl.ndarray(good.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=marks,
        data=good,
        op0=nl.equal,
        operand0=0.0,
        op1=nl.multiply,
        operand1=_HUGE,
        engine=nisa.engine.vector,
    )
    nisa.tensor_tensor(
        dst=marks, data1=marks, data2=marks, op=nl.multiply, engine=nisa.engine.gpsimd
    )
    nisa.tensor_tensor(
        dst=marks, data1=marks, data2=marks, op=nl.subtract, engine=nisa.engine.gpsimd
    )
    return marks


def mark_results(y: Any, marks: Any) -> None:
    """Add the marks [P, rows] to SBUF results y [P, rows, ...]."""
    free = 1
    for size in y.shape[2:]:
        free *= size
    partitions, rows = marks.shape
    repeated = marks.ap([[rows, partitions], [1, rows], [0, free]])
    nisa.tensor_tensor(dst=y, data1=y, data2=repeated, op=nl.add, engine=nisa.engine.vector)
