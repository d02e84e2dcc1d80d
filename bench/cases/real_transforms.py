"""Transforms of real data, and their inverses."""

from __future__ import annotations

from functools import partial

import numpy as np

import trnfft
from bench.cases.case import Arrays, Case, complex_, real
from bench.cases.transforms_1d import batch_of

LENGTHS = (256, 1000, 1024, 4096)


def half_spectra(rng: np.random.Generator, batch: int, n: int) -> Arrays:
    """Returns half spectra of real rows of even length n: their first and last number are real."""
    x = complex_(rng, batch, n // 2 + 1)
    x.imag[:, :: n // 2] = 0.0
    return (x,)


def case(n: int, inverse: bool, batch: int = 0) -> Case:
    batch = batch or batch_of(n)
    return Case(
        operation="real_transforms",
        name=f"{'irfft' if inverse else 'rfft'} {n}",
        shape=(n,),
        batch=batch,
        inputs=lambda rng: half_spectra(rng, batch, n) if inverse else (real(rng, batch, n),),
        call=partial(trnfft.irfft, n=n) if inverse else trnfft.rfft,
        reference=partial(np.fft.irfft, n=n) if inverse else np.fft.rfft,
        candidate=lambda: trnfft.plan(n, real=True, inverse=inverse, batch=batch).choice,
    )


CASES = tuple(case(n, inverse) for inverse in (False, True) for n in LENGTHS)
