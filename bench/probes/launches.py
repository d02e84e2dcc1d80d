"""The cost of a launch, by framework: a kernel that does next to nothing."""

from __future__ import annotations

import numpy as np

from bench.probes.moves import load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

LAUNCH = "launch"  # name of the probe, whose time is a part of every other time


@nki.jit
def copied_directly(x):
    """Copies x [1, 64] from HBM to HBM."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def copied_through_sbuf(x):
    """Copies x by way of SBUF."""
    return stored(load(x))


def arguments(generator: np.random.Generator, count: int) -> Arguments:
    return (normal(generator, 1, 64),)


def exact(x: Array) -> Array:
    return x.astype(float)


PROBES = (
    Probe(
        name=LAUNCH,
        question="what does the launch of an almost empty kernel cost?",
        record="hardware records 3.2 and 3.3: 52 ms, 0.53 ms, 0.1 ms, by framework and settings",
        kernel=copied_directly,
        twin=copied_through_sbuf,
        arguments=arguments,
        exact=exact,
        settles="what a launch costs beside the chip's time",
        per_framework=True,
    ),
)
