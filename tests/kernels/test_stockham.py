"""The Stockham kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any radices, precision, batch and chip, also with streamed
tables, with slabs that share row tiles, and with batches as loops. Rows must not mix, and
instructions must be few.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nki_kernels.fft.stockham
import nki_kernels.launch
from nki_kernels.fft.stage import MAX_LENGTH
from nki_kernels.fft.stockham import stockham_tables
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps
from tests.tolerances import near, relative_error, unit

from .launched import BF16, ON_CHIPS, REFINED, Launched
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

PRECISIONS = pytest.mark.parametrize("options", [BF16, REFINED], ids=["bf16", "refined"])
STOCKHAM = Launched("stockham")


LONG = [(8, 8, 8, 4), (4,) * 6, (8,) * 4, (5,) * 5]  # not by default


def is_quick(radices):
    """Few stages and few points."""
    return math.prod(radices) < (1000 if len(radices) < 4 else 300)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("radices", "batches"),
    [
        *((each, (1, 2, 130) if is_quick(each) else (1, 3)) for each in PLANS if each not in LONG),
        *(sweeps.whole(each, (1, 2, 130)) for each in PLANS if not is_quick(each)),
    ],
    ids=str,
)
def test_radices_and_batches_both_ways(radices, batches):
    for place, batch in enumerate(batches):
        x = normal(batch, math.prod(radices))
        STOCKHAM.check(x, radices, inverse=place == 1)


@pytest.mark.weekly
@sweeps.some("radices", STREAMED, [(32, 128), (70, 70)]).with_args(ids=str)
def test_streamed_tables_both_ways(radices):
    n = math.prod(radices)
    for batch, inverse in ((2, True), (130 if radices == (70, 70) else 3, False)):
        STOCKHAM.check(normal(batch, n), radices, inverse)


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
    monkeypatch.setattr(nki_kernels.fft.row_transforms, "SMALLEST_SBUF", 0)
    after = STOCKHAM.check(x, radices, **options)
    assert after.sbuf_peak_bytes != before.sbuf_peak_bytes


@sweeps.some("n", range(4, 130, 2), [*range(4, 34, 2), 60, 62, 64, 66, 68, 96, 126, 128])
def test_every_even_length_in_two_stages(n):
    STOCKHAM.check(normal(5, n), (2, n // 2))


@pytest.mark.parametrize(("radices", "batch"), [((16, 16), 1500), ((5, 6, 7), 700)])
def test_several_transforms_a_partition(radices, batch):
    STOCKHAM.check(normal(batch, math.prod(radices)), radices)


# Halves of exactly 64 rows, others with zeros behind them, in the first, a middle and the last
# stage; radices up to 32 whose stages have an odd number of K, so that they take the whole array.
ROW_TILES = [(32, 32), (8, 30), (24, 16), (16, 25), (64, 12), (4, 8, 28), (2, 25, 4), (3, 32, 5)]


# By turns on one chip or the other.
@sweeps.some(
    "radices, chip",
    itertools.product(ROW_TILES, hardware.NAMES),
    [(each, hardware.NAMES[place % 2]) for place, each in enumerate(ROW_TILES)],
).with_args(ids=str)
def test_row_tiles(chip, radices):
    """Of an even and an odd number of rows a partition, and of a few partitions."""
    n = math.prod(radices)
    for batch, inverse in ((258, False), (3, True)):
        Launched("stockham", chip).check(normal(batch, n), radices, inverse)


@sweeps.some(
    "chip, options",
    itertools.product(hardware.NAMES, [BF16, REFINED]),
    [("trn1", REFINED), ("trn2", BF16)],
).with_args(ids=str)
def test_row_tiles_of_bfloat16(chip, options):
    Launched("stockham", chip).check(normal(258, 600), (24, 25), **options)


@pytest.mark.parametrize("chip", ["trn1", *map(sweeps.whole, ["trn2", "trn3"])])
def test_row_tiles_spare_the_tensor_engine(chip):
    """Two full stages in row tiles against two of radix 64, whose tables have no zeros."""
    tiled, whole = (
        modelled(radices, 2**19, chip).engine_busy_ns["tensor"] for radices in ((32, 32), (64, 64))
    )
    assert tiled <= 0.73 * whole


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
def test_other_chips_compute_the_same(chip):
    Launched("stockham", chip).check(normal(130, 480), (20, 24))


@ON_CHIPS
@sweeps.some(
    "radices", [(4, 4), (16, 16), (8, 4, 16), (128, 2), (2, 37)], [(4, 4), (16, 16), (2, 37)]
).with_args(ids=str)
def test_loops_and_two_cores(monkeypatch, chip, radices):
    """Whatever is left of a batch when loops of blocks and shares of programs are done."""
    monkeypatch.setattr(nki_kernels.launch, "BODY_INSTRUCTIONS", 1)
    n = math.prod(radices)
    cores = hardware.chip(chip).programs_per_launch
    for batch in (1, 3001 if n < 64 else 1500):
        Launched("stockham", chip, cores).check(normal(batch, n), radices)


INDEPENDENT = [((16, 16), 260), ((3, 90), 5), ((8, 8, 8), 2), ((64, 66), 3)]


@pytest.mark.weekly
@sweeps.some(
    "chip, options, radices, batch",
    [
        (chip, options, *case)
        for chip in hardware.NAMES
        for options in ({}, BF16, REFINED)
        for case in INDEPENDENT
    ],
    [
        *(("trn1", {}, *case) for case in INDEPENDENT),
        ("trn1", BF16, *INDEPENDENT[0]),
        ("trn1", REFINED, *INDEPENDENT[1]),
        ("trn2", {}, *INDEPENDENT[1]),
    ],
).with_args(ids=str)
def test_rows_are_independent(chip, options, radices, batch):
    x, rows = normal(batch, math.prod(radices)), (0, batch - 1) if batch > 2 else None
    Launched("stockham", chip).check_independent(x, radices, rows, **options)


@pytest.mark.weekly
@pytest.mark.parametrize("chip", ["trn1", *map(sweeps.whole, ["trn2", "trn3"])])
@pytest.mark.parametrize("radices", [sweeps.whole((32, 32)), (64, 64)], ids=str)
def test_a_large_batch_is_few_instructions_and_little_slower(monkeypatch, chip, radices):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", nki_kernels.launch.LAUNCH_INSTRUCTIONS)
    many, few = (modelled(radices, points, chip).total_ns for points in (2**29, 2**22))
    assert many <= 1.1 * few * 2**7


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("radices", [(16, 16), sweeps.whole((32, 32)), (64, 64)], ids=str)
def test_two_cores_take_half_the_time(chip, radices):
    one, two = (modelled(radices, 2**21, chip, cores).total_ns for cores in (1, 2))
    # Of 1024 points and more each core has few blocks: the first load and the last store overlap
    # nothing.
    assert two <= (0.55 if math.prod(radices) < 1024 else 0.62) * one


COARSE = [(2, 2), (3, 5, 7, 11), (2, 127), (128, 2), (100,), (2,), (8, 8, 4, 4)]


# By turns with one precision or the other.
@pytest.mark.weekly
@sweeps.some(
    "radices, options",
    itertools.product(PLANS, [BF16, REFINED]),
    [(each, (BF16, REFINED)[place % 2]) for place, each in enumerate(COARSE)]
    + [((128, 2), REFINED), ((2, 127), BF16)],
).with_args(ids=str)
def test_bfloat16_radices_and_batches_both_ways(radices, options):
    n = math.prod(radices)
    for batch, inverse in ((2, True), (130 if n < 1000 else 5, False)):
        STOCKHAM.check(normal(batch, n), radices, inverse, **options)


@pytest.mark.weekly
@PRECISIONS
@sweeps.some("radices", [(4,) * 6, (32, 16, 16), (128, 64), (80, 128)], [(128, 64)]).with_args(
    ids=str
)
def test_bfloat16_streamed_tables(radices, options):
    STOCKHAM.check(normal(2, math.prod(radices)), radices, **options)


@sweeps.some(
    "radices, options, chip",
    itertools.product([(20, 24), (2, 127), (4, 4, 4)], [BF16, REFINED], ["trn2", "trn3"]),
    [((20, 24), BF16, "trn2"), ((2, 127), REFINED, "trn2"), ((4, 4, 4), BF16, "trn2")],
).with_args(ids=str)
def test_bfloat16_on_other_chips(chip, radices, options):
    Launched("stockham", chip).check(normal(130, math.prod(radices)), radices, **options)


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


def floors(radices, **options):
    """Modelled time of 256 transforms on trn1, over the DMA floor of 16 bytes a point."""
    points = 256 * math.prod(radices)
    return modelled(radices, points, **options).total_ns / hardware.TRN1.dma_floor_ns(points)


@pytest.mark.filterwarnings("error")  # of more SBUF than DMA should fill
def test_modelled_time_of_long_transforms():
    # On trn1 up to a fifth of it is for setting bad rows aside.
    wide = floors((64, 64))
    assert wide <= 2.6
    assert wide < 0.8 * floors((8, 8, 8, 8))
    assert floors((64, 64), **BF16) <= 2.1
    assert floors((64, 64), **REFINED) <= 3.2
    assert floors((128, 64)) <= 3.5
    assert floors((128, 64), **BF16) <= 2.5


@pytest.mark.weekly
@pytest.mark.filterwarnings("error")
@sweeps.some("radices", [(4,) * 5 + (10,), (8, 8, 8, 20), (128, 80)], [(128, 80)]).with_args(
    ids=str
)
def test_the_longest_transforms_fit(radices):
    assert math.prod(radices) == MAX_LENGTH
    for options in ({}, BF16, REFINED):
        assert floors(radices, **options) <= 9


def test_refined_tables_add_up():
    exact, refined = stockham_tables(60, (3, 20)), stockham_tables(60, (3, 20), **REFINED)
    for table, (high, low) in zip(exact, refined, strict=True):
        added = high.astype(np.float64) + low.astype(np.float64)
        near(added, table, unit("bfloat16") ** 2)


@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (12, (3, 5), "product must be n = 12"),
        (12, (), "product must be n = 12"),
        (12, (1, 12), "each must be 2 to 128"),
        (258, (2, 129), "each must be 2 to 128"),
        (16384, (128, 128), "lengths up to 10240"),
    ],
)
def test_bad_plans_are_refused(n, radices, message):
    with pytest.raises(ValueError, match=message):
        stockham_tables(n, radices)
