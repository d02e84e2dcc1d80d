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
from .isa import nisa, nl
from .pipeline import Beside
from .tensor import Tensor

_SCALE = 2.0**-75
_LIMIT = 2.0**102
_HUGE = 3e38  # its square is infinite
_CHUNK = 1024  # numbers a partition that are squared, or overwritten, at a time
_SHORT = 128  # numbers of a row, up to which several rows are squared at once


class Guard(nl.NKIObject):
    """Rows that are checked step by step, so that other work of the engines goes on in between."""

    data: Tensor  # SBUF [P, rows, parts, n]
    limit: float  # the largest S of a good row
    pieces: list[Piece]
    partial: Tensor  # float32 [P, pieces or rows]: sums that make up S
    step: int  # the next step
    good: Any = None  # uint8 [P, rows]
    marks: Any = None  # float32 [P, rows]


class Piece(nl.NKIObject):
    """Rows of a guard, or columns of one row."""

    row: int
    rows: int
    low: int
    high: int


def prepare_guard() -> None:
    """Let ScalarE load its table for squares while it waits for data."""
    number = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=number, value=0.0)
    nisa.activation(dst=number, op=nl.square, data=number)


def set_rows_aside(data: Tensor, growth: float) -> Tensor:
    """Write zeros to bad rows of SBUF [P, rows, n] or [P, rows, parts, n].

    growth: N of the transform that follows, or the square of the factor by which it may enlarge a
    norm. Returns the marks of the rows, float32 [P, rows].
    """
    guard = begin_guard(data, growth)
    advance_guard(guard, guard_steps(guard))
    return guard.marks


def begin_guard(data: Tensor, growth: float) -> Guard:
    """Begin ``set_rows_aside``, to be carried out in steps by ``advance_guard``."""
    if len(data.shape) == 3:
        data = data.expand_dim(2)
    partitions, rows, parts, n = data.shape
    pieces: list[Piece] = []
    if parts * n <= _SHORT:
        together = max(1, _CHUNK // (parts * n))
        for row in range(0, rows, together):
            pieces.append(Piece(row, min(together, rows - row), 0, n))
        columns = rows
    else:
        width = _CHUNK // parts
        for row in range(rows):
            for low in range(0, n, width):
                pieces.append(Piece(row, 1, low, min(low + width, n)))
        columns = len(pieces)
    partial = nl.ndarray((partitions, columns), dtype=nl.float32, buffer=nl.sbuf)
    return Guard(data, _LIMIT / growth, pieces, partial, 0)


def guard_steps(guard: Guard) -> int:
    """Return a guard's number of steps.

    They are the squares of every piece, the comparison, zeros in every piece, and the marks.
    """
    return 2 * len(guard.pieces) + 2


def advance_guard(guard: Guard, steps: int) -> None:
    """Run the next steps of a guard, as many as are left."""
    count = len(guard.pieces)
    for _ in range(min(steps, guard_steps(guard) - guard.step)):
        if guard.step < count:
            square_piece(guard, guard.step)
        elif guard.step == count:
            compare_sums(guard)
        elif guard.step <= 2 * count:
            overwrite_piece(guard, guard.pieces[guard.step - count - 1])
        else:
            guard.marks = marks_of(guard.good)
        guard.step += 1


@dataclass
class RowGuard:
    """Rows that are set aside while other engines work, or no rows."""

    guard: Guard | None

    def steps(self) -> Iterator[Beside]:
        """Yield the guard's steps."""
        if self.guard is not None:
            for _ in range(guard_steps(self.guard)):
                yield Beside(self._advance)

    def _advance(self) -> None:
        assert self.guard is not None
        advance_guard(self.guard, 1)

    def square(self) -> None:
        """Sum the squares of all rows."""
        if self.guard is not None:
            advance_guard(self.guard, len(self.guard.pieces))

    def finish(self) -> None:
        """Do all steps that are left."""
        if self.guard is not None:
            advance_guard(self.guard, guard_steps(self.guard))

    def bad(self, dst: Tensor, value: float) -> None:
        """Write the value where rows [P, rows] are bad, and 0 elsewhere, once all steps are done.

        Without a guard all are good.
        """
        if self.guard is None:
            nisa.memset(dst=dst, value=0.0)
            return
        nisa.tensor_scalar(
            dst=dst,
            data=self.guard.good,
            op0=nl.equal,
            operand0=0.0,
            op1=nl.multiply,
            operand1=value,
            engine=nisa.engine.vector,
        )

    @property
    def marks(self) -> Tensor | None:
        """The marks of the rows [P, rows], once all steps are done; None without a guard."""
        return None if self.guard is None else self.guard.marks


def guarded(x: Tensor, growth: float, do_rows_meet: bool = False) -> RowGuard:
    """Return the guard of [P, row, part, n], where transposes mix rows.

    do_rows_meet: whether rows meet in products, so that they are guarded on every chip.
    """
    is_needed = (do_rows_meet or transposes_mix_rows()) and x.shape[0] * x.shape[1] > 1
    return RowGuard(begin_guard(x, growth) if is_needed else None)


def square_piece(guard: Guard, index: int) -> None:
    """Sum the squares of a piece: its rows, or its columns of one row."""
    piece = guard.pieces[index]
    data = guard.data[:, piece.row : piece.row + piece.rows, :, piece.low : piece.high]
    if guard.data.shape[2] * guard.data.shape[3] <= _SHORT:
        squares = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=squares, op=nl.square, data=data, scale=_SCALE)
        sums = guard.partial[:, piece.row : piece.row + piece.rows]
        flat = squares.flatten_dims(2, 3)
        nisa.tensor_reduce(dst=sums, op=nl.add, data=flat, axis=2)
        return
    squares = nl.ndarray(data.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.activation_reduce(
        dst=squares,
        op=nl.square,
        data=data,
        reduce_op=nl.add,
        reduce_res=guard.partial[:, index : index + 1],
        scale=_SCALE,
    )


def compare_sums(guard: Guard) -> None:
    """Find which rows are good."""
    partitions, rows = guard.data.shape[0], guard.data.shape[1]
    sums = guard.partial
    if sums.shape[1] > rows:
        flat = sums.reshape((partitions, rows, sums.shape[1] // rows))
        sums = nl.ndarray((partitions, rows), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=sums, op=nl.add, data=flat, axis=2)
    guard.good = nl.ndarray((partitions, rows), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=guard.good,
        data=sums,
        op0=nl.less_equal,
        operand0=guard.limit,
        engine=nisa.engine.vector,
    )


def overwrite_piece(guard: Guard, piece: Piece) -> None:
    """Write zeros to the bad rows of a piece."""
    data = guard.data[:, piece.row : piece.row + piece.rows, :, piece.low : piece.high]
    partitions, rows, parts, n = data.shape
    free = guard.good.shape[1]
    repeated = guard.good.ap([[free, partitions], [1, rows], [0, parts], [0, n]], piece.row)
    nisa.tensor_copy_predicated(dst=data, src=0.0, predicate=repeated, reverse_pred=True)


def marks_of(good: Tensor) -> Tensor:
    """Return 0 where ``good`` is 1, and NaN, infinity less infinity, where it is 0."""
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
        dst=marks, data1=marks, data2=marks, op=nl.multiply, engine=nisa.engine.vector
    )
    nisa.tensor_tensor(
        dst=marks, data1=marks, data2=marks, op=nl.subtract, engine=nisa.engine.vector
    )
    return marks
