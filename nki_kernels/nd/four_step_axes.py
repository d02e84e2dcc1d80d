"""FFT over several axes, each array spread over all partitions: one launch, one trip over HBM.

It serves arrays that are too large for stockham_axes, with one array on each partition.

Mathematics.  Let the last axis be n = j C + c, of r C points. Then j is an axis of its own, the
last one of the index a = (n1, n2, ..., j) with A = n1 n2 ... r values, and with k = K + r k'

    Y[k1, k2, ..., K + r k'] = sum_c W^(c (K + r k')) sum_a W_(N1)^(n1 k1) ... W_r^(j K) x[a, c]

The inner sum has stages without twiddles between axes (axis_stages.py), and the last DFT over c has
a matrix for each K, in which the twiddles are. Where the last axes are short, c is the index of
several of them, and of a part of the axis before; then the matrices are Kronecker products.

Layout on the NeuronCore.  The first stage and those after it are four_step's: they leave c on
partitions and A on the free axis. The last DFT has this state as its stationary operand, up to 128
lines (k1, k2, ...) at a time, so that lines return to the partitions, and the results K + r k' of a
line lie one after the other, in natural order:

    HBM [r1, N/r1] -> PSUM [c, (part, k1)] -> stages -> [c, part, A] -> PSUM [lines, (part, k')]
        -> SBUF [lines, part, n] -> HBM

Several neighbouring lines lie on one partition, so that a DMA moves more than one line at a time.
Real data has half of the first stage's contraction, and half of the last DFT's columns. Of half
spectra c is 0 to n/2; the last DFT makes real lines of them.

Arrays are different columns or partitions in every product, and never meet.

Why it is fast.  HBM is read once and written once, and no twiddle is multiplied by VectorE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..base.arguments import are_positive, check_tables
from ..base.engines import (
    PARTITIONS,
    PSUM_BANK,
    Turns,
    clear,
    columns_read,
    evacuate,
    hbm,
    multiply,
    psum,
    sbuf,
    transfer,
)
from ..base.isa import Tensor, nki
from ..base.launch import Rows, for_rows, rows_of_arrays
from ..base.packing import unpack
from ..base.pipeline import After, Block, Task
from ..base.roots import roots
from ..base.table_terms import Array, TableSpec, table_spec
from ..base.tables import load_identity, load_tables
from ..fft.four_step import FourStep, Held, Transforms, Weigh, opening_matrices
from ..fft.four_step_tables import (
    MAX_STATE,
    MAX_STREAMED_LENGTH,
    opening_shape,
    opening_table,
)
from ..fft.row_transforms import row_of
from ..fft.spread_lines import Inputs, Lines, spread_of
from ..fft.stage import Stage, matrix_of_axes, stage_matrices, stage_spec, stage_table
from ..fft.stage_products import Put, Tabled, Tools, into_rows
from ..fft.twiddles import Sums
from .axis_stages import Axes, axes_of, stages_of_axes

_STORED = 1024  # numbers of a part on a partition that are stored together
_FILLED = 0.05  # by how much more of the array other lines fill, before they are shorter runs


@dataclass(frozen=True)
class AxesDigits:
    """The digits of a transform over several axes: a, and c of the axes from ``axis`` on."""

    axes: Axes
    radices: tuple[int, ...]  # r1, ..., C
    axis: int  # the first axis of c, which it may share with a
    inside: int  # points of this axis in c

    @property
    def repeats(self) -> int:
        """Points r of the shared axis in a."""
        return self.axes.lengths[self.axis] // self.inside

    @property
    def columns(self) -> int:
        """Numbers c on partitions."""
        after = math.prod(self.axes.data[self.axis + 1 :])
        return after * (self.inside if self.repeats > 1 else self.axes.data[self.axis])

    @property
    def kept(self) -> tuple[int, int]:
        """Outputs k' of each K, of which the last may be no frequency, and of the axes after it."""
        first, *after = self.axes.results[self.axis :]
        return -(-first // self.repeats), math.prod(after)

    @property
    def parts(self) -> int:
        """Parts of the results."""
        return 1 if self.axes.to_real else 2

    @property
    def width(self) -> int:
        """Columns of a product of the last DFT."""
        return self.parts * math.prod(self.kept)

    @property
    def spread(self) -> tuple[int, ...]:
        """The digits of the data: radices, and the columns."""
        return *self.radices[:-1], self.columns

    @property
    def lines(self) -> int:
        """Lines of an array: the indices of the axes before c."""
        return math.prod(self.axes.lengths[: self.axis])

    @property
    def line(self) -> int:
        """Results of a line."""
        return math.prod(self.axes.results[self.axis :])

    @property
    def most_lines(self) -> int:
        """Lines of a partition that are stored together, at most."""
        return _STORED // self.line

    def stages(self) -> list[Stage]:
        """Return the stages over a, the first of which is the opening."""
        return stages_of_axes(
            self.radices[:-1], Axes((*self.axes.lengths[: self.axis], self.repeats))
        )

    def last(self, inverse: bool) -> Array:
        """Return the matrices of the last DFT, complex [c, K, k']."""
        n, size = self.axes.lengths[self.axis], self.columns
        after = [self.axes.dft(axis) for axis in range(self.axis + 1, len(self.axes.lengths))]
        if self.repeats == 1:
            return matrix_of_axes([self.axes.dft(self.axis), *after], inverse)[:, None]
        c, K = np.arange(self.inside)[:, None, None], np.arange(self.repeats)[:, None]
        own = roots(c * (K + self.repeats * np.arange(self.kept[0])), n, inverse)
        rest = matrix_of_axes(after, inverse) if after else np.ones((1, 1))
        return np.einsum("cKk,dl->cdKkl", own, rest).reshape(size, self.repeats, -1)


def axes_digits(axes: Axes, radices: tuple[int, ...]) -> AxesDigits:
    """Return the digits of a transform.

    Raises:
        ValueError: the radices are no digits of the axes. The last one is a product of the last
            axes, or of the axes after one axis and of a divisor of this axis.
    """
    digits = _digits(axes, radices)
    if digits is None:
        raise ValueError(
            f"radices {radices}: for the axes {axes.lengths} there must be two or more, the last "
            f"of which is a product of the last axes, of one of which it may have a divisor"
        )
    width, length = digits.width, math.prod(radices[:-1])
    if digits.columns > PARTITIONS or width > PSUM_BANK:
        raise ValueError(
            f"radices {radices}: the last may have up to {PARTITIONS} numbers of data and "
            f"{PSUM_BANK} numbers of results"
        )
    if length * digits.columns > MAX_STREAMED_LENGTH or length > MAX_STATE:
        raise ValueError(
            f"radices {radices}: their product may be up to {MAX_STREAMED_LENGTH}, and without the "
            f"last one {MAX_STATE}"
        )
    digits.stages()
    return digits


def _digits(axes: Axes, radices: tuple[int, ...]) -> AxesDigits | None:
    """Return the digits, or None where the last radix has none."""
    left = radices[-1] if len(radices) > 1 else 0
    for axis in range(len(axes.lengths) - 1, -1, -1):
        n = axes.lengths[axis]
        is_cut = left < n
        if is_cut and axes.to_real and axis + 1 == len(axes.lengths):
            return None  # half of an axis has no digits
        if left > 0 and n % left == 0:
            return AxesDigits(axes, tuple(radices), axis, left)
        if left == 0 or left % n > 0:
            return None
        left //= n
    return None


def four_step_axes_tables(
    axes: Axes, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return the tables of the kernels below: (first, *stages, last).

    first is the DFT of r1 times ``scale``, as in ``four_step_tables``; of real data, for its real
    part alone. stages are those of ``stockham_axes_tables`` between r1 and C. last is [C, r, n],
    with n = 2 P k' for P parts of a result, columns (part of the data, part of the result, k').

    Args:
        axes: the axes.
        radices: r1, ..., C, the radices of the axes in their order; see ``axes_digits``.
        inverse, scale: as for ``stockham_tables``.
    """
    digits = axes_digits(axes, radices)
    first, *stages = digits.stages()
    opening = stage_matrices(first, inverse)[0]
    w = digits.last(inverse)
    rows = [np.stack(parts[: digits.parts], 2) for parts in ((w.real, w.imag), (-w.imag, w.real))]
    last = np.stack(rows, 2).reshape(digits.columns, digits.repeats, -1)
    return (
        opening_table(scale * opening, axes.is_real),
        *(stage_table(stage, inverse, 1.0) for stage in stages),
        last.astype(np.float32),
    )


def four_step_axes_specs(axes: Axes, radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``four_step_axes_tables(axes, radices, ...)``."""
    digits = axes_digits(axes, radices)
    return (
        table_spec(opening_shape(radices[0], axes.is_real)),
        *(stage_spec(stage) for stage in digits.stages()[1:]),
        table_spec((digits.columns, digits.repeats, 2 * digits.width)),
    )


@nki.jit
def four_step_axes(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform ``x_re + i x_im`` over all axes but the first, each array over all partitions.

    The arguments and the results are those of ``stockham_axes``, with ``four_step_axes_tables`` and
    radices r1, ..., C, without zeros along the first axis.
    """
    axes = axes_of(x_re.shape[-1], x_re, x_im)
    y_re, y_im = _transformed([x_re, x_im], axes, radices, unpack(tables, places))
    return y_re, y_im


@nki.jit
def real_four_step_axes(x, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform real ``x`` over all axes but the first, to half spectra of the last one.

    The arguments and the results are those of ``real_stockham_axes``, with
    ``four_step_axes_tables``; the last radix divides the last axis.
    """
    axes = axes_of(x.shape[-1], x, is_real=True)
    y_re, y_im = _transformed([x], axes, radices, unpack(tables, places))
    return y_re, y_im


@nki.jit
def inverse_real_four_step_axes(x_re, x_im, tables, places, radices, last):  # type: ignore[no-untyped-def]
    """Transform half spectra of the last axis over all axes but the first, to real arrays.

    The arguments and the results are those of ``inverse_real_stockham_axes``, with
    ``four_step_axes_tables``; the last radix has the whole last axis.
    """
    axes = axes_of(last, x_re, x_im, to_real=True)
    (y,) = _transformed([x_re, x_im], axes, radices, unpack(tables, places))
    return y


def _transformed(
    parts: Sequence[Tensor], axes: Axes, radices: tuple[int, ...], tables: Sequence[Tensor]
) -> list[Tensor]:
    """Transform the parts of arrays; return those of the results."""
    if not are_positive(radices):
        raise TypeError(f"argument 'radices' is {radices!r}, allowed is a tuple of positive ints")
    digits, batch = axes_digits(axes, radices), parts[0].shape[0]
    y = [hbm((batch, *axes.results)) for _ in range(digits.parts)]
    source, target = rows_of_arrays(*parts), rows_of_arrays(*y)
    spread = spread_of(digits.spread, batch, axes.is_real)
    kernel = FourStepAxes(digits, tables, Inputs(spread, spread.tiles))
    work = Transforms(kernel, Lines(source, source[0].shape[1]), Lines(target, target[0].shape[1]))
    for_rows(batch, work, spread.rows, spread.blocks, kernel.order)
    return y


@dataclass(frozen=True)
class Cut:
    """Lines of a block that are transformed together: some on each of some partitions."""

    first: int
    partitions: int
    each: int  # neighbouring lines of a partition


def cuts_of(lines: int, most: int) -> list[Cut]:
    """Return lines as cuts of equal numbers of up to ``most`` on a partition.

    The array is filled first; then the lines of a partition are many.
    """

    def rank(each: int) -> tuple[float, int]:
        partitions = lines // each
        filled = partitions / (PARTITIONS * -(-partitions // PARTITIONS))
        return filled // _FILLED, each

    each = max((e for e in range(1, max(1, most) + 1) if lines % e == 0), key=rank)
    partitions = lines // each
    count = -(-partitions // PARTITIONS)
    ends = [partitions * index // count for index in range(count + 1)]
    return [
        Cut(low * each, high - low, each) for low, high in zip(ends[:-1], ends[1:], strict=True)
    ]


class FourStepAxes(FourStep):
    """Transforms over several axes: what their blocks share, and what a block does."""

    def __init__(self, digits: AxesDigits, tables: Sequence[Tensor], inputs: Inputs) -> None:
        self.digits, self.spread, self.inputs = digits, inputs.spread, inputs
        stages = digits.stages()[1:]
        check_tables(tables, 2 + len(stages))
        self._ends = [tables[0], tables[-1]]
        self.stages = [Tabled(*each) for each in zip(stages, tables[1:-1], strict=True)]
        self.held = Held()
        self._is_busy = False

    def setup(self) -> None:
        """Load all tables into SBUF."""
        self.held = Held()  # those of a count take no room any more
        for tabled in self.stages:
            tabled.held = None
        wanted = [piece for tabled in self.stages for piece in tabled.pieces()]
        first, last, *others = load_tables([*self._ends, *wanted])
        self.held.first, self._last, loaded = (
            opening_matrices(self.spread, first),
            last,
            iter(others),
        )
        if self.stages:
            self.held.tools = Tools(load_identity())
        for tabled in self.stages:
            tabled.held = tabled.by_piece([next(loaded) for _ in tabled.pieces()])

    def new_results(self, rows: int) -> Tensor:
        """Allocate SBUF [C, 2, rows A], followed by zeros that stationary operands read."""
        used = rows * self.spread.length
        beyond = max(self._beyond(cut) for cut in self._cuts(rows))
        results = sbuf((self.spread.columns, 2, used + beyond))
        if beyond > 0:
            clear(results[:, :, used:])
        return results

    def natural(self, results: Tensor, rows: int) -> Tensor:
        length = self.spread.length
        return results[:, :, 0 : rows * length].reshape_dim(2, (rows, length))

    def into_results(self, last: Stage, results: Tensor, sums: Sums) -> Put:
        return into_rows(last, partial(row_of, results.permute((0, 2, 1, 3))))

    def put_opened(self, bank: Tensor, target: Tensor, sums: Sums) -> None:
        evacuate(bank, target)

    # The DFTs over c.

    def _cuts(self, rows: int) -> list[Cut]:
        return cuts_of(rows * self.digits.lines, self.digits.most_lines)

    def _beyond(self, cut: Cut) -> int:
        """Return how many numbers behind the results the operands of a cut read."""
        return (columns_read(cut.partitions) - cut.partitions) * cut.each * self.digits.repeats

    def closings(self, results: Tensor, target: Lines, rows: Rows, weigh: Weigh | None) -> Block:
        """Yield the DFTs over c of results [C, 2, rows A], and the stores of their lines."""
        digits, turns = self.digits, Turns(2)
        for cut in self._cuts(rows.each):
            y = sbuf(
                (
                    cut.partitions,
                    digits.parts,
                    cut.each,
                    digits.kept[0],
                    digits.repeats * digits.kept[1],
                )
            )
            for line in range(cut.each):
                for K in range(digits.repeats):
                    yield self._line_closed(results, cut, line, K, turns, y)
            yield After(partial(self._store, y, target, rows, cut))

    def _line_closed(
        self, results: Tensor, cut: Cut, line: int, K: int, turns: Turns, y: Tensor
    ) -> Task:
        """Compute the DFT over c of one line of each partition, for one K."""
        digits, count = self.digits, columns_read(cut.partitions)
        start, step = (cut.first + line) * digits.repeats + K, cut.each * digits.repeats
        bank = psum((count, digits.parts, *digits.kept))
        for part in range(2):
            data = results[:, part, start : start + (count - 1) * step + 1 : step]
            matrix = self._last[:, K, part * digits.width : (part + 1) * digits.width]
            multiply(bank, data, matrix, part > 0)
        yield
        after = digits.kept[1]
        place = y[:, :, line, :, K * after : (K + 1) * after]
        turns.evacuate(bank[0 : cut.partitions], place)

    def _store(self, y: Tensor, target: Lines, rows: Rows, cut: Cut) -> None:
        """Store lines [P, part, line, k', K] as the lines of the target."""
        size = self.digits.line
        pattern = [[cut.each * size, cut.partitions], [size, cut.each], [1, size]]
        offset = rows.first * self.digits.lines * size + cut.first * size
        for part in range(self.digits.parts):
            tile = y[:, part].flatten_dims(2, 3)[:, :, 0:size]
            transfer(target.view(part, pattern, offset), tile, target.base)
