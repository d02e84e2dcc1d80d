"""`.ap` of a view: does a compiler count from the view, or from the whole tensor?

AWS's documents contradict each other (nki_sim/views/access_patterns.py). The verdict
"right" means that the result agrees with the docstring. A chip that follows nki-aps.rst has the
result of the other reading.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.probes.moves import stored
from bench.probes.probe import Arguments, Array, Probe, Reading, normal
from nki_kernels.isa import nisa, nki, nl
from nki_sim import hardware

N = 64  # numbers in a row
HALF = N // 2
PLACE = 5  # the value of the index


@nki.jit
def of_a_slice(x, count):
    """Returns the last ``count`` rows of x [2 count, 64], by a pattern of a slice."""
    tile = nl.ndarray((count, N), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[count : 2 * count].ap(pattern=[[N, count], [1, N]], offset=0))
    return stored(tile)


@nki.jit
def of_a_slice_with_offset(x, count):
    """Returns the last ``count`` rows of x [4 count, 64], by an offset in a pattern of a slice."""
    tile = nl.ndarray((count, N), dtype=x.dtype, buffer=nl.sbuf)
    half = x[2 * count : 4 * count]
    nisa.dma_copy(dst=tile, src=half.ap(pattern=[[N, count], [1, N]], offset=count * N))
    return stored(tile)


@nki.jit
def of_the_end(x, count):
    """Returns the same rows as `of_a_slice_with_offset`, by a pattern of the tensor."""
    tile = nl.ndarray((count, N), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap(pattern=[[N, count], [1, N]], offset=3 * count * N))
    return stored(tile)


@nki.jit
def of_the_tensor(x, count):
    """Returns the same rows as `of_a_slice`, by a pattern of the whole tensor."""
    tile = nl.ndarray((count, N), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap(pattern=[[N, count], [1, N]], offset=count * N))
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


def two_parts(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, 2 * count, N), count


def four_parts(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, 4 * count, N), count


def one_part(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, count, N), count


def last_rows(x: Array, count: int) -> Array:
    return x[count:].astype(float)


def first_rows(x: Array, count: int) -> Array:
    return x[:count].astype(float)


def fourth_rows(x: Array, count: int) -> Array:
    return x[3 * count :].astype(float)


def second_rows(x: Array, count: int) -> Array:
    return x[count : 2 * count].astype(float)


def half_rows(x: Array, count: int) -> Array:
    return x.reshape(2 * count, HALF)[PLACE : PLACE + count].astype(float)


def half_rows_from_row(x: Array, count: int) -> Array:
    return x.reshape(2 * count, HALF)[2 * PLACE : 2 * PLACE + count].astype(float)


def readings(relative: Any, absolute: Any) -> tuple[Reading, Reading]:
    """Returns the results of the two readings."""
    return (
        Reading(hardware.RELATIVE, relative, hardware.RELATIVE),
        Reading(hardware.ABSOLUTE, absolute, hardware.ABSOLUTE),
    )


PROBES = (
    Probe(
        name="ap-of-slice",
        question="is the offset of .ap added to that of the view it is called on?",
        record="NkiTensor.ap's docstring: yes; nki-aps.rst: no",
        kernel=of_a_slice,
        twin=of_the_tensor,
        arguments=two_parts,
        exact=last_rows,
        rule="ap-of-views",
        shown="reading_of_ap",
        readings=readings(last_rows, first_rows),
        counts=(64,),
    ),
    Probe(
        name="ap-of-slice-with-offset",
        question="is an offset that .ap is given added to that of the view it is called on?",
        record="NkiTensor.ap's docstring: yes; nki-aps.rst: no",
        kernel=of_a_slice_with_offset,
        twin=of_the_end,
        arguments=four_parts,
        exact=fourth_rows,
        rule="ap-of-views",
        shown="reading_of_ap",
        readings=readings(fourth_rows, second_rows),
        counts=(32,),
    ),
    Probe(
        name="ap-of-reshaped",
        question="does a scalar_offset of .ap count by the shape of the view it is called on?",
        record="NkiTensor.ap's docstring: yes; nki-aps.rst: no",
        kernel=by_the_view,
        twin=by_a_number,
        arguments=one_part,
        exact=half_rows,
        rule="ap-of-views",
        shown="reading_of_ap",
        readings=readings(half_rows, half_rows_from_row),
        counts=(64,),
    ),
)
