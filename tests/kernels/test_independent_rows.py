"""Rows do not mix in any kernel for one axis: what one row holds spoils no other row."""

from __future__ import annotations

import math

import pytest

from nki_sim import hardware
from tests import sweeps
from tests.registry import REGISTRY

from .launched import BF16, COMPENSATED, REFINED, Launched, both_ways

# Algorithm, shape, radices, rows that are spoiled (None: three of them), options of the tables.
CASES = [
    ("stockham", (260, 256), (16, 16), (0, 259), {}),
    ("stockham", (5, 270), (3, 90), (0, 4), {}),
    ("stockham", (2, 512), (8, 8, 8), None, {}),
    ("stockham", (3, 4224), (64, 66), (0, 2), {}),
    ("stockham", (260, 256), (16, 16), (0, 259), BF16),
    ("stockham", (5, 270), (3, 90), (0, 4), REFINED),
    ("bluestein", (131, 17), (36,), (130,), {}),
    ("bluestein", (131, 67), (15, 9), (130,), {}),
    ("bluestein", (131, 509), (32, 32), (130,), {}),
    ("butterfly", (300, 8), (), None, {}),
    ("butterfly", (131, 512), (), (65,), {}),
    ("butterfly", (131, 16), (), (65,), COMPENSATED),
    ("dft_gemm", (140, 5), (), None, {}),
    ("dft_gemm", (140, 60), (), None, {}),
    ("dft_gemm", (140, 100), (), None, {}),
    ("dft_gemm", (140, 200), (), None, {}),
    ("dft_gemm", (140, 24), (), None, BF16),
    ("dft_gemm", (140, 60), (), None, REFINED),
    ("folded_dft", (131, 131), (), None, {}),
    ("four_step", (5, 960), (16, 3, 20), None, {}),
    ("four_step", (5, 1280), (32, 40), None, {}),
    ("four_step", (5, 1890), (70, 3, 9), None, {}),
    ("split_four_step", (3, 3240), (9, 6, 60), None, {}),
    ("long_bluestein", (5, 131), (128, 3), None, {}),
    ("split_bluestein", (2, 601), (65, 3, 14), (1,), {}),
    *(("strided_stockham", (7, 7, columns), (7,), (0, 4), {}) for columns in (1, 5, 60, 150)),
    *(("strided_stockham", (7, 24, columns), (4, 6), (0, 4), {}) for columns in (1, 5, 60, 150)),
]
# Of one plan of each kernel, on the second chip as well, which sets no row aside.
LATER = [CASES[place] for place in (1, 6, 9, 12, 13, 16, 18, 20)]
OF_REAL = [
    (name, (batch, math.prod(radices)), radices, None, {})
    for algorithm, batch, sizes in (
        ("real_dft_gemm", 140, ((7,), (24,), (60,), (100,), (200,))),
        ("real_stockham", 130, ((9, 31),)),
        ("real_stockham", 300, ((16, 20),)),
        ("real_stockham", 5, ((3, 5),)),
        ("real_four_step", 9, ((36, 4, 40), (34, 38))),
    )
    for radices in sizes
    for name in both_ways(algorithm)
]


@pytest.mark.weekly
@sweeps.some(
    "chip, algorithm, shape, radices, rows, options",
    [(chip, *case) for case in CASES + OF_REAL for chip in hardware.NAMES],
    [
        *(("trn1", *case) for case in CASES),
        *(("trn2", *case) for case in LATER),
        *((hardware.NAMES[place // 2 % 2], *case) for place, case in enumerate(OF_REAL)),
        *(("trn1", *case) for case in OF_REAL[2:4]),
    ],
).with_args(ids=str)
def test_rows_are_independent(chip, algorithm, shape, radices, rows, options):
    launched = Launched(algorithm, chip, hardware.chip(chip).programs_per_launch)
    members, n, *columns = shape
    x = launched.data((members, *columns) if columns else members, n)
    launched.check_independent(x, radices, rows, **options)


def test_every_kernel_is_one_of_them():
    lines = {each.kernel.__name__ for each in REGISTRY.values() if not each.takes_shapes}
    assert {name for name, *_ in CASES + OF_REAL} == lines - {"convolve_rows"}
