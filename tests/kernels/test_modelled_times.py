"""Modelled times of launches, by dry runs: near the DMA floor, or what the busiest engine needs."""

from __future__ import annotations

import math

import pytest

from nki_kernels.base import launch
from nki_sim import hardware
from tests import sweeps

from .launched import BF16, COMPENSATED, REFINED, Launched, both_ways

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
    for name, share in zip(both_ways(algorithm), shares, strict=True):
        assert Launched(name, chip).dry_run(shape, radices).total_ns <= share * limit


def stockham(radices, points, chip="trn1"):
    """The timeline of a launch of so many points."""
    n = math.prod(radices)
    return Launched("stockham", chip).dry_run((points // n, n), radices)


@pytest.mark.parametrize("chip", ["trn1", *map(sweeps.whole, ["trn2", "trn3"])])
def test_row_tiles_spare_the_tensor_engine(chip):
    """Two full stages in row tiles against two of radix 64, whose tables have no zeros."""
    tiled, whole = (stockham(radices, 2**19, chip) for radices in ((32, 32), (64, 64)))
    assert tiled.engine_busy_ns["tensor"] <= 0.73 * whole.engine_busy_ns["tensor"]


@pytest.mark.weekly
@pytest.mark.parametrize("chip", ["trn1", *map(sweeps.whole, ["trn2", "trn3"])])
@pytest.mark.parametrize("radices", [sweeps.whole((32, 32)), (64, 64)], ids=str)
def test_a_large_batch_is_little_slower(chip, radices):
    many, few = (stockham(radices, points, chip).total_ns for points in (2**29, 2**22))
    assert many <= 1.1 * few * 2**7


def test_few_wide_stages_take_less_time_than_many():
    wide, narrow = (stockham(radices, 2**20).total_ns for radices in ((64, 64), (8, 8, 8, 8)))
    assert wide < 0.8 * narrow


def test_bluestein_is_near_what_the_tensor_engine_needs():
    timeline = Launched("bluestein").dry_run((2**20 // 997, 997), (32, 64))
    assert timeline.total_ns <= 1.25 * timeline.engine_busy_ns["tensor"]


def test_the_longest_transform_reads_and_writes_once():
    timeline = Launched("four_step").dry_run((1, 2**20), (128, 64, 128))
    assert timeline.hbm_bytes <= 2.05 * 16 * 2**20  # its tables are streamed, as much as its data


def test_a_loop_takes_no_longer_than_its_blocks(monkeypatch):
    times = []
    for body in (3000, 10**9):
        monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", body)
        times.append(Launched("butterfly").dry_run((20 * 512, 1024)).total_ns)
    assert times[0] <= 1.03 * times[1]


# Algorithm, shape, radices, options, the share of one core's time that two take at the most, and
# bytes a number that pass HBM, which both cores share.
ON_CORES = [
    # Of 1024 points and more each core has few blocks: the first load and the last store overlap
    # nothing.
    ("stockham", (2**13, 256), (16, 16), {}, 0.55, 0),
    ("stockham", (2**9, 4096), (64, 64), {}, 0.62, 0),
    *(("dft_gemm", (2**21 // n, n), (), {}, 0.58, 1.1 * 16) for n in (16, 64, 128)),
    ("four_step", (2**5, 2**16), (64, 8, 128), {}, 0.55, 0),
    ("split_four_step", (2, 2**20), (128, 64, 128), {}, 0.6, 0),
    ("split_four_step", (1, 2**20), (128, 64, 128), {}, 0.64, 0),
    ("butterfly", (2**15, 64), (), {}, 0.56, 0),
    ("butterfly", (2**9, 4096), (), {}, 0.56, 0),
    ("real_dft_gemm", (2**14, 128), (), {}, 0.58, 1.28 * 8),
    ("inverse_real_dft_gemm", (2**14, 128), (), {}, 0.58, 1.28 * 8),
    ("real_stockham", (2**21 // 320, 320), (16, 20), {}, 0.55, 0),
    ("inverse_real_stockham", (2**21 // 320, 320), (16, 20), {}, 0.55, 0),
    # A program has half of the transforms, loads all tables, and its first and last bundle overlap
    # no other.
    ("real_four_step", (2**6, 2**14), (128, 128), {}, 0.72, 0),
    ("inverse_real_four_step", (2**6, 2**14), (128, 128), {}, 0.72, 0),
    ("strided_stockham", (2, 1024, 1024), (16, 64), {}, 0.6, 0),
    ("strided_stockham", (32, 64, 1024), (64,), {}, 0.6, 1.03 * 16),
]
MORE_ON_CORES = [
    ("stockham", (2**11, 1024), (32, 32), {}, 0.62, 0),
    ("four_step", (2**7, 2**14), (128, 128), {}, 0.55, 0),
    ("split_four_step", (1, 2**21), (128, 128, 128), {}, 0.6, 0),
    # Two blocks a program: both load 2 MB of tables, and wait for a block.
    ("real_stockham", (2**9, 4096), (64, 64), {}, 0.65, 0),
    ("inverse_real_stockham", (2**9, 4096), (64, 64), {}, 0.65, 0),
    ("real_four_step", (2**4, 2**16), (128, 4, 128), {}, 0.8, 0),
    ("inverse_real_four_step", (2**4, 2**16), (128, 4, 128), {}, 0.8, 0),
]


def chips_of(algorithm):
    """Butterflies are compared on one chip: what binds them is VectorE, not HBM."""
    return ("trn2",) if algorithm == "butterfly" else ("trn2", "trn3")


@sweeps.some(
    "chip, algorithm, shape, radices, options, share, bytes_a_number",
    [(chip, *case) for case in ON_CORES + MORE_ON_CORES for chip in chips_of(case[0])],
    [("trn2", *case) for case in ON_CORES],
).with_args(ids=str)
def test_two_cores_take_half_the_time_or_what_hbm_allows(
    chip, algorithm, shape, radices, options, share, bytes_a_number
):
    one, two = (
        Launched(algorithm, chip, cores).dry_run(shape, radices, **options).total_ns
        for cores in (1, 2)
    )
    hbm = math.prod(shape) * bytes_a_number / hardware.chip(chip).hbm_stack_bytes_per_ns
    assert two <= max(share * one, hbm)
