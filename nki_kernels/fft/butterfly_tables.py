"""Stages of a butterfly transform, and tables of their twiddles: see butterfly.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..isa import nl

MAX_LENGTH = 2**14
MAX_COMPENSATED_LENGTH = 2**12  # for 2**13, hi, lo and the tiles of a stage exceed SBUF
RUN = 4096  # points a partition of a state, and of the tiles for input
_COMPENSATED_RUN = 2048
_ONE_STAGE_RUN = 1024  # for lengths that DMA limits: while one tile is worked on, others are filled
_BLOCK = 3  # stages between two tables
SIGN, SCALE, FIRST_CONSTANT = 0, 1, 2  # columns of the first table
HIGH_BITS = -4096  # 0xFFFFF000: sign, exponent and 12 significant bits of a float32


class Stage(nl.NKIObject):
    """One stage of a transform, and the twiddles that its outputs are multiplied by."""

    radix: int  # r, 4 or 2
    stride: int  # s
    count: int  # m, how many values p has
    block: int  # s of the first stage of its block of stages
    outputs: int  # K', the outputs of its block so far: r s / block
    following: int  # radix of the next stage, 0 for the last stage
    has_table: bool  # whether the twiddles are a table over p and K, instead of constants
    place: int  # first entry of its table, or first column of its constants


def schedule(n: int, first_entry: int) -> list[Stage]:
    """Return the stages of a transform of length ``n``; tables begin at ``first_entry``."""
    left = n
    total = 0
    while left > 1:
        left = left // min(4, left)
        total += 1
    stages: list[Stage] = []
    stride, block, column, entry = 1, 1, 0, first_entry
    for index in range(total):
        radix = min(4, n // stride)
        count = n // (stride * radix)
        if (total - index) % _BLOCK == 0:
            block = stride
        outputs = stride * radix // block
        following = min(4, count) if count > 1 else 0
        has_table = following > 0 and (total - index - 1) % _BLOCK == 0
        place = entry if has_table else column
        stages.append(Stage(radix, stride, count, block, outputs, following, has_table, place))
        if has_table:
            entry += count * outputs
        elif following > 0:
            column += (following - 1) * (outputs - 1)  # the other twiddles are 1
        stride *= radix
    return stages


def state_points(n: int, compensated: bool) -> int:
    """Return the points a partition of a state of transforms of length ``n``."""
    if compensated:
        return _COMPENSATED_RUN
    return _ONE_STAGE_RUN if n <= 4 else RUN


def split_count(n: int, compensated: bool) -> int:
    """Return 4 where a row exceeds a state and begins with a radix-4 stage of its own, else 1."""
    return 4 if n > state_points(n, compensated) else 1


def butterfly_tables(
    n: int, inverse: bool = False, scale: float = 1.0, compensated: bool = False
) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the tables of ``butterfly``: columns and twiddle factors.

    The columns are the sign of w_4, the scale, and the constant twiddles. The tables are computed
    in float64 with exponents reduced exactly, and rounded once.

    Args:
        n: length of the transform, a power of two from 2 to 16384 (4096 compensated).
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.
        compensated: whether they are for the compensated mode.

    Returns:
        Two float32 arrays, [1, C] and [2 or 6, L].

    Raises:
        ValueError: n is not such a power of two.
    """
    limit = MAX_COMPENSATED_LENGTH if compensated else MAX_LENGTH
    if not 2 <= n <= limit or n & (n - 1):
        mode = "the compensated butterfly" if compensated else "the butterfly"
        raise ValueError(f"n = {n}: {mode} accepts powers of two from 2 to {limit}")
    sign = -1 if inverse else 1
    constants, entries = [np.ones(0, complex)], [np.ones(1, complex)]  # no table is empty
    parts = split_count(n, compensated)
    length = n // parts
    if parts > 1:
        entries = [_twiddles(np.outer([1, 2, 3], np.arange(length)), n, sign)]
    for stage in schedule(length, entries[0].size):
        if stage.has_table:
            powers = np.outer(np.arange(stage.count), np.arange(stage.outputs))
            entries.append(_twiddles(powers, stage.count * stage.outputs, sign))
        elif stage.following > 0:
            powers = np.outer(np.arange(1, stage.following), np.arange(1, stage.outputs))
            constants.append(_twiddles(powers, stage.following * stage.outputs, sign))
    columns = np.concatenate([[sign, scale], _factors(constants, compensated).ravel()])
    return columns.astype(np.float32).reshape(1, -1), _factors(entries, compensated)


def butterfly_specs(n: int, compensated: bool = False) -> tuple[Any, Any]:
    """Return the (shape, dtype) of each of ``butterfly_tables(n, ..., compensated=...)``."""
    rows = 6 if compensated else 2
    parts = split_count(n, compensated)
    length = n // parts
    constants, entries = 0, 3 * length if parts > 1 else 1
    for stage in schedule(length, entries):
        if stage.has_table:
            entries += stage.count * stage.outputs
        elif stage.following > 0:
            constants += (stage.following - 1) * (stage.outputs - 1)
    columns = FIRST_CONSTANT + rows * constants
    return ((1, columns), "float32"), ((rows, entries), "float32")


def _twiddles(powers: Any, size: int, sign: int) -> Any:
    angle = -2 * np.pi * sign / size * (powers % size)
    return np.cos(angle) + 1j * np.sin(angle)


def _factors(pieces: list[Any], compensated: bool) -> np.ndarray[Any, Any]:
    """Return rows cos, sin; compensated: their 12 high bits, what these leave, and the whole."""
    values = np.concatenate([piece.ravel() for piece in pieces])
    both = np.stack([values.real, values.imag])
    if not compensated:
        return both.astype(np.float32)
    high = (both.astype(np.float32).view(np.int32) & np.int32(HIGH_BITS)).view(np.float32)
    return np.concatenate([high, both - high, both]).astype(np.float32)
