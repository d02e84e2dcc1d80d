"""Transforms over several axes."""

from __future__ import annotations

from functools import partial

import numpy as np

import trnfft
from bench.cases.case import Case, complex_, real

SHAPES = {(256, 256): 16, (1024, 1024): 1, (64, 64, 64): 4}  # each with its batch


def case(shape: tuple[int, ...], batch: int, is_real: bool) -> Case:
    name = "rfftn" if is_real else "fftn"
    dims = tuple(range(-len(shape), 0))
    return Case(
        operation="transforms_nd",
        name=f"{name} {' x '.join(map(str, shape))}",
        shape=shape,
        batch=batch,
        inputs=lambda rng: ((real if is_real else complex_)(rng, batch, *shape),),
        call=partial(getattr(trnfft, name), dim=dims),
        reference=partial(getattr(np.fft, name), axes=dims),
        candidate=lambda: trnfft.plan(shape=shape, real=is_real, batch=batch).choice,
    )


CASES = tuple(case(*item, is_real) for is_real in (False, True) for item in SHAPES.items())
