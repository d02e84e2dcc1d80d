"""The stages of a transform over several axes that lie one after the other in memory.

Mathematics.  The axes of x [n1, n2, ...] are digits of an index n of the whole array. Without the
twiddles between them, a transform of length n1 n2 ... is the transform over the axes. So the stages
are those of Stockham's FFT (stage.py), each with a radix of one axis, or with several whole axes:
then its matrix is the Kronecker product of theirs. Twiddles remain between radices of one axis.

For real data the first stage contracts real numbers, and the last stage makes half a spectrum of
the last axis. An inverse to real data begins with complex half spectra, and its last stage makes
real numbers. So the last stage has the whole last axis there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..base.arguments import batch_and_lengths
from ..base.engines import PARTITIONS
from ..base.isa import Tensor
from ..fft.stage import MAX_RADIX, AxisDft, Stage, in_row_tiles, slabs_within


@dataclass(frozen=True)
class Axes:
    """The axes of arrays in C order, and whether their data or their results are real."""

    lengths: tuple[int, ...]
    is_real: bool = False  # results are half spectra of the last axis
    to_real: bool = False  # data are half spectra of the last axis

    @property
    def data(self) -> tuple[int, ...]:
        """The sizes of the data."""
        return self._half if self.to_real else self.lengths

    @property
    def results(self) -> tuple[int, ...]:
        """The sizes of the results."""
        return self._half if self.is_real else self.lengths

    @property
    def _half(self) -> tuple[int, ...]:
        return *self.lengths[:-1], self.lengths[-1] // 2 + 1

    def dft(self, axis: int) -> AxisDft:
        """Return the DFT of a whole axis."""
        return AxisDft(self.lengths[axis], self.data[axis], self.results[axis])


def axes_of(last: int, *parts: Tensor, **which: bool) -> Axes:
    """Return the axes of the parts of x [B, n1, ...], where the last one has ``last`` points.

    which: ``is_real`` or ``to_real``, as for ``Axes``.
    """
    _, lengths = batch_and_lengths(*parts)
    return Axes((*lengths[:-1], last), **which)


@dataclass(frozen=True)
class Digit:
    """What one stage transforms: a radix of an axis, or whole axes."""

    radix: int
    axis: int  # the first axis
    axes: int  # how many whole axes; 0: a radix of the axis, others of which precede or follow
    is_first: bool  # whether it is the first of its axis


def digits_of(radices: Sequence[int], lengths: Sequence[int]) -> list[Digit]:
    """Return what each radix transforms; the axes follow each other, and so do their radices.

    Raises:
        ValueError: a radix neither divides what is left of an axis nor is a product of whole axes.
    """
    found = list[Digit]()
    sizes = [(axis, n) for axis, n in enumerate(lengths) if n > 1]
    left = 0  # what earlier radices leave of an axis
    for radix in radices:
        axis, n = sizes[0] if sizes else (0, 1)
        is_first, left = left == 0, left or n
        if radix < 2 or (left % radix and not is_first):
            raise _no_digits(radices, lengths)
        if left % radix == 0:
            left //= radix
            is_whole = is_first and left == 1
            found.append(Digit(radix, axis, int(is_whole), is_first))
            sizes, left = (sizes[1:], 0) if left == 1 else (sizes, left)
            continue
        count, product = 0, 1
        while count < len(sizes) and product < radix:
            product, count = product * sizes[count][1], count + 1
        if product != radix:
            raise _no_digits(radices, lengths)
        found.append(Digit(radix, axis, sizes[count - 1][0] - axis + 1, True))
        sizes, left = sizes[count:], 0
    if sizes:
        raise _no_digits(radices, lengths)
    return found


def _no_digits(radices: Sequence[int], lengths: Sequence[int]) -> ValueError:
    return ValueError(
        f"radices {tuple(radices)}: for the axes {tuple(lengths)} each must divide what the "
        f"radices before it leave of an axis, or be the product of whole axes"
    )


def stages_of_axes(radices: Sequence[int], axes: Axes) -> list[Stage]:
    """Return the stages of a transform over several axes, in row tiles where that is faster.

    Raises:
        ValueError: the radices are no digits of the axes; see ``digits_of``. Half spectra need a
            last radix with the whole last axis.
    """
    digits = digits_of(radices, axes.lengths)
    if any(radix > MAX_RADIX for radix in radices):
        raise ValueError(f"radices {tuple(radices)}: each must be 2 to {MAX_RADIX}")
    is_half = axes.is_real or axes.to_real
    whole = [[axes.dft(digit.axis + at) for at in range(digit.axes)] for digit in digits]
    if is_half and not (whole[-1] and axes.lengths[-1] > 1):
        raise ValueError(
            f"radices {tuple(radices)}: for half spectra the last must have the whole last axis of "
            f"{axes.lengths[-1]} points, which may not be 1"
        )
    made, count = list[Stage](), len(digits)
    inputs = [_product(d.radix, dfts, "inputs") for d, dfts in zip(digits, whole, strict=True)]
    outputs = [_product(d.radix, dfts, "outputs") for d, dfts in zip(digits, whole, strict=True)]
    before = 1
    for index, digit in enumerate(digits):
        done, left = math.prod(outputs[:index]), math.prod(inputs[index + 1 :])
        before = done if digit.is_first else before
        stage = Stage(
            inputs[index],
            outputs[index],
            done,
            left,
            inputs[index + 1] if index + 1 < count else 1,
            parts=1 if axes.is_real and index == 0 else 2,
            result_parts=1 if axes.to_real and index + 1 == count else 2,
            before=before,
            axes=tuple(whole[index]),
        )
        made.append(in_row_tiles(replace(stage, slabs=slabs_within(PARTITIONS, stage))))
    return made


def _product(radix: int, dfts: Sequence[AxisDft], which: str) -> int:
    return math.prod(getattr(dft, which) for dft in dfts) if dfts else radix
