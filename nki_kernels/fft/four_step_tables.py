"""Tables of a four-step transform, and the stages that read them: see four_step.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..roots import roots
from ..table_terms import table_spec
from ..tiles import PARTITIONS, WHOLE_RADIX, columns_read
from .stockham_stages import MAX_RADIX, stage_of, stage_spec, stage_table
from .twiddled_stage import matrices_spec, matrices_table, turn_of, twiddled_outputs

MAX_LENGTH = 2**19  # longest transform whose tables stay in SBUF
MAX_STREAMED_LENGTH = 2**20  # longest transform whose tables are streamed
MAX_STATE = 9200  # A: two states, of 8 A bytes each, fit SBUF beside streamed pieces


def four_step_tables(
    n: int, radices: tuple[int, ...], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """Return the tables of ``four_step``: (first, *stages, *turn, twiddle, last).

    first is the split DFT of r1 times ``scale``, [2 r1, 1, 2 r1], for r1 <= 32 again from row 64
    on; for r1 > 64 it is [r1, 2, 2 r1]. stages are Stockham's tables of the radices between r1 and
    C, except for the last of these. turn is the table of this last radix, see ``matrices_table``.
    twiddle is [C, 1, 2 A], real and imaginary parts for each of the ``twiddled_outputs``. last is
    Wr, Wi and -Wi, [C, 3, C], or followed by zeros [C, 3, 64].

    Args:
        n: length of the transform, up to 2^20.
        radices: r1, ..., C with product n, at least two, each 2 to 128.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        A tuple of float32 arrays.

    Raises:
        ValueError: the radices do not fit, or n is too long.
    """
    if math.prod(radices) != n or len(radices) < 2:
        raise ValueError(f"radices {radices}: there must be two or more, with the product n = {n}")
    if any(not 2 <= r <= MAX_RADIX for r in radices):
        raise ValueError(f"radices {radices}: each must be 2 to {MAX_RADIX}")
    if n > MAX_STREAMED_LENGTH:
        raise ValueError(f"n = {n}: four-step accepts lengths up to {MAX_STREAMED_LENGTH}")
    first, last = radices[0], radices[-1]
    stages = [stage_table(stage, inverse, 1.0) for stage in middle_stages(radices)]
    outputs = [np.arange(first)]
    if (turn := last_turn(radices)) is not None:
        stages.append(matrices_table(turn, inverse))
        outputs = twiddled_outputs(turn)
    c = np.arange(last)[:, None]
    twiddles = []
    for k in outputs:
        w = roots(c * k.ravel(), n, inverse)
        twiddles += [w.real, w.imag]
    twiddle = np.concatenate(twiddles, 1).astype(np.float32)[:, None]
    w = roots(c * c.T, last, inverse)
    real, imaginary = w.real, w.imag
    closing = np.zeros((last, 3, columns_read(last)), np.float32)
    closing[:, :, :last] = np.stack([real, imaginary, -imaginary], 1)
    return _opening_table(first, inverse, scale), *stages, twiddle, closing


def _opening_table(radix: int, inverse: bool, scale: float) -> np.ndarray[Any, Any]:
    """Return the first of ``four_step_tables``: rows (part, j), columns (part, k)."""
    w = scale * roots(np.outer(np.arange(radix), np.arange(radix)), radix, inverse)
    real, imaginary = w.real, w.imag
    matrix = np.block([[real, imaginary], [-imaginary, real]]).astype(np.float32)
    if radix > WHOLE_RADIX:
        return matrix.reshape(2, radix, 2 * radix).swapaxes(0, 1).copy()
    table = np.zeros(opening_shape(radix), np.float32)
    for start in range(0, len(table) - 2 * radix + 1, WHOLE_RADIX):
        table[start : start + 2 * radix, 0] = matrix
    return table


def opening_shape(radix: int) -> tuple[int, int, int]:
    """Return the shape of the first of ``four_step_tables``."""
    if radix > WHOLE_RADIX:
        return radix, 2, 2 * radix
    return 2 * radix + (WHOLE_RADIX if 4 * radix <= PARTITIONS else 0), 1, 2 * radix


def middle_stages(radices: Any) -> Any:
    """Return Stockham's stages between the first one and the turn, without their tables."""
    stages = []
    for index in range(1, len(radices) - 2):
        stages.append(stage_of(radices[0 : len(radices) - 1], index))
    return stages


def last_turn(radices: Any) -> Any:
    """Return the stage before the twiddles, or None where it is the first stage."""
    if len(radices) == 2:
        return None
    return turn_of(stage_of(radices[0 : len(radices) - 1], len(radices) - 2))


def four_step_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``four_step_tables(n, radices, ...)``."""
    first, last, length = radices[0], radices[-1], math.prod(radices[:-1])
    stages = [stage_spec(stage) for stage in middle_stages(radices)]
    if (turn := last_turn(radices)) is not None:
        stages.append(matrices_spec(turn))
    twiddle = table_spec((last, 1, 2 * length))
    closing = table_spec((last, 3, columns_read(last)))
    return table_spec(opening_shape(first)), *stages, twiddle, closing
