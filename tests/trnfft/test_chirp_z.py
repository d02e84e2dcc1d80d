"""czt and zoom_fft, compared with direct sums and scipy.signal."""

import cmath
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.signal
import torch

import nki_sim
import trnfft
from tests.refusals import refused
from tests.tolerances import near, phases, sums, together, transforms

from .samples import BACKENDS, random, single

SIZES = [(1, 1), (5, 5), (7, 3), (3, 9), (100, 37), (37, 100)]


def tolerance(n, m, dtype="float64", drift=0.0):
    """Returns that of a convolution of n numbers with n + m numbers, and of products with chirps.

    Phases of three chirps and of the expected result, up to 2 pi, are rounded in float64, and the
    last phase has an error of `drift` times that of a rounding.
    """
    chirps = phases(2 * math.pi + drift / 2, sums(1, "float64"))
    return together(transforms(4 * (n + m), 2, dtype), sums(2, dtype), chirps)


def z_transform(x, m, w, a):
    """Returns the sums for m numbers z = a w^-k, whose powers are computed with more digits."""
    j, k = np.arange(x.shape[-1]), np.arange(m)[:, None]
    ratio = -8j * np.arctan(np.longdouble(1)) / m if w is None else np.log(np.clongdouble(w))
    powers = np.exp(j * (k * ratio - np.log(np.clongdouble(a))))
    return (x.numpy()[..., None, :] * powers).sum(-1)


def complex_rows(n, dtype=torch.complex128):
    return random(2, n, dtype=dtype)


@pytest.mark.parametrize("w", [None, cmath.exp(-0.03j), 0.9999 * cmath.exp(0.1j), -1.0, 1j])
@pytest.mark.parametrize("a", [1, cmath.exp(0.3j), 1.01, 0.98 + 0.1j])
def test_z_transform_on_a_spiral(w, a):
    for n, m in SIZES:
        x = complex_rows(n)
        expected = z_transform(x, m, w, a)
        # The angle of w is rounded, unless it is a quarter of a turn, and so is that of a.
        drift = n * abs(cmath.log(a)) + (0 if w in (None, -1, 1j) else n * m * abs(cmath.log(w)))
        for dtype in (torch.complex128, torch.complex64):
            near(trnfft.czt(x.to(dtype), m, w, a), expected, tolerance(n, m, dtype, drift))


def test_defaults_are_the_fourier_transform():
    for n in (1, 8, 101, 1009):
        x = random(2, n)
        near(trnfft.czt(x), np.fft.fft(x.numpy()), tolerance(n, n))
        near(trnfft.czt(x, 2 * n), np.fft.fft(x.numpy(), 2 * n), tolerance(n, 2 * n))
        near(trnfft.zoom_fft(x, 2), np.fft.fft(x.numpy()), tolerance(n, n))


@pytest.mark.parametrize(
    "fn, fs, endpoint",
    [(0.7, 2, False), ([0.1, 0.3], 1, True), ((-3, 5), 44.1, False), (0.25, 1, True)],
)
def test_frequencies_of_a_range(fn, fs, endpoint):
    first, last = (0, fn) if isinstance(fn, float) else fn
    for n, m in [(5, 5), (7, 3), (3, 9), (60, 37)]:
        x = complex_rows(n)
        step = (Fraction(last) - Fraction(first)) / Fraction(fs) / (m - endpoint)
        turns = [Fraction(first) / Fraction(fs) + k * step for k in range(m)]
        angles = [[float(turn * j % 1) for j in range(n)] for turn in turns]
        expected = (x.numpy()[:, None] * np.exp(-2j * np.pi * np.array(angles))).sum(-1)
        options = dict(fs=fs, endpoint=endpoint)
        for dtype in (torch.complex128, torch.complex64):
            actual = trnfft.zoom_fft(x.to(dtype), fn, m, **options)
            near(actual, expected, tolerance(n, m, dtype))


