"""What a launch has to fit into: SBUF, and 30,000 instructions at any batch that fits into HBM."""

from __future__ import annotations

import itertools
import math

import pytest

from nki_kernels.base.launch import LAUNCH_INSTRUCTIONS
from nki_kernels.fft import folded_dft
from nki_kernels.real.real_four_step_tables import MAX_INVERSE_LENGTH
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .launched import COMPENSATED, Launched, both_ways
from .samples import fits
from .turns import on_chips

MOST = hardware.HBM_TENSOR_BYTES // 4  # numbers of a tensor

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


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("chip", "step"), [("trn1", 411), *(sweeps.whole(chip, 137) for chip in hardware.NAMES)]
)
def test_every_folded_length_fits(chip, step):
    launched = Launched("folded_dft", chip)
    with hardware.select(hardware.chip(chip)):
        for n in range(folded_dft.MIN_LENGTH, folded_dft.MAX_LENGTH + 1, step):
            for batch in (1, 17, 300):
                assert fits(launched.dry_run((batch, n)))
        assert fits(launched.dry_run((700, folded_dft.MAX_LENGTH)))


@pytest.mark.parametrize("chip", ["trn1", *map(sweeps.whole, ["trn2", "trn3"])])
def test_the_longest_state_of_four_step_fits(chip):
    radices = (100, 92, 111)
    timeline = Launched("four_step", chip).dry_run((3, math.prod(radices)), radices)
    assert timeline.sbuf_peak_bytes <= 192 << 10


LONGEST = [("real_stockham", 300, radices) for radices in ((128, 64), (127, 64), (2, 64))]
LONGEST += [
    ("real_four_step", 3, radices)
    for radices in ((128, 64, 128), (128, 32, 128), (34, 64, 34), (128, 2, 34))
]


@on_chips(
    "algorithm, batch, radices",
    LONGEST,
    whole=[
        ("real_stockham", 300, (128, 63)),
        ("real_stockham", 300, (128, 2)),
        ("real_four_step", 3, (64, 64, 128)),
    ],
)
def test_the_longest_real_data_fits(strict_chip, algorithm, batch, radices):
    shape = batch, math.prod(radices)
    for name in both_ways(algorithm) if shape[1] <= MAX_INVERSE_LENGTH else [algorithm]:
        assert fits(Launched(name, strict_chip).dry_run(shape, radices))


SHAPES = [(64,), (2, 64), (64, 2), (2, 61), (7, 53), (64, 16), (32, 61), (61, 61), (64, 64)]


@sweeps.some(
    "radices, chip, columns",
    itertools.product(SHAPES, hardware.NAMES, [1, 128, 600, 1025]),
    [
        ((64,), "trn2", 600),
        ((7, 53), "trn1", 1025),
        ((64, 16), "trn2", 1025),
        ((61, 61), "trn1", 128),
        ((64, 64), "trn1", 1025),
    ],
).with_args(ids=str)
def test_members_and_columns_fit(chip, radices, columns):
    with hardware.select(hardware.chip(chip)):
        shape = 2, math.prod(radices), columns
        assert fits(Launched("strided_stockham", chip).dry_run(shape, radices))


@pytest.mark.slow
def test_every_pair_of_radices_along_a_middle_axis_fits():
    for radices in itertools.product(range(2, 65, 2), range(3, 65, 2)):
        for each in (radices, radices[::-1]):
            assert fits(Launched("strided_stockham").dry_run((1, math.prod(each), 512), each))
