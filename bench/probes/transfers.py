"""The cost of DMA: issue of a copy, rows apart in HBM, 64 partitions, strides of powers of two."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.model_check.device_kernels import new_ring, use_first_column, zero_column
from bench.model_check.tiles import part, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

PARTITIONS = 128
ROW = 128  # float32 numbers of a row, whose copy costs little beside its issue
SHORT = 256  # numbers of a row of 1 KiB, long enough that a run exceeds its least time
APART = 3  # distance of rows in HBM, no power of two
BLOCK = 1 << 18  # numbers of a transfer of a MiB, which keeps all engines busy
RING = 4
RUN = 1024  # numbers of a row of 4 KiB


@nki.jit
def copied_by_rows(x, mode):
    """Copies x [count, 128] in HBM row by row.

    ``mode`` says who writes the descriptors: software, hardware or static.
    """
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0]):
        if mode == "hardware":
            nisa.dma_copy(
                dst=out[i : i + 1],
                src=x[i : i + 1],
                dge_mode=nisa.dge_mode.hwdge,
                engine=nisa.engine.sync,
            )
        else:
            way = nisa.dge_mode.swdge if mode == "software" else nisa.dge_mode.none
            nisa.dma_copy(dst=out[i : i + 1], src=x[i : i + 1], dge_mode=way)
    return out


@nki.jit
def copied_whole(x, mode):
    """Copies x by one transfer."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def sum_of_spread(dense, spread, count):
    """Returns count * dense [128, 256], loaded each time from every third row of spread.

    spread has the shape [384, 256].
    """
    return stored(summed(spread[0 : APART * PARTITIONS : APART], count))


@nki.jit
def sum_of_dense(dense, spread, count):
    """Returns the same, loaded from rows that follow each other in HBM."""
    return stored(summed(dense, count))


def summed(source: Any, count: int) -> Any:
    """Loads ``source`` into one tile ``count`` times, each time after a sum has read the tile."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    total = nl.ndarray(source.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    for _ in range(count):
        nisa.dma_copy(dst=tile, src=source)
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add, engine=nisa.engine.vector)
    return total


@nki.jit
def copied_by_half(x):
    """Copies x [count, a MiB] through SBUF tiles of 64 partitions."""
    return through(x, PARTITIONS // 2)


@nki.jit
def copied_by_all(x):
    """Copies x through SBUF tiles of 128 partitions."""
    return through(x, PARTITIONS)


def through(x: Any, partitions: int) -> Any:
    """Loads and stores x row by row, with each row spread over so many partitions."""
    width = BLOCK // partitions
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ring = new_ring((partitions, width), x.dtype)
    pattern = [[width, partitions], [1, width]]
    for i in range(x.shape[0]):
        nisa.dma_copy(dst=ring[i % RING], src=x.ap(pattern=pattern, offset=i * BLOCK))
        nisa.dma_copy(dst=out.ap(pattern=pattern, offset=i * BLOCK), src=ring[i % RING])
    return out


@nki.jit
def sum_of_columns(even, padded, count):
    """Returns count times the first column of even [128, 2048]; loads 4 KiB of every row."""
    return stored(streamed(even, count))


@nki.jit
def sum_of_padded(even, padded, count):
    """Returns the same from padded [128, 2112], whose rows are no power of two apart."""
    return stored(streamed(padded, count))


def streamed(source: Any, count: int) -> Any:
    """Loads the first 4 KiB of every row into a ring of tiles; returns their first columns' sum."""
    ring, total = new_ring((PARTITIONS, RUN), source.dtype), zero_column()
    for i in range(count):
        nisa.dma_copy(dst=ring[i % RING], src=source[:, part(0, RUN)])
        use_first_column(total, ring[i % RING])
    return total


def rows(generator: np.random.Generator, count: int, mode: str) -> Arguments:
    return normal(generator, count, ROW), mode


def apart(generator: np.random.Generator, count: int) -> Arguments:
    dense = normal(generator, PARTITIONS, SHORT)
    return dense, np.repeat(dense, APART, axis=0), count


def blocks(generator: np.random.Generator, count: int) -> Arguments:
    return (normal(generator, count, BLOCK),)


def strided(generator: np.random.Generator, count: int) -> Arguments:
    padded = normal(generator, PARTITIONS, 2 * RUN + 64)
    return padded[:, : 2 * RUN].copy(), padded, count


def exact_copy(x: Array, *_: Any) -> Array:
    return x.astype(float)


def exact_sum(dense: Array, spread: Array, count: int) -> Array:
    return count * dense.astype(float)


def exact_column(even: Array, padded: Array, count: int) -> Array:
    return count * even[:, :1].astype(float)


def of_issue(mode: str, constant: str, record: str, generations: tuple[int, ...]) -> Probe:
    """Returns a probe of the cost to issue a copy, by who writes its descriptors."""
    return Probe(
        name=f"dma-issue-{mode}",
        question=f"what does issuing a dma_copy cost with {mode} descriptors?",
        record=record,
        kernel=copied_by_rows,
        twin=copied_whole,
        arguments=partial(rows, mode=mode),
        exact=exact_copy,
        constant=constant,
        counts=(64, 256, 1024),
        generations=generations,
    )


PROBES = (
    of_issue("software", "software_dge_ns", "nki-dge.rst; kiln: 1 us of GpSimdE", (2, 3, 4)),
    of_issue("hardware", "hardware_dge_ns", "nki-dge.rst: 600 ns of its queue", (3, 4)),
    of_issue("static", "dma_copy_ns", "0.32 to 0.49 us by write-ups of CS149", (2, 3, 4)),
    Probe(
        name="contiguous-rows",
        question="rows apart in HBM against rows that follow each other: what does a run cost?",
        record="nki-dma-overview.rst: 8 rows of 256 bytes are one read of 2 KiB",
        kernel=sum_of_spread,
        twin=sum_of_dense,
        arguments=apart,
        exact=exact_sum,
        constant="dma_descriptor_ns",
        counts=(64, 256, 1024),
    ),
    Probe(
        name="64-partitions",
        question="transfers to 64 partitions: do they use all DMA engines, as those to 128 do?",
        record="hardware records 5 and kiln on trn1: 64 partitions use all; [dma]: 4 rows use one",
        kernel=copied_by_half,
        twin=copied_by_all,
        arguments=blocks,
        exact=exact_copy,
        constant="dma_partitions_per_engine",
        counts=(4, 16, 64),
        values=(4, 8),
    ),
    Probe(
        name="power-of-two-stride",
        question="rows of HBM a power of two apart: do they arrive at half the rate?",
        record="hardware records 5: spectral-dns on v2 measured it, kiln could not find it",
        kernel=sum_of_columns,
        twin=sum_of_padded,
        arguments=strided,
        exact=exact_column,
        counts=(64, 256, 1024),
        settles="whether such rows need a cost of their own in `hardware`",
    ),
)
