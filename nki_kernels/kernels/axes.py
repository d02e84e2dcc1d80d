"""Transforms over several axes: one launch, a pass over HBM for each axis.

Mathematics.  The transform of an array is that of every row along every axis, in any order. The
order changes the work where input is padded with zeros, or output is cropped: rows without data
are zeros before and after, and rows that nobody reads need not be made. A pass therefore makes
only as many rows as the next one reads.

Of real data one axis keeps its N/2 + 1 first outputs, so the others have half the work. Forward
that axis comes first, in the inverse last.

Layout on the NeuronCore.  Rows along the last axis lie in HBM as one-dimensional kernels take them
(dft_gemm, stockham, real_dft_gemm, real_stockham). Along the others strided_stockham moves runs of
the last axis; nothing is transposed through HBM. Between passes the array rests in HBM, its rows a
little longer than a power of two where that would halve the rate of DMA.

Why it is fast.  A pass costs about what its kernel does. Two passes read and write everything
twice, which the Tensor engine would take as long for.
"""

from __future__ import annotations

from typing import Any

from ..nki_api import nki, nl
from ..packing import unpack
from ..row_blocks import HbmRows
from .dft_gemm import dft_gemm_rows
from .old_stages import load_identity, stockham_rows
from .real_dft_gemm import inverse_real_dft_gemm_rows, real_dft_gemm_rows
from .real_stockham import inverse_real_stockham_rows, real_stockham_rows
from .strided_stockham import transform_columns

# What a pass does, its first number.
DFT_GEMM = 0
STOCKHAM = 1
STRIDED_STOCKHAM = 2
REAL_DFT_GEMM = 3
REAL_STOCKHAM = 4
# By the name of the kernel that does the same to a whole array.
PASS_NUMBERS = {
    "dft_gemm": DFT_GEMM,
    "stockham": STOCKHAM,
    "strided_stockham": STRIDED_STOCKHAM,
    "real_dft_gemm": REAL_DFT_GEMM,
    "inverse_real_dft_gemm": REAL_DFT_GEMM,
    "real_stockham": REAL_STOCKHAM,
    "inverse_real_stockham": REAL_STOCKHAM,
}


@nki.jit
def transform_axes(x_re, x_im, tables, places, passes):  # type: ignore[no-untyped-def]
    """Transform ``x_re + i x_im`` over several axes.

    x_re, x_im: float32 HBM [B, n1, n2, ...]. tables, places: ``pack`` of a tuple of tables for each
    pass, those of its kernel. passes: for each one (what it does, axis from 1 on, N, outputs that
    it makes, radices); N is at least the size of its axis, zeros follow. Returns (y_re, y_im),
    float32 HBM, with the outputs of every axis.
    """
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    found = unpack_passes(tables, places)
    result = run_passes([x_re, x_im], passes, found, 0, True)
    return result[0], result[1]


@nki.jit
def transform_real_axes(x, tables, places, passes):  # type: ignore[no-untyped-def]
    """Transform real ``x`` over several axes; the first pass is a real one, of the last axis.

    x: float32 HBM [B, n1, n2, ...]. Otherwise as ``transform_axes``.
    """
    n = passes[0][2]
    shape = x.shape[0 : len(x.shape) - 1] + (n // 2 + 1,)
    half = parts_in_hbm(shape, len(passes) == 1, passes)
    rows = [as_rows(half[0]), as_rows(half[1])]
    found = unpack_passes(tables, places)
    if passes[0][0] == REAL_DFT_GEMM:
        pitch = pitch_of(shape, len(passes) == 1, passes)
        target = [hbm_rows(half[0], pitch), hbm_rows(half[1], pitch)]
        real_dft_gemm_rows(hbm_rows(x, x.shape[len(x.shape) - 1]), target, n, found[0][0])
    else:
        real_stockham_rows(as_rows(x), rows, found[0], passes[0][4])
    result = run_passes(half, passes, found, 1, True)
    return result[0], result[1]


@nki.jit
def transform_axes_to_real(x_re, x_im, tables, places, passes):  # type: ignore[no-untyped-def]
    """The inverse of ``transform_real_axes``: its last pass makes real rows of the last axis.

    x_re, x_im: float32 HBM [B, n1, n2, ..., N/2 + 1]. Returns y, float32 HBM.
    """
    assert x_im.shape == x_re.shape, f"x_im {x_im.shape} differs from x_re {x_re.shape}"
    last = len(passes) - 1
    kind, _, n, kept, radices = passes[last]
    found = unpack_passes(tables, places)
    source = run_passes([x_re, x_im], passes[0:last], found, 0, False)
    shape = source[0].shape[0 : len(x_re.shape) - 1] + (kept,)
    y = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)
    rows = [as_rows(source[0]), as_rows(source[1])]
    if kind == REAL_DFT_GEMM:
        pitch = pitch_of(source[0].shape, last == 0, passes)
        parts = [hbm_rows(source[0], pitch), hbm_rows(source[1], pitch)]
        inverse_real_dft_gemm_rows(parts, hbm_rows(y, kept), n, found[last][0])
    else:
        inverse_real_stockham_rows(rows, as_rows(y), found[last], radices)
    return y


