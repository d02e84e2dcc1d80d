"""Chirp z transform and zoom FFT, as `scipy.signal.czt` and `scipy.signal.zoom_fft`.

The chirp z transform is the z transform of x at m points on a spiral. The unit circle and its arcs
are special cases:

    X[k] = sum_n x[n] z[k]^(-n),    z[k] = a w^(-k),    0 <= k < m

Because 2nk = n^2 + k^2 - (k-n)^2, it is a convolution with a chirp, which two transforms of a
length L >= n + m - 1 compute (Bluestein 1968; Rabiner, Schafer & Rader, "The chirp z-transform
algorithm", 1969):

    X[k] = w^(k^2/2) sum_n (x[n] a^(-n) w^(n^2/2)) w^(-(k-n)^2/2)

Without `w`, w is exp(-2 pi i / m). Then x a^(-n), wound onto a circle of m points, has X as its
Fourier transform, which is one launch. All other transforms are two launches.

The phases are exact: the angles are fractions of a turn, which are multiplied by squares and
reduced in integers, and then rounded once. `zoom_fft` is therefore as exact as its frequencies,
which are read as the binary fractions that they are. A `w` is known to one rounding only. On the
circle, it drifts from exp(-2 pi i f) by k^2/2 of that rounding, so `zoom_fft` is the better choice.
Off the circle, errors grow with the magnitudes of the chirp, by |w|^(+-max(n, m)^2/2). `czt`
refuses a `w` that would lose half of the digits in this way. The tables are computed in float64 and
rounded once. The derivatives are those of the transforms.
"""

import cmath
import math
import numbers
import operator
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from itertools import islice

import numpy as np
import torch

from trnfft.backends.device_tables import tables_like
from trnfft.base.checks import finite
from trnfft.complex.kinds import made_of
from trnfft.complex.parts import is_sharded
from trnfft.complex.tensor import ComplexTensor
from trnfft.functions.arguments import (
    Input,
    are_several,
    check_flags,
    check_length,
    dimension,
    integer,
    to_compute,
)
from trnfft.functions.convolve import fast_length, lengthened
from trnfft.functions.fft import check_longest, check_result, fft, ifft
from trnfft.ops.many_devices import of_shards
from trnfft.ops.operand import operand_of

_TURN = 2 * Fraction("3.14159265358979323846264338327950288419716939937511")


def czt(
    x: Input,
    m: int | None = None,
    w: complex | None = None,
    a: complex = 1 + 0j,
    *,
    axis: int = -1,
) -> torch.Tensor:
    """Returns the chirp z transform along one dimension: the z transform at points on a spiral.

    The counterpart in SciPy is `scipy.signal.czt`. See `docs/more_transforms.md`. float64 and
    complex128 are computed in float64, and all smaller floating-point dtypes in float32. Integers
    and bool are converted to torch's default dtype first.

    Args:
        x: a real tensor, a native complex tensor or a ComplexTensor of any shape with at least one
            dimension.
        m: number of points. Default: the size of `axis`.
        w: ratio of each point to the next one. Default: exp(-2 pi i / m), for points all around the
            circle.
        a: the first point.
        axis: the dimension to transform.

    Returns:
        A complex tensor with the shape of `x`, in which `m` replaces the size of `axis`.

    Raises:
        TypeError: an argument has the wrong type, or the backend lacks the dtype.
        IndexError: `axis` is out of range.
        ValueError: `w` or `a` is 0 or not finite; `w` is so far from the circle that half of the
            digits would be lost; or powers of `a` are beyond the range of the dtype.
        RuntimeError: `m` or the size of `axis` is less than 1, or `x` has a dtype that cannot be
            transformed.
        NotImplementedError: the backend cannot compute this length or precision.

    Examples:
        >>> import torch, trnfft
        >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0])
        >>> trnfft.czt(x).real.round(decimals=4)  # all around the circle, as trnfft.fft
        tensor([10., -2., -2., -2.])
        >>> trnfft.czt(x, m=1, w=1.0, a=2.0).real  # 1 + 2/2 + 3/4 + 4/8
        tensor([3.2500])
    """
    if is_sharded(x):
        return of_shards(czt, x, (axis,), m, w, a, axis=axis)
    x, m, axis = _prepared(x, m, axis)
    a = _nonzero("a", a)
    if w is None:
        return _around_the_circle(x, m, a).movedim(-1, axis)
    w = _nonzero("w", w)
    limits = torch.finfo(x.real.dtype)
    return _convolved(x, m, _spiral, w, a, limits.max, limits.eps**-0.5).movedim(-1, axis)


