"""Stages of a butterfly transform, and tables of their twiddles: see butterfly.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.roots import roots
from ..base.table_terms import Array, TableSpec

MAX_LENGTH = 2**14
MAX_COMPENSATED_LENGTH = 2**12  # for 2**13, hi, lo and the tiles of a stage exceed SBUF
RUN = 4096  # points a partition of a state, and of the tiles for input
_COMPENSATED_RUN = 2048
_ONE_STAGE_RUN = 1024  # for lengths that DMA limits: while one tile is worked on, others are filled
_BLOCK = 3  # stages between two tables
SIGNS, SCALE, FIRST_CONSTANT = 0, 2, 3  # columns of the first table
HIGH_BITS = -4096  # 0xFFFFF000: sign, exponent and 12 significant bits of a float32


@dataclass(frozen=True)
class Stage:
    """One stage of a transform, and the twiddles that its outputs are multiplied by."""

    radix: int  # r, 4 or 2
    stride: int  # s
    count: int  # m, how many values p has
    block: int  # s of the first stage of its block of stages
    has_table: bool  # whether the twiddles are a table over p and K, or constants
    place: int  # first entry of its table, or first column of its constants

    @property
    def outputs(self) -> int:
        """K', the outputs of its block so far."""
        return self.radix * self.stride // self.block

    @property
    def following(self) -> int:
        """Radix of the next stage, 1 if there is none."""
        return min(4, self.count)

    @property
    def run(self) -> int:
        """Values of p in a quarter: the stage proceeds by as many parts as ``following``."""
        return self.count // self.following

    @property
    def powers(self) -> Array:
        """Exponents p K of the twiddles; of constants without p = 0 and K = 0."""
        if self.has_table:
            return np.outer(np.arange(self.count), np.arange(self.outputs))
        return np.outer(np.arange(1, self.following), np.arange(1, self.outputs))


class Geometry:
    """How rows of ``n`` points are transformed."""

    def __init__(self, n: int, compensated: bool) -> None:
        self.n, self.compensated = n, compensated
        # Points a partition of a state.
        self.points = _COMPENSATED_RUN if compensated else _ONE_STAGE_RUN if n <= 4 else RUN
        self.is_long = n > self.points  # a row begins with a radix-4 stage of its own
        self.length = n // 4 if self.is_long else n  # of the transforms by stages
        # Exponents of the twiddles of a long row's own stage, with which the entries begin.
        own = np.outer([1, 2, 3], np.arange(self.length)) if self.is_long else np.zeros(1, int)
        self.powers: Array = own
        self.stages: list[Stage] = []
        self.entries, self.constants = own.size, 0  # how many twiddles there are
        stride = block = 1
        for left in range(self.length.bit_length() // 2, 0, -1):
            radix = min(4, self.length // stride)
            count = self.length // (stride * radix)
            if left % _BLOCK == 0:
                block = stride
            has_table = left % _BLOCK == 1 and count > 1
            place = self.entries if has_table else self.constants
            stage = Stage(radix, stride, count, block, has_table, place)
            if has_table:
                self.entries += stage.powers.size
            else:
                self.constants += stage.powers.size
            self.stages.append(stage)
            stride *= radix


def butterfly_tables(
    n: int, inverse: bool = False, scale: float = 1.0, compensated: bool = False
) -> tuple[Array, ...]:
    """Return the tables of ``butterfly``: columns and twiddle factors.

    The columns are the signs of b and a in w_4 (a + ib) = +-(b - ia), the scale, and the constant
    twiddles. The tables are computed in float64 with exponents reduced exactly, and rounded once.

    Args:
        n: length of the transform, a power of two from 2 to 16384 (4096 compensated).
        inverse, scale: as for ``stockham_tables``.
        compensated: whether they are for the compensated mode.

    Returns:
        Two float32 arrays, [1, C] and [2 or 6, L].
    """
    limit = MAX_COMPENSATED_LENGTH if compensated else MAX_LENGTH
    if not 2 <= n <= limit or n & (n - 1):
        mode = "the compensated butterfly" if compensated else "the butterfly"
        raise ValueError(f"n = {n}: {mode} accepts powers of two from 2 to {limit}")
    geometry = Geometry(n, compensated)
    constants, entries = [np.ones(0)], [roots(geometry.powers, n, inverse)]
    for stage in geometry.stages:
        if stage.has_table:
            entries.append(roots(stage.powers, stage.count * stage.outputs, inverse))
        else:
            constants.append(roots(stage.powers, stage.following * stage.outputs, inverse))
    sign = -1.0 if inverse else 1.0
    first = np.array([sign, -sign, scale])
    columns = np.concatenate([first, _factors(constants, compensated).ravel()])
    return columns.astype(np.float32)[None], _factors(entries, compensated)


def butterfly_specs(n: int, compensated: bool = False) -> tuple[TableSpec, TableSpec]:
    """Return the (shape, dtype) of each of ``butterfly_tables(n, ..., compensated=...)``."""
    geometry, rows = Geometry(n, compensated), 6 if compensated else 2
    columns = FIRST_CONSTANT + rows * geometry.constants
    return ((1, columns), "float32"), ((rows, geometry.entries), "float32")


def _factors(pieces: list[Array], compensated: bool) -> Array:
    """Return rows cos, sin; compensated: their 12 high bits, what these leave, and the whole."""
    values = np.concatenate([piece.ravel() for piece in pieces])
    both = np.stack([values.real, values.imag])
    if not compensated:
        return both.astype(np.float32)
    high = (both.astype(np.float32).view(np.int32) & np.int32(HIGH_BITS)).view(np.float32)
    return np.concatenate([high, both - high, both]).astype(np.float32)
