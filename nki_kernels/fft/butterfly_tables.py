"""Stages of a butterfly transform, and tables of their twiddles: see butterfly.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..roots import roots

MAX_LENGTH = 2**14
MAX_COMPENSATED_LENGTH = 2**12  # for 2**13, hi, lo and the tiles of a stage exceed SBUF
RUN = 4096  # points a partition of a state, and of the tiles for input
_COMPENSATED_RUN = 2048
_ONE_STAGE_RUN = 1024  # for lengths that DMA limits: while one tile is worked on, others are filled
_BLOCK = 3  # stages between two tables
SIGN, SCALE, FIRST_CONSTANT = 0, 1, 2  # columns of the first table
HIGH_BITS = -4096  # 0xFFFFF000: sign, exponent and 12 significant bits of a float32

Array = np.ndarray[Any, Any]


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
        """Values of p in one of the parts, as many as ``following``, in which it proceeds."""
        return self.count // self.following

    @property
    def powers(self) -> Array:
        """Exponents p K of its twiddles: [m, K'], or of constants [r - 1, K' - 1], without 0."""
        if self.has_table:
            return np.outer(np.arange(self.count), np.arange(self.outputs))
        return np.outer(np.arange(1, self.following), np.arange(1, self.outputs))

    def twiddles(self, inverse: bool) -> Array:
        """Return the roots of unity with these exponents."""
        count = self.count if self.has_table else self.following
        return roots(self.powers, count * self.outputs, inverse)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Geometry:
    """How rows of N points are transformed."""

    n: int
    compensated: bool

    @property
    def points(self) -> int:
        """Points a partition of a state."""
        if self.compensated:
            return _COMPENSATED_RUN
        return _ONE_STAGE_RUN if self.n <= 4 else RUN

    @property
    def is_long(self) -> bool:
        """Whether a row exceeds a state, and begins with a radix-4 stage of its own."""
        return self.n > self.points

    @property
    def length(self) -> int:
        """Points of the transforms that the stages compute."""
        return self.n // 4 if self.is_long else self.n

    @property
    def powers(self) -> Array:
        """Exponents of the first entries: the twiddles of a long row's own stage, or 0."""
        return np.outer([1, 2, 3], np.arange(self.length)) if self.is_long else np.zeros(1, int)

    @property
    def stages(self) -> list[Stage]:
        """The stages of the transforms."""
        stages: list[Stage] = []
        stride = block = 1
        entries, constants = self.powers.size, 0
        for left in range(self.length.bit_length() // 2, 0, -1):
            radix = min(4, self.length // stride)
            if left % _BLOCK == 0:
                block = stride
            has_table = left > 1 and left % _BLOCK == 1
            place = entries if has_table else constants
            stage = Stage(radix, stride, self.length // (stride * radix), block, has_table, place)
            stages.append(stage)
            if has_table:
                entries += stage.powers.size
            else:
                constants += stage.powers.size
            stride *= radix
        return stages


def butterfly_tables(
    n: int, inverse: bool = False, scale: float = 1.0, compensated: bool = False
) -> tuple[Array, ...]:
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
    geometry = Geometry(n, compensated)
    constants, entries = [np.ones(0)], [roots(geometry.powers, n, inverse)]
    for stage in geometry.stages:
        (entries if stage.has_table else constants).append(stage.twiddles(inverse))
    columns = [[-1 if inverse else 1, scale], _factors(constants, compensated).ravel()]
    return np.concatenate(columns).astype(np.float32)[None], _factors(entries, compensated)


def butterfly_specs(n: int, compensated: bool = False) -> tuple[Any, Any]:
    """Return the (shape, dtype) of each of ``butterfly_tables(n, ..., compensated=...)``."""
    geometry = Geometry(n, compensated)
    sizes = {True: geometry.powers.size, False: 0}
    for stage in geometry.stages:
        sizes[stage.has_table] += stage.powers.size
    rows = 6 if compensated else 2
    return ((1, FIRST_CONSTANT + rows * sizes[False]), "float32"), ((rows, sizes[True]), "float32")


def _factors(pieces: list[Array], compensated: bool) -> Array:
    """Return rows cos, sin; compensated: their 12 high bits, what these leave, and the whole."""
    values = np.concatenate([piece.ravel() for piece in pieces])
    both = np.stack([values.real, values.imag])
    if not compensated:
        return both.astype(np.float32)
    high = (both.astype(np.float32).view(np.int32) & np.int32(HIGH_BITS)).view(np.float32)
    return np.concatenate([high, both - high, both]).astype(np.float32)
