"""The long Bluestein kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any length, radices, batch and chip, also in loops and near the
largest float. Transforms must not mix, and long batches must need few instructions.
"""

from __future__ import annotations

import pytest

from nki_kernels import launch
from nki_kernels.fft.long_bluestein import long_bluestein_tables
from tests import sweeps

from .launched import ON_CORES, ON_FIRST_CORES, ON_LATER_CORES, Launched
from .samples import large_rows, normal


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
    for batch, inverse in ((1, False), (2, True), (4, False)):
        Launched("long_bluestein").check(normal(batch, n), radices, inverse)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize(("n", "radices"), [(131, (128, 3)), (4099, (80, 2, 52))])
def test_no_number_on_the_way_overflows(n, radices, inverse):
    for row in large_rows(n):
        Launched("long_bluestein").check(row[None] + 0j, radices, inverse)


def test_a_long_prime():
    Launched("long_bluestein").check(normal(1, 65537), (128, 9, 114))


@ON_LATER_CORES
def test_other_chips_and_two_cores_compute_the_same(chip, cores):
    for batch in (1, 3):
        Launched("long_bluestein", chip, cores).check(normal(batch, 997), (70, 29))


@ON_CORES
@pytest.mark.parametrize(("n", "radices"), [(131, (128, 3)), (1009, (70, 3, 10))])
def test_loops_on_the_device_and_what_they_leave(monkeypatch, chip, cores, n, radices):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 100)
    timeline = Launched("long_bluestein", chip, cores).check(normal(17, n), radices)
    assert timeline.instructions > len(timeline.events)


@ON_FIRST_CORES
def test_transforms_are_independent(chip, cores):
    Launched("long_bluestein", chip, cores).check_independent(normal(5, 131), (128, 3))


@pytest.mark.weekly
@pytest.mark.parametrize("chip", ["trn1", sweeps.whole("trn2"), sweeps.whole("trn3")])
@pytest.mark.parametrize(
    ("n", "radices"), [(65537, (128, 16, 65)), sweeps.whole(262139, (128, 32, 128))]
)
def test_long_batches_keep_the_rules_and_are_loops(chip, n, radices):
    timeline = Launched("long_bluestein", chip).dry_run((100, n), radices)
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
