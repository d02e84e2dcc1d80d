"""A launch has at most 30,000 instructions at any batch that fits into HBM: the rest are loops."""

from __future__ import annotations

import pytest

from nki_kernels.base.launch import LAUNCH_INSTRUCTIONS
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .launched import Launched
from .samples import fits

MOST = hardware.HBM_TENSOR_BYTES // 4  # numbers of a tensor
COMPENSATED = {"compensated": True}

# Algorithm, shape, radices, options, and how often at least a loop runs each instruction.
CASES = [
    ("stockham", (2**17, 4096), (64, 64), {}, 2),
    ("dft_gemm", (MOST // 4, 4), (), {}, 2),
    ("four_step", (2**12, 2**16), (32, 16, 128), {}, 2),
    ("split_four_step", (2**9, 2**20), (128, 64, 128), {}, 30),
    ("long_bluestein", (100, 65537), (128, 16, 65), {}, 2),
    ("split_bluestein", (512, 1048573), (128, 128, 128), {}, 10),
    ("butterfly", (MOST // 64 - 1, 64), (), {}, 5),
    ("folded_dft", (200_000, 131), (), {}, 2),
    ("real_dft_gemm", (MOST // 64, 64), (), {}, 2),
    ("inverse_real_dft_gemm", (MOST // 64, 64), (), {}, 2),
    ("real_stockham", (MOST // 66, 64), (8, 8), {}, 2),
    ("inverse_real_stockham", (MOST // 66, 64), (8, 8), {}, 2),
    ("real_four_step", (MOST // 5762, 5760), (36, 4, 40), {}, 2),
    ("inverse_real_four_step", (MOST // 1158, 1156), (34, 34), {}, 2),
    ("strided_stockham", (31, 4096, 4096), (64, 64), {}, 0),
]
MORE = [
    ("stockham", (2**19, 1024), (32, 32), {}, 2),
    ("four_step", (2**12, 2**14), (128, 128), {}, 2),
    ("four_step", (2**10, 2**19), (64, 64, 128), {}, 2),
    ("split_four_step", (2**8, 2**21), (128, 128, 128), {}, 30),
    ("split_four_step", (2**4, 2**25), (128, 64, 32, 128), {}, 15),
    ("long_bluestein", (100, 262139), (128, 32, 128), {}, 2),
    ("split_bluestein", (2**7, 2**22 - 3), (128, 64, 8, 128), {}, 10),
    ("butterfly", (767, 4096), (), COMPENSATED, 0),  # a row less than the shortest loop
    ("folded_dft", (200_000, 2039), (), {}, 2),
    ("real_dft_gemm", (MOST // 256, 256), (), {}, 2),
    ("inverse_real_dft_gemm", (MOST // 256, 256), (), {}, 2),
    ("real_stockham", (MOST // 8194, 8192), (128, 64), {}, 2),
    ("inverse_real_stockham", (MOST // 8194, 8192), (128, 64), {}, 2),
    ("real_four_step", (MOST // 16386, 16384), (128, 128), {}, 2),
    ("inverse_real_four_step", (MOST // 262146, 262144), (128, 16, 128), {}, 2),
    ("strided_stockham", (8192, 256, 256), (4, 64), {}, 0),
    ("strided_stockham", (3, 305, 2**19), (5, 61), {}, 0),
]


@pytest.mark.weekly
@sweeps.some(
    "chip, algorithm, shape, radices, options, times",
    [(chip, *case) for case in CASES + MORE for chip in hardware.NAMES],
    [("trn1", *case) for case in CASES],
).with_args(ids=str)
def test_a_launch_has_few_instructions(
    monkeypatch, chip, algorithm, shape, radices, options, times
):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", LAUNCH_INSTRUCTIONS)
    launched = Launched(algorithm, chip, hardware.chip(chip).programs_per_launch)
    timeline = launched.dry_run(shape, radices, **options)
    with hardware.select(hardware.chip(chip)):
        assert fits(timeline)
    assert len(timeline.events) <= LAUNCH_INSTRUCTIONS * launched.cores
    assert timeline.instructions >= times * len(timeline.events)
