"""Products that are written to PSUM with strides: do they arrive at the right places?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.probes.moves import evacuated, load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

ROWS, COLUMNS, WIDTH = 64, 64, 64


@nki.jit
def strided_product(left, right, dimensions):
    """Writes left.T @ right to PSUM with strides; returns all of the bank, [64, 128]."""
    bank = nl.ndarray((COLUMNS, 2 * WIDTH), dtype=nl.float32, buffer=nl.psum)
    stationary, moving = load(left), load(right)
    for half in range(2):  # both halves, so that no part of the bank stays unwritten
        dst = places(bank, dimensions, half)
        nisa.nc_matmul(dst=dst, stationary=stationary, moving=moving, accumulate=False)
    return stored(evacuated(bank))


@nki.jit
def spread_product(left, right, dimensions):
    """Computes the same, but spreads the product on its way from PSUM to SBUF."""
    bank = nl.ndarray((COLUMNS, WIDTH), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=load(left), moving=load(right), accumulate=False)
    tile = nl.ndarray((COLUMNS, 2 * WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    for half in range(2):
        dst = places(tile, dimensions, half)
        source = bank if dimensions == 1 else bank.reshape((COLUMNS, 8, 8))
        nisa.tensor_copy(dst=dst, src=source, engine=nisa.engine.vector)
    return stored(tile)


def places(tile: Any, dimensions: int, half: int) -> Any:
    """Returns 64 of 128 columns of a tile: every second one, or eight of every sixteen."""
    if dimensions == 1:
        return tile[:, half : 2 * WIDTH : 2]
    return tile.reshape((COLUMNS, 8, 16))[:, :, half * 8 : half * 8 + 8]


def arguments(generator: np.random.Generator, count: int, dimensions: int) -> Arguments:
    return normal(generator, ROWS, COLUMNS), normal(generator, ROWS, WIDTH), dimensions


def exact(left: Array, right: Array, dimensions: int) -> Array:
    product = left.astype(float).T @ right
    result = np.empty((COLUMNS, 2 * WIDTH))
    for half in range(2):
        dst = places(result, dimensions, half)
        dst[...] = product.reshape(dst.shape)
    return result


def probe(name: str, question: str, dimensions: int) -> Probe:
    """Returns a probe whose destination has so many free dimensions."""
    return Probe(
        name=name,
        question=question,
        record="hardware records 1.2: kiln writes such destinations on trn1",
        kernel=strided_product,
        twin=spread_product,
        arguments=partial(arguments, dimensions=dimensions),
        exact=exact,
        settles="that PSUM destinations may have strides",
    )


PROBES = (
    probe("psum-stride", "a product written to every second column of PSUM: right?", 1),
    probe("psum-two-dimensions", "a product written to eight of every sixteen columns: right?", 2),
)
