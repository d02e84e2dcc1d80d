"""What launches of the seed article cost beside the chip's time: fitted once, then predicted.

A transform is a chain of programs: NKI kernels, and between them XLA programs, each of which holds
the permutes and twiddle products in a row. The model is

    time = per_transform + per_launch * programs + modelled time on the chip

with two constants from the two measurements in ``FITTED``; all others are predicted. The chain of
radix 4 and 8 is that of bench/seed_article/structure.py. The butterfly is taken as one kernel a
stage after one program that reverses the bits, each priced as a twiddle product: points read and
written once. The article names no batch: one transform, for which the chip's part is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from bench.seed_article.structure import launches, timelines
from nki_kernels import hardware, simulator
from nki_kernels.kernels.dft_gemm import dft_gemm, dft_gemm_matrix

Transform = tuple[str, int]  # algorithm, length
RADICES = {"radix-4 Stockham": 4, "radix-8 Stockham": 8}
FITTED: tuple[Transform, ...] = (("radix-4 Stockham", 64), ("radix-4 Stockham", 256))
BATCH = 1


@dataclass(frozen=True)
class Chain:
    """Programs that a transform launches, and their modelled time on trn1 in microseconds."""

    programs: int
    chip_us: float


def chain(algorithm: str, n: int) -> Chain:
    """The chain of one transform; ValueError for an algorithm that the article does not have."""
    with hardware.select(hardware.TRN1):
        if algorithm == "DFT-GEMM":
            spec = ((BATCH, n), "float32")
            table = dft_gemm_matrix(n)
            return Chain(1, simulator.dry_run(dft_gemm, spec, spec, table).total_ns / 1e3)
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
    """Kernels and XLA programs of a chain; what stands between two kernels is one program."""
    is_kernel = [launch.kind == f"radix{radix}" for launch in launches(n, radix, BATCH)]
    return sum(len(list(run)) if kernels else 1 for kernels, run in groupby(is_kernel))


@dataclass(frozen=True)
class Overhead:
    """Microseconds a transform and a launched program, beside the time on the chip."""

    per_transform_us: float
    per_launch_us: float

    def predict(self, transform: Transform) -> float:
        """Microseconds of a transform (algorithm, length)."""
        found = chain(*transform)
        return self.per_transform_us + self.per_launch_us * found.programs + found.chip_us


def fit(measured_us: Mapping[Transform, float]) -> Overhead:
    """Least squares over all of ``measured_us``, at least two transforms of different chains."""
    chains = [chain(*transform) for transform in measured_us]
    if len({c.programs for c in chains}) < 2:
        raise ValueError("measured_us: needs two transforms that launch different numbers")
    counts = np.array([[1.0, c.programs] for c in chains])
    rest = np.array(list(measured_us.values())) - [c.chip_us for c in chains]
    per_transform, per_launch = np.linalg.lstsq(counts, rest, rcond=None)[0]
    return Overhead(float(per_transform), float(per_launch))
