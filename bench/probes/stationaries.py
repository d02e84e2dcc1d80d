"""Stationary operands with one, two and three free dimensions: are the products right?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.probes.moves import copied, load, product, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nki, nl

ROWS, COLUMNS, WIDTH = 64, 64, 128
SHAPE = (ROWS, 8, 4, 8)  # views of it have 64 columns in one, two or three free dimensions


@nki.jit
def product_of_view(data, moving, dimensions):
    """Returns view(data).T @ moving, [64, 128]; the Tensor engine reads the view in place."""
    return stored(product(view(load(data), dimensions), load(moving), COLUMNS))


@nki.jit
def product_of_copy(data, moving, dimensions):
    """Returns the same product of a copy of the view, whose columns are contiguous."""
    source = view(load(data), dimensions)
    stationary = copied(source, nl.float32).reshape((ROWS, COLUMNS))
    return stored(product(stationary, load(moving), COLUMNS))


def view(tile: Any, dimensions: int) -> Any:
    """Returns 64 columns of a tile [64, 8, 4, 8] in so many free dimensions that do not merge."""
    if dimensions == 1:
        return tile.reshape((ROWS, 256))[:, 0:128:2]
    if dimensions == 2:
        return tile.reshape((ROWS, 32, 8))[:, 0:16, 0:4]
    return tile[:, :, 0:2, 0:4]


def arguments(generator: np.random.Generator, count: int, dimensions: int) -> Arguments:
    return normal(generator, *SHAPE), normal(generator, ROWS, WIDTH), dimensions


def exact(data: Array, moving: Array, dimensions: int) -> Array:
    columns = view(data.astype(float), dimensions).reshape(ROWS, COLUMNS)
    return columns.T @ moving.astype(float)


def probe(name: str, dimensions: int, rule: str, settles: str) -> Probe:
    """Returns a probe of a view with so many free dimensions."""
    return Probe(
        name=name,
        question=f"a stationary operand of {dimensions} free dimension(s) with strides: right?",
        record="hardware records 1.2: vllm-neuron on trn2",
        kernel=product_of_view,
        twin=product_of_copy,
        arguments=partial(arguments, dimensions=dimensions),
        exact=exact,
        rule=rule,
        settles=settles,
    )


PROBES = (
    probe("stationary-one-dimension", 1, "", "that one strided run is read as it lies"),
    probe("stationary-two-dimensions", 2, "stationary-dimensions", ""),
    probe("stationary-three-dimensions", 3, "stationary-dimensions", ""),
)
