"""The Bluestein kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any length, radices and batch, also with streamed tables and
near the largest float.
"""

from __future__ import annotations

import pytest

from nki_kernels.fft import row_transforms
from nki_kernels.fft.bluestein import MAX_CONVOLVED, convolution_lengths
from tests import sweeps

from .launched import Launched
from .samples import normal

BLUESTEIN = Launched("bluestein")


def split(m):
    """Radices with product ``m``: two as equal as can be, the larger first, or one."""
    pairs = [(m // r, r) for r in range(2, 102) if m % r == 0 and r <= m // r <= 128]
    return min(pairs, default=(m,))


def shortest(n):
    """Radices of the shortest convolution."""
    return split(convolution_lengths(n)[0])


BATCHES = [(batch, inverse) for batch in (1, 2, 130) for inverse in (False, True)]
LENGTHS = [*range(1, 41), 127, 131, 257, 509, 997, 998, 1009, 2039, 2048]
STREAMED = [2053, 2999, 4096, 4099, 5119, 5120]  # lengths whose tables are streamed
# Of length 997, and convolutions that are much longer than needed, or have one stage.
RADICES = [(64, 64), (128, 16), (16, 128), (125, 16), (16, 125), (8, 16, 16), (4, 8, 8, 8)]
PADDED = [(2, (64, 64)), (64, (128,)), (63, (125,)), (20, (40,))]


@pytest.mark.weekly
@sweeps.some(
    "n, radices, batch, inverse",
    [
        *((n, shortest(n), *each) for n in LENGTHS for each in BATCHES),
        *((n, split(convolution_lengths(n)[-1]), *each) for n in STREAMED for each in BATCHES),
        *((997, radices, batch, False) for radices in RADICES for batch in (3, 130)),
        *((n, radices, 5, False) for n, radices in PADDED),
        *((4099, (64, 13, 10), batch, False) for batch in (2, 130)),
    ],
    [
        *(
            (n, shortest(n), batch, n % 2 == 0)
            for n in (*range(1, 10), 16, 17, 19, 31, 32, 33, 40)
            for batch in (2, 130)
        ),
        *(
            (n, shortest(n), *each)
            for n, *each in (
                (127, 130, True),
                (131, 1, False),
                (257, 2, True),
                (509, 130, False),
                (997, 1, True),
                (998, 2, False),
                (2048, 2, False),
            )
        ),
        (2053, split(convolution_lengths(2053)[-1]), 2, True),
        (5120, split(convolution_lengths(5120)[-1]), 2, False),
        (997, (128, 16), 3, False),
        (997, (16, 125), 130, False),
        (997, (4, 8, 8, 8), 3, False),
        *((n, radices, 5, False) for n, radices in PADDED),
        (4099, (64, 13, 10), 2, False),
    ],
).with_args(ids=str)
def test_lengths_radices_and_batches_both_ways(n, radices, batch, inverse):
    BLUESTEIN.check(normal(batch, n), radices, inverse)


@pytest.mark.parametrize(("n", "radices", "batch"), [(131, (66, 4), 600), (7, (16,), 2)])
def test_streamed_tables_instead_of_resident_ones(monkeypatch, n, radices, batch):
    monkeypatch.setattr(row_transforms, "SMALLEST_SBUF", 0)
    timeline = BLUESTEIN.check(normal(batch, n), radices)
    copies = [event.name for event in timeline.events if event.engine == "gpsimd"]
    assert copies == ["tensor_copy"]  # of the identity; those of tables are what is to stay


@pytest.mark.parametrize("n", [1, 50, sweeps.whole(307), 997])
def test_every_convolution_length_gives_the_same(n):
    for m in convolution_lengths(n):
        BLUESTEIN.check(normal(3, n), split(m))


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


def test_modelled_time_is_near_what_the_tensor_engine_needs():
    timeline = BLUESTEIN.dry_run((2**20 // 997, 997), (32, 64))
    assert timeline.total_ns <= 1.25 * timeline.engine_busy_ns["tensor"]


@pytest.mark.weekly
@pytest.mark.parametrize("step", [29, sweeps.whole(1)])
def test_convolution_lengths_are_long_enough_smooth_and_sorted(step):
    assert convolution_lengths(997) == [2000, 2016, 2048]
    assert convolution_lengths(2048) == [4095, 4096]
    for n in (*range(1, 300), *range(300, MAX_CONVOLVED, step), MAX_CONVOLVED):
        lengths = convolution_lengths(n)
        assert lengths == sorted(set(lengths))
        assert 2 * n - 1 <= lengths[0] and lengths[0] >= 2 and lengths[-1] <= 10240


def test_rows_are_set_aside_only_near_the_largest_float():
    n, radices = 997, (32, 64)
    x = 0 * normal(2, n)
    x[0], x[1, 3] = 3e37 / n, 1e36  # times sqrt(M): 4.5e37
    BLUESTEIN.check(x, radices, rows=True)
