"""The split Bluestein kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for any length, radices, batch and chip, also near the largest
float. Transforms must not mix, and long batches must need few instructions. Modelled times are
compared, too.
"""

from __future__ import annotations

import pytest

from nki_kernels import launch
from nki_kernels.fft.split_bluestein import split_bluestein_tables
from nki_sim import hardware
from tests import sweeps

from .launched import ON_LATER_CORES, Launched
from .samples import large_rows, normal

LENGTHS = [
    (1, (65, 3, 20)),
    (37, (65, 6, 12)),
    (1009, (66, 6, 12)),
    (2304, (128, 4, 9)),  # the data fill exactly 64 rows
    (4099, (128, 5, 13)),  # one piece
    (4099, (67, 4, 70)),
]


# By turns in one direction or the other.
@pytest.mark.weekly
@sweeps.some(
    "n, radices, batch, inverse",
    [(*case, batch, inverse) for case in LENGTHS for batch in (1, 3) for inverse in (False, True)],
    [
        (*case, batch, place % 2 == 1)
        for place, (case, batch) in enumerate(zip(LENGTHS, (3, 3, 1, 1, 1, 3), strict=True))
    ],
).with_args(ids=str)
def test_lengths_and_batches_both_ways(n, radices, batch, inverse):
    Launched("split_bluestein").check(normal(batch, n), radices, inverse)


@pytest.mark.parametrize(
    ("chip", "n", "radices"),
    [
        ("trn1", 65537, (66, 24, 84)),  # two pieces
        sweeps.whole("trn2", 65537, (66, 24, 84)),
        sweeps.whole("trn1", 98299, (72, 32, 96)),  # three pieces
        ("trn2", 98299, (72, 32, 96)),
    ],
)
def test_pieces_in_pairs_and_one_alone(chip, n, radices):
    Launched("split_bluestein", chip).check(normal(1, n), radices)


@pytest.mark.parametrize("inverse", [sweeps.whole(False), True])
def test_no_number_on_the_way_overflows(inverse):
    for row in large_rows(1009):
        Launched("split_bluestein").check(row[None] + 0j, (66, 6, 12), inverse)


@ON_LATER_CORES
def test_other_chips_and_two_cores_compute_the_same(chip, cores):
    batch = 3 if cores == 2 else 1  # two cores share the last of an odd batch
    Launched("split_bluestein", chip, cores).check(normal(batch, 2003), (66, 4, 32))


@pytest.mark.parametrize(("chip", "cores"), [("trn1", 1), sweeps.whole("trn2", 2)])
def test_transforms_are_independent(chip, cores):
    launched = Launched("split_bluestein", chip, cores)
    launched.check_independent(normal(2, 601), (65, 3, 14), rows=[1])


@pytest.mark.slow  # 2^21 numbers in the simulator, twice
def test_the_longest_prime_below_2_to_the_20():
    Launched("split_bluestein").check(normal(1, 1048573), (128, 128, 128))


@pytest.mark.parametrize(
    ("n", "radices"),
    [(1048573, (128, 128, 128)), sweeps.whole(2**22 - 3, (128, 64, 8, 128))],
    ids=str,
)
def test_long_batches_keep_the_rules_and_are_a_loop(n, radices):
    timeline = Launched("split_bluestein").dry_run((2**29 // n, n), radices)
    assert len(timeline.events) <= launch.LAUNCH_INSTRUCTIONS
    assert timeline.instructions > 10 * len(timeline.events)


@pytest.mark.parametrize(
    ("chip", "floors"),
    [("trn1", 17.5), *(sweeps.whole(*case) for case in (("trn2", 22.5), ("trn3", 28.0)))],
)
def test_a_long_prime_is_near_what_its_products_take(chip, floors):
    n = 1048573
    found = Launched("split_bluestein", chip).dry_run((1, n), (128, 128, 128))
    assert found.total_ns <= floors * hardware.chip(chip).dma_floor_ns(n)


@pytest.mark.parametrize(
    ("n", "radices", "message"),
    [
        (0, (65, 3, 14), "n >= 1"),
        (1366, (65, 3, 14), "M = 2730 >= 2 n - 1"),
        (10, (64, 3, 14), "the first must be 65 to 128"),
        (10, (65, 3, 10), "use another first radix"),
    ],
)
def test_bad_plans_are_refused(n, radices, message):
    with pytest.raises(ValueError, match=message):
        split_bluestein_tables(n, radices)
