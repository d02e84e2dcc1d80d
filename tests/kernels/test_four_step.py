"""The four-step kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for two or more radices, any batch and chip, also with streamed
tables and in loops. Transforms must not mix, and data must travel over HBM once. Modelled times are
compared, too.
"""

from __future__ import annotations

import itertools
import math

import pytest

from nki_kernels import launch
from nki_kernels.fft import four_step as kernel_file
from nki_kernels.fft.four_step_tables import four_step_tables
from nki_sim import hardware
from tests import sweeps

from .launched import ON_CORES, ON_LATER_CORES, Launched
from .samples import normal

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
    (2, 2, 2),
    (16, 16, 16),
    (32, 32, 40),
    (3, 4, 5, 6, 7),
    (2, 3, 3, 8, 2),  # of which two products of a stage share a matrix
    (12, 100, 3),
]


def floors(shape, radices, **where):
    """Modelled time of a batch over its DMA floor."""
    launched = Launched("four_step", **where)
    floor = hardware.chip(launched.chip).dma_floor_ns(math.prod(shape))
    return launched.dry_run(shape, radices).total_ns / floor


@sweeps.some("radices", PLANS, [each for each in PLANS if each != (32, 4, 4, 32)]).with_args(
    ids=str
)
def test_radices_and_batches_both_ways(radices):
    n = math.prod(radices)
    for batch, inverse in ((1, False), (2, True), (5, False))[: 3 if n < 2000 else 2]:
        Launched("four_step").check(normal(batch, n), radices, inverse)


BLOCKS = [(8, 4, 8), (16, 2, 16), (10, 6, 30), (64, 30)]


@sweeps.some(
    "radices, batch",
    itertools.product(BLOCKS, [7, 33, 130]),
    [(BLOCKS[0], 130), *((each, 33) for each in BLOCKS), (BLOCKS[3], 7)],
).with_args(ids=str)
def test_blocks_of_several_transforms(radices, batch):
    Launched("four_step").check(normal(batch, math.prod(radices)), radices)


@pytest.mark.parametrize(
    "radices",
    [(64, 8, 128), *map(sweeps.whole, [(90, 100, 20), (31, 55, 5, 30), (128, 64, 128)])],
    ids=str,
)
def test_long_transforms(radices):
    Launched("four_step").check(normal(1, math.prod(radices)), radices)


def test_the_longest_transform_reads_and_writes_once():
    timeline = Launched("four_step").dry_run((1, 2**20), (128, 64, 128))
    assert timeline.hbm_bytes <= 2.05 * 16 * 2**20  # its tables are streamed, as much as its data
    assert timeline.total_ns <= 3.8 * hardware.TRN1.dma_floor_ns(2**20)


@pytest.mark.weekly
@sweeps.some(
    "radices, chip, cores",
    [
        (radices, *launch)
        for radices in ((16, 8, 20), (20, 25, 3, 11), (10, 70, 12))
        for launch in (("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 2))
    ],
    [((16, 8, 20), "trn1", 1), ((20, 25, 3, 11), "trn1", 1), ((10, 70, 12), "trn2", 2)],
).with_args(ids=str)
def test_streamed_tables_in_a_loop(monkeypatch, chip, cores, radices):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 100)
    launched, shape = (
        Launched("four_step", chip, cores),
        (7 if len(radices) == 4 else 21, math.prod(radices)),
    )
    resident = launched.dry_run(shape, radices).hbm_bytes
    monkeypatch.setattr(kernel_file, "SMALLEST_SBUF", 0)
    assert launched.check(normal(*shape), radices).hbm_bytes > resident


@pytest.mark.parametrize("chip", ["trn1", *map(sweeps.whole, ["trn2", "trn3"])])
def test_the_longest_state_fits_every_chip(chip):
    radices = (100, 92, 111)
    timeline = Launched("four_step", chip).dry_run((3, math.prod(radices)), radices)
    assert timeline.sbuf_peak_bytes <= 192 << 10


@ON_LATER_CORES
@pytest.mark.parametrize("radices", [(64, 3, 50), (7, 16), (70, 20), (5, 4, 3, 40)], ids=str)
def test_other_chips_and_two_cores_compute_the_same(chip, cores, radices):
    for batch in (1, 5):
        Launched("four_step", chip, cores).check(normal(batch, math.prod(radices)), radices)


@ON_CORES
@pytest.mark.parametrize(
    ("radices", "batch"),
    [
        ((16, 8, 20), 40),
        sweeps.whole((16, 8, 20), 67),
        sweeps.whole((70, 12), 40),
        ((70, 12), 67),
    ],
    ids=str,
)
def test_loops_on_the_device_and_what_they_leave(monkeypatch, chip, cores, batch, radices):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 100)
    x = normal(batch, math.prod(radices))
    timeline = Launched("four_step", chip, cores).check(x, radices)
    assert timeline.instructions > len(timeline.events)


@pytest.mark.weekly
@sweeps.some(
    "radices, chip, cores",
    [
        (radices, *launch)
        for radices in ((16, 3, 20), (32, 40), (70, 3, 9), (32, 4, 33))
        for launch in (("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 2))
    ],
    [
        ((16, 3, 20), "trn1", 1),
        ((32, 40), "trn2", 2),
        ((70, 3, 9), "trn1", 1),
    ],
).with_args(ids=str)
def test_transforms_are_independent(chip, cores, radices):
    Launched("four_step", chip, cores).check_independent(normal(5, math.prod(radices)), radices)


@pytest.mark.parametrize(
    "radices", [sweeps.whole((128, 128)), (32, 16, 128), sweeps.whole((64, 64, 128))], ids=str
)
def test_instructions_of_the_batch_that_fills_hbm(radices):
    n = math.prod(radices)
    batch = min(2**29 // n, 2**12)  # a larger one has as many instructions, in more iterations
    timeline = Launched("four_step").dry_run((batch, n), radices)
    assert len(timeline.events) <= launch.LAUNCH_INSTRUCTIONS


def test_modelled_times():
    limits = {
        (64, 128): 2.9,  # a copy for each row, which costs the DMA engines more than its bytes
        (128, 128): 2.1,
        (32, 8, 128): 1.9,
        (32, 16, 128): 2.0,
        (50, 8, 100): 3.2,
    }
    for radices, limit in limits.items():
        n = math.prod(radices)
        assert floors((2**20 // n, n), radices) <= limit
    for radices, limit in {(16, 64): 8_000, (64, 64): 9_000, (64, 8, 128): 28_000}.items():
        timeline = Launched("four_step").dry_run((1, math.prod(radices)), radices)
        assert timeline.total_ns <= limit


@sweeps.some(
    "radices, chip",
    itertools.product([(128, 128), (64, 8, 128)], ["trn2", "trn3"]),
    [((64, 8, 128), "trn2")],
).with_args(ids=str)
def test_two_cores_halve_the_time_of_a_batch(radices, chip):
    n = math.prod(radices)
    one, two = (floors((2**21 // n, n), radices, chip=chip, cores=cores) for cores in (1, 2))
    assert two <= 0.55 * one


@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (12, (3, 5), "product n = 12"),
        (12, (12,), "two or more"),
        (258, (2, 129), "each must be 2 to 128"),
        (2**21, (128, 128, 128), "lengths up to 1048576"),
    ],
)
def test_bad_plans_are_refused(n, radices, message):
    with pytest.raises(ValueError, match=message):
        four_step_tables(n, radices)
