"""Modelled times of launches stay near the DMA floor, or what their busiest engine needs."""

from __future__ import annotations

import math

import pytest

from nki_sim import hardware
from tests import sweeps

from .launched import BF16, REFINED, Launched
from .real_launches import BothWays

COMPENSATED = {"compensated": True}
TRN1, TRN2, TRN3 = hardware.NAMES

# Chip, algorithm, shape, radices, options, and DMA floors that a launch takes at the most.
CASES = [
    # On trn1 up to a fifth of it is for setting bad rows aside.
    (TRN1, "stockham", (256, 4096), (64, 64), {}, 2.6),
    (TRN1, "stockham", (256, 4096), (64, 64), BF16, 2.1),
    (TRN1, "stockham", (256, 4096), (64, 64), REFINED, 3.2),
    (TRN1, "stockham", (256, 8192), (128, 64), {}, 3.5),
    (TRN1, "stockham", (256, 8192), (128, 64), BF16, 2.5),
    *((TRN1, "stockham", (256, 10240), (128, 80), each, 9) for each in ({}, BF16, REFINED)),
    (TRN1, "bluestein", (1051, 997), (32, 64), {}, 6.3),
    (TRN1, "bluestein", (255, 3001), (96, 63), {}, 7.5),
    (TRN1, "dft_gemm", (8192, 128), (), {}, 1.4),
    (TRN1, "dft_gemm", (4096, 256), (), BF16, 1.3),
    # A copy for each row costs the DMA engines more than its bytes.
    (TRN1, "four_step", (128, 8192), (64, 128), {}, 2.9),
    (TRN1, "four_step", (64, 16384), (128, 128), {}, 2.1),
    (TRN1, "four_step", (32, 32768), (32, 8, 128), {}, 1.9),
    (TRN1, "four_step", (16, 65536), (32, 16, 128), {}, 2.0),
    (TRN1, "four_step", (26, 40000), (50, 8, 100), {}, 3.2),
    (TRN1, "four_step", (1, 2**20), (128, 64, 128), {}, 3.8),
    # Three passes over HBM.
    (TRN1, "split_four_step", (1, 2**21), (128, 128, 128), {}, 5.0),
    (TRN2, "split_four_step", (1, 2**21), (128, 128, 128), {}, 5.4),
    (TRN1, "split_bluestein", (1, 1048573), (128, 128, 128), {}, 17.5),
    (TRN1, "butterfly", (16384, 64), (), {}, 4.6),
    (TRN1, "butterfly", (256, 4096), (), {}, 9.8),
    (TRN1, "butterfly", (16384, 64), (), COMPENSATED, 29),
    (TRN1, "folded_dft", (4178, 251), (), {}, 1.8),
    (TRN1, "folded_dft", (2060, 509), (), {}, 1.9),
    (TRN1, "folded_dft", (1052, 997), (), {}, 2.9),
    (TRN2, "folded_dft", (1052, 997), (), {}, 3.7),
]
MORE = [
    *(
        (TRN1, "stockham", (256, 10240), radices, each, 9)
        for radices in ((4,) * 5 + (10,), (8, 8, 8, 20))
        for each in ({}, BF16, REFINED)
    ),
    (TRN1, "bluestein", (255, 4099), (98, 84), {}, 9.4),
    (TRN1, "bluestein", (255, 4099), (64, 13, 10), {}, 13.8),
    (TRN1, "bluestein", (255, 5120), (128, 80), {}, 9.2),
    (TRN3, "split_four_step", (1, 2**21), (128, 128, 128), {}, 6.7),
    (TRN2, "split_bluestein", (1, 1048573), (128, 128, 128), {}, 22.5),
    (TRN3, "split_bluestein", (1, 1048573), (128, 128, 128), {}, 28.0),
    (TRN1, "butterfly", (128, 16384), (), {}, 13.2),
    (TRN1, "butterfly", (256, 4096), (), COMPENSATED, 67),
    (TRN2, "folded_dft", (4178, 251), (), {}, 1.8),
    (TRN2, "folded_dft", (2060, 509), (), {}, 2.3),
    (TRN3, "folded_dft", (4178, 251), (), {}, 2.4),
    (TRN3, "folded_dft", (2060, 509), (), {}, 2.8),
    (TRN3, "folded_dft", (1052, 997), (), {}, 4.6),
]


