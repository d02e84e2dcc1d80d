"""The folded DFT kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for odd, even and prime lengths, any batch and chip, also in loops
and near the largest float. Rows must not mix, and every length must fit. Modelled times are
compared, too.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nki_kernels.launch
from nki_kernels.fft.folded_dft import (
    MAX_LENGTH,
    MIN_LENGTH,
    folded_dft_specs,
    folded_dft_tables,
)
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import equal_sums, near, unit

from .launched import ON_CHIPS, Launched
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


@ON_CHIPS
@pytest.mark.parametrize("n", [131, sweeps.whole(383)])
def test_loops_and_two_cores(monkeypatch, chip, n):
    cores = hardware.chip(chip).programs_per_launch
    Launched("folded_dft", chip, cores).check(normal(507, n))
    monkeypatch.setattr(nki_kernels.launch, "BODY_INSTRUCTIONS", 1)
    Launched("folded_dft", chip, cores).check(normal(700, n))


@ON_CHIPS
@pytest.mark.parametrize("n", [131, sweeps.whole(383)])
def test_rows_are_independent(chip, n):
    Launched("folded_dft", chip).check_independent(normal(131, n))


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


@pytest.mark.parametrize(
    ("chip", "n", "most"),
    [
        *(("trn1", *case) for case in ((251, 1.8), (509, 1.9), (997, 2.9))),
        *(sweeps.whole("trn2", *case) for case in ((251, 1.8), (509, 2.3))),
        ("trn2", 997, 3.7),
        *(sweeps.whole("trn3", *case) for case in ((251, 2.4), (509, 2.8), (997, 4.6))),
    ],
)
def test_modelled_time_is_near_what_the_tensor_engine_needs(chip, n, most):
    batch = round(2**20 / n)
    timeline = Launched("folded_dft", chip).dry_run((batch, n))
    assert timeline.total_ns <= most * hardware.chip(chip).dma_floor_ns(n * batch)
    assert timeline.instructions <= 1100


@pytest.mark.parametrize("n", [131, *map(sweeps.whole, [383, 1009, 2039])])
def test_a_long_batch_is_a_loop_on_the_device(n):
    events = FOLDED.dry_run((200_000, n)).events  # of a loop's body once
    assert 2000 <= len(events) <= 12_000


@pytest.mark.parametrize("n", [129, 256, sweeps.whole(509), sweeps.whole(2047)])
def test_tables_are_as_specified(n):
    tables = folded_dft_tables(n, True, 0.5)
    assert tuple((table.shape, str(table.dtype)) for table in tables) == folded_dft_specs(n)
    halves = np.concatenate(tables[1:]).astype(np.float64)
    roots = 0.5 * np.fft.ifft(np.eye(n), norm="forward")[: n // 2 + 1, : n // 2 + 1]
    for part, found in ((roots.real, halves[:, 0]), (-roots.imag, halves[:, 1])):
        near(found, part, unit("float32"))


@pytest.mark.parametrize("n", [0, 128, 2048])
def test_lengths_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match=f"n = {n}.*129 to 2047"):
        folded_dft_tables(n)
