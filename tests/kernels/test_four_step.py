"""The four-step kernel in the simulator against float64 NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nki_kernels import hardware, simulator
from nki_kernels.kernels.four_step import four_step, four_step_tables
from nki_kernels.lint import lint
from nki_kernels.packing import pack

RNG = np.random.default_rng(40)

PLANS = [
    (2, 2),
    (3, 5),
    (64, 64),
    (128, 128),
    (128, 2),
    (2, 127),
    (5, 6, 7, 8),
    (7, 11, 13),
    (100, 3, 9),
    (80, 125),
    (64, 2, 128),
    (32, 4, 4, 32),
]


def transform(x, radices, inverse=False):
    """Result, timeline and exact input of one launch on the rows of complex ``x``."""
    n = x.shape[-1]
    tables = four_step_tables(n, radices, inverse, 1 / n if inverse else 1.0)
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    with simulator.strict(), simulator.record() as timeline:
        y_re, y_im = simulator.simulate(four_step)(re, im, *pack(tables), radices)
    return y_re + 1j * y_im.astype(np.float64), timeline, re + 1j * im.astype(np.float64)


def error(result, reference):
    return np.linalg.norm(result - reference) / np.linalg.norm(reference)


def normal(*shape):
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


def modelled(radices, batch):
    """Modelled nanoseconds, and the DMA floor."""
    n = math.prod(radices)
    spec = ((batch, n), "float32")
    timeline = simulator.dry_run(
        four_step, spec, spec, *pack(four_step_tables(n, radices)), radices
    )
    return timeline.total_ns, hardware.current().dma_floor_ns(batch * n)


@pytest.mark.parametrize("radices", PLANS, ids=str)
def test_radices_and_batches_both_ways(radices):
    n = math.prod(radices)
    for batch in (1, 2, 5):
        forward, timeline, x = transform(normal(batch, n), radices)
        assert timeline.launches == 1
        assert error(forward, np.fft.fft(x)) <= 6e-7
    backward, _, x = transform(normal(3, n), radices, inverse=True)
    assert error(backward, np.fft.ifft(x)) <= 6e-7


@pytest.mark.parametrize("radices", [(8, 4, 8), (16, 2, 16), (10, 6, 30), (64, 30)], ids=str)
@pytest.mark.parametrize("batch", [7, 33, 130])
def test_blocks_of_several_transforms(radices, batch):
    forward, timeline, x = transform(normal(batch, math.prod(radices)), radices)
    assert timeline.launches == 1
    reference = np.fft.fft(x)
    assert max(map(error, forward, reference)) <= 6e-7


@pytest.mark.parametrize("radices", [(64, 8, 128), (64, 16, 128), (64, 64, 128)], ids=str)
def test_long_transforms(radices):
    result, timeline, x = transform(normal(1, math.prod(radices)), radices)
    assert timeline.launches == 1
    assert error(result, np.fft.fft(x)) <= 8e-7


@pytest.mark.parametrize("chip", ["trn2", "trn3"])
def test_other_chips_compute_the_same(monkeypatch, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    result, _, x = transform(normal(2, 64 * 3 * 50), (64, 3, 50))
    assert error(result, np.fft.fft(x)) <= 6e-7


def test_modelled_times():
    limits = {  # the first two and the last are bound by the descriptors of a copy a transform
        (32, 8, 32): 5.7,
        (32, 4, 128): 4.6,
        (64, 4, 128): 2.6,
        (32, 16, 128): 2.5,
        (50, 8, 25): 4.6,
    }
    for radices, limit in limits.items():
        time, floor = modelled(radices, 2**20 // math.prod(radices))
        assert time <= limit * floor
    assert modelled((32, 32), 1)[0] <= 20_000
    assert modelled((64, 64), 1)[0] <= 20_000
    assert modelled((64, 8, 128), 1)[0] <= 60_000


def test_dry_run_is_the_real_timeline():
    radices = (16, 4, 16)
    _, timeline, _ = transform(normal(3, 1024), radices)
    assert modelled(radices, 3)[0] == timeline.total_ns


def test_the_kernel_stays_inside_the_compilers_subset():
    assert lint(four_step) == []


@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (12, (3, 5), "product n = 12"),
        (12, (12,), "two or more"),
        (258, (2, 129), "each must be 2 to 128"),
        (2**20, (64, 128, 128), "lengths up to 524288"),
    ],
)
def test_bad_plans_are_refused(n, radices, message):
    with pytest.raises(ValueError, match=message):
        four_step_tables(n, radices)