@pytest.mark.weekly
@pytest.mark.filterwarnings("error")  # of more SBUF than DMA should fill
@sweeps.some("chip, algorithm, shape, radices, options, floors", CASES + MORE, CASES).with_args(
    ids=str
)
def test_a_launch_takes_few_dma_floors(chip, algorithm, shape, radices, options, floors):
    timeline = Launched(algorithm, chip).dry_run(shape, radices, **options)
    core = hardware.chip(chip)
    assert timeline.total_ns <= floors * core.dma_floor_ns(math.prod(shape))
    if algorithm == "butterfly":
        assert timeline.engine_busy_ns["vector"] >= 0.75 * timeline.total_ns
    if algorithm == "folded_dft":
        assert timeline.instructions <= 1100


@pytest.mark.parametrize(
    ("algorithm", "shape", "radices", "most"),
    [
        ("four_step", (1, 1024), (16, 64), 8_000),
        ("four_step", (1, 4096), (64, 64), 9_000),
        ("four_step", (1, 65536), (64, 8, 128), 28_000),
    ],
)
def test_one_transform_takes_little_time(algorithm, shape, radices, most):
    assert Launched(algorithm).dry_run(shape, radices).total_ns <= most


# Algorithm of real data and of complex data, shape, radices, and the shares of its time that the
# transform and its inverse take at the most on each chip. On trn1 rows are set aside before.
REAL = [
    ("real_dft_gemm", "dft_gemm", (4096, 256), (), [(0.62, 0.62)] * 3),
    ("real_dft_gemm", "dft_gemm", (8192, 128), (), [(0.7, 0.7)] * 3),
    # Descriptors bind on trn3.
    ("real_dft_gemm", "dft_gemm", (16384, 64), (), [(0.75, 0.75), (0.65, 0.65), (0.75, 0.75)]),
    ("real_stockham", "stockham", (2048, 512), (16, 32), [(0.75, 0.75), *[(0.67, 0.67)] * 2]),
    ("real_stockham", "stockham", (1024, 1024), (32, 32), [(0.69, 0.69), *[(0.7, 0.7)] * 2]),
    ("real_stockham", "stockham", (1024, 1000), (20, 50), [(0.55, 0.55), *[(0.63, 0.63)] * 2]),
    # All rows are two blocks, whose way in and out overlaps nothing.
    ("real_stockham", "stockham", (256, 4096), (128, 32), [(1.02, 1.02), *[(0.8, 0.8)] * 2]),
    ("real_four_step", "four_step", (128, 8192), (64, 128), [(0.69, 0.81)] * 3),
    ("real_four_step", "four_step", (64, 16384), (128, 128), [(0.54, 0.58)] * 3),
    ("real_four_step", "four_step", (16, 65536), (128, 4, 128), [(0.7, 0.79)] * 3),
    ("real_four_step", "four_step", (1, 2**17), (128, 8, 128), [(0.78, 0.75)] * 3),
    ("real_four_step", "four_step", (1, 2**18), (128, 16, 128), [(0.76, 0.73)] * 3),
]
OF_REAL = [
    (chip, *case, shares[place])
    for *case, shares in REAL
    for place, chip in enumerate(hardware.NAMES)
]


@sweeps.some(
    "chip, algorithm, other, shape, radices, shares",
    OF_REAL,
    [OF_REAL[3 * case + chip] for case, chip in ((0, 1), (1, 1), (3, 0), (5, 1), (8, 1), (10, 0))],
).with_args(ids=str)
def test_real_data_takes_less_time_than_complex_data(
    chip, algorithm, other, shape, radices, shares
):
    limit = Launched(other, chip).dry_run(shape, radices).total_ns
    there, back = BothWays(algorithm, chip).dry_times(shape[0], radices or shape[1:])
    assert there <= shares[0] * limit and back <= shares[1] * limit
