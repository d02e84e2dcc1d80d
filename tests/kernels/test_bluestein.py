"""The Bluestein kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any length, radices, batch and chip, also with streamed tables,
in loops and near the largest float. Rows must not mix. Modelled times are compared, too.
"""

from __future__ import annotations

import itertools
import math

import pytest

import nki_kernels.fft.stockham
import nki_kernels.launch
from nki_kernels.fft.bluestein import MAX_CONVOLVED, bluestein_tables, convolution_lengths
from nki_sim import hardware
from tests import sweeps

from .launched import Launched
from .samples import large_rows, normal

BLUESTEIN = Launched("bluestein")


def split(m):
    """Radices with product ``m``: two as equal as can be, the larger first, or one."""
    pairs = [(m // r, r) for r in range(2, 102) if m % r == 0 and r <= m // r <= 128]
    return min(pairs, default=(m,))


def shortest(n):
    """Radices of the shortest convolution."""
    return split(convolution_lengths(n)[0])


@sweeps.some(
    "n, inverse",
    itertools.product(range(1, 41), [False, True]),
    [(n, n % 2 == 0) for n in (*range(1, 10), 16, 17, 19, 31, 32, 33, 40)],
)
def test_every_short_length(n, inverse):
    for batch in (2, 130):
        BLUESTEIN.check(normal(batch, n), shortest(n), inverse)


@sweeps.some(
    "n, inverse, batch",
    itertools.product([127, 131, 257, 509, 997, 998, 1009, 2039, 2048], [False, True], [1, 2, 130]),
    [
        (127, True, 130),
        (131, False, 1),
        (257, True, 2),
        (509, False, 130),
        (997, True, 1),
        (998, False, 2),
        (2048, False, 2),
    ],
)
def test_primes_and_long_lengths(n, inverse, batch):
    BLUESTEIN.check(normal(batch, n), shortest(n), inverse)


@pytest.mark.weekly
@sweeps.some(
    "n, inverse, batch",
    itertools.product([2053, 2999, 4096, 4099, 5119, 5120], [False, True], [1, 2, 130]),
    [(2053, True, 2), (5120, False, 2)],
)
def test_lengths_whose_tables_are_streamed(n, inverse, batch):
    BLUESTEIN.check(normal(batch, n), split(convolution_lengths(n)[-1]), inverse)


FEW = [(17, (36,)), (67, (15, 9)), (509, (32, 32))]
BY_TURNS = sweeps.some(
    "chip, n, radices",
    [(chip, *case) for case in FEW for chip in hardware.NAMES],
    [("trn1", *FEW[0]), ("trn2", *FEW[0]), ("trn1", *FEW[1]), ("trn2", *FEW[2])],
).with_args(ids=str)


@BY_TURNS
def test_loops_and_two_cores(monkeypatch, chip, n, radices):
    cores = hardware.chip(chip).programs_per_launch
    # Of two programs, the one with 253 rows has a block more than the one with 254.
    Launched("bluestein", chip, cores).check(normal(507, n), radices)
    monkeypatch.setattr(nki_kernels.launch, "BODY_INSTRUCTIONS", 1)
    Launched("bluestein", chip, cores).check(normal(700, n), radices)


@BY_TURNS
def test_rows_are_independent(chip, n, radices):
    Launched("bluestein", chip).check_independent(normal(131, n), radices, rows=[130])


@pytest.mark.parametrize(
    ("n", "radices", "inverse"),
    [
        case
        for n, radices, inverse in (
            (17, (36,), False),
            (67, (3, 45), True),
            (997, (42, 48), False),
        )
        for case in ((n, radices, inverse), sweeps.whole(n, radices, not inverse))
    ]
    + [sweeps.whole(4099, (64, 13, 10), inverse) for inverse in (False, True)],
    ids=str,
)
def test_no_number_on_the_way_overflows(n, radices, inverse):
    x = large_rows(n) + 0j
    # The second chip sets no row aside.
    Launched("bluestein", "trn2").check(x, radices, inverse, scale=1.0, rows=True)


def test_rows_are_set_aside_only_near_the_largest_float():
    n, radices = 997, (32, 64)
    x = 0 * normal(2, n)
    x[0], x[1, 3] = 3e37 / n, 1e36  # times sqrt(M): 4.5e37
    BLUESTEIN.check(x, radices, rows=True)


@pytest.mark.parametrize("batch", [2, sweeps.whole(130)])
def test_prime_of_three_radices(batch):
    BLUESTEIN.check(normal(batch, 4099), (64, 13, 10))


@pytest.mark.parametrize(("n", "radices", "batch"), [(131, (66, 4), 600), (7, (16,), 2)])
def test_streamed_tables_instead_of_resident_ones(monkeypatch, n, radices, batch):
    monkeypatch.setattr(nki_kernels.fft.row_transforms, "SMALLEST_SBUF", 0)
    timeline = BLUESTEIN.check(normal(batch, n), radices)
    copies = [event.name for event in timeline.events if event.engine == "gpsimd"]
    assert copies == ["tensor_copy"]  # of the identity; those of tables are what is to stay


@pytest.mark.parametrize("n", [1, 50, sweeps.whole(307), 997])
def test_every_convolution_length_gives_the_same(n):
    for m in convolution_lengths(n):
        BLUESTEIN.check(normal(3, n), split(m))


@sweeps.some(
    "radices",
    [(64, 64), (128, 16), (16, 128), (125, 16), (16, 125), (8, 16, 16), (4, 8, 8, 8)],
    [(128, 16), (16, 125), (4, 8, 8, 8)],
).with_args(ids=str)
def test_any_radices(radices):
    BLUESTEIN.check(normal(130 if radices == (16, 125) else 3, 997), radices)


@pytest.mark.parametrize(("n", "m"), [(2, 4096), (64, 128), (63, 125), (20, 40)])
def test_much_padding_and_single_stages(n, m):
    BLUESTEIN.check(normal(5, n), (m,) if m <= 128 else split(m))


@pytest.mark.parametrize(
    ("chip", "n", "batch"),
    # Rows of the third are stored 5 at a time, because 4 KiB do not hold all 10 of a partition.
    [
        ("trn1", 31, 4500),
        sweeps.whole("trn1", 131, 1500),
        ("trn2", 101, 1200),
        sweeps.whole("trn2", 499, 700),
    ],
)
def test_batches_of_several_rows_a_partition(chip, n, batch):
    Launched("bluestein", chip).check(normal(batch, n), shortest(n))


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("n", [1, 17, 257, 997])
def test_other_chips_compute_the_same(chip, n):
    Launched("bluestein", chip).check(normal(3 if n == 997 else 130, n), shortest(n))


def floors(shape, radices):
    """The timeline of a launch, and its time over its DMA floor."""
    timeline = BLUESTEIN.dry_run(shape, radices)
    return timeline, timeline.total_ns / hardware.TRN1.dma_floor_ns(math.prod(shape))


def test_modelled_time_is_near_what_the_tensor_engine_needs():
    timeline, ratio = floors((2**20 // 997, 997), (32, 64))
    # Setting rows aside is part of it on trn1, in the limits below, too.
    assert ratio <= 6.3
    assert timeline.total_ns <= 1.25 * timeline.engine_busy_ns["tensor"]


@pytest.mark.filterwarnings("error")  # of more SBUF than DMA should fill
@pytest.mark.parametrize(
    ("n", "radices", "most"),
    [
        (3001, (96, 63), 7.5),
        sweeps.whole(4099, (98, 84), 9.4),
        sweeps.whole(4099, (64, 13, 10), 13.8),
        sweeps.whole(5120, (128, 80), 9.2),
    ],
)
def test_modelled_time_with_streamed_tables(n, radices, most):
    assert floors((255, n), radices)[1] <= most


@pytest.mark.weekly
@pytest.mark.parametrize("step", [29, sweeps.whole(1)])
def test_convolution_lengths_are_long_enough_smooth_and_sorted(step):
    assert convolution_lengths(997) == [2000, 2016, 2048]
    assert convolution_lengths(2048) == [4095, 4096]
    for n in (*range(1, 300), *range(300, MAX_CONVOLVED, step), MAX_CONVOLVED):
        lengths = convolution_lengths(n)
        assert lengths == sorted(set(lengths))
        assert 2 * n - 1 <= lengths[0] and lengths[0] >= 2 and lengths[-1] <= 10240


@pytest.mark.parametrize("n", [0, -3, 5121])
def test_lengths_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match=f"n = {n}.*1 to 5120"):
        convolution_lengths(n)


@pytest.mark.parametrize(
    ("n", "m", "radices", "message"),
    [
        (0, 4, (4,), "n >= 1"),
        (3, 4, (4,), "m >= 2 n - 1"),
        (3, 8, (4,), "product must be"),
        (3, 8, (8, 1), "each must be 2 to 128"),
        (997, 2049, (3, 683), "each must be 2 to 128"),
        (2049, 16384, (128, 128), "up to 10240"),
    ],
)
def test_tables_that_make_no_sense_are_refused(n, m, radices, message):
    with pytest.raises(ValueError, match=message):
        bluestein_tables(n, m, radices)
