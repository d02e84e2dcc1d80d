"""Rows that are not finite, or may overflow, are set aside before they meet other rows.

NeuronCore-v2 transposes by a product with the identity, so that a NaN or an infinity in one row
reaches every row of the tile: 0 NaN = NaN. Products of several rows with a block-diagonal matrix
have the same effect, on every chip. From v3 on transposes are exact, and a row that is a column of
the stationary operand meets no other row.

Mathematics.  On the way from a row x to its spectrum of N numbers, no value exceeds sqrt(N) ||x||.
So a row is transformed as it is if S = sum (2^-75 x)^2 <= 2^102 / N, which means sqrt(N) ||x|| <=
2^126. S does not overflow for finite x, and is not finite where x is not. Other rows hold a NaN or
an infinity, or come within sqrt(N) of the largest float. They are replaced by zeros, and their
results by NaN.

Layout on the NeuronCore.  Rows lie along the free axis. ScalarE computes the sums of squares,
VectorE compares and overwrites; each of them passes over the data once. A row's mark, 0 or NaN, is
added to its results. Where an instruction of ScalarE evacuates one row, it adds the mark as its
bias, at no cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .chip import transposes_mix_rows
from .engines import chunks, sbuf
from .isa import Tensor, nisa, nl
from .pipeline import Beside

_SCALE = 2.0**-75
_LIMIT = 2.0**102
_HUGE = 3e38  # its square is infinite
_CHUNK = 1024  # numbers a partition that are squared, or overwritten, at a time
_SHORT = 128  # numbers of a row, up to which several rows are squared at once


@dataclass(frozen=True)
class _Piece:
    """Rows of a guard, or columns of one row."""

    row: int
    rows: int
    low: int
    count: int

    def of(self, data: Tensor) -> Tensor:
        """Return the piece of [P, rows, parts, n]."""
        return data[:, self.row : self.row + self.rows, :, self.low : self.low + self.count]


def prepare_guard() -> None:
    """Let ScalarE load its table for squares while it waits for data."""
    number = sbuf((1, 1))
    nisa.memset(dst=number, value=0.0)
    nisa.activation(dst=number, op=nl.square, data=number)


def set_rows_aside(data: Tensor, growth: float) -> Tensor:
    """Write zeros to bad rows of SBUF [P, rows, n] or [P, rows, parts, n].

    growth: as for ``RowGuard``. Returns the marks of the rows, float32 [P, rows].
    """
    guard = RowGuard(data, growth)
    guard.finish()
    assert guard.marks is not None
    return guard.marks


class RowGuard:
    """Rows that are set aside step by step, so that other engines work in between, or no rows.

    The steps are the squares of every piece, the comparison, zeros in every piece, and the marks.

    data: SBUF [P, rows, n] or [P, rows, parts, n], or None, where all rows are good. growth: N of
    the transform that follows, or the square of the factor by which it may enlarge a norm. marks:
    those of the rows, float32 [P, rows], once all steps are done; None without data.
    """

    def __init__(self, data: Tensor | None, growth: float = 1.0) -> None:
        self._limit = _LIMIT / growth  # the largest S of a good row
        self._pieces, self._done, self._count = list[_Piece](), 0, 0
        self._good: Any = None  # uint8 [P, rows]
        self.marks: Tensor | None = None
        if data is None:
            return
        if len(data.shape) == 3:
            data = data.expand_dim(2)
        partitions, rows, parts, n = data.shape
        self._is_short = parts * n <= _SHORT
        if self._is_short:
            together = max(1, _CHUNK // (parts * n))
            self._pieces = [_Piece(*some, 0, n) for some in chunks(rows, together)]
        else:
            columns = chunks(n, _CHUNK // parts)
            self._pieces = [_Piece(row, 1, *some) for row in range(rows) for some in columns]
        self._data, self._count = data, 2 * len(self._pieces) + 2
        sums = rows if self._is_short else len(self._pieces)
        self._partial = sbuf((partitions, sums))  # sums that make up S

    def steps(self) -> Iterator[Beside]:
        """Yield the guard's steps."""
        for _ in range(self._count):
            yield Beside(self._advance)

    def square(self) -> None:
        """Sum the squares of all rows."""
        self._advance(len(self._pieces))

    def finish(self) -> None:
        """Do all steps that are left."""
        self._advance(self._count)

    def _advance(self, steps: int = 1) -> None:
        """Run the next steps, as many as are left."""
        count = len(self._pieces)
        for step in range(self._done, min(self._done + steps, self._count)):
            if step < count:
                self._square(step)
            elif step == count:
                self._compare()
            elif step <= 2 * count:
                self._overwrite(self._pieces[step - count - 1])
            else:
                self.marks = marks_of(self._good)
            self._done += 1

    def bad(self, dst: Tensor, value: float) -> None:
        """Write the value where rows [P, rows] are bad, else 0, once all steps are done."""
        if self._count == 0:
            nisa.memset(dst=dst, value=0.0)
        else:
            _where_zero(dst, self._good, value)

    def _square(self, index: int) -> None:
        """Sum the squares of a piece: its rows, or its columns of one row."""
        piece = self._pieces[index]
        data = piece.of(self._data)
        if self._is_short:
            squares = sbuf(data.shape)
            nisa.activation(dst=squares, op=nl.square, data=data, scale=_SCALE)
            sums = self._partial[:, piece.row : piece.row + piece.rows]
            nisa.tensor_reduce(dst=sums, op=nl.add, data=squares.flatten_dims(2, 3), axis=2)
            return
        nisa.activation_reduce(
            dst=sbuf(data.shape, nl.bfloat16),
            op=nl.square,
            data=data,
            reduce_op=nl.add,
            reduce_res=self._partial[:, index : index + 1],
            scale=_SCALE,
        )

    def _compare(self) -> None:
        """Find which rows are good."""
        sums, shape = self._partial, self._data.shape[0:2]
        if sums.shape[1] > shape[1]:
            flat, sums = sums.reshape((*shape, sums.shape[1] // shape[1])), sbuf(shape)
            nisa.tensor_reduce(dst=sums, op=nl.add, data=flat, axis=2)
        self._good = sbuf(shape, nl.uint8)
        nisa.tensor_scalar(
            dst=self._good,
            data=sums,
            op0=nl.less_equal,
            operand0=self._limit,
            engine=nisa.engine.vector,
        )

    def _overwrite(self, piece: _Piece) -> None:
        """Write zeros to the bad rows of a piece."""
        data = piece.of(self._data)
        partitions, rows, parts, n = data.shape
        pattern = [[self._good.shape[1], partitions], [1, rows], [0, parts], [0, n]]
        repeated = self._good.ap(pattern, piece.row)
        nisa.tensor_copy_predicated(dst=data, src=0.0, predicate=repeated, reverse_pred=True)


def guarded(x: Tensor, growth: float, do_rows_meet: bool = False) -> RowGuard:
    """Return the guard of [P, row, part, n], where transposes mix rows.

    do_rows_meet: whether rows meet in products, so that they are guarded on every chip.
    """
    is_needed = (do_rows_meet or transposes_mix_rows()) and x.shape[0] * x.shape[1] > 1
    return RowGuard(x if is_needed else None, growth)


def marks_of(good: Tensor) -> Tensor:
    """Return 0 where ``good`` is 1, and NaN, infinity less infinity, where it is 0."""
    marks = sbuf(good.shape)
    _where_zero(marks, good, _HUGE)
    for op in (nl.multiply, nl.subtract):
        nisa.tensor_tensor(dst=marks, data1=marks, data2=marks, op=op, engine=nisa.engine.vector)
    return marks


def _where_zero(dst: Tensor, data: Tensor, value: float) -> None:
    """Write the value where data is 0, and 0 elsewhere."""
    nisa.tensor_scalar(
        dst=dst,
        data=data,
        op0=nl.equal,
        operand0=0.0,
        op1=nl.multiply,
        operand1=value,
        engine=nisa.engine.vector,
    )


def mark_of(marks: Tensor | None, row: int) -> Tensor | None:
    """Return the marks [P, 1] of one row of each partition, or None where there are none."""
    return None if marks is None else marks[:, row : row + 1]
