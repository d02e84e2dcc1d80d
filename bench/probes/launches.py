"""Launches: their cost, tensors in tuples, defaults of helpers, loops on the device, two cores."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.model_check.tiles import load, stored
from bench.probes.engines import combined
from bench.probes.probe import COUNT, Arguments, Array, Probe
from nki_kernels.base.isa import nisa, nki, nl

LAUNCH = "launch"  # name of the probe, whose time is a part of every other time
ROWS, WIDTH = 128, 64
SHAPE = (ROWS, WIDTH)
OUTER = 4  # iterations of the outer loop


@nki.jit
def copied(x, asks):
    """Copies x [1, 64] from HBM to HBM, or by way of SBUF."""
    if asks:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=x)
    else:
        out = stored(load(x))
    return out


# Arguments of a launch and of a helper. A compiler may refuse a construct wherever it stands, so
# that these twins, and those of loops, are kernels of their own.


@nki.jit
def difference_of_tuple(tensors):
    """Returns a - b of the tuple (a, b), which is one argument."""
    return stored(subtracted(load(tensors[0]), load(tensors[1])))


@nki.jit
def difference_of_nested(tensors):
    """Returns a - b of (a, (), ((b,),)), which is one argument."""
    return stored(subtracted(load(tensors[0]), load(tensors[2][0][0])))


@nki.jit
def difference(a, b):
    """Returns a - b, where each is an argument of its own."""
    return stored(subtracted(load(a), load(b)))


def subtracted(a: Any, b: Any) -> Any:
    """Returns a - b in a new tile."""
    return combined(a, b, nl.subtract, nisa.engine.vector)


@nki.jit
def scaled_by_default(x):
    """Returns 3 x, by a helper whose factor has its default value."""
    return stored(scaled(load(x)))


@nki.jit
def scaled_by_keyword(x):
    """Returns 6 x, by the same helper with the factor as a keyword."""
    return stored(scaled(load(x), factor=6.0))


@nki.jit
def tripled(x):
    """Returns 3 x, by the same helper with positional arguments only."""
    return stored(scaled(load(x), 3.0))


@nki.jit
def sextupled(x):
    """Returns 6 x, by the same helper with positional arguments only."""
    return stored(scaled(load(x), 6.0))


def scaled(tile: Any, factor: float = 3.0) -> Any:
    """Returns the tile times a factor, in a new tile."""
    result = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=result, data=tile, op0=nl.multiply, operand0=factor, engine=nisa.engine.vector
    )
    return result


def in_a_tuple(arguments: Arguments) -> Arguments:
    return (arguments,)


def nested(arguments: Arguments) -> Arguments:
    a, b = arguments
    return ((a, (), ((b,),)),)


of_tensors = partial(
    Probe,
    record="hardware records 3.1: wrap_nki in torch_neuronx and vllm_neuron, read in code",
    twin=difference,
    exact=lambda a, b: a.astype(float) - b,
    shapes=(SHAPE, SHAPE),
    rule="tensors-in-sequences",
    per_framework=True,
)
of_helpers = partial(
    Probe,
    record="hardware records 2: vllm-neuron's comments against nki-library's use",
    shapes=(SHAPE,),
)


# Loops on the device.


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


of_loops = partial(
    Probe, twin=unrolled, exact=lambda x, count: x.astype(float) + count, shapes=(SHAPE,)
)


# LNC: launches on one core and on two, and the cost of a barrier at which two cores meet.


@nki.jit
def exchanged(x, rounds, asks):
    """Moves row r of x [programs * 128, 64] to the next program's block, ``rounds`` times.

    In each round every program writes its block to shared HBM, waits for the other program at a
    barrier, and reads the other's block. The twin needs no barrier: each program reads its last
    block at once, then writes to HBM and reads its own data back as often.
    """
    programs, program = nl.num_programs(), nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if asks:
        tile = load(block(x, program))
        for _ in range(rounds):
            shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nisa.dma_copy(dst=block(shared, program), src=tile)
            if programs > 1:
                nisa.core_barrier(shared, (0, 1))
            tile = load(block(shared, (program + 1) % programs))
    else:
        tile = load(block(x, (program + rounds) % programs))
        for _ in range(rounds):
            own = nl.ndarray(SHAPE, dtype=x.dtype, buffer=nl.private_hbm)
            nisa.dma_copy(dst=own, src=tile)
            tile = load(own)
    nisa.dma_copy(dst=block(out, program), src=tile)
    return out


@nki.jit
def unmoved(x, rounds):
    """Returns x, in a kernel that uses neither the number nor the count of programs."""
    return stored(load(x))


def asking(arguments: Arguments) -> Arguments:
    return *arguments, True


def block(tensor: Any, program: int) -> Any:
    """Returns the rows of one program."""
    return tensor[program * ROWS : (program + 1) * ROWS, :]


def rolled(x: Array, rounds: int) -> Array:
    return np.roll(x.astype(float), -ROWS * rounds, axis=0)


of_cores = partial(
    Probe,
    record="hardware records 3.4; nki/get-started/about/lnc.rst",
    kernel=exchanged,
    exact=rolled,
    constants=(COUNT,),
)

PROBES = (
    Probe(
        LAUNCH,
        "what does the launch of an almost empty kernel cost?",
        "hardware records 3.2 and 3.3: 52 ms, 0.53 ms, 0.1 ms, by framework and settings",
        copied,
        lambda x: x.astype(float),
        ((1, 64),),
        settles="what a launch costs beside the chip's time",
        per_framework=True,
    ),
    of_tensors(
        "tensors-in-a-tuple",
        "tensors in a tuple as an argument: do they reach the kernel?",
        kernel=difference_of_tuple,
        packed=in_a_tuple,
    ),
    of_tensors(
        "tensors-in-nested-tuples",
        "tensors in tuples of tuples, an empty one among them: do they reach the kernel?",
        kernel=difference_of_nested,
        packed=nested,
    ),
    of_helpers(
        "helper-default",
        "a helper's argument left to its default: does it get that?",
        kernel=scaled_by_default,
        twin=tripled,
        exact=lambda x: 3.0 * x.astype(float),
        settles="lint's contested rule helper-default",
    ),
    of_helpers(
        "helper-keyword",
        "a helper's argument given as a keyword, other than its default: does it get that?",
        kernel=scaled_by_keyword,
        twin=sextupled,
        exact=lambda x: 6.0 * x.astype(float),
        settles="lint's contested rule helper-keyword",
    ),
    of_loops(
        "device-loop",
        "a loop on the device: right, and how long does an iteration take?",
        "hardware records 5; kiln on trn1: 1.4 us with an almost empty body",
        looped,
        constants=(COUNT,),
        constant="loop_iteration_ns",
        counts=(16, 256, 1024),
    ),
    of_loops(
        "device-loop-nested",
        "a loop on the device inside of another one: does it compile?",
        "kiln on trn1; aws-neuron-sdk issue 1346: refused up to NKI 0.5",
        looped_twice,
        constants=(COUNT,),
        rule="nested-device-loops",
        counts=(16,),
    ),
    of_cores(
        "lnc-1",
        "kernel[1] with NEURON_LOGICAL_NC_CONFIG=1: does it run as program 0 of 1?",
        shapes=(SHAPE,),
        settles="that launches on one core are kernel[1]",
        twin=unmoved,
        packed=asking,
    ),
    of_cores(
        "lnc-2",
        "a launch with NEURON_LOGICAL_NC_CONFIG=2: right, and what does a meeting cost?",
        shapes=((2 * ROWS, WIDTH),),
        constant="core_barrier_ns",
        counts=(1, 17, 65),
        lnc=2,
        generations=(3, 4),
    ),
)
