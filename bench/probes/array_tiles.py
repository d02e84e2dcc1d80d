"""Small tiles of the systolic array: 32 rows and 32 columns, and narrow stationary operands."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.probes.moves import evacuated, load, product, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

WIDTH = 128
LARGE = 128  # rows and columns of the array


@nki.jit
def small_product(left, right, is_column_tile):
    """Returns left.T @ right of [K, M] and [K, 128].

    ``is_column_tile``: the product uses a tile of 64 rows and 64 columns of the array.
    """
    stationary, moving = load(left), load(right)
    rows, columns = left.shape
    bank = nl.ndarray((columns, WIDTH), dtype=nl.float32, buffer=nl.psum)
    if is_column_tile:
        nisa.nc_matmul(
            dst=bank,
            stationary=stationary,
            moving=moving,
            accumulate=False,
            tile_position=(0, 0),
            tile_size=(rows, columns),
        )
    else:
        nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving, accumulate=False)
    return stored(evacuated(bank))


@nki.jit
def padded_product(left, right, is_column_tile):
    """Returns the same product, padded by zeros so that all 128 rows and columns work."""
    columns = left.shape[1]
    return stored(product(padded(left, LARGE), padded(right, WIDTH), LARGE)[0:columns, :])


def padded(source: Any, columns: int) -> Any:
    """Copies HBM [K, M] into a tile [128, columns] of zeros."""
    tile = nl.ndarray((LARGE, columns), dtype=source.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    loaded = load(source)
    nisa.tensor_copy(
        dst=tile[0 : source.shape[0], 0 : source.shape[1]],
        src=loaded,
        engine=nisa.engine.vector,
    )
    return tile


def arguments(
    generator: np.random.Generator, count: int, rows: int, columns: int, is_column_tile: bool
) -> Arguments:
    return normal(generator, rows, columns), normal(generator, rows, WIDTH), is_column_tile


def exact(left: Array, right: Array, is_column_tile: bool) -> Array:
    return left.astype(float).T @ right


def probe(name: str, rule: str, question: str, record: str, tile: tuple[int, int, bool]) -> Probe:
    """Returns a probe whose stationary operand has the rows and columns of ``tile``."""
    rows, columns, is_column_tile = tile
    return Probe(
        name=name,
        question=question,
        record=record,
        kernel=small_product,
        twin=padded_product,
        arguments=partial(arguments, rows=rows, columns=columns, is_column_tile=is_column_tile),
        exact=exact,
        rule=rule,
    )


REFUSED = "hardware records 2: NCC_IBIR058, by kiln on trn1"
PROBES = (
    probe(
        "array-tile-32x32",
        "small-array-tile",
        "a stationary operand of 32 partitions and 32 columns: does it compile?",
        REFUSED,
        (32, 32, False),
    ),
    probe(
        "array-tile-32x16",
        "small-array-tile",
        "a stationary operand of 32 partitions and 16 columns: does it compile?",
        REFUSED,
        (32, 16, False),
    ),
    probe(
        "array-tile-128x32",
        "narrow-stationary",
        "a stationary operand of 128 partitions and 32 columns: does it compile?",
        REFUSED,
        (128, 32, False),
    ),
    probe(
        "array-tile-columns",
        "column-tiles",
        "tile_size of 64 rows and 64 columns, on which the documents disagree: right?",
        "nki/api/nki/isa: nc_matmul, tile_size",
        (64, 64, True),
    ),
)
