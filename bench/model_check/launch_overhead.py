"""The seed article's transforms: chains of programs, whose launches are most of their time.

A transform is a chain of programs: NKI kernels, and between each two kernels one XLA program, which
contains all permutes and twiddle products between the two. The model is

    time = per_transform + per_launch * programs + modelled time on the chip

The two constants come from the two measurements in ``FITTED_TO`` (`points.overhead`); the other
times are predicted. The chains of radix 4 and 8 are those of bench/seed_article/structure.py. The
butterfly is modelled as one program that reverses the bits, followed by one kernel for each stage;
each of them is priced as a twiddle product, which reads and writes every point once. The article
names no batch. The model assumes one transform, whose time on the chip is small.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby

import numpy as np

import nki_sim
from bench.model_check.measured import FITTED, HELD_OUT, Group, Measured
from bench.seed_article.figures import TRANSFORM_US
from bench.seed_article.structure import launches, timelines
from nki_kernels.fft.dft_gemm import dft_gemm, dft_gemm_matrix

RADICES = {"radix-4 Stockham": 4, "radix-8 Stockham": 8}
FITTED_TO = (("radix-4 Stockham", 64), ("radix-4 Stockham", 256))  # algorithm, length
BATCH = 1
SEED = Group("seed article", "one transform")
OVERHEAD = "seed article"
SOURCE = 'the article "trnfft: FFT is a GEMM, and then it isn\'t", section "Numbers"'


def programs_of(algorithm: str, n: int) -> int:
    """Returns the number of kernels and XLA programs of a transform.

    All steps between two kernels form one program.
    """
    if algorithm == "DFT-GEMM":
        return 1
    if algorithm == "butterfly":
        return round(np.log2(n)) + 1
    radix = RADICES[algorithm]
    is_kernel = [launch.kind == f"radix{radix}" for launch in launches(n, radix, BATCH)]
    return sum(len(list(run)) if kernels else 1 for kernels, run in groupby(is_kernel))


def chip_us(algorithm: str, n: int) -> float:
    """Returns the modelled microseconds of all programs of a transform on the chip."""
    if algorithm == "DFT-GEMM":
        spec = ((BATCH, n), "float32")
        return nki_sim.dry_run(dft_gemm, spec, spec, dft_gemm_matrix(n)).total_ns / 1e3
    if algorithm == "butterfly":
        twiddle = next(t for kind, t in timelines(n, 4, BATCH) if kind == "twiddle")
        return programs_of(algorithm, n) * twiddle.total_ns / 1e3
    return sum(t.total_ns for _, t in timelines(n, RADICES[algorithm], BATCH)) / 1e3


RECORDS = tuple(
    Measured(
        SEED,
        "trn1",
        SOURCE,
        f"{algorithm}, N = {n}",
        us,
        partial(chip_us, algorithm, n),
        FITTED if (algorithm, n) in FITTED_TO else HELD_OUT,
        overhead=OVERHEAD,
        launches=programs_of(algorithm, n),
    )
    for (algorithm, n), us in TRANSFORM_US.items()
)

LEFT_OUT: dict[str, str] = {}
