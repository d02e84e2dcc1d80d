"""Loops on the device: whether they are right, nested or not, and what an iteration costs."""

from __future__ import annotations

import numpy as np

from bench.probes.moves import load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

SHAPE = (128, 64)
OUTER = 4  # iterations of the outer loop


@nki.jit
def looped(x, count):
    """Returns x + count, by a loop on the device."""
    total = load(x)

    def step(_):
        nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, count, step)
    return stored(total)


@nki.jit
def looped_twice(x, count):
    """Returns x + count, by a loop of 4 iterations around one of count / 4."""
    total = load(x)

    def step(_):
        nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=1.0)

    def steps(_):
        nl.fori_loop(0, count // OUTER, step)

    nl.fori_loop(0, OUTER, steps)
    return stored(total)


@nki.jit
def unrolled(x, count):
    """Returns x + count, by unrolled instructions."""
    total = load(x)
    for _ in range(count):
        nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=1.0)
    return stored(total)


def arguments(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, *SHAPE), count


def exact(x: Array, count: int) -> Array:
    return x.astype(float) + count


PROBES = (
    Probe(
        name="device-loop",
        question="a loop on the device: right, and how long does an iteration take?",
        record="hardware records 5; kiln on trn1: 1.4 us with an almost empty body",
        kernel=looped,
        twin=unrolled,
        arguments=arguments,
        exact=exact,
        constant="loop_iteration_ns",
        counts=(16, 256, 1024),
    ),
    Probe(
        name="device-loop-nested",
        question="a loop on the device inside of another one: does it compile?",
        record="kiln on trn1; aws-neuron-sdk issue 1346: refused up to NKI 0.5",
        kernel=looped_twice,
        twin=unrolled,
        arguments=arguments,
        exact=exact,
        rule="nested-device-loops",
        counts=(16,),
    ),
)