def test_phases_of_long_chirps_are_exact():
    n, m = 20_000, 3
    x = random(1, n)
    # Frequencies (2^20 + k) / 2^21 of the sampling frequency.
    y = trnfft.zoom_fft(x, (2.0**20, 2.0**20 + m), m, fs=2.0**21)
    j = np.arange(n)
    for k in range(m):
        angles = (2**20 + k) * j % 2**21 / 2**21
        expected = (x.numpy() * np.exp(-2j * np.pi * angles)).sum(-1)
        near(y[:, k], expected, tolerance(n, m))


def test_axes_and_as_scipy():
    x = random(3, 20, 4)
    # scipy's chirps have phases of up to 20, which are rounded.
    both = tolerance(20, 7, drift=2 * 20)
    for axis in (1, -2):
        expected = scipy.signal.czt(x.numpy(), 7, cmath.exp(-0.1j), 1.02, axis=axis)
        actual = trnfft.czt(x, 7, cmath.exp(-0.1j), 1.02, axis=axis)
        near(actual, expected, both)
        expected = scipy.signal.zoom_fft(x.numpy(), [0.1, 0.4], 7, fs=1, axis=axis)
        actual = trnfft.zoom_fft(x, [0.1, 0.4], 7, fs=1, axis=axis)
        near(actual, expected, both)


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_and_launches(backend):
    x = single(2, 50)
    calls = [
        (lambda x: trnfft.czt(x, 30, a=0.99), 1),
        (lambda x: trnfft.czt(x, 30, cmath.exp(-0.1j)), 2),
        (lambda x: trnfft.zoom_fft(x, 0.3, 40), 2),
    ]
    for function, launches in calls:
        expected = function(x.double())
        with trnfft.backend(backend), nki_sim.record() as timeline:
            y = function(x)
        assert timeline.launches == (launches if backend == "nki-sim" else 0)
        assert y.real.dtype == torch.float32
        near(y, expected, tolerance(50, 50, "float32"))


X = torch.ones(2, 4)


test_errors_of_czt = refused(
    lambda arguments: trnfft.czt(**dict(dict(x=X), **arguments)),
    [
        (dict(x=[1.0]), TypeError, "'x'"),
        (dict(m=0), RuntimeError, "'m' is 0"),
        (dict(m=2.0), TypeError, "'m'"),
        (dict(x=torch.ones(2, 0)), RuntimeError, "size 0"),
        (dict(axis=2), IndexError, "'axis' is 2"),
        (dict(w=0), ValueError, "'w' is 0"),
        (dict(w="1"), TypeError, "'w'"),
        (dict(w=10**5000), ValueError, "'w' is an int of 16610 bits"),
        (dict(a=math.inf), ValueError, "'a' is .*inf"),
        (dict(x=torch.ones(200), w=0.99), ValueError, "'w' is .*half of the digits"),
        (dict(x=torch.ones(200), a=0.5), ValueError, "'a' is .*beyond the range"),
        (dict(x=torch.ones(200), a=0.5, w=1j), ValueError, "'a' is .*beyond the range"),
    ],
)


test_errors_of_zoom_fft = refused(
    lambda arguments: trnfft.zoom_fft(**dict(dict(x=X, fn=0.5), **arguments)),
    [
        (dict(fn=(1, 2, 3)), ValueError, "'fn' has 3"),
        (dict(fn=torch.ones(1).expand(2**40)), ValueError, "'fn' has 3 or more"),
        (dict(fn=itertools.count()), ValueError, "'fn' has 3 or more"),
        (dict(fn=()), ValueError, "'fn' has no"),
        (dict(fn=torch.tensor(0.5)), TypeError, "'fn'"),
        (dict(endpoint="no"), TypeError, "'endpoint' is 'no'"),
        (dict(m=2**45), RuntimeError, "'m' is 35184372088832, which needs"),
        (dict(fn="1"), TypeError, "'fn'"),
        (dict(fn=math.nan), ValueError, "'fn' is nan"),
        (dict(fs=0), ValueError, "'fs' is 0"),
        (dict(m=-1), RuntimeError, "'m' is -1"),
    ],
)
