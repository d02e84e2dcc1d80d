"""Loops on the device: right, nested, and what an iteration costs beside its body."""

from __future__ import annotations

from functools import partial

import numpy as np

from bench.probes.moves import load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.nki_api import nisa, nki, nl

SHAPE = (128, 64)
OUTER = 4  # iterations of the loop around the other one


@nki.jit
def looped(x, count, is_nested):
    """x + count, by a loop on the device, or by one of 4 iterations around one of count / 4."""
    total = load(x)

    def step(_):
        nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=1.0)

    def steps(_):
        nl.fori_loop(0, count // OUTER, step)

    if is_nested:
        nl.fori_loop(0, OUTER, steps)
    else:
        nl.fori_loop(0, count, step)
    return stored(total)


@nki.jit
def unrolled(x, count, is_nested):
    """The same, unrolled."""
    total = load(x)
    for _ in range(count):
        nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=1.0)
    return stored(total)


def arguments(generator: np.random.Generator, count: int, is_nested: bool) -> Arguments:
    return normal(generator, *SHAPE), count, is_nested


def exact(x: Array, count: int, is_nested: bool) -> Array:
    return x.astype(float) + count


PROBES = (
    Probe(
        name="device-loop",
        question="a loop on the device: right, and how long does an iteration take?",
        record="hardware records 5; kiln on trn1: 1.4 us with an almost empty body",
        kernel=looped,
        twin=unrolled,
        arguments=partial(arguments, is_nested=False),
        exact=exact,
        constant="loop_iteration_ns",
        counts=(16, 256, 1024),
    ),
    Probe(
        name="device-loop-nested",
        question="a loop on the device inside of another one: does it compile?",
        record="kiln on trn1; aws-neuron-sdk issue 1346: refused up to NKI 0.5",
        kernel=looped,
        twin=unrolled,
        arguments=partial(arguments, is_nested=True),
        exact=exact,
        rule="nested-device-loops",
        counts=(16,),
    ),
)
