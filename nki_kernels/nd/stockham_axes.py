"""Stockham's FFT over several axes: one launch, one trip over HBM, natural order.

Mathematics.  Arrays [n1, n2, ...] are rows of n1 n2 ... points, whose stages are those of the axes
one after the other, without twiddles between axes: see axis_stages.py.

Layout on the NeuronCore.  It is that of stockham.py: an array lies on one partition. A stage that
ends an axis writes its results in natural order, so that the axes of a result are not reversed.
Real data has half of the first stage's contraction, and results of half of the last one's columns.

Why it is fast.  HBM is read once and written once. Consecutive products of a stage share a matrix
where only outputs of earlier axes tell them apart, so that a stage of a whole axis has one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..base.arguments import check_tables, product_of
from ..base.engines import DMA_RUN, hbm
from ..base.isa import Tensor, nki
from ..base.launch import HbmRows, rows_of_arrays
from ..base.packing import unpack
from ..base.table_terms import Array, TableSpec
from ..fft.row_transforms import RowTransforms
from ..fft.stage import stage_spec, stage_table
from ..fft.stage_products import Tabled
from .axis_stages import Axes, axes_of, stages_of_axes


def stockham_axes_tables(
    axes: Axes,
    radices: tuple[int, ...],
    inverse: bool = False,
    scale: float = 1.0,
    dtype: str = "float32",
    refined: bool = False,
) -> tuple[Array, ...]:
    """Return the tables of the kernels below, one for each stage, as ``stockham_tables`` does.

    Args:
        axes: the axes.
        radices: radices of the axes in their order; see ``digits_of``.
        inverse, scale, dtype, refined: as for ``stockham_tables``.
    """
    return tuple(
        stage_table(stage, inverse, 1.0 if stage.done > 1 else scale, dtype, refined)
        for stage in stages_of_axes(radices, axes)
    )


def stockham_axes_specs(
    axes: Axes, radices: tuple[int, ...], dtype: str = "float32", refined: bool = False
) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``stockham_axes_tables(axes, radices, ...)``."""
    return tuple(stage_spec(stage, dtype, refined) for stage in stages_of_axes(radices, axes))


@nki.jit
def stockham_axes(x_re, x_im, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform ``x_re + i x_im`` over all axes but the first, by stages of any radices.

    Args:
        x_re, x_im: real and imaginary part, float32 HBM [B, n1, n2, ...]. Where the product of the
            radices is larger than that of n1, n2, ..., zeros follow along the first axis.
        tables, places: the two results of ``pack(stockham_axes_tables(axes, radices, ...))``.
        radices: a tuple of ints, radices of the axes in their order.

    Returns:
        (y_re, y_im), float32 HBM [B, n1, n2, ...].
    """
    axes = _axes(radices, x_re.shape[-1], x_re, x_im)
    y_re, y_im = _transformed([x_re, x_im], axes, radices, unpack(tables, places))
    return y_re, y_im


@nki.jit
def real_stockham_axes(x, tables, places, radices):  # type: ignore[no-untyped-def]
    """Transform real ``x`` over all axes but the first, to half spectra of the last one.

    The arguments are as for ``stockham_axes``, but x is float32 HBM [B, n1, n2, ..., N]. The last
    radix is N, or a product of whole axes with N.

    Returns:
        (y_re, y_im), float32 HBM [B, n1, n2, ..., N/2 + 1].
    """
    axes = _axes(radices, x.shape[-1], x, is_real=True)
    y_re, y_im = _transformed([x], axes, radices, unpack(tables, places))
    return y_re, y_im


@nki.jit
def inverse_real_stockham_axes(x_re, x_im, tables, places, radices, last):  # type: ignore[no-untyped-def]
    """Transform half spectra of the last axis over all axes but the first, to real arrays.

    The arguments are as for ``real_stockham_axes``, but x is float32 HBM [B, n1, ..., N/2 + 1], and
    last is N.

    Returns:
        y, float32 HBM [B, n1, n2, ..., N].
    """
    axes = _axes(radices, last, x_re, x_im, to_real=True)
    (y,) = _transformed([x_re, x_im], axes, radices, unpack(tables, places))
    return y


def _axes(radices: tuple[int, ...], last: int, *parts: Tensor, **which: bool) -> Axes:
    """Return the axes of x [B, n1, ...], where the last transform has ``last`` points.

    Zeros follow data with fewer indices of the first of several axes than the radices say.
    """
    axes = axes_of(last, *parts, **which)
    first, *others = axes.lengths
    longer = product_of(radices) // max(1, math.prod(others))
    return replace(axes, lengths=(max(first, longer), *others)) if others else axes


def _transformed(
    parts: Sequence[Tensor], axes: Axes, radices: tuple[int, ...], tables: Sequence[Tensor]
) -> list[Tensor]:
    """Transform the parts of arrays; return those of the results."""
    stages = stages_of_axes(radices, axes)
    check_tables(tables, len(stages))
    y = [hbm((parts[0].shape[0], *axes.results)) for _ in range(stages[-1].result_parts)]
    source, target = (
        [HbmRows(rows, rows.shape[1]) for rows in rows_of_arrays(*of)] for of in (parts, y)
    )
    tabled = [Tabled(stage, table) for stage, table in zip(stages, tables, strict=True)]
    growth = math.prod(axes.lengths)
    RowTransforms(source, target, [tabled], max(stages[0].tiles, DMA_RUN // growth), growth).run()
    return y
