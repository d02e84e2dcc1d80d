"""Transforms over several axes."""

from __future__ import annotations

from functools import partial

import numpy as np

import trnfft
from bench.cases.case import Arrays, Case, complex_, real
from trnfft.planner.plan import Candidate

SHAPES = {(256, 256): 16, (1024, 1024): 1, (64, 64, 64): 4}  # each with its batch


def inputs(shape: tuple[int, ...], is_real: bool, rng: np.random.Generator, batch: int) -> Arrays:
    return ((real if is_real else complex_)(rng, batch, *shape),)


def candidate(shape: tuple[int, ...], is_real: bool, batch: int) -> Candidate:
    return trnfft.plan(shape=shape, real=is_real, batch=batch).choice


def case(shape: tuple[int, ...], batch: int, is_real: bool) -> Case:
    name = "rfftn" if is_real else "fftn"
    dims = tuple(range(-len(shape), 0))
    return Case(
        operation="transforms_nd",
        name=f"{name} {' x '.join(map(str, shape))}",
        shape=shape,
        batch=batch,
        inputs=partial(inputs, shape, is_real),
        call=partial(getattr(trnfft, name), dim=dims),
        reference=partial(getattr(np.fft, name), axes=dims),
        candidate=partial(candidate, shape, is_real),
    )


CASES = tuple(case(*item, is_real) for is_real in (False, True) for item in SHAPES.items())
