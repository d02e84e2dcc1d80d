"""Transposes by DMA off the lines of 32 bytes: do they compile, and are they right?"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.probes.moves import copied, load, stored
from bench.probes.probe import Arguments, Array, Probe
from nki_kernels.base.isa import nisa, nki, nl

ROWS, COLUMNS = 16, 128  # of each block of the source, of 2-byte numbers


@nki.jit
def turned_off_lines(source):
    """Returns source [16, blocks, 128] with its dimensions reversed; rows are 40 bytes apart."""
    return turned(source, ROWS + 4)


@nki.jit
def turned_on_lines(source):
    """Returns source [16, blocks, 128] with its dimensions reversed; rows are 64 bytes apart."""
    return turned(source, 2 * ROWS)


def turned(source: Any, pitch: int) -> Any:
    """Returns the source with its dimensions reversed, by way of rows of so many numbers."""
    blocks = source.shape[1]
    narrow = copied(load(source), nl.bfloat16)
    tile = nl.ndarray((COLUMNS, blocks, pitch), dtype=nl.bfloat16, buffer=nl.sbuf)
    rows = tile[:, :, 0:ROWS]
    nisa.dma_transpose(dst=rows, src=narrow)
    return stored(copied(rows, nl.float32))


def four_blocks(generator: np.random.Generator, count: int) -> Arguments:
    return blocks_of_whole_numbers(generator, 4)


def one_block(generator: np.random.Generator, count: int) -> Arguments:
    """Returns a block that is all of its tile: of 40 bytes in a partition 32 are written."""
    return blocks_of_whole_numbers(generator, 1)


def blocks_of_whole_numbers(generator: np.random.Generator, blocks: int) -> Arguments:
    whole = generator.integers(-128, 128, (ROWS, blocks, COLUMNS))  # exact in bfloat16
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
        arguments=four_blocks,
        exact=exact,
        rule="transposed-lines",
    ),
    Probe(
        name="transposed-pitch",
        question="dma_transpose to a tile of 40 bytes a partition: does it compile?",
        record="hardware records 2: one reading of that report; nki-library does it",
        kernel=turned_off_lines,
        twin=turned_on_lines,
        arguments=one_block,
        exact=exact,
        rule="transposed-pitch",
    ),
)
