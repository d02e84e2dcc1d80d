"""Loops on the device, and what they leave of a batch, give the same numbers in every kernel."""

from __future__ import annotations

import pytest

from nki_kernels.base import launch
from nki_kernels.fft import split_four_step
from nki_sim import hardware
from tests import sweeps

from .launched import Launched
from .real_launches import BothWays
from .samples import normal

# Algorithm, about the instructions of a loop's body, batches, length, radices, options. The last
# batch is that of each core, which is long enough for a loop and leaves a rest.
CASES = [
    ("stockham", 1, (1, 17001), 16, (4, 4), {}),
    ("stockham", 1, (1, 1401), 256, (16, 16), {}),
    ("stockham", 1, (1, 4001), 74, (2, 37), {}),
    ("bluestein", 1, (4001,), 67, (15, 9), {}),
    ("bluestein", 1, (701,), 509, (32, 32), {}),
    ("dft_gemm", 1, (24001,), 3, (), {}),
    ("dft_gemm", 1, (2251,), 24, (), {}),
    ("dft_gemm", 1, (1101,), 64, (), {}),
    ("dft_gemm", 1, (551,), 100, (), {}),
    ("dft_gemm", 1, (309,), 256, (), {}),
    ("folded_dft", 1, (701,), 131, (), {}),
    ("four_step", 100, (23,), 2560, (16, 8, 20), {}),
    ("four_step", 100, (35,), 840, (70, 12), {}),
    ("split_four_step", 64, (2, 1), 34320, (33, 16, 65), {}),
    ("split_four_step", 64, (1,), 327680, (128, 40, 64), {}),
    ("long_bluestein", 100, (9,), 131, (128, 3), {}),
    ("long_bluestein", 100, (9,), 1009, (70, 3, 10), {}),
]
ON_SECOND = [CASES[place] for place in (0, 3, 6, 8, 10, 11, 16)]  # as well
OF_REAL = [  # batches of radices, or of the length
    ("real_dft_gemm", 1, (2251,), (64,)),
    ("real_dft_gemm", 1, (551,), (256,)),
    ("real_stockham", 1, (1, 3, 20501), (3, 5)),
    ("real_stockham", 1, (1, 951), (16, 20)),
    ("real_four_step", 1, (1, 3, 21), (34, 34)),
    ("real_four_step", 300, (1, 37), (36, 4, 40)),
]


@pytest.fixture
def short_pieces(monkeypatch):
    """Loops in each pass of a transform that several passes share."""
    monkeypatch.setattr(split_four_step, "_UNROLLED", 0)
    monkeypatch.setattr(split_four_step, "_PIECE", 130)


@pytest.mark.weekly
@sweeps.some(
    "chip, algorithm, body, batches, n, radices, options",
    [(chip, *case) for case in CASES for chip in hardware.NAMES],
    [*(("trn1", *case) for case in CASES), *(("trn2", *case) for case in ON_SECOND)],
).with_args(ids=str)
def test_loops_and_what_they_leave(
    monkeypatch, short_pieces, chip, algorithm, body, batches, n, radices, options
):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", body)
    *others, last = batches
    launched = Launched(algorithm, chip, hardware.chip(chip).programs_per_launch)
    for batch in others:
        launched.check(normal(batch, n), radices, **options)
    timeline = launched.check(normal(last * launched.cores, n), radices, **options)
    assert timeline.instructions > len(timeline.events)


@pytest.mark.weekly
@sweeps.some(
    "chip, algorithm, body, batches, radices",
    [(chip, *case) for case in OF_REAL for chip in hardware.NAMES],
    [(hardware.NAMES[place % 2], *case) for place, case in enumerate(OF_REAL)],
).with_args(ids=str)
def test_loops_over_real_data_and_half_spectra(
    monkeypatch, chip, algorithm, body, batches, radices
):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", body)
    *others, last = batches
    both = BothWays(algorithm, chip, hardware.chip(chip).programs_per_launch)
    for batch in others:
        both.check(batch, radices)
    for timeline in both.check(last * both.cores, radices):
        assert timeline.instructions > len(timeline.events)
