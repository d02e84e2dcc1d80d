"""The real four-step kernels, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for two and three radices, any batch and chip, in both directions,
also in loops. Rows must not mix. The kernels must need less time than a complex transform, and the
longest lengths must fit.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nki_sim
from nki_kernels import launch
from nki_kernels.packing import pack, packed_spec
from nki_kernels.real.inverse_real_four_step import inverse_real_four_step
from nki_kernels.real.real_four_step import real_four_step
from nki_kernels.real.real_four_step_tables import (
    MAX_INVERSE_LENGTH,
    inverse_real_four_step_specs,
    inverse_real_four_step_tables,
    real_four_step_specs,
    real_four_step_tables,
)
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, fits, normal, real

# Two radices and three; an odd number of slots and one between; slots that nobody reads; a row in
# several parts, in loads and in what is closed at once.
RADICES = [
    (4, 34),
    (4, 64),
    (22, 38),
    (98, 66),
    (128, 128),
    (4, 9, 34),
    (16, 4, 40),
    (10, 7, 36),
    (6, 64, 34),
    (100, 3, 100),
    (26, 33, 50),
    (128, 10, 34),
    (128, 17, 128),
]
# Those of the inverse, whose first radix is larger.
TO_REAL = [
    (34, 34),
    (98, 66),
    (128, 128),
    (34, 5, 36),
    (36, 64, 34),
    (100, 3, 100),
    (128, 10, 34),
    (128, 17, 128),
]
# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
CHIPS = pytest.mark.parametrize("chip", ["trn1", "trn2", sweeps.whole("trn3")])


def forward(x, radices, inverse=False, scale=1.0, programs=1):
    """Spectrum, timeline and exact result of one launch on the rows of ``x``."""
    x = x.astype(np.float32)
    tables = real_four_step_tables(x.shape[1], radices, inverse, scale)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(real_four_step[programs])(x, *pack(tables), radices)
    exact = scale * np.fft.rfft(x.astype(np.float64))
    return y_re + 1j * y_im.astype(np.float64), timeline, exact.conj() if inverse else exact


def backward(z, radices, inverse=True, scale=1.0, programs=1):
    """Real rows, timeline and exact result of one launch on the half spectra ``z``."""
    n = math.prod(radices)
    re, im = z.real.astype(np.float32), z.imag.astype(np.float32)
    tables = pack(inverse_real_four_step_tables(n, radices, inverse, scale))
    with nki_sim.strict(), nki_sim.record() as timeline:
        y = nki_sim.simulate(inverse_real_four_step[programs])(re, im, *tables, radices)
    z = re + 1j * im.astype(np.float64)
    return y, timeline, scale * n * np.fft.irfft(z if inverse else z.conj(), n)


def spectra(batch, radices):
    """Half spectra, with imaginary parts everywhere."""
    return normal(batch, math.prod(radices) // 2 + 1)


def dry(radices, batch, programs=1):
    """Timeline without data, forward."""
    x = ((batch, math.prod(radices)), "float32")
    tables = packed_spec(real_four_step_specs(radices))
    return nki_sim.dry_run(real_four_step[programs], x, *tables, radices)


def dry_back(radices, batch, programs=1):
    """Timeline without data, backward."""
    z = ((batch, math.prod(radices) // 2 + 1), "float32")
    tables = packed_spec(inverse_real_four_step_specs(radices))
    return nki_sim.dry_run(inverse_real_four_step[programs], z, z, *tables, radices)


BOTH_WAYS = pytest.mark.parametrize("run", [dry, dry_back])


def few_and_many(radices):
    return (1, 3) if math.prod(radices) > 20000 else (1, 2, 37)


@sweeps.some(
    "radices, chip",
    itertools.product(RADICES, ["trn1", "trn2", "trn3"]),
    [(each, ("trn1", "trn2")[place % 2]) for place, each in enumerate(RADICES)]
    + [((4, 34), "trn2"), ((22, 38), "trn2"), ((4, 9, 34), "trn2"), ((10, 7, 36), "trn1")],
).with_args(ids=str)
def test_radices_and_batches(chip, radices):
    with hardware.select(hardware.chip(chip)):
        for batch in few_and_many(radices):
            result, timeline, exact = forward(real(batch, math.prod(radices)), radices)
            assert timeline.launches == 1
            assert error(result, exact) <= 5e-7


@sweeps.some(
    "radices, chip",
    itertools.product(TO_REAL, ["trn1", "trn2", "trn3"]),
    [(each, ("trn1", "trn2")[place % 2]) for place, each in enumerate(TO_REAL)]
    + [((34, 34), "trn2"), ((34, 5, 36), "trn1"), ((128, 10, 34), "trn2")],
).with_args(ids=str)
def test_radices_and_batches_of_the_inverse(chip, radices):
    with hardware.select(hardware.chip(chip)):
        for batch in few_and_many(radices):
            result, timeline, exact = backward(spectra(batch, radices), radices)
            assert timeline.launches == 1
            assert error(result, exact) <= 5e-7


@pytest.mark.parametrize("radices", [(34, 38), (36, 4, 40)], ids=str)
def test_the_other_sign_and_a_scale(radices):
    result, _, exact = forward(real(3, math.prod(radices)), radices, True, -0.3)
    assert error(result, exact) <= 5e-7
    result, _, exact = backward(spectra(3, radices), radices, False, -0.3)
    assert error(result, exact) <= 5e-7


@pytest.mark.parametrize("radices", [(34, 38), (36, 4, 40)], ids=str)
def test_what_real_data_has_no_imaginary_part_of(radices):
    result, _, _ = forward(real(3, math.prod(radices)), radices)
    np.testing.assert_array_equal(result[:, [0, -1]].imag, 0)
    z = spectra(3, radices)
    other = z.copy()
    other[:, [0, -1]] = z[:, [0, -1]].real + 1e6j
    np.testing.assert_array_equal(backward(z, radices)[0], backward(other, radices)[0])


@pytest.mark.parametrize(
    ("chip", "programs"),
    [("trn1", 1), sweeps.whole("trn2", 1), ("trn2", 2), sweeps.whole("trn3", 2)],
)
@pytest.mark.parametrize("radices", [(34, 34), (36, 4, 40), (34, 33, 50)], ids=str)
def test_loops_on_the_device_and_shares_of_programs(monkeypatch, chip, programs, radices):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 300)
    n = math.prod(radices)
    with hardware.select(hardware.chip(chip)):
        for batch in (1, 3, 150) if n < 2000 else (1, 19):
            result, _, exact = forward(real(batch, n), radices, programs=programs)
            assert max(map(error, result, exact)) <= 2e-6  # no row is another one's
            result, _, exact = backward(spectra(batch, radices), radices, programs=programs)
            assert max(map(error, result, exact)) <= 2e-6


@sweeps.some(
    "run, radices, chip",
    itertools.product(
        [dry, dry_back],
        [(34, 34), (128, 128), (36, 4, 40), (128, 16, 128)],
        ["trn1", "trn2", "trn3"],
    ),
    [
        (dry, (128, 128), "trn1"),
        (dry, (128, 16, 128), "trn2"),
        (dry_back, (36, 4, 40), "trn1"),
        (dry_back, (34, 34), "trn2"),
    ],
).with_args(ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_launch_has_few_instructions(monkeypatch, chip, radices, run):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", launch.LAUNCH_INSTRUCTIONS)
    batch = hardware.HBM_TENSOR_BYTES // 4 // (math.prod(radices) + 2)
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        assert fits(run(radices, batch))


@BOTH_WAYS
@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
def test_two_programs_take_less_time(chip, run):
    # A program has half of the transforms, loads all tables, and its first and last bundle overlap
    # no other.
    limits = {(128, 128): 0.72, (128, 4, 128): 0.8}
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        for radices, limit in limits.items():
            batch = 2**20 // math.prod(radices)
            assert run(radices, batch, 2).total_ns <= limit * run(radices, batch).total_ns


@CHIPS
@pytest.mark.parametrize("radices", [(34, 38), (36, 4, 40)], ids=str)
def test_rows_are_independent(chip, radices):
    n = math.prod(radices)
    x, z = real(9, n), spectra(9, radices).astype(np.complex64)
    exact = n * np.fft.irfft(z.astype(complex), n)
    parts = np.stack([z.real, z.imag], 1)
    with hardware.select(hardware.chip(chip)), np.errstate(all="ignore"):
        check_rows_are_independent(
            lambda rows: forward(rows, radices)[0], x, np.fft.rfft(x.astype(float)), 2e-6
        )
        check_rows_are_independent(
            lambda rows: backward(rows[:, 0] + 1j * rows[:, 1], radices)[0], parts, exact, 2e-6
        )


def test_dry_run_is_the_real_timeline():
    radices = (36, 4, 40)
    timeline = forward(real(30, math.prod(radices)), radices)[1]
    assert dry(radices, 30).total_ns == timeline.total_ns
    timeline = backward(spectra(30, radices), radices)[1]
    assert dry_back(radices, 30).total_ns == timeline.total_ns


TIMED = [
    ((64, 128), 128, (0.69, 0.73)),
    ((128, 128), 64, (0.5, 0.55)),
    ((128, 4, 128), 16, (0.7, 0.79)),
    ((128, 8, 128), 1, (0.78, 0.75)),
    ((128, 16, 128), 1, (0.76, 0.73)),
]


@sweeps.some(
    "radices, batch, shares, chip",
    [(*case, chip) for case in TIMED for chip in ("trn1", "trn2", "trn3")],
    [(*case, ("trn1", "trn2")[place % 2]) for place, case in enumerate(TIMED)],
).with_args(ids=str)
def test_modelled_time_is_less_than_that_of_a_complex_transform(chip, radices, batch, shares):
    pytest.importorskip("torch")
    from trnfft.planner import cost
    from trnfft.planner.algorithms import FOUR_STEP

    core = hardware.chip(chip)
    with hardware.select(core), nki_sim.strict():
        recipes = FOUR_STEP.recipes(math.prod(radices))
        best = min(cost.timeline(recipe, batch, core).total_ns for recipe in recipes)
        assert dry(radices, batch).total_ns <= shares[0] * best
        assert dry_back(radices, batch).total_ns <= shares[1] * best


LONGEST = [(128, 64, 128), (128, 32, 128), (64, 64, 128), (34, 64, 34), (128, 2, 34)]


@sweeps.some(
    "radices, chip",
    itertools.product(LONGEST, ["trn1", "trn2", "trn3"]),
    [(LONGEST[0], "trn1"), (LONGEST[1], "trn3"), (LONGEST[2], "trn2"), (LONGEST[4], "trn2")],
).with_args(ids=str)
def test_the_longest_transforms_fit(chip, radices):
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        for batch in (1, 3, 20):
            assert fits(dry(radices, batch))
            if math.prod(radices) <= MAX_INVERSE_LENGTH:
                assert fits(dry_back(radices, batch))


@pytest.mark.parametrize("make", [real_four_step_tables, inverse_real_four_step_tables])
@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (8192, (64, 64), r"radices \(64, 64\): there must be two or three"),
        (128, (128,), "two or three, with the product n = 128"),
        (63 * 64, (63, 64), "the first must be even, 4 to 128"),
        (130 * 64, (130, 64), "the first must be even, 4 to 128"),
        (2 * 64, (2, 64), "the first must be even, 4 to 128"),
        (64 * 65, (64, 65), "the last must be even, 34 to 128"),
        (64 * 32, (64, 32), "the last must be even, 34 to 128"),
        (64 * 65 * 64, (64, 65, 64), "the middle one must be 1 to 64"),
        (4 * 2 * 64, (4, 2, 64), "the first or the middle one is too small"),
    ],
)
def test_bad_plans_are_refused(make, n, radices, message):
    with pytest.raises(ValueError, match=message):
        make(n, radices)


def test_plans_that_only_the_inverse_refuses():
    with pytest.raises(ValueError, match=r"radices \(32, 64\): the first must be 34 to 128"):
        inverse_real_four_step_tables(2048, (32, 64))
    with pytest.raises(ValueError, match="accepts lengths up to 524288"):
        inverse_real_four_step_tables(2**20, (128, 64, 128))
