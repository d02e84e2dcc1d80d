"""LNC: launches on one core and on two, and the cost of a barrier at which two cores meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.probes.moves import load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

ROWS, WIDTH = 128, 64


@nki.jit
def exchanged(x, rounds):
    """Moves row r of x [programs * 128, 64] to the next program's block, ``rounds`` times.

    In each round every program writes its block to shared HBM, waits for the other program at a
    barrier, and reads the other's block.
    """
    programs, program = nl.num_programs(), nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(block(x, program))
    for _ in range(rounds):
        shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=block(shared, program), src=tile)
        if programs > 1:
            nisa.core_barrier(shared, (0, 1))
        tile = load(block(shared, (program + 1) % programs))
    nisa.dma_copy(dst=block(out, program), src=tile)
    return out


@nki.jit
def fetched(x, rounds):
    """Computes the same result without a barrier: each program reads its last block at once.

    The program then writes to HBM and reads its own data back as often as `exchanged` does.
    """
    programs, program = nl.num_programs(), nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = load(block(x, (program + rounds) % programs))
    for _ in range(rounds):
        own = nl.ndarray((ROWS, WIDTH), dtype=x.dtype, buffer=nl.private_hbm)
        nisa.dma_copy(dst=own, src=tile)
        tile = load(own)
    nisa.dma_copy(dst=block(out, program), src=tile)
    return out


def block(tensor: Any, program: int) -> Any:
    """Returns the rows of one program."""
    return tensor[program * ROWS : (program + 1) * ROWS, :]


@nki.jit
def copied(x, rounds):
    """Returns x, in a kernel that uses neither the number nor the count of programs."""
    return stored(load(x))


def one_core(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, ROWS, WIDTH), count


def two_cores(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, 2 * ROWS, WIDTH), count


def exact(x: Array, rounds: int) -> Array:
    return np.roll(x.astype(float), -ROWS * rounds, axis=0)


RECORD = "hardware records 3.4; nki/get-started/about/lnc.rst"
PROBES = (
    Probe(
        name="lnc-1",
        question="kernel[1] with NEURON_LOGICAL_NC_CONFIG=1: does it run as program 0 of 1?",
        record=RECORD,
        kernel=exchanged,
        twin=copied,
        arguments=one_core,
        exact=exact,
        settles="that launches on one core are kernel[1]",
    ),
    Probe(
        name="lnc-2",
        question="a launch with NEURON_LOGICAL_NC_CONFIG=2: right, and what does a meeting cost?",
        record=RECORD,
        kernel=exchanged,
        twin=fetched,
        arguments=two_cores,
        exact=exact,
        constant="core_barrier_ns",
        counts=(1, 17, 65),
        lnc=2,
        generations=(3, 4),
    ),
)
