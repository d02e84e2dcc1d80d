"""fht, ifht and fhtoffset, compared with scipy.fft in float64."""

import math
import warnings

import numpy as np
import pytest
import scipy.fft
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_sim
import trnfft
from tests.refusals import refused
from tests.tolerances import elementary, near, phases, sums, together, transforms

from .samples import random, single


def phase(dln, mu, offset=0.0):
    """Returns about the largest exponent of a factor: of powers, and of two logarithms of gamma.

    Beside y, these logarithms are differences of numbers with a sum of at most 50. Stirling's
    series at z = 10 has the terms (z - 1/2) log z = 22 and z, and 13 is the logarithm of the
    product of the steps to 10.
    """
    y = math.pi / abs(dln)
    return y * (math.log(1 + y + abs(mu)) + abs(offset) + 1) + 50


def tolerance(n, largest_phase, dtype="float64"):
    """Returns that of two transforms, and of factors whose phases are computed in float64."""
    factors = phases(largest_phase, elementary("float64"))
    return together(transforms(4 * n, 4, dtype), sums(1, dtype), factors)


@given(
    st.integers(1, 100),
    st.floats(0.02, 1) | st.floats(-1, -0.02),
    st.floats(-5, 5),
    st.floats(-2, 2),
    st.just(0.0) | st.floats(-1, 1),
)
@settings(deadline=None, max_examples=40)
def test_as_scipy(n, dln, mu, offset, bias):
    a = random(2, n)
    # With even n, the inverse divides by the cosine of a phase, which may be near 0.
    for name in ("fht", "ifht") if n % 2 else ("fht",):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = getattr(scipy.fft, name)(a.numpy(), dln, mu, offset, bias)
            actual = getattr(trnfft, name)(a, dln, mu, offset, bias)
        # The last step of both multiplies by a power law, which may increase the error of a few.
        slope = bias * dln if name == "fht" else -bias * dln
        exponents = slope * (np.arange(n) - (n - 1) / 2)
        law = np.exp(exponents)
        largest = phase(dln, mu, offset) + abs(exponents).max()
        near(actual.numpy() * law, expected * law, tolerance(n, largest))
    expected = scipy.fft.fhtoffset(dln, mu, offset, bias)
    actual = trnfft.fhtoffset(dln, mu, offset, bias)
    # Where two offsets are as near, either may be it.
    closest = min(expected, expected - dln, expected + dln, key=lambda x: abs(x - actual))
    scale = phase(dln, mu, offset) * dln / math.pi
    near(actual, closest, elementary("float64"), scale=scale)


@pytest.mark.parametrize("n", [63, 64])
def test_a_power_law_is_exact(n):
    mu, gamma = 1.2, -0.7
    r = np.logspace(-2, 2, n)
    dln = math.log(r[1] / r[0])
    offset = trnfft.fhtoffset(dln, mu, bias=gamma)
    actual = trnfft.fht(torch.from_numpy(r**gamma), dln, mu, offset, gamma)
    k = np.exp(offset) / r[::-1]
    ratio = math.gamma((mu + 1 + gamma) / 2) / math.gamma((mu + 1 - gamma) / 2)
    near(actual, (2 / k) ** gamma * ratio, tolerance(n, phase(dln, mu)))


SINGULAR = [
    (-4.0, 1.0, False, False),
    (-4.0, -1.0, False, False),
    (-2.5, 0.5, False, True),
    (-3.5, 0.5, True, False),
    (-1.0, 2.0, False, True),
]


@pytest.mark.parametrize("mu, bias, is_singular, inverse_is_singular", SINGULAR)
def test_singular_transforms_warn(mu, bias, is_singular, inverse_is_singular):
    a = random(32)
    for name, expected in (("fht", is_singular), ("ifht", inverse_is_singular)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = getattr(trnfft, name)(a, 0.3, mu, bias=bias)
        assert [w.filename for w in caught] == [__file__] * expected
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            reference = getattr(scipy.fft, name)(a.numpy(), 0.3, mu, bias=bias)
        near(y, reference, tolerance(32, phase(0.3, mu)))


@pytest.mark.parametrize("backend, launches", [("torch", 0), ("matmul", 0), ("nki-sim", 1)])
def test_single_precision_is_one_launch(backend, launches):
    a = single(3, 100)
    for name in ("fht", "ifht"):
        with trnfft.backend(backend), nki_sim.record() as timeline:
            y = getattr(trnfft, name)(a, 0.1, 0.5, 0.2, 0.1)
        assert timeline.launches == launches
        assert y.dtype == torch.float32
        expected = getattr(scipy.fft, name)(a.double().numpy(), 0.1, 0.5, 0.2, 0.1)
        near(y, expected, tolerance(100, phase(0.1, 0.5, 0.2), "float32"))


test_errors = refused(
    lambda arguments: trnfft.fht(**dict(dict(a=torch.ones(4), dln=0.1, mu=0.5), **arguments)),
    [
        (dict(a=[1.0]), TypeError, "'a'"),
        (dict(a=torch.ones(3) * 1j), RuntimeError, "'a' has dtype .* real dtypes only"),
        (dict(a=torch.ones(3, 0)), RuntimeError, "size 0"),
        (dict(a=torch.tensor(1.0)), IndexError, "no dimensions"),
        (dict(dln=0), ValueError, "'dln' is 0"),
        (dict(dln=1j), TypeError, "'dln'"),
        (dict(mu=math.inf), ValueError, "'mu' is inf"),
        (dict(bias=math.nan), ValueError, "'bias' is nan"),
        (dict(a=torch.empty(2**45, device="meta")), RuntimeError, "'a' has 35184372088832 points"),
        (dict(dln=1e-320), ValueError, "'dln' is 1e-320"),
        (dict(mu=-1e308), ValueError, "'mu' and 'bias' are -1e[+]308 and 0.0"),
        (dict(bias=1e308), ValueError, "'mu' and 'bias' are 0.5 and 1e[+]308"),
        (dict(dln=1e-9, offset=1e308), ValueError, "'dln' and 'offset' are 1e-09 and 1e[+]308"),
    ],
)
