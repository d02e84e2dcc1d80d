"""The kernels that spread each transform over all partitions, compared with NumPy in float64.

The tests protect right numbers for any radices and batch of the four-step and the split four-step
kernel and of Bluestein's algorithm by either of them, also with streamed tables. Data must travel
over HBM once, and the longest state must fit.
"""

from __future__ import annotations

import itertools
import math

import pytest

from nki_kernels.base import launch
from nki_kernels.fft import four_step as kernel_file
from tests import sweeps

from .launched import Launched
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


SPLIT = [(2, 64, 64), (9, 16, 27), (16, 16, 16), (64, 32, 64), (65, 6, 12), (128, 8, 16)]
CASES = [
    *(("four_step", each, 5 if math.prod(each) < 2000 else None) for each in PLANS),
    *(("split_four_step", each, 3 if math.prod(each) < 10_000 else None) for each in SPLIT),
]


@sweeps.some(
    "algorithm, radices, last", CASES, [each for each in CASES if each[1] != (32, 4, 4, 32)]
).with_args(ids=str)
def test_radices_and_batches_both_ways(algorithm, radices, last):
    n = math.prod(radices)
    for batch, inverse in ((1, False), (2, True), (last, False)):
        if batch is not None:
            Launched(algorithm).check(normal(batch, n), radices, inverse)


LENGTHS = [
    (1, (65, 2)),
    (7, (65, 2)),
    (65, (65, 2)),  # the data fill exactly one row
    (67, (67, 2)),
    (131, (128, 3)),
    (509, (70, 15)),
    (1009, (70, 3, 10)),
    (4099, (100, 82)),
    (4099, (80, 2, 52)),
]
OF_SPLIT = [
    (1, (65, 3, 20)),
    (37, (65, 6, 12)),
    (1009, (66, 6, 12)),
    (2304, (128, 4, 9)),  # the data fill exactly 64 rows
    (4099, (128, 5, 13)),  # one piece
    (4099, (67, 4, 70)),
]


@pytest.mark.parametrize(("n", "radices"), LENGTHS)
def test_lengths_and_batches_of_long_bluestein(n, radices):
    for batch, inverse in ((1, False), (2, True), (4, False)):
        Launched("long_bluestein").check(normal(batch, n), radices, inverse)


# By turns in one direction or the other.
@pytest.mark.weekly
@sweeps.some(
    "n, radices, batch, inverse",
    [(*case, batch, inverse) for case in OF_SPLIT for batch in (1, 3) for inverse in (False, True)],
    [
        (*case, batch, place % 2 == 1)
        for place, (case, batch) in enumerate(zip(OF_SPLIT, (3, 3, 1, 1, 1, 3), strict=True))
    ],
).with_args(ids=str)
def test_lengths_and_batches_of_split_bluestein(n, radices, batch, inverse):
    Launched("split_bluestein").check(normal(batch, n), radices, inverse)


BLOCKS = [(8, 4, 8), (16, 2, 16), (10, 6, 30), (64, 30)]


@sweeps.some(
    "radices, batch",
    itertools.product(BLOCKS, [7, 33, 130]),
    [(BLOCKS[0], 130), *((each, 33) for each in BLOCKS), (BLOCKS[3], 7)],
).with_args(ids=str)
def test_blocks_of_several_transforms(radices, batch):
    Launched("four_step").check(normal(batch, math.prod(radices)), radices)


@pytest.mark.parametrize(
    ("algorithm", "chip", "n", "radices"),
    [
        ("four_step", "trn1", 65536, (64, 8, 128)),
        sweeps.whole("four_step", "trn1", 180_000, (90, 100, 20)),
        sweeps.whole("four_step", "trn1", 255_750, (31, 55, 5, 30)),
        sweeps.whole("four_step", "trn1", 2**20, (128, 64, 128)),
        ("long_bluestein", "trn1", 65537, (128, 9, 114)),
        ("split_bluestein", "trn1", 65537, (66, 24, 84)),  # two pieces
        sweeps.whole("split_bluestein", "trn2", 65537, (66, 24, 84)),
        sweeps.whole("split_bluestein", "trn1", 98299, (72, 32, 96)),  # three pieces
        ("split_bluestein", "trn2", 98299, (72, 32, 96)),
        pytest.param("split_four_step", "trn1", 2**22, (128, 64, 4, 128), marks=pytest.mark.slow),
        pytest.param("split_bluestein", "trn1", 1048573, (128,) * 3, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_long_transforms(algorithm, chip, n, radices):
    Launched(algorithm, chip).check(normal(1, n), radices)


def test_the_longest_transform_reads_and_writes_once():
    timeline = Launched("four_step").dry_run((1, 2**20), (128, 64, 128))
    assert timeline.hbm_bytes <= 2.05 * 16 * 2**20  # its tables are streamed, as much as its data


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