def zoom_fft(
    x: Input,
    fn: float | Iterable[float],
    m: int | None = None,
    *,
    fs: float = 2,
    endpoint: bool = False,
    axis: int = -1,
) -> torch.Tensor:
    """Returns the Fourier transform at equally spaced frequencies of a range, along one dimension.

    The counterpart in SciPy is `scipy.signal.zoom_fft`. The dtypes are those of `czt`.

    Args:
        x, axis: as for `czt`.
        fn: the range of frequencies: its first and its second end, or the second alone, where the
            first is 0.
        m: number of frequencies. Default: the size of `axis`.
        fs: the sampling frequency, in the unit of `fn`.
        endpoint: whether the second end of the range is the last frequency. Otherwise, it is the
            frequency that would follow the last one.

    Raises:
        ValueError: `fn` does not have one or two finite numbers, or `fs` is 0 or not finite.
        TypeError, IndexError, RuntimeError, NotImplementedError: as `czt`.

    Examples:
        >>> import torch, trnfft
        >>> t = torch.arange(256) / 256  # seconds
        >>> x = torch.cos(2 * torch.pi * 50.25 * t)
        >>> X = trnfft.zoom_fft(x, [49, 52], m=12, fs=256)  # steps of a quarter of 1 Hz
        >>> 49 + int(X.abs().argmax()) / 4
        50.25
    """
    if is_sharded(x):
        return of_shards(zoom_fft, x, (axis,), fn, m, fs=fs, endpoint=endpoint, axis=axis)
    x, m, axis = _prepared(x, m, axis)
    first, last = _range(fn)
    fs = finite("fs", fs)
    if fs == 0:
        raise ValueError("argument 'fs' is 0, allowed is any other sampling frequency")
    check_flags(endpoint=endpoint)
    steps = max(m - 1, 1) if endpoint else m
    return _convolved(x, m, _arc, first, last, fs, steps).movedim(-1, axis)


def _prepared(x: Input, m: int | None, axis: int) -> tuple[torch.Tensor | ComplexTensor, int, int]:
    """Returns `x` in a dtype to compute in with `axis` last, the number of points, and the axis."""
    x = to_compute("x", x)
    axis = dimension("axis", integer("axis", axis), x.ndim)
    n = operator.index(x.shape[axis])  # torch.compile's sizes may be symbolic
    check_length("m", None, n, n)
    m = n if m is None else integer("m", m)
    check_length("m", m, m, n)
    given = operand_of(x)
    check_longest(n + m - 1, given)
    check_result("m", m, (*x.shape[:axis], n + m - 1, *x.shape[axis + 1 :]), given)
    return x.movedim(axis, -1), m, axis


