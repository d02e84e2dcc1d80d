"""Signals whose spectra are known, so that a process can compute its part of both by itself.

Along a dimension of an even size n, the signal is a chirp that starts at a,

    x[j] = exp(pi i (j - a)^2 / n),    X[k] = sqrt(n) e^(pi i / 4) exp(-pi i (k^2 + 2 a k) / n),

and along several dimensions a product of such chirps. No number is 0, and none has the place of
another one. With angles from integers both are exact to the rounding of float64. The real part of a
signal has the spectrum (X[k] + conj X[-k]) / 2.
"""

from __future__ import annotations

import cmath
import functools
import math
from collections.abc import Sequence

import torch

from trnfft.distributed.layout import Box, Interval


def signal(shape: Sequence[int], box: Box, is_real: bool) -> torch.Tensor:
    """Returns the numbers of a box of the signal; outside the shape they are 0.

    Returns:
        complex128 or float64, of the sizes of the box.
    """
    x = _product([_chirp(n, dim, box[dim]) for dim, n in enumerate(shape)])
    return x.real if is_real else x


def spectrum(shape: Sequence[int], box: Box, is_real: bool) -> torch.Tensor:
    """Returns a box of the unnormalized transform of `signal`, of all dimensions, in complex128."""
    whole = _product([_spectrum(n, dim, box[dim], 1) for dim, n in enumerate(shape)])
    if not is_real:
        return whole
    mirrored = _product([_spectrum(n, dim, box[dim], -1) for dim, n in enumerate(shape)])
    return (whole + mirrored.conj()) / 2


def small_filter() -> torch.Tensor:
    """Returns a filter [3, 3, 3] of numbers that are all different, in float64."""
    return (torch.arange(27, dtype=torch.float64) / 27 - 0.3).cos().view(3, 3, 3)


def convolved(shape: Sequence[int], box: Box) -> torch.Tensor:
    """Returns a box of the real `signal` of three dimensions convolved with `small_filter`.

    The result is as long as the signal.
    """
    wider = tuple(Interval(interval.start - 1, interval.stop + 1) for interval in box)
    x, h = signal(shape, wider, is_real=True), small_filter().flip(0, 1, 2)
    return torch.nn.functional.conv3d(x[None, None], h[None, None])[0, 0]


def _start(n: int, dim: int) -> int:
    # Another one along each dimension, or else their chirps would be alike.
    return n // 3 + 5 * dim + 1


def _chirp(n: int, dim: int, interval: Interval) -> torch.Tensor:
    j = torch.arange(interval.start, interval.stop)
    inside = (j >= 0) & (j < n)
    return torch.where(inside, _turned(_square(j - _start(n, dim), 2 * n), n), 0)


def _spectrum(n: int, dim: int, interval: Interval, sign: int) -> torch.Tensor:
    """Returns the spectrum at sign * k, for each k of an interval."""
    k = sign * torch.arange(interval.start, interval.stop) % n
    start = torch.tensor(_start(n, dim))
    turned = _turned(_square(start, 2 * n) - _square(k + start, 2 * n), n)  # -(k^2 + 2 a k)
    return math.sqrt(n) * cmath.exp(0.25j * math.pi) * turned


def _square(j: torch.Tensor, modulus: int) -> torch.Tensor:
    # The modulus and |j| are up to 2^41, so that squares have 82 bits.
    j = j.abs()
    high, low = j >> 20, j & ((1 << 20) - 1)
    return ((j * high % modulus << 20) + j * low) % modulus


def _turned(numerators: torch.Tensor, n: int) -> torch.Tensor:
    angles = math.pi * (numerators % (2 * n)).double() / n
    return torch.polar(torch.ones_like(angles), angles)


def _product(lines: list[torch.Tensor]) -> torch.Tensor:
    return functools.reduce(lambda x, line: x[..., None] * line, lines)
