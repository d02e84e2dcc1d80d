"""`.ap` of a view: does a compiler count from the view, or from the whole tensor?

AWS's documents contradict each other (nki_sim/views/access_patterns.py). The verdict
"right" means that the result agrees with the docstring. A chip that follows nki-aps.rst has the
result of the other reading.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.probes.moves import stored
from bench.probes.probe import Arguments, Array, Probe, Reading, normal
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware

N = 64  # numbers in a row
HALF = N // 2
PLACE = 5  # the value of the index


@nki.jit
def of_a_slice(x, count):
    """Returns the last ``count`` rows of x [2 count, 64], by a pattern of a slice."""
    return rows_of(x[count : 2 * count], count, 0)


@nki.jit
def of_the_tensor(x, count):
    """Returns the same rows, by a pattern of the whole tensor."""
    return rows_of(x, count, count * N)


@nki.jit
def of_a_slice_with_offset(x, count):
    """Returns the last ``count`` rows of x [4 count, 64], by an offset in a pattern of a slice."""
    return rows_of(x[2 * count : 4 * count], count, count * N)


@nki.jit
def of_the_end(x, count):
    """Returns the same rows, by a pattern of the whole tensor."""
    return rows_of(x, count, 3 * count * N)


def rows_of(x: Any, count: int, offset: int) -> Any:
    """Returns ``count`` rows from an offset on, in HBM, by a pattern of x."""
    tile = nl.ndarray((count, N), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap(pattern=[[N, count], [1, N]], offset=offset))
    return stored(tile)


@nki.jit
def by_the_view(x, count):
    """Returns half rows of x [count, 64] from number 5 on, by an index into a reshaped tensor."""
    index = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=index, value=PLACE)
    tile = nl.ndarray((count, HALF), dtype=x.dtype, buffer=nl.sbuf)
    halves = x.reshape((2 * count, HALF))
    pattern = [[HALF, count], [1, HALF]]
    source = halves.ap(pattern=pattern, offset=0, scalar_offset=index, indirect_dim=0)
    nisa.dma_copy(dst=tile, src=source)
    return stored(tile)


@nki.jit
def by_a_number(x, count):
    """Returns the same half rows from an address that the compiler knows."""
    tile = nl.ndarray((count, HALF), dtype=x.dtype, buffer=nl.sbuf)
    pattern = [[HALF, count], [1, HALF]]
    nisa.dma_copy(dst=tile, src=x.ap(pattern=pattern, offset=PLACE * HALF))
    return stored(tile)


def parts(generator: np.random.Generator, count: int, number: int) -> Arguments:
    return normal(generator, number * count, N), count


def part(x: Array, count: int, index: int) -> Array:
    return x[index * count : (index + 1) * count].astype(float)


def half_rows(x: Array, count: int) -> Array:
    return x.reshape(2 * count, HALF)[PLACE : PLACE + count].astype(float)


def half_rows_from_row(x: Array, count: int) -> Array:
    return x.reshape(2 * count, HALF)[2 * PLACE : 2 * PLACE + count].astype(float)


def probe(
    name: str, question: str, kernel: Any, twin: Any, sizes: tuple[int, int], readings: Any
) -> Probe:
    """Returns a probe with so many parts of so many rows, and its relative and absolute reading."""
    number, count = sizes
    relative, absolute = readings
    return Probe(
        name=name,
        question=question,
        record="NkiTensor.ap's docstring: yes; nki-aps.rst: no",
        kernel=kernel,
        twin=twin,
        arguments=partial(parts, number=number),
        exact=relative,
        rule="ap-of-views",
        shown="reading_of_ap",
        readings=(
            Reading(hardware.RELATIVE, relative, hardware.RELATIVE),
            Reading(hardware.ABSOLUTE, absolute, hardware.ABSOLUTE),
        ),
        counts=(count,),
    )


PROBES = (
    probe(
        "ap-of-slice",
        "is the offset of .ap added to that of the view it is called on?",
        of_a_slice,
        of_the_tensor,
        (2, 64),
        (partial(part, index=1), partial(part, index=0)),
    ),
    probe(
        "ap-of-slice-with-offset",
        "is an offset that .ap is given added to that of the view it is called on?",
        of_a_slice_with_offset,
        of_the_end,
        (4, 32),
        (partial(part, index=3), partial(part, index=1)),
    ),
    probe(
        "ap-of-reshaped",
        "does a scalar_offset of .ap count by the shape of the view it is called on?",
        by_the_view,
        by_a_number,
        (1, 64),
        (half_rows, half_rows_from_row),
    ),
)
