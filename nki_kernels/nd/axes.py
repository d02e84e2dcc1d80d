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
HBM. Its rows there are a little longer than a power of two wherever a power of two would halve the
rate of DMA. Two programs share every pass, and wait for each other between passes, because each of
them reads across the rows that the other one wrote.

Why it is fast.  A pass costs about as much as the one-dimensional kernel costs alone. Two passes
read and write everything twice, and the Tensor engine would take as long for its products.
"""

from __future__ import annotations

from typing import Any

from ..fft.dft_gemm import dft_gemm_rows
from ..fft.stockham import stockham_rows
from ..isa import nisa, nki, nl
from ..packing import unpack
from ..real.real_dft_gemm import inverse_real_dft_gemm_rows, real_dft_gemm_rows
from ..real.real_stockham import inverse_real_stockham_rows, real_stockham_rows
from ..row_blocks import HbmRows
from ..tiles import element_count
from .column_blocks import HbmColumns
from .strided_stockham import transform_columns

# Kinds of passes, the first number of a pass in ``passes``.
DFT_GEMM = 0
STOCKHAM = 1
STRIDED_STOCKHAM = 2
REAL_DFT_GEMM = 3
REAL_STOCKHAM = 4
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


class Pass(nl.NKIObject):
    """Transforms along one axis."""

    kind: int  # one of the kinds above
    axis: int  # counted from 1, as axis 0 is the batch
    n: int  # length of the transforms; zeros follow shorter data
    kept: int  # how many outputs the pass makes
    radices: Any
    tables: Any  # tables of the pass's kernel, in HBM


class Array(nl.NKIObject):
    """One part of an array in HBM, whose rows may have a gap behind them."""

    tensor: Any  # HBM [..., pitch], whole
    shape: Any  # [B, n1, n2, ...]
    is_made: bool = False  # whether a pass of this launch makes it


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
    todo = unpack_passes(tables, places, passes)
    result = run_passes([as_array(x_re), as_array(x_im)], todo, 0, len(todo))
    return result[0].tensor, result[1].tensor


@nki.jit
def transform_real_axes(x, tables, places, passes):  # type: ignore[no-untyped-def]
    """Transform real ``x`` over several axes; the first pass makes half spectra of the last axis.

    Args:
        x: float32 HBM [B, n1, n2, ...].
        tables, places, passes: as for ``transform_axes``.

    Returns:
        (y_re, y_im), float32 HBM, with the outputs of every axis.
    """
    todo = unpack_passes(tables, places, passes)
    real = todo[0]
    half = parts_in_hbm(x.shape[0 : len(x.shape) - 1] + (real.n // 2 + 1,), 0, todo)
    rows = [as_rows(half[0]), as_rows(half[1])]
    if real.kind == REAL_DFT_GEMM:
        real_dft_gemm_rows(as_rows(as_array(x)), rows, real.n, real.tables[0])
    else:
        real_stockham_rows(as_rows(as_array(x)), rows, real.radices, real.tables)
    result = run_passes(half, todo, 1, len(todo))
    return result[0].tensor, result[1].tensor


@nki.jit
def transform_axes_to_real(x_re, x_im, tables, places, passes):  # type: ignore[no-untyped-def]
    """Invert ``transform_real_axes``; the last pass makes real rows of the last axis.

    Args:
        x_re, x_im: half spectra, float32 HBM [B, n1, n2, ..., N/2 + 1].
        tables, places, passes: as for ``transform_axes``.

    Returns:
        y, float32 HBM.
    """
    todo = unpack_passes(tables, places, passes)
    last = len(todo) - 1
    real = todo[last]
    source = run_passes([as_array(x_re), as_array(x_im)], todo, 0, last)
    shape = source[0].shape[0 : len(x_re.shape) - 1] + (real.kept,)
    y = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
    rows = [as_rows(source[0]), as_rows(source[1])]
    if last > 0:
        meet(source)
    if real.kind == REAL_DFT_GEMM:
        inverse_real_dft_gemm_rows(rows, as_rows(as_array(y)), real.n, real.tables[0])
    else:
        inverse_real_stockham_rows(rows, as_rows(as_array(y)), real.radices, real.tables)
    return y


def unpack_passes(tables: Any, places: Any, passes: Any) -> Any:
    """Return a record for each pass, with views of the packed tables."""
    found = []
    for index in range(len(passes)):
        kind, axis, n, kept, radices = passes[index]
        found.append(Pass(kind, axis, n, kept, radices, unpack(tables, places[index])))
    return found


def run_passes(source: Any, passes: Any, first: int, end: int) -> Any:
    """Run the passes from ``first`` to ``end`` on two parts in HBM; return the parts they make."""
    for index in range(first, end):
        item = passes[index]
        shape = source[0].shape
        shape = shape[0 : item.axis] + (item.kept,) + shape[item.axis + 1 :]
        target = parts_in_hbm(shape, index, passes)
        if index > 0:
            meet(source)
        if item.kind == STRIDED_STOCKHAM:
            columns = [as_columns(source[0], item.axis), as_columns(source[1], item.axis)]
            made = [as_columns(target[0], item.axis), as_columns(target[1], item.axis)]
            transform_columns(columns, made, item.radices, item.tables, len(passes))
        else:
            transform_rows(source, target, item)
        source = target
    return source


def transform_rows(source: Any, target: Any, item: Any) -> None:
    """Run a pass along the last axis."""
    rows = [as_rows(source[0]), as_rows(source[1])]
    made = [as_rows(target[0]), as_rows(target[1])]
    if item.kind == DFT_GEMM:
        dft_gemm_rows(rows, made, item.n, item.tables[0])
    else:
        stockham_rows(rows, made, item.radices, item.tables)


def meet(parts: Any) -> None:
    """Wait until both programs have written their shares of an array between passes."""
    if nl.num_programs() > 1:
        for part in parts:
            nisa.core_barrier(part.tensor, (0, 1))


def parts_in_hbm(shape: Any, index: int, passes: Any) -> Any:
    """Return both parts of what pass ``index`` makes, in HBM.

    Between passes, rows may have a gap behind them; the result of the last pass has none.
    """
    pitch = shape[len(shape) - 1]
    if index < len(passes) - 1:
        pitch = row_pitch(shape, passes)
    parts = []
    for _ in range(2):
        whole = shape[0 : len(shape) - 1] + (pitch,)
        tensor = nl.ndarray(whole, dtype=nl.float32, buffer=nl.shared_hbm)
        parts.append(Array(tensor, shape, True))
    return parts


def row_pitch(shape: Any, passes: Any) -> int:
    """Return the distance of rows between passes, which avoids a power of two where it can."""
    columns = shape[len(shape) - 1]
    apart = columns >= 128 and columns & (columns - 1) == 0
    for item in passes:
        # Along the axes before the last two, a run consists of several rows, which have to touch.
        apart = apart and (item.kind != STRIDED_STOCKHAM or item.axis == len(shape) - 2)
    return columns + 16 if apart else columns


def as_array(x: Any) -> Any:
    """Return HBM [B, n1, n2, ...] as an Array."""
    return Array(x, x.shape)


def as_rows(part: Any) -> Any:
    """Return an Array's rows along its last axis."""
    last = len(part.shape) - 1
    return HbmRows(part.tensor, part.shape[last], part.is_made)


def as_columns(part: Any, axis: int) -> Any:
    """Return an Array as columns [A, N, C], where N is the size of ``axis``."""
    return HbmColumns(part.tensor, axis, element_count(part.shape[axis + 1 :]))
