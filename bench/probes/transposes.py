"""Transposes by DMA off the lines of 32 bytes: do they compile, and are they right?"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.probes.moves import load, stored
from bench.probes.probe import Arguments, Array, Probe
from nki_kernels.nki_api import nisa, nki, nl

ROWS, BLOCKS, COLUMNS = 16, 4, 128  # the source, of 2-byte numbers


@nki.jit
def turned_off_lines(source):
    """Returns source [16, 4, 128] with its dimensions reversed; rows are 40 bytes apart."""
    return turned(source, ROWS + 4)


@nki.jit
def turned_on_lines(source):
    """Returns source [16, 4, 128] with its dimensions reversed; rows are 64 bytes apart."""
    return turned(source, 2 * ROWS)


@nki.jit
def turned_to_an_odd_pitch(source):
    """Returns the blocks of source [16, 4, 128] reversed, through tiles of 40 bytes a partition."""
    return turned_by_blocks(source, ROWS + 4)


@nki.jit
def turned_to_an_even_pitch(source):
    """Returns the blocks of source [16, 4, 128] reversed, through tiles of 64 bytes a partition."""
    return turned_by_blocks(source, 2 * ROWS)


def turned_by_blocks(source: Any, pitch: int) -> Any:
    """Returns the source with its dimensions reversed, block by block."""
    narrow = nl.ndarray(source.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=narrow, src=load(source), engine=nisa.engine.vector)
    wide = nl.ndarray((COLUMNS, BLOCKS, ROWS), dtype=nl.float32, buffer=nl.sbuf)
    for block in range(BLOCKS):
        tile = nl.ndarray((COLUMNS, pitch), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_transpose(dst=tile[:, 0:ROWS], src=narrow[:, block, :])
        nisa.tensor_copy(dst=wide[:, block, :], src=tile[:, 0:ROWS], engine=nisa.engine.vector)
    return stored(wide)


def turned(source: Any, pitch: int) -> Any:
    """Returns the source with its dimensions reversed, by way of rows of so many numbers."""
    narrow = nl.ndarray(source.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=narrow, src=load(source), engine=nisa.engine.vector)
    tile = nl.ndarray((COLUMNS, BLOCKS, pitch), dtype=nl.bfloat16, buffer=nl.sbuf)
    rows = tile[:, :, 0:ROWS]
    nisa.dma_transpose(dst=rows, src=narrow)
    wide = nl.ndarray((COLUMNS, BLOCKS, ROWS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=wide, src=rows, engine=nisa.engine.vector)
    return stored(wide)


def arguments(generator: np.random.Generator, count: int) -> Arguments:
    whole = generator.integers(-128, 128, (ROWS, BLOCKS, COLUMNS))  # exact in bfloat16
    return (whole.astype(np.float32),)


def exact(source: Array) -> Array:
    return source.astype(float).transpose(2, 1, 0)


PROBES = (
    Probe(
        name="transposed-lines",
        question="dma_transpose to rows that are 40 bytes apart: does it compile, and is it right?",
        record="hardware records 2: the verifier of neuronx-cc wants multiples of 32 bytes (trn2)",
        kernel=turned_off_lines,
        twin=turned_on_lines,
        arguments=arguments,
        exact=exact,
        rule="transposed-lines",
    ),
    Probe(
        name="transposed-pitch",
        question="dma_transpose to a tile of 40 bytes a partition: does it compile?",
        record="hardware records 2: one reading of that report; nki-library does it",
        kernel=turned_to_an_odd_pitch,
        twin=turned_to_an_even_pitch,
        arguments=arguments,
        exact=exact,
        rule="transposed-pitch",
    ),
)
