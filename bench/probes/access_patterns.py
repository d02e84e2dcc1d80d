"""`.ap` of a view: does a compiler count from the view, or from the whole tensor?

AWS's documents say either: nki_kernels/simulator/access_patterns.py. "right" is what the docstring
says, "wrong" where a chip follows nki-aps.rst: then `reading_of_ap` of the chip is ABSOLUTE.
"""

from __future__ import annotations

import numpy as np

from bench.probes.moves import stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.nki_api import nisa, nki, nl

N = 64  # numbers of a row
HALF = N // 2
PLACE = 5  # that the index counts to


@nki.jit
def of_a_slice(x, count):
    """x [2 count, 64]: its last ``count`` rows, by a pattern of a slice."""
    tile = nl.ndarray((count, N), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[count : 2 * count].ap(pattern=[[N, count], [1, N]], offset=0))
    return stored(tile)


@nki.jit
def of_the_tensor(x, count):
    """The same, by a pattern of the whole tensor."""
    tile = nl.ndarray((count, N), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap(pattern=[[N, count], [1, N]], offset=count * N))
    return stored(tile)


@nki.jit
def by_the_view(x, count):
    """x [count, 64]: half rows from number 5 on, counted by an index of a reshaped tensor."""
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
    """The same, at an address that is known."""
    tile = nl.ndarray((count, HALF), dtype=x.dtype, buffer=nl.sbuf)
    pattern = [[HALF, count], [1, HALF]]
    nisa.dma_copy(dst=tile, src=x.ap(pattern=pattern, offset=PLACE * HALF))
    return stored(tile)


def two_parts(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, 2 * count, N), count


def one_part(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, count, N), count


def last_rows(x: Array, count: int) -> Array:
    return x[count:].astype(float)


def half_rows(x: Array, count: int) -> Array:
    return x.reshape(2 * count, HALF)[PLACE : PLACE + count].astype(float)


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
        counts=(64,),
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
        counts=(64,),
    ),
)
