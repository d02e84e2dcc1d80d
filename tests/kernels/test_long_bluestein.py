"""The long Bluestein kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any length, radices, batch and chip, also in loops and near the
largest float. Transforms must not mix, and long batches must need few instructions.
"""

from __future__ import annotations

import numpy as np
import pytest

import nki_sim
from nki_kernels import launch
from nki_kernels.fft.long_bluestein import (
    long_bluestein,
    long_bluestein_specs,
    long_bluestein_tables,
)
from nki_kernels.packing import pack, packed_spec
from nki_sim import hardware
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, large_rows, normal

# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
CORES = [("trn1", 1), sweeps.whole("trn2", 1), ("trn2", 2), sweeps.whole("trn3", 2)]
OTHERS = [("trn2", 1), ("trn2", 2), sweeps.whole("trn3", 2)]


def transform(x, radices, inverse=False, programs=1):
    """Result, timeline and exact input of one launch on the rows of complex ``x``."""
    n = x.shape[-1]
    tables = long_bluestein_tables(n, radices, inverse, 1 / n if inverse else 1.0)
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(long_bluestein[programs])(re, im, *pack(tables), radices)
    return y_re + 1j * y_im.astype(np.float64), timeline, re + 1j * im.astype(np.float64)


@pytest.mark.parametrize(
    ("n", "radices"),
    [
        (1, (65, 2)),
        (7, (65, 2)),
        (65, (65, 2)),  # the data fill exactly one row
        (67, (67, 2)),
        (131, (128, 3)),
        (509, (70, 15)),
        (1009, (70, 3, 10)),
        (4099, (100, 82)),
        (4099, (80, 2, 52)),
    ],
)
def test_lengths_and_batches_both_ways(n, radices):
    for batch in (1, 2, 4):
        forward, timeline, x = transform(normal(batch, n), radices)
        assert timeline.launches == 1
        assert error(forward, np.fft.fft(x)) <= 2e-6
    backward, _, x = transform(normal(3, n), radices, inverse=True)
    assert error(backward, np.fft.ifft(x)) <= 2e-6


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(
    ("n", "radices"),
    [(131, (128, 3)), (4099, (80, 2, 52))],
)
def test_no_number_on_the_way_overflows(n, radices, inverse):
    for row in large_rows(n):
        result, _, x = transform(row[None], radices, inverse)
        assert error(result, (np.fft.ifft if inverse else np.fft.fft)(x)) <= 2e-6


def test_a_long_prime():
    result, timeline, x = transform(normal(1, 65537), (128, 9, 114))
    assert timeline.launches == 1
    assert error(result, np.fft.fft(x)) <= 2e-6


@pytest.mark.parametrize(("chip", "programs"), OTHERS)
def test_other_chips_and_two_cores_compute_the_same(monkeypatch, chip, programs):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for batch in (1, 3):
        result, _, x = transform(normal(batch, 997), (70, 29), programs=programs)
        assert error(result, np.fft.fft(x)) <= 2e-6


@pytest.mark.parametrize(("chip", "programs"), CORES)
@pytest.mark.parametrize(("n", "radices"), [(131, (128, 3)), (1009, (70, 3, 10))])
def test_loops_on_the_device_and_what_they_leave(monkeypatch, chip, programs, n, radices):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 100)
    result, timeline, x = transform(normal(17, n), radices, programs=programs)
    assert error(result, np.fft.fft(x)) <= 2e-6
    assert timeline.instructions > len(timeline.events)


@pytest.mark.parametrize(("chip", "programs"), CORES)
def test_transforms_are_independent(monkeypatch, chip, programs):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    x = normal(5, 131).astype(np.complex64)

    def run(spoiled):
        with np.errstate(all="ignore"):
            return transform(spoiled, (128, 3), programs=programs)[0]

    check_rows_are_independent(run, x, np.fft.fft(x.astype(np.complex128)), 2e-6)


@pytest.mark.parametrize("chip", ["trn1", sweeps.whole("trn2"), sweeps.whole("trn3")])
def test_long_batches_keep_the_rules_and_are_loops(monkeypatch, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for n, radices in ((65537, (128, 16, 65)), (262139, (128, 32, 128))):
        spec, tables = ((100, n), "float32"), packed_spec(long_bluestein_specs(radices))
        with nki_sim.strict():
            timeline = nki_sim.dry_run(long_bluestein, spec, spec, *tables, radices)
        assert len(timeline.events) <= launch.LAUNCH_INSTRUCTIONS
        assert timeline.instructions > 2 * len(timeline.events)


@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (0, (70, 2), "n >= 1"),
        (100, (66, 3), "M = 198 >= 2 n - 1"),
        (10, (64, 2), "the first must be 65 to 128"),
    ],
)
def test_bad_plans_are_refused(n, radices, message):
    with pytest.raises(ValueError, match=message):
        long_bluestein_tables(n, radices)