def unpack_passes(tables: Any, places: Any) -> Any:
    """For each pass the list of its tables, views of the packed ones."""
    found = []
    for item in places:
        found.append(unpack(tables, item))
    return found


def run_passes(source: Any, passes: Any, tables: Any, first: int, is_end: bool) -> Any:
    """Passes from ``first`` on of complex HBM parts; ``is_end``: the last one makes the output."""
    for index in range(first, len(passes)):
        is_input, is_output = index == 0, is_end and index == len(passes) - 1
        kind, axis, n, kept, radices = passes[index]
        shape = source[0].shape
        shape = shape[0:axis] + (kept,) + shape[axis + 1 :]
        target = parts_in_hbm(shape, is_end and index == len(passes) - 1, passes)
        if kind == STRIDED_STOCKHAM:
            transform_columns(
                [as_columns(source[0], axis), as_columns(source[1], axis)],
                [as_columns(target[0], axis), as_columns(target[1], axis)],
                tables[index],
                radices,
                load_identity(nl.float32),
            )
        else:
            rows = [as_rows(source[0]), as_rows(source[1])]
            outputs = [as_rows(target[0]), as_rows(target[1])]
            if kind == DFT_GEMM:
                pitch = pitch_of(source[0].shape, is_input, passes)
                rows = [hbm_rows(source[0], pitch), hbm_rows(source[1], pitch)]
                pitch = pitch_of(shape, is_output, passes)
                outputs = [hbm_rows(target[0], pitch), hbm_rows(target[1], pitch)]
                dft_gemm_rows(rows, outputs, n, tables[index][0])
            else:
                stockham_rows(rows, outputs, tables[index], radices)
        source = target
    return source


def parts_in_hbm(shape: Any, is_output: bool, passes: Any) -> Any:
    """Real and imaginary part of an array in HBM; between passes with room after its rows."""
    parts = []
    for _ in range(2):
        if is_output:
            parts.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm))
        else:
            last = len(shape) - 1
            rows = 1
            for size in shape[0:last]:
                rows *= size
            pitch = row_pitch(shape, passes)
            scratch = nl.ndarray((rows, pitch), dtype=nl.float32, buffer=nl.private_hbm)
            parts.append(scratch[:, 0 : shape[last]].reshape_dim(0, shape[0:last]))
    return parts


def row_pitch(shape: Any, passes: Any) -> int:
    """Numbers from row to row between passes; a power of two is avoided where that is possible."""
    columns = shape[len(shape) - 1]
    apart = columns >= 128 and columns & (columns - 1) == 0
    for item in passes:
        # Along the axes before, runs consist of several rows, which have to touch.
        apart = apart and (item[0] != STRIDED_STOCKHAM or item[1] == len(shape) - 2)
    return columns + 16 if apart else columns


def pitch_of(shape: Any, is_argument: bool, passes: Any) -> int:
    """Numbers from row to row of an array of this shape: an input or output, or between passes."""
    return shape[len(shape) - 1] if is_argument else row_pitch(shape, passes)


def hbm_rows(x: Any, pitch: int) -> HbmRows:
    """HBM [..., N], whose rows are so far apart, as rows."""
    rows = as_rows(x)
    return HbmRows(rows.ap([[pitch, rows.shape[0]], [1, pitch]]), rows.shape[1])


def as_rows(x: Any) -> Any:
    """HBM [..., N] as [B, N]."""
    return x.flatten_dims(0, len(x.shape) - 2)


def as_columns(x: Any, axis: int) -> Any:
    """HBM array as [A, N, C] with N along ``axis``."""
    if axis + 1 < len(x.shape) - 1:
        x = x.flatten_dims(axis + 1, len(x.shape) - 1)
    return x.flatten_dims(0, axis - 1) if axis > 1 else x
