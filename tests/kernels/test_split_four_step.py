"""The split four-step kernel in the simulator against float64 NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nki_kernels import simulator
from nki_kernels.kernels.split_four_step import split_four_step, split_four_step_tables
from nki_kernels.lint import lint
from nki_kernels.packing import pack

RNG = np.random.default_rng(60)


def transform(x, radices, inverse=False):
    """Result, timeline and exact input of one launch on the rows of complex ``x``."""
    n = x.shape[-1]
    tables = split_four_step_tables(n, radices, inverse, 1 / n if inverse else 1.0)
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    with simulator.strict(), simulator.record() as timeline:
        y_re, y_im = simulator.simulate(split_four_step)(re, im, *pack(tables), radices, inverse)
    return y_re + 1j * y_im.astype(np.float64), timeline, re + 1j * im.astype(np.float64)


def error(result, reference):
    return np.linalg.norm(result - reference) / np.linalg.norm(reference)


def normal(*shape):
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


@pytest.mark.parametrize(
    "radices", [(2, 4, 4), (4, 3, 5), (2, 64, 64), (4, 16, 3, 32), (4, 65, 66)], ids=str
)
def test_radices_and_batches_both_ways(radices):
    n = math.prod(radices)
    for batch in (1, 3):
        forward, timeline, x = transform(normal(batch, n), radices)
        assert timeline.launches == 1
        assert error(forward, np.fft.fft(x)) <= 8e-7
    backward, _, x = transform(normal(2, n), radices, inverse=True)
    assert error(backward, np.fft.ifft(x)) <= 8e-7


@pytest.mark.slow
def test_two_to_the_20():
    result, timeline, x = transform(normal(1, 2**20), (2, 64, 64, 128))
    assert timeline.launches == 1
    assert error(result, np.fft.fft(x)) <= 8e-7


def test_dry_run_is_the_real_timeline():
    radices = (2, 16, 16)
    _, timeline, x = transform(normal(2, 512), radices)
    spec, tables = (x.shape, "float32"), split_four_step_tables(512, radices)
    dry = simulator.dry_run(split_four_step, spec, spec, *pack(tables), radices)
    assert dry.total_ns == timeline.total_ns


def test_the_kernel_stays_inside_the_compilers_subset():
    assert lint(split_four_step) == []


@pytest.mark.parametrize("radices", [(3, 4, 4), (2, 24), (2, 3, 7)])
def test_bad_plans_are_refused(radices):
    with pytest.raises(ValueError, match="2 or 4, then two or more, with product n = 48"):
        split_four_step_tables(48, radices)
