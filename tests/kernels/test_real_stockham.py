"""The real Stockham kernels, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any two radices, batch and chip, in both directions, also in
loops. Rows must not mix. The kernels must need about half the time of a complex transform, and few
instructions.
"""

from __future__ import annotations

import itertools
import math

import pytest

from nki_kernels import launch
from nki_kernels.real.real_stockham_tables import (
    inverse_real_stockham_tables,
    real_stockham_tables,
)
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps
from tests.tolerances import near, transforms

from .launched import Launched
from .real_launches import BothWays
from .samples import fits, normal, real
from .turns import on_chips

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
    (127, 3),
    (32, 32),
    (43, 22),
    (65, 33),
    (128, 64),
]


def on(chip="trn1", cores=1):
    return BothWays("real_stockham", chip, cores)


@sweeps.some("radices", SMALL + LARGE, [*FEW, (4, 5), (15, 4), *LARGE_FEW]).with_args(ids=str)
def test_radices_and_batches_both_ways(radices):
    n = math.prod(radices)
    batches = (2, 300) if n < 300 else (130,) if n < 4000 else (3,)
    for batch in batches:
        on().check(batch, radices)


@sweeps.some(
    "radices", [*SMALL, (16, 20), (43, 22), (50, 60)], [(2, 2), (3, 8), (5, 2), (16, 20)]
).with_args(ids=str)
def test_the_other_sign_and_a_scale(radices):
    there, back = on().kernels
    n = math.prod(radices)
    there.check(real(3, n), radices, inverse=True, scale=1 / n)
    back.check(normal(3, n // 2 + 1), radices, inverse=False, scale=-0.3)


@sweeps.some(
    "radices", [(2, 2), (5, 3), (8, 15), (15, 8), (32, 30)], [(2, 2), (5, 3), (8, 15)]
).with_args(ids=str)
def test_several_transforms_a_partition(radices):
    for batch in (257, 1500):
        on().check(batch, radices)


@pytest.mark.parametrize("radices", [(9, 4), (9, 5)], ids=str)
def test_the_inverse_returns_the_input(radices):
    n = math.prod(radices)
    x = real(5, n)
    there, back = on().kernels
    spectra, _, _ = there.transform(x, radices)
    near(back.transform(spectra, radices)[0], x, transforms(n, 2))


@pytest.mark.parametrize("radices", [(2, 2), (2, 5), (5, 2), (4, 6), (7, 9), (64, 3)], ids=str)
def test_imaginary_parts_that_real_data_has_not_are_ignored(radices):
    on().check_ignores(radices)


@on_chips("radices", [(20, 24), (9, 31), (2, 3), (16, 61)], ("trn2", "trn3"))
def test_later_chips_compute_the_same(strict_chip, radices):
    for batch in (20, 130) if math.prod(radices) < 500 else (130,):
        on(strict_chip).check(batch, radices)


@pytest.mark.weekly
@sweeps.some(
    "radices, chip, cores",
    [
        (radices, *launch)
        for radices in ((3, 5), (16, 20), (50, 60))
        for launch in (("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 2))
    ],
    [((3, 5), "trn1", 1), ((16, 20), "trn2", 2)],
).with_args(ids=str)
def test_loops_on_the_device_and_shares_of_programs(monkeypatch, chip, cores, radices):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 500)
    n = math.prod(radices)
    block = 128 * max(1, 1024 // n)
    for batch in (1, 3, 2 * block + 1) if n < 100 else (1, 6 * block + 130):
        on(chip, cores).check(batch, radices)


@pytest.mark.weekly
@sweeps.some(
    "radices, chip",
    itertools.product([(8, 8), (16, 64), (128, 64)], ["trn1", "trn2", "trn3"]),
    [((8, 8), "trn2")],
).with_args(ids=str)
def test_a_launch_has_few_instructions(monkeypatch, chip, radices):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", launch.LAUNCH_INSTRUCTIONS)
    batch = hardware.HBM_TENSOR_BYTES // 4 // (math.prod(radices) + 2)
    assert all(map(fits, on(chip).dry_runs(batch, radices)))


# Two blocks a program of the longer ones: both load 2 MB of tables, and wait for a block.
@sweeps.some(
    "radices, limit, chip",
    [(*case, chip) for case in (((16, 20), 0.55), ((64, 64), 0.65)) for chip in ("trn2", "trn3")],
    [((16, 20), 0.55, "trn2")],
).with_args(ids=str)
def test_two_programs_take_little_over_half_the_time(radices, limit, chip):
    n = math.prod(radices)
    one, two = (on(chip, cores).dry_times(2**21 // n, radices) for cores in (1, 2))
    assert two[0] <= limit * one[0] and two[1] <= limit * one[1]


@pytest.mark.weekly
@on_chips("radices, batch", [((9, 31), 130), ((16, 20), 300), ((3, 5), 5)])
def test_rows_are_independent(strict_chip, radices, batch):
    on(strict_chip).check_independent(batch, radices)


def test_dry_run_is_the_real_timeline():
    given = 300, (16, 20)
    assert on().dry_times(*given) == on().times(*given)


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
    [((16, 32), 0.75, 0.67, "trn1"), ((20, 50), 0.55, 0.63, "trn2")],
).with_args(ids=str)
def test_modelled_time_is_little_over_half_of_a_complex_transforms(chip, radices, on_v2, later):
    n = math.prod(radices)
    batch = 2 ** round(math.log2(2**20 / n))
    # On v2 rows are set aside before transposes.
    # At 4096 all rows are two blocks, whose way in and out overlaps nothing.
    share = on_v2 if hardware.chip(chip).generation == 2 else later
    limit = share * Launched("stockham", chip).dry_run((batch, n), radices).total_ns
    assert max(on(chip).dry_times(batch, radices)) <= limit


@on_chips("radices", [(128, 64), (127, 64), (2, 64)], whole=[(128, 63), (128, 2)])
def test_the_longest_transforms_fit(strict_chip, radices):
    assert all(map(fits, on(strict_chip).dry_runs(300, radices)))


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
