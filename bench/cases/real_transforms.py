"""Transforms of real data, and their inverses."""

from __future__ import annotations

from functools import partial

import numpy as np

import trnfft
from bench.cases.case import Arrays, Case, complex_, real
from bench.cases.transforms_1d import batch_of
from trnfft.planner.plan import Candidate

LENGTHS = (256, 1000, 1024, 4096)


def rows(n: int, rng: np.random.Generator, batch: int) -> Arrays:
    return (real(rng, batch, n),)


def half_spectra(n: int, rng: np.random.Generator, batch: int) -> Arrays:
    """Returns half spectra of real rows of even length n: their first and last number are real."""
    x = complex_(rng, batch, n // 2 + 1)
    x.imag[:, :: n // 2] = 0.0
    return (x,)


def candidate(n: int, inverse: bool, batch: int) -> Candidate:
    return trnfft.plan(n, real=True, inverse=inverse, batch=batch).choice


def case(n: int, inverse: bool) -> Case:
    return Case(
        operation="real_transforms",
        name=f"{'irfft' if inverse else 'rfft'} {n}",
        shape=(n,),
        batch=batch_of(n),
        inputs=partial(half_spectra if inverse else rows, n),
        call=partial(trnfft.irfft, n=n) if inverse else trnfft.rfft,
        reference=partial(np.fft.irfft, n=n) if inverse else np.fft.rfft,
        candidate=partial(candidate, n, inverse),
    )


CASES = tuple(case(n, inverse) for inverse in (False, True) for n in LENGTHS)
