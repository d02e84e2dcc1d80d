"""Transforms over several axes: one launch, a pass over HBM for each axis.

Mathematics.  The transform of an array is the transform of every row along every axis. The axes may
come in any order. The order changes the amount of work where the input is padded with zeros or the
output is cropped: a row without data is zero before and after its transform, and a row that nobody
reads need not be computed. A pass therefore computes only as many rows as the next pass reads.

For real data, one axis keeps only its first N/2 + 1 outputs, so that the other axes have half the
work. This axis comes first in the forward transform and last in the inverse.

Layout on the NeuronCore.  Rows along the last axis lie in HBM as the one-dimensional kernels expect
them (dft_gemm, stockham, real_dft_gemm, real_stockham). Along the other axes, strided_stockham
moves runs of the last axis; nothing is transposed through HBM. Between passes the array rests in
HBM. Its rows there are a little longer than a power of two where they can be: one record of trn1
has half the rate for rows that are a power of two apart, against several (docs/timing_model.md).
Two programs share every pass, and wait for each other between passes, because each of them reads
across the rows that the other one wrote.

Why it is fast.  A pass costs about as much as the one-dimensional kernel costs alone. Two passes
read and write everything twice, and the Tensor engine would take as long for its products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base.arguments import are_positive, check_shapes, product_of
from ..base.engines import element_count, hbm
from ..base.isa import Tensor, nki
from ..base.launch import HbmRows, meet
from ..base.packing import unpack
from ..fft.dft_gemm import dft_gemm_rows
from ..fft.stockham import stockham_rows
from ..real.real_stockham import real_stockham_rows
from .columns import HbmColumns
from .strided_stockham import transform_columns

# Kinds of passes, the first number of a pass in ``passes``.
DFT_GEMM, STOCKHAM, STRIDED_STOCKHAM, REAL_DFT_GEMM, REAL_STOCKHAM = range(5)
# The kind of pass by the name of the kernel that does the same to a whole array.
PASS_NUMBERS = {
    "dft_gemm": DFT_GEMM,
    "stockham": STOCKHAM,
    "strided_stockham": STRIDED_STOCKHAM,
    "real_dft_gemm": REAL_DFT_GEMM,
    "inverse_real_dft_gemm": REAL_DFT_GEMM,
    "real_stockham": REAL_STOCKHAM,
    "inverse_real_stockham": REAL_STOCKHAM,
}


@dataclass(frozen=True)
class Pass:
    """Transforms along one axis."""

    kind: int  # one of the kinds above
    axis: int  # counted from 1, as axis 0 is the batch
    n: int  # length of the transforms; zeros follow shorter data
    kept: int  # how many outputs the pass makes
    radices: tuple[int, ...]
    tables: Sequence[Tensor]  # tables of the pass's kernel, in HBM


@dataclass(frozen=True)
class Part:
    """One part of an array in HBM, whose rows may have a gap behind them."""

    tensor: Tensor  # HBM [..., pitch], whole
    shape: tuple[int, ...]  # [B, n1, n2, ...]
    is_made: bool = False  # whether a pass of this launch makes it

    def rows(self) -> HbmRows:
        """Return the rows along the last axis."""
        return HbmRows(self.tensor, self.shape[-1], self.is_made)

    def columns(self, axis: int) -> HbmColumns:
        """Return columns [A, N, C], where N is the size of ``axis``."""
        return HbmColumns(self.tensor, axis, element_count(self.shape[axis + 1 :]))


@nki.jit
def transform_axes(x_re, x_im, tables, places, passes):  # type: ignore[no-untyped-def]
    """Transform ``x_re + i x_im`` over several axes, in one launch.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, n1, n2, ...].
        tables, places: the two results of ``pack`` for a tuple that has a tuple of tables for
            each pass, those of the pass's kernel.
        passes: for each pass (kind, axis counted from 1, N, how many outputs it makes,
            radices). The kinds are ``PASS_NUMBERS``. N is at least the size of its axis; zeros
            follow shorter data.

    Returns:
        (y_re, y_im), float32 HBM, with the outputs of every axis.
    """
    y_re, y_im = run_passes([x_re, x_im], tables, places, passes)
    return y_re, y_im


@nki.jit
def transform_real_axes(x, tables, places, passes):  # type: ignore[no-untyped-def]
    """Transform real ``x`` over several axes; the first pass makes half spectra of the last axis.

    Args:
        x: float32 HBM [B, n1, n2, ...].
        tables, places, passes: as for ``transform_axes``.

    Returns:
        (y_re, y_im), float32 HBM, with the outputs of every axis.
    """
    y_re, y_im = run_passes([x], tables, places, passes)
    return y_re, y_im


@nki.jit
def transform_axes_to_real(x_re, x_im, tables, places, passes):  # type: ignore[no-untyped-def]
    """Invert ``transform_real_axes``; the last pass makes real rows of the last axis.

    Args:
        x_re, x_im: half spectra, float32 HBM [B, n1, n2, ..., N/2 + 1].
        tables, places, passes: as for ``transform_axes``.

    Returns:
        y, float32 HBM.
    """
    y, *more = run_passes([x_re, x_im], tables, places, passes)
    if more:
        raise ValueError(
            f"argument 'passes' ends with {passes[-1]!r}, allowed are kinds {REAL_DFT_GEMM} and "
            f"{REAL_STOCKHAM} along the last axis"
        )
    return y


def run_passes(inputs: Sequence[Tensor], tables: Tensor, places: Any, passes: Any) -> list[Tensor]:
    """Run the passes on the one or two parts of an array in HBM; return the parts they make."""
    check_passes(passes, len(inputs[0].shape))
    check_shapes(["B", *(f"n{axis}" for axis in range(1, len(inputs[0].shape)))], *inputs)
    if not isinstance(places, (tuple, list)) or len(places) != len(passes):
        raise TypeError(
            f"argument 'places' is {places!r}, allowed is a tuple with places for each of "
            f"{len(passes)} passes"
        )
    todo = [
        Pass(kind, axis, n, kept, radices, unpack(tables, place))
        for (kind, axis, n, kept, radices), place in zip(passes, places, strict=True)
    ]
    source = [Part(part, part.shape) for part in inputs]
    for index, item in enumerate(todo):
        shape = source[0].shape
        shape = (*shape[: item.axis], item.kept, *shape[item.axis + 1 :])
        is_real = item.kind in (REAL_DFT_GEMM, REAL_STOCKHAM)
        count = 1 if is_real and len(source) == 2 else 2
        is_last = index + 1 == len(todo)
        target = parts_of(shape, count, shape[-1] if is_last else row_pitch(shape, todo))
        if index > 0:
            meet(*(part.tensor for part in source))
        if item.kind == STRIDED_STOCKHAM:
            columns = [part.columns(item.axis) for part in source]
            made = [part.columns(item.axis) for part in target]
            transform_columns(columns, made, item.radices, item.tables, len(todo))
        else:
            run_rows(source, target, item)
        source = target
    return [part.tensor for part in source]


def check_passes(passes: Any, dimensions: int) -> None:
    """Raise TypeError unless these are passes over arrays [B, n1, n2, ...]."""
    is_tuple = isinstance(passes, (tuple, list)) and len(passes) > 0
    for item in passes if is_tuple else [passes]:
        is_pass = isinstance(item, (tuple, list)) and len(item) == 5 and are_positive(item[1:4])
        if not is_pass or item[0] not in range(5) or item[1] >= dimensions:
            raise TypeError(
                f"argument 'passes' has {item!r}, allowed are (kind from 0 to 4, axis from 1 to "
                f"{dimensions - 1}, length, kept numbers, radices)"
            )
        if item[0] in (STOCKHAM, STRIDED_STOCKHAM, REAL_STOCKHAM):
            product_of(item[4])


def run_rows(source: Sequence[Part], target: Sequence[Part], item: Pass) -> None:
    """Run a pass along the last axis."""
    x, y = [part.rows() for part in source], [part.rows() for part in target]
    # by the kind of the pass, and by how many parts its source has
    allowed = [(DFT_GEMM, 2), (STOCKHAM, 2)]
    allowed += [(kind, count) for kind in (REAL_DFT_GEMM, REAL_STOCKHAM) for count in (1, 2)]
    if (item.kind, len(source)) not in allowed or item.axis + 1 != len(source[0].shape):
        raise ValueError(
            f"argument 'passes' has kind {item.kind} for {len(source)} parts along axis "
            f"{item.axis}, allowed are {allowed} along the last axis"
        )
    if item.kind in (DFT_GEMM, REAL_DFT_GEMM):
        dft_gemm_rows(x, y, item.n, item.tables[0])
    else:
        run = stockham_rows if item.kind == STOCKHAM else real_stockham_rows
        run(x, y, item.radices, item.tables)


def parts_of(shape: Sequence[int], count: int = 2, pitch: int = 0) -> list[Part]:
    """Allocate parts of an array that a pass makes; ``pitch``: numbers from row to row, if more."""
    whole = (*shape[:-1], max(pitch, shape[-1]))
    return [Part(hbm(whole), tuple(shape), True) for _ in range(count)]


def row_pitch(shape: Sequence[int], passes: Sequence[Pass]) -> int:
    """Return the distance of rows between passes, which avoids a power of two where it can."""
    columns = shape[-1]
    apart = columns >= 128 and columns & (columns - 1) == 0
    for item in passes:
        # Along the axes before the last two, a run consists of several rows, which have to touch.
        apart = apart and (item.kind != STRIDED_STOCKHAM or item.axis == len(shape) - 2)
    return columns + 16 if apart else columns
