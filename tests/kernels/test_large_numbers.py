"""Transforms of large numbers, whose results float32 holds, do not overflow on the way.

The tables of a kernel contain the scale. Where they apply it to the last sum, an earlier sum may be
infinite although the scaled result is not. Folded DFTs and butterflies add numbers before any
product, and are not in the first test.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests import sweeps

from .launched import Launched
from .samples import large_rows

LARGE = 3e38  # twice this number overflows

CASES = [
    ("dft_gemm", (64,)),
    ("stockham", (8, 8)),
    ("four_step", (8, 32)),
    ("inverse_real_dft_gemm", (64,)),
    ("inverse_real_stockham", (2, 32)),
    ("inverse_real_stockham", (16, 30)),
    ("inverse_real_stockham", (3, 5)),
    ("inverse_real_stockham", (64, 32)),
    ("inverse_real_four_step", (64, 64)),
    ("inverse_real_four_step", (34, 2, 34)),
]


def large_spectra(n):
    """Returns half spectra, each with one number on which a result depends."""
    half = n // 2 + 1
    frequencies = sorted({0, 1, 2, half // 2, half - 2, half - 1})
    rows = np.zeros((2, len(frequencies), half), complex)
    for row, k in enumerate(frequencies):
        rows[:, row, k] = LARGE, -LARGE * (1 if 2 * k % n == 0 else 1j)
    return rows.reshape(-1, half)


@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize(("algorithm", "radices"), CASES)
def test_no_sum_overflows_before_it_is_scaled(algorithm, radices, inverse):
    n = math.prod(radices)
    x = large_spectra(n)
    kernel = Launched(algorithm, "trn2")  # which sets no rows aside
    if not kernel.is_to_real:
        mirrored = x[:, 1 : (n + 1) // 2][:, ::-1].conj()
        x = np.concatenate([x, mirrored], 1)
    given = () if "gemm" in algorithm else radices
    kernel.check(x, given, inverse, scale=1 / n, rows=True)


CONVOLUTIONS = [
    ("bluestein", 17, (36,), False),
    ("bluestein", 67, (3, 45), True),
    ("bluestein", 997, (42, 48), False),
    ("long_bluestein", 131, (128, 3), False),
    ("long_bluestein", 4099, (80, 2, 52), True),
    ("split_bluestein", 1009, (66, 6, 12), True),
]
STREAMED = ("bluestein", 4099, (64, 13, 10))


@sweeps.some(
    "algorithm, n, radices, inverse",
    [
        (*case, inverse)
        for case in (*(each[:3] for each in CONVOLUTIONS), STREAMED)
        for inverse in (False, True)
    ],
    CONVOLUTIONS,
).with_args(ids=str)
def test_no_number_of_a_convolution_overflows(algorithm, n, radices, inverse):
    kernel = Launched(algorithm, "trn2")
    for row in large_rows(n):
        kernel.check(row[None] + 0j, radices, inverse, scale=1.0)
