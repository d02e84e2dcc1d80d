"""Float32 products whose moving rows begin at a multiple of 16 bytes, and elsewhere."""

from __future__ import annotations

import numpy as np

from bench.probes.moves import evacuated, load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

ROWS, COLUMNS, AROUND = 128, 222, 224  # as in the convolution of the record


@nki.jit
def shifted_products(left, right, count):
    """Returns left.T @ right[:, 1:223]; ``count`` products read the rows where they lie."""
    return repeated_product(load(left), load(right)[:, slice(1, 1 + COLUMNS)], count)


@nki.jit
def aligned_products(left, right, count):
    """Returns the same; the products read a copy that begins at a multiple of 16 bytes."""
    tile = nl.ndarray((ROWS, AROUND), dtype=nl.float32, buffer=nl.sbuf)
    moving = tile[:, slice(0, COLUMNS)]
    source = load(right)[:, slice(1, 1 + COLUMNS)]
    nisa.tensor_copy(dst=moving, src=source, engine=nisa.engine.vector)
    return repeated_product(load(left), moving, count)


def repeated_product(stationary, moving, count):
    """Returns the product, which is computed ``count`` times in one bank."""
    bank = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
    for _ in range(count):
        nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving, accumulate=False)
    return stored(evacuated(bank))


def operands(generator: np.random.Generator, count: int) -> Arguments:
    """Returns a stationary operand, rows with two columns more than are read, and the count."""
    return normal(generator, ROWS, ROWS), normal(generator, ROWS, AROUND), count


def exact(left: Array, right: Array, count: int) -> Array:
    """Returns the product in float64."""
    return left.astype(float).T @ right[:, 1 : 1 + COLUMNS]


PROBES = (
    Probe(
        name="misaligned-moving",
        question="float32 products of rows that begin 4 bytes behind a multiple of 16: slower?",
        record="asst4-trainium2: 479 ns for 222 columns on trn2; strides could explain it as well",
        kernel=shifted_products,
        twin=aligned_products,
        arguments=operands,
        exact=exact,
        constant="misaligned_moving_factor",
        counts=(16, 256, 1024),
        generations=(3, 4),
    ),
)
