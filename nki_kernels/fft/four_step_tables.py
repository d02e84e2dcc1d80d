"""Tables of a four-step transform, and the stages that read them: see four_step.py."""

from __future__ import annotations

import math

import numpy as np

from ..base.engines import PARTITIONS, WHOLE_RADIX, columns_read
from ..base.roots import dft_matrix
from ..base.table_terms import Array, TableSpec, table_spec
from .stage import MAX_RADIX, Stage, stage_spec, stage_table, stages_of
from .twiddles import twiddle_table

MAX_LENGTH = 2**19  # longest transform whose tables stay in SBUF
MAX_STREAMED_LENGTH = 2**20  # longest transform whose tables are streamed
MAX_STATE = 9200  # A: two states, of 8 A bytes each, fit SBUF beside streamed pieces


def four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return the tables of ``four_step``: (first, *stages, twiddle, last).

    first is the split DFT of r1 times ``scale``, [2 r1, 1, 2 r1], for r1 <= 32 again from row 64
    on; for r1 > 64 it is [r1, 2, 2 r1]. stages are Stockham's tables of the radices between r1 and
    C. twiddle is [C, 1, 2 A], real and imaginary parts in the order of ``twiddle_table``. last is
    Wr, Wi and -Wi, [C, 3, C], or followed by zeros [C, 3, 64].

    Args:
        n: length of the transform, up to 2^20.
        radices: r1, ..., C with product n, at least two, each 2 to 128.
        inverse, scale: as for ``stockham_tables``.
    """
    if math.prod(radices) != n or len(radices) < 2:
        raise ValueError(f"radices {radices}: there must be two or more, with the product n = {n}")
    if any(not 2 <= r <= MAX_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_RADIX}")
    if n > MAX_STREAMED_LENGTH:
        raise ValueError(f"n = {n}: four-step accepts lengths up to {MAX_STREAMED_LENGTH}")
    first, last, stages = radices[0], radices[-1], inner_stages(radices)
    if stages:
        twiddle = twiddle_table(stages[-1], last, inverse)
    else:
        w = dft_matrix(n, inverse, last, first)
        twiddle = np.concatenate([w.real, w.imag], 1).astype(np.float32)[:, None]
    w = dft_matrix(last, inverse)
    closing = np.zeros((last, 3, columns_read(last)), np.float32)
    closing[:, :, :last] = np.stack([w.real, w.imag, -w.imag], 1)
    return (
        opening_table(scale * dft_matrix(first, inverse)),
        *(stage_table(stage, inverse, 1.0) for stage in stages),
        twiddle,
        closing,
    )


def four_step_specs(radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``four_step_tables(n, radices, ...)``."""
    first, last, length = radices[0], radices[-1], math.prod(radices[:-1])
    twiddle = table_spec((last, 1, 2 * length))
    closing = table_spec((last, 3, columns_read(last)))
    stages = [stage_spec(stage) for stage in inner_stages(radices)]
    return table_spec(opening_shape(first)), *stages, twiddle, closing


def inner_stages(radices: tuple[int, ...]) -> list[Stage]:
    """Return Stockham's stages between the first one and the DFTs over c."""
    return stages_of(radices[:-1])[1:]


def opening_table(w: Array, is_real: bool = False) -> Array:
    """Return the first of ``four_step_tables``: rows (part, j), columns (part, k).

    w: the complex matrix [j, k]. is_real: whether the data is real, so that the rows are j alone,
    for r1 <= 64 again from row 64 on.
    """
    radix = len(w)
    matrix = np.block([[w.real, w.imag], [-w.imag, w.real]]).astype(np.float32)
    matrix = matrix[:radix] if is_real else matrix
    if not is_real and radix > WHOLE_RADIX:
        return matrix.reshape(2, radix, 2 * radix).swapaxes(0, 1).copy()
    table = np.zeros(opening_shape(radix, is_real), np.float32)
    for start in range(0, len(table) - len(matrix) + 1, WHOLE_RADIX):
        table[start : start + len(matrix), 0] = matrix
    return table


def opening_shape(radix: int, is_real: bool = False) -> tuple[int, int, int]:
    """Return the shape of ``opening_table``."""
    if not is_real and radix > WHOLE_RADIX:
        return radix, 2, 2 * radix
    rows = radix if is_real else 2 * radix
    return rows + (WHOLE_RADIX if 2 * rows <= PARTITIONS else 0), 1, 2 * radix
