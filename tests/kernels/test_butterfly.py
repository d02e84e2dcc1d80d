"""The butterfly kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers, and exact ones with compensation, for every length and batch, also
in loops, which must take no longer than their blocks.
"""

from __future__ import annotations

import numpy as np
import pytest

from nki_kernels.base import launch
from nki_kernels.fft.butterfly_tables import (
    Geometry,
)
from tests import sweeps
from tests.tolerances import near, unit

from .launched import Launched
from .samples import normal

CASES = [(2**k, False) for k in range(1, 15)] + [(2**k, True) for k in range(1, 13)]
DEAR = [(4096, False), (8192, False), (256, True), (1024, True), (2048, True)]
BUTTERFLY = Launched("butterfly")


def priced(n, compensated, batch, *where):
    """The timeline of a launch, without data, that breaks no rule."""
    return Launched("butterfly", *where).dry_run((batch, n), compensated=compensated)


def block_rows(n, compensated):
    return 128 * max(1, Geometry(n, compensated).points // n)


def batches(n, compensated):
    """Batches and whether by the inverse; one of several rows a partition where that is quick."""
    if n <= (32 if compensated else 256):
        return (1, True), (300, False)
    return ((3, n.bit_length() % 2 == 0),)  # the tables alone know the direction


@pytest.mark.parametrize(
    ("n", "compensated", "many"),
    [
        *((*case, batches(*case)) for case in CASES if case not in DEAR),
        *(sweeps.whole(*case, batches(*case)) for case in DEAR),
        *(sweeps.whole(n, False, ((1, True), (128, True), (300, False))) for n in (512, 1024)),
        *(sweeps.whole(n, True, ((1, True), (128, True), (300, False))) for n in (64, 128, 256)),
    ],
    ids=str,
)
def test_every_length_both_ways(n, compensated, many):
    for batch, inverse in many:
        BUTTERFLY.check(normal(batch, n), inverse=inverse, compensated=compensated)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "compensated"), CASES)
def test_more_rows_than_a_block(n, compensated):
    batch = block_rows(n, compensated) + 131 if n <= 4096 else 131
    BUTTERFLY.check(normal(batch, n), compensated=compensated)


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("n", "compensated", "chip", "cores"),
    [
        (16, False, "trn1", 1),
        sweeps.whole(16, False, "trn2", 2),
        (8, True, "trn1", 1),
        sweeps.whole(1024, False, "trn1", 1),
        sweeps.whole(1024, False, "trn2", 2),
        sweeps.whole(8192, False, "trn3", 1),
        sweeps.whole(256, True, "trn2", 1),
        pytest.param(4, False, "trn1", 1, marks=pytest.mark.slow),
        pytest.param(64, False, "trn3", 2, marks=pytest.mark.slow),
        pytest.param(16384, False, "trn1", 1, marks=pytest.mark.slow),
        pytest.param(16384, False, "trn2", 2, marks=pytest.mark.slow),
        pytest.param(4096, True, "trn3", 2, marks=pytest.mark.slow),
    ],
)
def test_loops_on_the_device(monkeypatch, n, compensated, chip, cores):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 1)
    batch = cores * 2 * block_rows(n, compensated) + 3  # two iterations and a ragged rest
    x = normal(batch, n)
    timeline = Launched("butterfly", chip, cores).check(x, compensated=compensated)
    assert timeline.instructions > len(timeline.events)


def test_compensated_transform_of_a_small_signal_on_a_large_constant():
    x = 1e4 + normal(4, 1024)
    signal = slice(1, None)  # everything but the constant, a 3e5th of the norm
    result, _, exact = BUTTERFLY.transform(x, compensated=True)
    near(result[:, signal], exact[:, signal], unit("float32"))
    fast, _, _ = BUTTERFLY.transform(x)
    difference = np.linalg.norm((fast - exact)[:, signal])
    assert difference > 1e-5 * np.linalg.norm(exact[:, signal])


def test_a_loop_takes_no_longer_than_its_blocks(monkeypatch):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 3000)
    looped = priced(1024, False, 20 * 512)
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 10**9)
    assert looped.total_ns <= 1.03 * priced(1024, False, 20 * 512).total_ns
