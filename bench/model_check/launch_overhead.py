"""The overhead of the seed article's launches: fitted to two transforms, then predicted for all.

A transform is a chain of programs: NKI kernels, and between each two kernels one XLA program, which
contains all permutes and twiddle products between the two. The model is

    time = per_transform + per_launch * programs + modelled time on the chip

The two constants come from the two measurements in ``FITTED_TO``; the other times are predicted.
The chains of radix 4 and 8 are those of bench/seed_article/structure.py. The butterfly is modelled
as one program that reverses the bits, followed by one kernel for each stage; each of them is priced
as a twiddle product, which reads and writes every point once. The article names no batch. The model
assumes one transform, whose time on the chip is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

import nki_sim
from bench.model_check.measured import FITTED, HELD_OUT, Group, Measured
from bench.seed_article.figures import TRANSFORM_US
from bench.seed_article.structure import launches, timelines
from nki_kernels.fft.dft_gemm import dft_gemm, dft_gemm_matrix
from nki_sim import hardware

Transform = tuple[str, int]  # algorithm, length
RADICES = {"radix-4 Stockham": 4, "radix-8 Stockham": 8}
FITTED_TO: tuple[Transform, ...] = (("radix-4 Stockham", 64), ("radix-4 Stockham", 256))
BATCH = 1
SEED = Group("seed article", "one transform")
SOURCE = 'the article "trnfft: FFT is a GEMM, and then it isn\'t", section "Numbers"'


@dataclass(frozen=True)
class Chain:
    """The number of programs of a transform, and their modelled microseconds on trn1."""

    programs: int
    chip_us: float


def chain(algorithm: str, n: int) -> Chain:
    """Returns the chain of one transform.

    Raises:
        ValueError: the article does not have the algorithm.
    """
    with hardware.select(hardware.TRN1):
        if algorithm == "DFT-GEMM":
            spec = ((BATCH, n), "float32")
            table = dft_gemm_matrix(n)
            return Chain(1, nki_sim.dry_run(dft_gemm, spec, spec, table).total_ns / 1e3)
        if algorithm == "butterfly":
            count = round(np.log2(n)) + 1
            twiddle = next(t for kind, t in timelines(n, 4, BATCH) if kind == "twiddle")
            return Chain(count, count * twiddle.total_ns / 1e3)
        if algorithm in RADICES:
            radix = RADICES[algorithm]
            chip_us = sum(t.total_ns for _, t in timelines(n, radix, BATCH)) / 1e3
            return Chain(count_programs(n, radix), chip_us)
    ways = ", ".join(("DFT-GEMM", "butterfly", *RADICES))
    raise ValueError(f"algorithm {algorithm!r}: must be one of {ways}")


def count_programs(n: int, radix: int) -> int:
    """Returns the number of kernels and XLA programs of a chain.

    All steps between two kernels form one program.
    """
    is_kernel = [launch.kind == f"radix{radix}" for launch in launches(n, radix, BATCH)]
    return sum(len(list(run)) if kernels else 1 for kernels, run in groupby(is_kernel))


@dataclass(frozen=True)
class Overhead:
    """Microseconds for each transform and each program, beside the time on the chip."""

    per_transform_us: float
    per_launch_us: float

    def predict(self, transform: Transform) -> float:
        """Returns the predicted microseconds of a transform (algorithm, length)."""
        found = chain(*transform)
        return self.per_transform_us + self.per_launch_us * found.programs + found.chip_us


def fit(measured_us: Mapping[Transform, float]) -> Overhead:
    """Fits the overhead to ``measured_us`` by least squares.

    Raises:
        ValueError: all transforms launch the same number of programs.
    """
    chains = [chain(*transform) for transform in measured_us]
    if len({c.programs for c in chains}) < 2:
        raise ValueError(
            f"argument 'measured_us' has {len(measured_us)} transforms that all launch the same "
            "number of programs, allowed are at least two that launch different numbers"
        )
    counts = np.array([[1.0, c.programs] for c in chains])
    rest = np.array(list(measured_us.values())) - [c.chip_us for c in chains]
    per_transform, per_launch = np.linalg.lstsq(counts, rest, rcond=None)[0]
    return Overhead(float(per_transform), float(per_launch))


def seed_overhead() -> Overhead:
    """Returns the overhead of the seed's launches, fitted to the points in FITTED_TO only."""
    return fit({key: TRANSFORM_US[key] for key in FITTED_TO})


def predicted_us(transform: Transform) -> float:
    """Returns the predicted microseconds of a transform of the article."""
    return seed_overhead().predict(transform)


RECORDS = tuple(
    Measured(
        SEED,
        "trn1",
        SOURCE,
        f"{algorithm}, N = {n}",
        us,
        partial(predicted_us, (algorithm, n)),
        FITTED if (algorithm, n) in FITTED_TO else HELD_OUT,
    )
    for (algorithm, n), us in TRANSFORM_US.items()
)

LEFT_OUT: dict[str, str] = {}
