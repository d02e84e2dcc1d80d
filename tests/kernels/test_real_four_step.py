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

from nki_kernels import launch
from nki_kernels.real.real_four_step_tables import (
    MAX_INVERSE_LENGTH,
    inverse_real_four_step_tables,
    real_four_step_tables,
)
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .launched import Launched
from .real_launches import BothWays
from .samples import fits, normal, real
from .turns import on_chips

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


def on(chip="trn1", cores=1):
    return BothWays("real_four_step", chip, cores)


def few_and_many(radices):
    return (3,) if math.prod(radices) > 10000 else (1, 37)


@on_chips("radices", RADICES, ("trn1", "trn2"), also=[("trn2", (4, 34)), ("trn2", (4, 9, 34))])
def test_radices_and_batches(strict_chip, radices):
    there, _ = on(strict_chip).kernels
    for batch in few_and_many(radices):
        there.check(real(batch, math.prod(radices)), radices)


@on_chips("radices", TO_REAL, ("trn1", "trn2"))
def test_radices_and_batches_of_the_inverse(strict_chip, radices):
    _, back = on(strict_chip).kernels
    for batch in few_and_many(radices):
        back.check(normal(batch, math.prod(radices) // 2 + 1), radices)


@pytest.mark.parametrize("radices", [(34, 38), (36, 4, 40)], ids=str)
def test_the_other_sign_and_a_scale(radices):
    there, back = on().kernels
    n = math.prod(radices)
    there.check(real(3, n), radices, inverse=True, scale=-0.3)
    back.check(normal(3, n // 2 + 1), radices, inverse=False, scale=-0.3)


@pytest.mark.parametrize("radices", [(34, 38), (36, 4, 40)], ids=str)
def test_what_real_data_has_no_imaginary_part_of(radices):
    n = math.prod(radices)
    result, _, _ = on().kernels[0].transform(real(3, n), radices)
    np.testing.assert_array_equal(result[:, [0, -1]].imag, 0)
    on().check_ignores(radices)


@pytest.mark.weekly
@sweeps.some(
    "radices, chip, cores",
    [
        (radices, *launch)
        for radices in ((34, 34), (36, 4, 40), (34, 33, 50))
        for launch in (("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 2))
    ],
    [((34, 34), "trn1", 1), ((36, 4, 40), "trn2", 2), ((36, 4, 40), "trn1", 1)],
).with_args(ids=str)
def test_loops_on_the_device_and_shares_of_programs(monkeypatch, chip, cores, radices):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 300)
    n = math.prod(radices)
    for batch in (1, 3, 150) if n < 2000 else (1, 19):
        on(chip, cores).check(batch, radices)


@pytest.mark.weekly
@sweeps.some(
    "place, radices, chip",
    itertools.product(
        range(2), [(34, 34), (128, 128), (36, 4, 40), (128, 16, 128)], ["trn1", "trn2", "trn3"]
    ),
    [(0, (36, 4, 40), "trn1"), (1, (34, 34), "trn2")],
).with_args(ids=str)
def test_a_launch_has_few_instructions(monkeypatch, chip, radices, place):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", launch.LAUNCH_INSTRUCTIONS)
    n = math.prod(radices)
    batch = hardware.HBM_TENSOR_BYTES // 4 // (n + 2)
    kernel = on(chip).kernels[place]
    assert fits(kernel.dry_run((batch, n), radices))


# A program has half of the transforms, loads all tables, and its first and last bundle overlap no
# other.
@sweeps.some(
    "radices, limit, chip",
    [
        (*case, chip)
        for case in (((128, 128), 0.72), ((128, 4, 128), 0.8))
        for chip in ("trn2", "trn3")
    ],
    [((128, 128), 0.72, "trn2")],
).with_args(ids=str)
def test_two_programs_take_less_time(chip, radices, limit):
    n = math.prod(radices)
    one, two = (on(chip, cores).dry_times(2**20 // n, radices) for cores in (1, 2))
    assert two[0] <= limit * one[0] and two[1] <= limit * one[1]


@pytest.mark.weekly
@on_chips("radices", [(36, 4, 40), (34, 38)])
def test_rows_are_independent(strict_chip, radices):
    on(strict_chip).check_independent(9, radices)


def test_dry_run_is_the_real_timeline():
    given = 5, (36, 4, 40)
    assert on().dry_times(*given) == on().times(*given)


TIMED = [
    ((64, 128), 128, (0.69, 0.81)),
    ((128, 128), 64, (0.54, 0.58)),
    ((128, 4, 128), 16, (0.7, 0.79)),
    ((128, 8, 128), 1, (0.78, 0.75)),
    ((128, 16, 128), 1, (0.76, 0.73)),
]


@sweeps.some(
    "radices, batch, shares, chip",
    [(*case, chip) for case in TIMED for chip in ("trn1", "trn2", "trn3")],
    [(*case, chip) for case, chip in zip(TIMED[1:4:2], ("trn2", "trn1"), strict=True)],
).with_args(ids=str)
def test_modelled_time_is_less_than_that_of_a_complex_transform(chip, radices, batch, shares):
    n = math.prod(radices)
    best = Launched("four_step", chip).dry_run((batch, n), radices).total_ns
    there, back = on(chip).dry_times(batch, radices)
    assert there <= shares[0] * best and back <= shares[1] * best


LONGEST = [(128, 64, 128), (128, 32, 128), (34, 64, 34), (128, 2, 34)]


@on_chips("radices", LONGEST, whole=[(64, 64, 128)])
def test_the_longest_transforms_fit(strict_chip, radices):
    n = math.prod(radices)
    there, back = on(strict_chip).kernels
    assert fits(there.dry_run((3, n), radices))
    if n <= MAX_INVERSE_LENGTH:
        assert fits(back.dry_run((3, n), radices))


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
