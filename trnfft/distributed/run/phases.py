"""Factors exp(2 pi i m / M) for integers m, with exact angles, made where they are used.

m is a product of two indices, which is reduced modulo M in integers, so that at 2^40 points the
angle is as accurate as at 16. The factors are computed in float64 for some rows at a time, rounded
once, and never kept: a table would be as large as the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from trnfft.backends.matmul import FLOAT64_DEVICES
from trnfft.base.autograd_types import Context
from trnfft.distributed.layout import Interval

Pair = tuple[torch.Tensor, torch.Tensor]

_BLOCK = 1 << 18  # factors that are computed at a time: 2 MiB in float64
_DIGIT = 20  # bits of a factor that are multiplied at a time, in a product of 64 bits


@dataclass(frozen=True)
class Twiddles:
    """exp(sign 2 pi i a b / modulus), for rows a and columns b of a matrix.

    Attributes:
        rows, columns: the indices; rows * columns < 2^63.
        modulus: the length of the transform.
        sign: the sign of the exponent.
    """

    rows: Interval
    columns: Interval
    modulus: int
    sign: int

    def turns(self, start: int, stop: int, device: torch.device) -> torch.Tensor:
        """Returns the angles of rows `start` to `stop` of this matrix in turns, float64."""
        rows = torch.arange(self.rows.start + start, self.rows.start + stop, device=device)
        columns = torch.arange(self.columns.start, self.columns.stop, device=device)
        return _turns(rows[:, None] * columns % self.modulus, self.modulus) * self.sign


@dataclass(frozen=True)
class Chirp:
    """exp(sign 2 pi i j^2 / (2 n)), for indices j, as a column with one number in each row.

    Attributes:
        rows: the indices j; |j| < 2^40.
        n: the length, below 2^40.
        sign: the sign of the exponent.
        period: j counts modulo this number, from -period / 2 on; the factor is 0 for |j| >= n. For
            None, j is the index itself.
    """

    rows: Interval
    n: int
    sign: int
    period: int | None = None

    @property
    def columns(self) -> Interval:
        return Interval(0, 1)

    def turns(self, start: int, stop: int, device: torch.device) -> torch.Tensor:
        """Returns the angles as for `Twiddles`, and NaN where the factor is 0."""
        j = torch.arange(self.rows.start + start, self.rows.start + stop, device=device)
        if self.period is not None:
            j = torch.minimum(j, self.period - j)
        turns = _turns(_square_modulo(j, 2 * self.n), 2 * self.n) * self.sign
        return torch.where(j < self.n, turns, math.nan)[:, None]


Phases = Twiddles | Chirp


def conjugate(phases: Phases) -> Phases:
    """Returns the factors with the opposite sign."""
    return replace(phases, sign=-phases.sign)


def rotated(parts: list[torch.Tensor], phases: Phases) -> list[torch.Tensor]:
    """Multiplies the parts of complex numbers [..., rows, columns] by factors. Differentiable."""
    return list(_Rotate.apply(*parts, phases))


def factors(phases: Phases, dtype: torch.dtype, device: torch.device) -> Pair:
    """Returns the factors, as two parts [rows, columns]."""
    return _factors(phases, 0, phases.rows.size, torch.empty(0, dtype=dtype, device=device))


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, real: torch.Tensor, imag: torch.Tensor, phases: Phases) -> Pair:
        ctx.phases = phases
        made = torch.empty_like(real), torch.empty_like(imag)
        step = max(1, _BLOCK // max(1, phases.columns.size))
        for start in range(0, phases.rows.size, step):
            stop = min(start + step, phases.rows.size)
            cos, sin = _factors(phases, start, stop, real)
            x, y = (part[..., start:stop, :] for part in (real, imag))
            first, second = (part[..., start:stop, :] for part in made)
            torch.mul(x, cos, out=first).sub_(y * sin)
            torch.mul(x, sin, out=second).add_(y * cos)
        return made

    @staticmethod
    def backward(ctx: Context, real: torch.Tensor, imag: torch.Tensor) -> Any:
        return *_Rotate.apply(real, imag, conjugate(ctx.phases)), None


def _factors(phases: Phases, start: int, stop: int, like: torch.Tensor) -> Pair:
    # They are computed on the host where the device may have no float64.
    device = like.device if like.device.type in FLOAT64_DEVICES else torch.device("cpu")
    angles = 2 * math.pi * phases.turns(start, stop, device)
    nothing = angles.isnan()
    return tuple(  # type: ignore[return-value]
        torch.where(nothing, 0.0, part).to(like) for part in (angles.cos(), angles.sin())
    )


def _turns(numerators: torch.Tensor, modulus: int) -> torch.Tensor:
    """Returns angles in turns, between -1/2 and 1/2."""
    near = torch.where(2 * numerators > modulus, numerators - modulus, numerators)
    return near.double() / modulus


def _square_modulo(j: torch.Tensor, modulus: int) -> torch.Tensor:
    """Returns j * j modulo a number below 2^41, for |j| < 2^40, whose squares exceed 64 bits."""
    j = j.abs() % modulus
    high, low = j >> _DIGIT, j & ((1 << _DIGIT) - 1)
    return ((j * high % modulus << _DIGIT) + j * low) % modulus
