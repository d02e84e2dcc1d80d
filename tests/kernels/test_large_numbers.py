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
from tests.tolerances import equal_sums

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


PRODUCT_OF_A_CONSTANT = equal_sums(128)  # numbers of a product, of which few are added


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("n", [130, 997])
def test_no_folded_number_overflows(n, inverse):
    x = np.concatenate([large_rows(n), np.zeros((1, n))]) + 0j
    x[3, n // 2] = np.float32(3e38)  # without a partner, if n is even
    launched = Launched("folded_dft", "trn2")  # which sets no row aside
    launched.check(x[[0, 2, 3]], inverse=inverse, scale=1.0, rows=True)
    launched.check(x[[1]], inverse=inverse, scale=1.0, tolerance=PRODUCT_OF_A_CONSTANT)


def test_rows_are_set_aside_only_near_the_largest_float():
    """At 997 points the norm times sqrt(2 N) is 7.1e37 and 4.5e37, or times sqrt(M) 4.5e37."""
    n = 997
    x = np.zeros((3, n)) + 0j
    x[0], x[1, 3], x[2] = 5e37 / n, 1e36, 3e37 / n
    Launched("folded_dft").check(x[[0]], tolerance=PRODUCT_OF_A_CONSTANT)
    Launched("folded_dft").check(x[[1]])
    Launched("bluestein").check(x[[2, 1]], (32, 64), rows=True)
