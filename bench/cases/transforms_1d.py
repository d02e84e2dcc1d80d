"""Complex transforms of one dimension: single ones, batches, and each algorithm by name."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import trnfft
from bench.cases.case import Case, complex_
from trnfft.backends.choice import named
from trnfft.planner.plan import Candidate

POINTS = 2**20  # of a batch, about
SINGLE = (64, 256, 512, 1024, 4096, 16384, 65536)  # the seed article has the first five lengths
LENGTHS = (64, 256, 512, 997, 1000, 1024, 4096, 4099, 16384, 65536, 2**20)
ALGORITHMS = {
    "dft_gemm": (64, 256),
    "stockham": (64, 256, 1024, 4096),
    "butterfly": (64, 256, 1024, 4096),
    "four_step": (1024, 4096, 16384, 65536),
    "bluestein": (256, 1024, 4096),
}


def batch_of(n: int) -> int:
    """Returns a power of two: how many transforms of length n have about POINTS points."""
    return POINTS >> round(math.log2(n))


def candidate(n: int, algorithm: str, batch: int) -> Candidate:
    """Returns the planner's choice, among all algorithms or with the named algorithm.

    Raises:
        NotImplementedError: the algorithm does not support the length.
    """
    return trnfft.plan(n, batch=batch, algorithms=algorithm or None).choice


def call(n: int, algorithm: str, x: Any, inverse: bool = False) -> Any:
    """Computes the transform by `trnfft.fft` or `ifft`, or by the kernel of the named algorithm."""
    if not algorithm:
        return trnfft.ifft(x) if inverse else trnfft.fft(x)
    parts = [x.real.contiguous(), x.imag.contiguous()]
    recipe = candidate(n, algorithm, x.shape[0]).recipe
    scale = 1.0 / n if inverse else 1.0
    backend = trnfft.get_backend()
    return trnfft.ComplexTensor(*named(backend).run(recipe, tuple(parts), inverse, scale))


def case(n: int, batch: int, algorithm: str = "", precision: str = "fast") -> Case:
    return Case(
        operation="transforms_1d",
        name=f"fft {n}",
        shape=(n,),
        batch=batch,
        inputs=lambda rng: (complex_(rng, batch, n),),
        call=partial(call, n, algorithm),
        reference=np.fft.fft,
        candidate=partial(candidate, n, algorithm, batch),
        algorithm=algorithm,
        precision=precision,
    )


CASES = (
    *(case(n, 1) for n in SINGLE),
    *(case(n, batch_of(n)) for n in LENGTHS),
    *(case(n, batch_of(n), name) for name, lengths in ALGORITHMS.items() for n in lengths),
)
