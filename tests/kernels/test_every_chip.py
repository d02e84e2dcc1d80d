"""Every kernel for one axis computes the same on the later chips, and on all cores of a launch."""

from __future__ import annotations

import math

import pytest

from nki_sim import hardware
from tests import sweeps

from .launched import BF16, REFINED, Launched
from .real_launches import BothWays
from .samples import normal

COMPENSATED = {"compensated": True}
# Algorithm, batches, length, radices, options. Of one row, the second core has none; of an odd
# number of long transforms, two cores share the last.
CASES = [
    ("stockham", (130,), 480, (20, 24), {}),
    ("stockham", (130,), 480, (20, 24), BF16),
    ("stockham", (130,), 254, (2, 127), REFINED),
    ("stockham", (130,), 64, (4, 4, 4), BF16),
    # Of two programs, the one with 253 rows has a block more than the one with 254.
    ("bluestein", (507,), 17, (36,), {}),
    ("bluestein", (130,), 1, (2,), {}),
    ("bluestein", (130,), 257, (27, 20), {}),
    ("bluestein", (3,), 997, (50, 40), {}),
    *(("dft_gemm", (1, 150, 151), n, (), {}) for n in (1, 3, 31, 64, 65, 128, 129, 200, 256)),
    ("four_step", (1, 5), 9600, (64, 3, 50), {}),
    ("four_step", (1, 5), 112, (7, 16), {}),
    ("four_step", (1, 5), 1400, (70, 20), {}),
    ("four_step", (1, 5), 2400, (5, 4, 3, 40), {}),
    ("split_four_step", (1, 3), 2560, (2, 16, 80), {}),
    ("split_four_step", (1, 3), 6300, (70, 3, 30), {}),
    ("long_bluestein", (1, 3), 997, (70, 29), {}),
    ("split_bluestein", (3,), 2003, (66, 4, 32), {}),
    ("butterfly", (1, 2, 301), 2, (), {}),
    ("butterfly", (1, 2, 301), 128, (), {}),
    ("butterfly", (3,), 8192, (), {}),
    ("butterfly", (1, 2, 131), 16, (), COMPENSATED),
    ("butterfly", (3,), 512, (), COMPENSATED),
    ("folded_dft", (507,), 131, (), {}),
]
OF_REAL = [
    *(("real_dft_gemm", (150,), (n,)) for n in (1, 2, 3, 31, 64, 65, 127, 128, 129, 200, 256)),
    ("real_stockham", (20, 130), (20, 24)),
    ("real_stockham", (20, 130), (9, 31)),
    ("real_stockham", (20, 130), (2, 3)),
    ("real_stockham", (130,), (16, 61)),
]


@sweeps.some(
    "chip, algorithm, batches, n, radices, options",
    [(chip, *case) for case in CASES for chip in ("trn2", "trn3")],
    [("trn2", *case) for case in CASES],
).with_args(ids=str)
def test_later_chips_compute_the_same(chip, algorithm, batches, n, radices, options):
    launched = Launched(algorithm, chip, hardware.chip(chip).programs_per_launch)
    for batch in batches:
        launched.check(normal(batch, n), radices, **options)


@sweeps.some(
    "chip, algorithm, batches, radices",
    [(chip, *case) for case in OF_REAL for chip in ("trn2", "trn3")],
    [(("trn2", "trn3")[place % 2], *case) for place, case in enumerate(OF_REAL)],
).with_args(ids=str)
def test_later_chips_compute_the_same_of_real_data(chip, algorithm, batches, radices):
    both = BothWays(algorithm, chip, hardware.chip(chip).programs_per_launch)
    for batch in batches:
        both.check(batch, radices)


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("radices", [(3,), (20,), (2, 61), (5, 13), (10, 12), (64, 2)], ids=str)
def test_later_chips_compute_the_same_along_a_middle_axis(chip, radices):
    launched = Launched("strided_stockham", chip, hardware.chip(chip).programs_per_launch)
    for members, columns in ((2, 150), (1, 201), (3, 1)):
        launched.check(normal(members, math.prod(radices), columns), radices)