def _around_the_circle(x: torch.Tensor, m: int, a: complex) -> torch.Tensor:
    n = x.shape[-1]
    if a != 1:
        powers = tables_like(x.real, _powers, n, a, torch.finfo(x.real.dtype).max)
        x = made_of(*powers, x) * x
    rounds = -(-n // m)
    if rounds > 1:
        x = lengthened(x, -1, rounds * m).reshape(*x.shape[:-1], rounds, m).sum(-2)
    return fft(x, m)


def _convolved(
    x: torch.Tensor, m: int, make: Callable[..., list[np.ndarray]], *arguments: Hashable
) -> torch.Tensor:
    """Returns X along the last dimension, computed with the tables that `make` returns."""
    n = x.shape[-1]
    length = fast_length(n + m - 1, x.device)
    parts = tables_like(x.real, make, n, m, length, *arguments)
    before, spectrum, after = (made_of(*parts[i : i + 2], x) for i in (0, 2, 4))
    return ifft(fft(before * x, length) * spectrum)[..., :m] * after


def _range(fn: object) -> tuple[float, float]:
    """Returns the first and the second end of the range of frequencies."""
    if isinstance(fn, torch.Tensor):
        fn = fn[:3] if fn.ndim else fn  # three numbers are enough to refuse the rest
    values = list(islice(fn, 3)) if are_several(fn) else [0.0, fn]  # an iterable may be endless
    values = [0.0, *values] if len(values) == 1 else values
    if len(values) != 2:
        count = f"{len(values)} or more" if values else "no"
        raise ValueError(
            f"argument 'fn' has {count} frequencies, allowed are two, or the second one alone"
        )
    return finite("fn", values[0]), finite("fn", values[1])


def _nonzero(name: str, value: complex) -> complex:
    if not isinstance(value, numbers.Complex):
        raise TypeError(f"argument '{name}' must be a number, not {type(value).__name__}")
    if isinstance(value, numbers.Real):
        value = finite(name, value)
    value = complex(value)
    if value == 0 or not (math.isfinite(value.real) and math.isfinite(value.imag)):
        raise ValueError(f"argument '{name}' is {value}, allowed are finite numbers other than 0")
    return value


# Tables: each function returns real and imaginary parts, one after the other


def _powers(n: int, a: complex, largest: float) -> list[np.ndarray]:
    """Returns the two parts of a^(-j), j < n."""
    angle, size = _polar(a)
    j = np.arange(n)
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(-size * j) * _chirp(j, -2 * angle, Fraction(0))
    _check_largest(a, n, np.abs(powers).max(), largest)
    return [powers.real, powers.imag]


def _arc(
    n: int, m: int, length: int, first: float, last: float, fs: float, steps: int
) -> list[np.ndarray]:
    """Returns the tables of frequencies from `first` on, of which `steps` steps lead to `last`."""
    start, stop = Fraction(first) / Fraction(fs), Fraction(last) / Fraction(fs)
    return _tables(n, m, length, ((start - stop) / steps, 0.0), (start, 0.0))


def _spiral(
    n: int, m: int, length: int, w: complex, a: complex, largest: float, lost: float
) -> list[np.ndarray]:
    """Returns the tables of the points a w^(-k)."""
    growth = abs(_polar(w)[1]) * max(n, m) ** 2 / 2
    if growth > math.log(lost):
        raise ValueError(
            f"argument 'w' is {w}, of absolute value {abs(w)}, with which {n} numbers and {m} "
            f"points lose more than half of the digits, as errors grow by |w|^(max(n, m)^2 / 2); "
            f"use fewer numbers or points, an absolute value nearer to 1, or float64"
        )
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is refused below
        tables = _tables(n, m, length, _polar(w), _polar(a))
    _check_largest(a, n, np.abs(tables[:2]).max(), largest)
    return tables


def _check_largest(a: complex, n: int, largest_power: float, largest: float) -> None:
    if not largest_power <= largest:
        raise ValueError(
            f"argument 'a' is {a}, whose powers up to a^(-{n - 1}) are beyond the range of the "
            f"dtype, {largest:.1e}; use fewer numbers, a larger absolute value, or float64"
        )


Polar = tuple[Fraction, float]  # a number's angle in turns, and the logarithm of its magnitude


def _tables(n: int, m: int, length: int, w: Polar, a: Polar) -> list[np.ndarray]:
    """Returns the factors of x, the spectrum of the chirp, and the factors of their convolution."""
    (step, growth), (start, size) = w, a
    j, k, lags = np.arange(n), np.arange(m), np.arange(1 - n, m)
    before = np.exp(growth * j**2 / 2 - size * j) * _chirp(j, -2 * start, step)
    after = np.exp(growth * k**2 / 2) * _chirp(k, Fraction(0), step)
    wrapped = np.zeros(length, np.complex128)
    wrapped[lags] = np.exp(-growth * lags**2 / 2) * _chirp(lags, Fraction(0), -step)
    spectrum = np.fft.fft(wrapped)
    return [part for z in (before, spectrum, after) for part in (z.real, z.imag)]


def _chirp(indices: np.ndarray, linear: Fraction, square: Fraction) -> np.ndarray:
    """Returns exp(pi i (square k^2 + linear k)), whose exponent is reduced exactly."""
    period = math.lcm(linear.denominator, square.denominator)
    p, q = int(square * period), int(linear * period)
    half_turns = [(p * k + q) * k % (2 * period) / period for k in indices.tolist()]
    return np.exp(1j * np.pi * np.array(half_turns))


def _polar(z: complex) -> Polar:
    if z.imag == 0 or z.real == 0:  # quarters of a turn, which are no multiples of a float pi
        angle = Fraction(round(2 * cmath.phase(z) / math.pi), 4)
    else:
        angle = Fraction(cmath.phase(z)) / _TURN
    # Near the circle, abs(z) would be rounded to 1, and powers multiply the error by a square.
    beyond = Fraction(z.real) ** 2 + Fraction(z.imag) ** 2 - 1
    return angle, math.log1p(beyond) / 2 if abs(beyond) < 0.5 else math.log(abs(z))
