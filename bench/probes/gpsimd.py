"""`tensor_tensor` in float32 on GpSimdE: does it compile, and is it right?"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.probes.moves import combined, load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

SHAPE = (128, 64)


@nki.jit
def computed_by_gpsimd(a, b):
    """Returns (a - b) b, by GpSimdE."""
    return stored(computed(load(a), load(b), nisa.engine.gpsimd))


@nki.jit
def computed_by_vector(a, b):
    """Returns (a - b) b, by VectorE."""
    return stored(computed(load(a), load(b), nisa.engine.vector))


def computed(a: Any, b: Any, engine: Any) -> Any:
    """Returns (a - b) b in a new tile."""
    return combined(combined(a, b, nl.subtract, engine), b, nl.multiply, engine)


def arguments(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, *SHAPE), normal(generator, *SHAPE)


def exact(a: Array, b: Array) -> Array:
    return (a.astype(float) - b) * b


PROBES = (
    Probe(
        name="gpsimd-float32",
        question="tensor_tensor in float32 on GpSimdE: does it compile, and is it right?",
        record="hardware records 2: NCC_IXCG965, by kiln on trn1; no record of trn2 and trn3",
        kernel=computed_by_gpsimd,
        twin=computed_by_vector,
        arguments=arguments,
        exact=exact,
        rule="gpsimd-float32",
    ),
)
