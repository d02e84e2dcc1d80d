"""The Stockham kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any radices, precision and batch, also with streamed tables and
with slabs that share row tiles. A large batch must take little longer than its parts.
"""

from __future__ import annotations

import itertools
import math

import pytest

from nki_kernels.fft import row_transforms
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import relative_error

from .launched import BF16, REFINED, Launched
from .samples import normal

# The seed's plans, wide plans, odd radices, radices above 64, and one stage alone.
PLANS = [
    (2, 2),
    (4, 4, 4, 4),
    (8, 8, 8),
    (8, 8, 4, 4),
    (8, 8, 8, 4),
    (4,) * 6,
    (8,) * 4,
    (64, 64),
    (32, 125),
    (27, 81),
    (3, 5, 7, 11),
    (2, 127),
    (128, 2),
    (13, 64),
    (100,),
    (2,),
    (5, 5, 5, 5, 5),
]

# Whose tables do not all stay in SBUF; beyond N = 4096 the input comes in two parts.
STREAMED = [
    (2,) * 12,
    (32, 128),
    (70, 70),
    (8, 8, 8, 4, 4),
    (32, 16, 16),
    (64, 128),
    (128, 64),
    (80, 128),
]

STOCKHAM = Launched("stockham")

LONG = [(8, 8, 8, 4), (4,) * 6, (8,) * 4, (5,) * 5]  # not by default
COARSE = [(2, 2), (3, 5, 7, 11), (2, 127), (128, 2), (100,), (2,), (8, 8, 4, 4)]


@pytest.mark.weekly
@sweeps.some(
    "radices, options",
    itertools.product(PLANS + STREAMED, [{}, BF16, REFINED]),
    [
        *((each, {}) for each in [*PLANS, (32, 128), (70, 70)] if each not in LONG),
        # By turns with one precision or the other.
        *((each, (BF16, REFINED)[place % 2]) for place, each in enumerate(COARSE)),
        ((128, 2), REFINED),
        ((2, 127), BF16),
        ((128, 64), BF16),
        ((128, 64), REFINED),
    ],
).with_args(ids=str)
def test_radices_and_batches_both_ways(radices, options):
    n = math.prod(radices)
    many = 130 if n < 1000 or (radices == (70, 70) and not options) else 1
    for batch, inverse in ((2, True), (many, False)):
        STOCKHAM.check(normal(batch, n), radices, inverse, **options)


@sweeps.some(
    "radices, batch, options",
    [
        (*case, options)
        for case in (((4, 8, 16), 300), ((3, 90), 260), ((2, 65), 2))
        for options in ({}, BF16, REFINED)
    ],
    [((4, 8, 16), 300, {}), ((3, 90), 260, BF16), ((3, 90), 260, REFINED), ((2, 65), 2, {})],
).with_args(ids=str)
def test_streamed_tables_give_the_same_as_resident_ones(monkeypatch, radices, batch, options):
    x = normal(batch, math.prod(radices))
    before = STOCKHAM.check(x, radices, **options)
    monkeypatch.setattr(row_transforms, "SMALLEST_SBUF", 0)
    after = STOCKHAM.check(x, radices, **options)
    assert after.sbuf_peak_bytes != before.sbuf_peak_bytes


# Every even length in two stages, and several transforms a partition.
MORE = [((2, n // 2), 5) for n in range(4, 130, 2)] + [((16, 16), 1500), ((5, 6, 7), 700)]
MORE_FEW = [((2, n // 2), 5) for n in (*range(4, 34, 2), 60, 62, 64, 66, 68, 96, 126, 128)]


@sweeps.some("radices, batch", MORE, MORE_FEW + MORE[-2:]).with_args(ids=str)
def test_two_stages_and_several_transforms_a_partition(radices, batch):
    STOCKHAM.check(normal(batch, math.prod(radices)), radices)


# Halves of exactly 64 rows, others with zeros behind them, in the first, a middle and the last
# stage; radices up to 32 whose stages have an odd number of K, so that they take the whole array.
ROW_TILES = [(32, 32), (8, 30), (24, 16), (16, 25), (64, 12), (4, 8, 28), (2, 25, 4), (3, 32, 5)]


# By turns on one chip or the other.
@sweeps.some(
    "radices, options, chip",
    [
        *((each, {}, chip) for each in ROW_TILES for chip in hardware.NAMES),
        *(((24, 25), each, chip) for each in (BF16, REFINED) for chip in hardware.NAMES),
    ],
    [
        *((each, {}, hardware.NAMES[place % 2]) for place, each in enumerate(ROW_TILES)),
        ((24, 25), REFINED, "trn1"),
        ((24, 25), BF16, "trn2"),
    ],
).with_args(ids=str)
def test_row_tiles(chip, radices, options):
    """Of an even and an odd number of rows a partition, and of a few partitions."""
    n = math.prod(radices)
    for batch, inverse in ((258, False), (3, True)):
        Launched("stockham", chip).check(normal(batch, n), radices, inverse, **options)


@pytest.mark.parametrize("chip", ["trn1", *map(sweeps.whole, ["trn2", "trn3"])])
def test_row_tiles_spare_the_tensor_engine(chip):
    """Two full stages in row tiles against two of radix 64, whose tables have no zeros."""
    tiled, whole = (
        modelled(radices, 2**19, chip).engine_busy_ns["tensor"] for radices in ((32, 32), (64, 64))
    )
    assert tiled <= 0.73 * whole


@pytest.mark.weekly
@pytest.mark.parametrize("chip", ["trn1", *map(sweeps.whole, ["trn2", "trn3"])])
@pytest.mark.parametrize("radices", [sweeps.whole((32, 32)), (64, 64)], ids=str)
def test_a_large_batch_is_little_slower(chip, radices):
    many, few = (modelled(radices, points, chip).total_ns for points in (2**29, 2**22))
    assert many <= 1.1 * few * 2**7


def test_products_have_the_precision_of_their_tables():
    """Refined ones are more accurate than of bfloat16 alone, and less than those of float32."""
    x, radices = normal(5, 512), (16, 32)
    for options, finer in ((BF16, REFINED), (REFINED, {})):
        result, _, exact = STOCKHAM.transform(x, radices, **options)
        error = relative_error(result, exact)
        assert error > 2 * STOCKHAM.tolerance(512, radices, **finer)


def modelled(radices, points, chip="trn1", cores=1, **options):
    """The timeline of a launch of so many points."""
    n = math.prod(radices)
    return Launched("stockham", chip, cores).dry_run((points // n, n), radices, **options)


def test_few_wide_stages_take_less_time_than_many():
    wide, narrow = (modelled(radices, 2**20).total_ns for radices in ((64, 64), (8, 8, 8, 8)))
    assert wide < 0.8 * narrow
