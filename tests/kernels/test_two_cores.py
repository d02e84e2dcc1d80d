"""Two cores of a launch take about half the time of one, or what HBM allows."""

from __future__ import annotations

import math

from nki_sim import hardware
from tests import sweeps

from .launched import Launched

# Algorithm, shape, radices, options, the share of one core's time that two take at the most, and
# bytes a number that pass HBM, which both cores share.
CASES = [
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
MORE = [
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
    [(chip, *case) for case in CASES + MORE for chip in chips_of(case[0])],
    [("trn2", *case) for case in CASES],
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
