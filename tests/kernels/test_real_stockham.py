"""The real Stockham kernels, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any two radices, batch and chip, in both directions, also in
loops. Rows must not mix. The kernels must need about half the time of a complex transform, and few
instructions.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nki_sim
from nki_kernels import launch
from nki_kernels.packing import pack
from nki_kernels.real.real_stockham import inverse_real_stockham, real_stockham
from nki_kernels.real.real_stockham_tables import (
    inverse_real_stockham_tables,
    real_stockham_tables,
)
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, fits, normal, real

SMALL = list(itertools.product((2, 3, 4, 5, 8, 15), repeat=2))
FEW = list(itertools.product((2, 3, 8), repeat=2))  # of those
# Extremes of either radix, odd and even, and what 64 and 128 numbers a product leave unused.
LARGE = [
    (2, 64),
    (2, 63),
    (3, 64),
    (33, 2),
    (128, 2),
    (127, 2),
    (127, 3),
    (16, 16),
    (8, 32),
    (32, 32),
    (64, 32),
    (21, 21),
    (43, 22),
    (50, 60),
    (64, 64),
    (65, 33),
    (127, 61),
    (128, 64),
]
LARGE_FEW = [
    (2, 64),
    (33, 2),
    (128, 2),
    (127, 3),
    (32, 32),
    (43, 22),
    (64, 64),
    (65, 33),
    (128, 64),
]
# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
CHIPS = pytest.mark.parametrize("chip", ["trn1", "trn2", sweeps.whole("trn3")])


def forward(x, radices, inverse=False, scale=1.0, programs=1):
    """Spectrum, timeline and exact result of one launch on the rows of ``x``."""
    x = x.astype(np.float32)
    n = x.shape[1]
    tables = real_stockham_tables(n, radices, inverse, scale)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(real_stockham[programs])(x, *pack(tables), radices)
    exact = scale * np.fft.rfft(x.astype(np.float64))
    return y_re + 1j * y_im.astype(np.float64), timeline, exact.conj() if inverse else exact


def backward(z, radices, inverse=True, scale=1.0, programs=1):
    """Real rows, timeline and exact result of one launch on the half spectra ``z``."""
    n = math.prod(radices)
    re, im = z.real.astype(np.float32), z.imag.astype(np.float32)
    tables = inverse_real_stockham_tables(n, radices, inverse, scale)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y = nki_sim.simulate(inverse_real_stockham[programs])(re, im, *pack(tables), radices)
    z = re + 1j * im.astype(np.float64)
    return y, timeline, scale * n * np.fft.irfft(z if inverse else z.conj(), n)


def spectra(batch, n):
    """Half spectra, with imaginary parts everywhere."""
    return normal(batch, n // 2 + 1)


def dry(radices, batch, programs=1):
    """Timelines without data, forward and backward."""
    n = math.prod(radices)
    x, z = ((batch, n), "float32"), ((batch, n // 2 + 1), "float32")
    tables = real_stockham_tables(n, radices)
    there = nki_sim.dry_run(real_stockham[programs], x, *pack(tables), radices)
    tables = inverse_real_stockham_tables(n, radices)
    back = nki_sim.dry_run(inverse_real_stockham[programs], z, z, *pack(tables), radices)
    return there, back


def modelled(radices, batch, programs=1):
    """Modelled nanoseconds, forward and backward."""
    there, back = dry(radices, batch, programs)
    return there.total_ns, back.total_ns


@sweeps.some("radices", SMALL + LARGE, [*FEW, (4, 5), (15, 4), *LARGE_FEW]).with_args(ids=str)
def test_radices_and_batches_both_ways(radices):
    n = math.prod(radices)
    for batch in (1, 2, 130, 300) if n < 1000 else (1, 130):
        result, timeline, exact = forward(real(batch, n), radices)
        assert timeline.launches == 1
        assert error(result, exact) <= 6e-7
        result, timeline, exact = backward(spectra(batch, n), radices)
        assert timeline.launches == 1
        assert error(result, exact) <= 6e-7


@sweeps.some(
    "radices", [*SMALL, (16, 20), (43, 22), (50, 60)], [*FEW, (5, 2), (15, 15), (16, 20), (50, 60)]
).with_args(ids=str)
def test_the_other_sign_and_a_scale(radices):
    n = math.prod(radices)
    result, _, exact = forward(real(3, n), radices, inverse=True, scale=1 / n)
    assert error(result, exact) <= 6e-7
    result, _, exact = backward(spectra(3, n), radices, inverse=False, scale=-0.3)
    assert error(result, exact) <= 6e-7


@sweeps.some(
    "radices", [(2, 2), (5, 3), (8, 15), (15, 8), (32, 30)], [(2, 2), (5, 3), (8, 15)]
).with_args(ids=str)
def test_several_transforms_a_partition(radices):
    n = math.prod(radices)
    for batch in (257, 1500):
        result, _, exact = forward(real(batch, n), radices)
        assert max(map(error, result, exact)) <= 2e-6  # no row is another one's
        result, _, exact = backward(spectra(batch, n), radices)
        assert max(map(error, result, exact)) <= 2e-6


@pytest.mark.parametrize("radices", [(6, 7), (9, 4), (9, 5), (127, 2)], ids=str)
def test_the_inverse_returns_the_input(radices):
    n = math.prod(radices)
    x = real(5, n)
    spectrum, _, _ = forward(x, radices)
    result, _, _ = backward(spectrum, radices, scale=1 / n)
    assert error(result, x) <= 8e-7


@pytest.mark.parametrize("radices", [(2, 2), (2, 5), (5, 2), (4, 6), (7, 9), (64, 3)], ids=str)
def test_imaginary_parts_that_real_data_has_not_are_ignored(radices):
    n = math.prod(radices)
    z = spectra(4, n)
    other = z.copy()
    own = [0, n // 2] if n % 2 == 0 else [0]
    other[:, own] = z[:, own].real + 1e6j
    np.testing.assert_array_equal(backward(z, radices)[0], backward(other, radices)[0])


@CHIPS
def test_every_chip_computes_the_same(monkeypatch, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for radices in ((20, 24), (9, 31), (2, 3), (16, 61)):
        n = math.prod(radices)
        for batch in (20, 130):
            result, _, exact = forward(real(batch, n), radices)
            assert error(result, exact) <= 6e-7
            result, _, exact = backward(spectra(batch, n), radices)
            assert error(result, exact) <= 6e-7


@sweeps.some(
    "radices, chip, programs",
    [
        (radices, *launch)
        for radices in ((3, 5), (16, 20), (50, 60))
        for launch in (("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 2))
    ],
    [
        ((3, 5), "trn1", 1),
        ((3, 5), "trn2", 2),
        ((16, 20), "trn1", 1),
        ((16, 20), "trn2", 2),
    ],
).with_args(ids=str)
def test_loops_on_the_device_and_shares_of_programs(monkeypatch, chip, programs, radices):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 500)
    n = math.prod(radices)
    block = 128 * max(1, 1024 // n)
    with hardware.select(hardware.chip(chip)):
        for batch in (1, 3, 2 * block + 1) if n < 100 else (1, 6 * block - 1, 6 * block + 130):
            result, _, exact = forward(real(batch, n), radices, programs=programs)
            assert max(map(error, result, exact)) <= 3e-6
            result, _, exact = backward(spectra(batch, n), radices, programs=programs)
            assert max(map(error, result, exact)) <= 3e-6


@sweeps.some(
    "radices, chip",
    itertools.product([(8, 8), (16, 64), (128, 64)], ["trn1", "trn2", "trn3"]),
    [((8, 8), "trn2"), ((128, 64), "trn1")],
).with_args(ids=str)
def test_a_launch_has_few_instructions(monkeypatch, chip, radices):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", launch.LAUNCH_INSTRUCTIONS)
    batch = hardware.HBM_TENSOR_BYTES // 4 // (math.prod(radices) + 2)
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        assert all(map(fits, dry(radices, batch)))


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
def test_two_programs_take_little_over_half_the_time(chip):
    # Two blocks a program of the longer ones: both load 2 MB of tables, and wait for a block.
    limits = {(16, 20): 0.55, (64, 64): 0.65}
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        for radices, limit in limits.items():
            batch = 2**21 // math.prod(radices)
            for one, two in zip(modelled(radices, batch), modelled(radices, batch, 2), strict=True):
                assert two <= limit * one


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize(("radices", "batch"), [((3, 5), 5), ((16, 20), 300), ((9, 31), 130)])
def test_rows_are_independent(chip, radices, batch):
    n = math.prod(radices)

    def there(x):
        return forward(x, radices)[0]

    def back(parts):
        return backward(parts[:, 0] + 1j * parts[:, 1], radices)[0]

    x, z = real(batch, n).astype(np.float32), spectra(batch, n).astype(np.complex64)
    parts = np.stack([z.real, z.imag], 1)
    exact = n * np.fft.irfft(z.astype(complex), n)
    with hardware.select(hardware.chip(chip)), np.errstate(all="ignore"):
        check_rows_are_independent(there, x, np.fft.rfft(x.astype(float)), 3e-6)
        check_rows_are_independent(back, parts, exact, 3e-6)


def test_dry_run_is_the_real_timeline():
    radices = (16, 20)
    there = forward(real(300, 320), radices)[1]
    back = backward(spectra(300, 320), radices)[1]
    assert modelled(radices, 300) == (there.total_ns, back.total_ns)


@sweeps.some(
    "radices, on_v2, later, chip",
    [
        (*case, chip)
        for case in (
            ((16, 32), 0.75, 0.67),
            ((32, 32), 0.69, 0.7),
            ((20, 50), 0.55, 0.63),
            ((128, 32), 1.02, 0.8),
        )
        for chip in ("trn1", "trn2", "trn3")
    ],
    [((32, 32), 0.69, 0.7, "trn1"), ((20, 50), 0.55, 0.63, "trn2")],
).with_args(ids=str)
def test_modelled_time_is_little_over_half_of_a_complex_transforms(chip, radices, on_v2, later):
    pytest.importorskip("torch")
    from trnfft.planner.planner import plan

    n = math.prod(radices)
    batch = 2 ** round(math.log2(2**20 / n))
    with hardware.select(hardware.chip(chip)):
        # On v2 rows are set aside before transposes.
        # At 4096 all rows are two blocks, whose way in and out overlaps nothing.
        share = on_v2 if hardware.current().generation == 2 else later
        limit = share * plan(n, batch=batch, target=chip, cores=1).predicted_ns
        assert max(modelled(radices, batch)) <= limit


@sweeps.some(
    "radices, chip",
    itertools.product(
        [(128, 64), (128, 63), (127, 64), (2, 64), (128, 2)], ["trn1", "trn2", "trn3"]
    ),
    [
        ((128, 64), "trn1"),
        ((127, 64), "trn3"),
        ((2, 64), "trn1"),
        ((128, 2), "trn2"),
    ],
).with_args(ids=str)
def test_the_longest_transforms_fit(chip, radices):
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        for batch in (1, 300, 1000):
            assert all(map(fits, dry(radices, batch)))


@pytest.mark.parametrize("make", [real_stockham_tables, inverse_real_stockham_tables])
@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (12, (3, 5), r"radices \(3, 5\): must be two with the product n = 12"),
        (12, (12,), "must be two with the product n = 12"),
        (12, (2, 2, 3), "must be two with the product n = 12"),
        (12, (12, 1), "the first must be 2 to 128, the second 2 to 64"),
        (12, (1, 12), "the first must be 2 to 128"),
        (258, (129, 2), "the first must be 2 to 128"),
        (130, (2, 65), "the second 2 to 64"),
    ],
)
def test_bad_plans_are_refused(make, n, radices, message):
    with pytest.raises(ValueError, match=message):
        make(n, radices)
