"""The split four-step kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any radices, batch and chip, also in loops and shared by two
cores. Transforms must not mix. The kernel must need few instructions, and times near the floor of
three passes.
"""

from __future__ import annotations

import math

import pytest

from nki_kernels import launch
from nki_kernels.fft import split_four_step as split_kernel
from nki_kernels.fft.split_four_step import split_four_step_tables
from nki_sim import hardware
from tests import sweeps

from .launched import ON_FIRST_CORES, ON_LATER_CORES, Launched
from .samples import normal


@pytest.mark.parametrize(
    "radices",
    [(2, 64, 64), (9, 16, 27), (16, 16, 16), (64, 32, 64), (65, 6, 12), (128, 8, 16)],
    ids=str,
)
def test_radices_and_batches_both_ways(radices):
    n = math.prod(radices)
    for batch, inverse in ((1, False), (2, True), (3, False))[: 3 if n < 10_000 else 2]:
        Launched("split_four_step").check(normal(batch, n), radices, inverse)


@ON_LATER_CORES
@pytest.mark.parametrize("radices", [(2, 16, 80), (70, 3, 30)], ids=str)
def test_other_chips_and_two_cores_compute_the_same(chip, cores, radices):
    for batch in (1, 3) if cores == 2 else (2,):  # two cores share the last of an odd batch
        x = normal(batch, math.prod(radices))
        Launched("split_four_step", chip, cores).check(x, radices)


@sweeps.some(
    "radices, chip, cores",
    [
        (radices, *where)
        for radices in ((33, 16, 65), (128, 40, 64))
        for where in (("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 2))
    ],
    [((33, 16, 65), "trn1", 1), ((128, 40, 64), "trn2", 2)],
).with_args(ids=str)
def test_passes_that_are_loops_on_the_device(monkeypatch, chip, cores, radices):
    monkeypatch.setattr(split_kernel, "_UNROLLED", 0)
    monkeypatch.setattr(split_kernel, "_PIECE", 130)
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 64)
    for batch in (1, 2) if math.prod(radices) < 2**16 else (1,):
        x = normal(batch, math.prod(radices))
        timeline = Launched("split_four_step", chip, cores).check(x, radices)
        assert timeline.instructions > len(timeline.events)


@ON_FIRST_CORES
def test_transforms_are_independent(chip, cores):
    radices = (9, 6, 60)
    launched = Launched("split_four_step", chip, cores)
    launched.check_independent(normal(3, math.prod(radices)), radices)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("chip", "radices"),
    [
        ("trn1", (128, 64, 128)),
        *(sweeps.whole(chip, (128, 128, 128)) for chip in hardware.NAMES),
        sweeps.whole("trn1", (128, 64, 32, 128)),
        sweeps.whole("trn1", (128, 64, 64, 128)),
    ],
    ids=str,
)
def test_long_batches_keep_the_rules_and_are_a_loop(chip, radices):
    n = math.prod(radices)
    timeline = Launched("split_four_step", chip).dry_run((2**29 // n, n), radices)
    assert len(timeline.events) <= launch.LAUNCH_INSTRUCTIONS
    assert timeline.instructions > 30 * len(timeline.events)


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize(
    ("radices", "batch", "limit"),
    [((128, 64, 128), 2, 0.6), ((128, 64, 128), 1, 0.64), sweeps.whole((128, 128, 128), 1, 0.6)],
)
def test_two_cores_share_a_batch_and_one_transform(chip, radices, batch, limit):
    shape = (batch, math.prod(radices))
    one, two = (
        Launched("split_four_step", chip, cores).dry_run(shape, radices).total_ns
        for cores in (1, 2)
    )
    assert two <= limit * one


@pytest.mark.parametrize(
    ("chip", "floors"), [("trn1", 5.0), ("trn2", 5.4), sweeps.whole("trn3", 6.7)]
)
def test_three_passes_are_near_their_floor(chip, floors):
    n, radices = 2**21, (128, 128, 128)
    timeline = Launched("split_four_step", chip).dry_run((1, n), radices)
    assert timeline.total_ns <= floors * hardware.chip(chip).dma_floor_ns(n)


@pytest.mark.slow  # 2^22 numbers in the simulator
def test_two_to_the_22():
    Launched("split_four_step").check(normal(1, 2**22), (128, 64, 4, 128))


@pytest.mark.parametrize("radices", [(130, 4, 4), (40, 52), (2, 3, 7)])
def test_bad_plans_are_refused(radices):
    with pytest.raises(ValueError, match="three or more, with the product n = 2080, and the first"):
        split_four_step_tables(2080, radices)


@pytest.mark.parametrize("radices", [(2, 4, 4), (13, 13, 13), (2, 3, 31)])
def test_plans_that_do_not_fill_the_tensor_engine_are_refused(radices):
    with pytest.raises(ValueError, match="use another first radix"):
        split_four_step_tables(math.prod(radices), radices)
