"""The folded DFT kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for odd, even and prime lengths, any batch and chip, also near the
largest float. Every length must fit.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nki_kernels.fft.folded_dft import (
    MAX_LENGTH,
    MIN_LENGTH,
)
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import equal_sums

from .launched import Launched
from .samples import fits, large_rows, normal

CHIPS = ("trn1", "trn2", "trn3")
FOLDED = Launched("folded_dft")
PRODUCT_OF_A_CONSTANT = equal_sums(128)  # numbers of a product, of which few are added
ODD_AND_EVEN = [129, 130, 255, 256, 509, 997, 1024, 1025, 2047]


@sweeps.some(
    "n, inverse, chip",
    itertools.product(ODD_AND_EVEN, [False, True], CHIPS),
    [(n, place % 2 == 1, CHIPS[place // 2 % 2]) for place, n in enumerate(ODD_AND_EVEN)]
    + [(129, True, "trn2"), (130, False, "trn2"), (997, False, "trn1")],
)
def test_odd_even_and_prime_lengths_in_ragged_batches(n, inverse, chip):
    for batch in (1, 20, 130) if n < 1000 else (1, 20):
        Launched("folded_dft", chip).check(normal(batch, n), inverse=inverse)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("chip", "step"), [("trn1", 411), *(sweeps.whole(chip, 137) for chip in CHIPS)]
)
def test_every_length_fits_and_breaks_no_rule(chip, step):
    launched = Launched("folded_dft", chip)
    with hardware.select(hardware.chip(chip)):
        for n in range(MIN_LENGTH, MAX_LENGTH + 1, step):
            for batch in (1, 17, 300):
                assert fits(launched.dry_run((batch, n)))
        assert fits(launched.dry_run((700, MAX_LENGTH)))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("n", [130, 997])
def test_no_number_on_the_way_overflows(n, inverse):
    x = np.concatenate([large_rows(n), np.zeros((1, n))]) + 0j
    x[3, n // 2] = np.float32(3e38)  # without a partner, if n is even
    launched = Launched("folded_dft", "trn2")  # which sets no row aside
    launched.check(x[[0, 2, 3]], inverse=inverse, scale=1.0, rows=True)
    launched.check(x[[1]], inverse=inverse, scale=1.0, tolerance=PRODUCT_OF_A_CONSTANT)


def test_rows_are_set_aside_only_near_the_largest_float():
    n = 997
    x = np.zeros((2, n)) + 0j
    x[0], x[1, 3] = 5e37 / n, 1e36  # the norm times sqrt(2 N): 7.1e37 and 4.5e37
    FOLDED.check(x[[0]], tolerance=PRODUCT_OF_A_CONSTANT)
    FOLDED.check(x[[1]])
