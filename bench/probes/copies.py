"""Copies by DMA: patterns of views, addresses known at run time, costs, and transposes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.model_check.device_kernels import new_ring, use_first_column, zero_column
from bench.model_check.tiles import load, part, stored
from bench.probes.engines import copied
from bench.probes.probe import COUNT, Arguments, Array, Probe, Reading, normal
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware

PARTITIONS = 128


def exact_copy(x: Array, *_: Any) -> Array:
    return x.astype(float)


# `.ap` of a view: does a compiler count from the view, or from the whole tensor? AWS's documents
# contradict each other (nki_sim/views/access_patterns.py). The verdict "right" means that the
# result agrees with the docstring. A chip that follows nki-aps.rst has the other reading's result.

N = 64  # numbers in a row
HALF = N // 2
PLACE = 5  # the value of the index


@nki.jit
def last_rows(x, count, first, asks):
    """Returns the last ``count`` rows of x, by a pattern of its rows from ``first`` on.

    The twin's pattern is one of the whole tensor.
    """
    rows = x.shape[0]
    source, skipped = (x[first:rows], rows - count - first) if asks else (x, rows - count)
    tile = nl.ndarray((count, N), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source.ap(pattern=[[N, count], [1, N]], offset=skipped * N))
    return stored(tile)


@nki.jit
def half_rows(x, count, asks):
    """Returns half rows of x [count, 64] from number 5 on, by an index into a reshaped tensor.

    The twin reads them from an address that the compiler knows.
    """
    tile = nl.ndarray((count, HALF), dtype=x.dtype, buffer=nl.sbuf)
    pattern = [[HALF, count], [1, HALF]]
    if asks:
        index = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(dst=index, value=PLACE)
        halves = x.reshape((2 * count, HALF))
        source = halves.ap(pattern=pattern, offset=0, scalar_offset=index, indirect_dim=0)
    else:
        source = x.ap(pattern=pattern, offset=PLACE * HALF)
    nisa.dma_copy(dst=tile, src=source)
    return stored(tile)


def rows_from(x: Array, count: int, *_: int, part: int) -> Array:
    return x[part * count : (part + 1) * count].astype(float)


def halves_from(x: Array, count: int, place: int) -> Array:
    return x.reshape(2 * count, HALF)[place : place + count].astype(float)


def of_pattern(
    name: str, question: str, kernel: Any, given: tuple[int, ...], readings: Any
) -> Probe:
    """Returns a probe of rows and constants, and of its relative and its absolute reading."""
    rows, *constants = given
    relative, absolute = readings
    return Probe(
        name,
        question,
        "NkiTensor.ap's docstring: yes; nki-aps.rst: no",
        kernel,
        relative,
        ((rows, N),),
        tuple(constants),
        rule="ap-of-views",
        shown="reading_of_ap",
        readings=(
            Reading(hardware.RELATIVE, relative, hardware.RELATIVE),
            Reading(hardware.ABSOLUTE, absolute, hardware.ABSOLUTE),
        ),
    )


# Copies with an address that is known only at run time: of one row, and of many rows. Rows of 64
# numbers are 96 apart, so that no run is longer than a row.

PITCH, WIDTH = 96, 64
BASES = 3  # addresses, which a loop on the device goes through


@nki.jit
def sum_of_rows(x, rows, asks):
    """Returns the sum of x[i : i + rows, 0:64] over three i, by a loop or unrolled."""
    total, tile = zeros(rows), zeros(rows)

    def step(i):
        source = x.ap([[PITCH, rows], [1, WIDTH]], scalar_offset=i, indirect_dim=0)
        nisa.dma_copy(dst=tile, src=source)
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add, engine=nisa.engine.vector)

    if asks:
        nl.fori_loop(0, BASES, step)
    else:
        for i in range(BASES):
            nisa.dma_copy(dst=tile, src=x[i : i + rows, 0:WIDTH])
            nisa.tensor_tensor(
                dst=total, data1=total, data2=tile, op=nl.add, engine=nisa.engine.vector
            )
    return stored(total)


@nki.jit
def stored_rows(x, rows, asks):
    """Stores the first 64 columns of x [3 + rows, 96] three times: out[row, i] = x[row].

    The address of a store is the counter of a loop on the device, or known to the compiler.
    """
    tile = load(x[0:rows, 0:WIDTH])
    out = nl.ndarray((rows * BASES, WIDTH), dtype=x.dtype, buffer=nl.shared_hbm)

    def step(i):
        place = out.ap([[BASES * WIDTH, rows], [1, WIDTH]], scalar_offset=i, indirect_dim=0)
        nisa.dma_copy(dst=place, src=tile)

    if asks:
        nl.fori_loop(0, BASES, step)
    else:
        for i in range(BASES):
            nisa.dma_copy(dst=out[i : rows * BASES : BASES, :], src=tile)
    return out


def zeros(rows: int) -> Any:
    """Returns a tile [rows, 64] of zeros."""
    tile = nl.ndarray((rows, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    return tile


def exact_sum_of_rows(x: Array, rows: int) -> Array:
    return np.sum([x[i : i + rows, :WIDTH].astype(float) for i in range(BASES)], axis=0)


def exact_stored(x: Array, rows: int) -> Array:
    return np.repeat(x[:rows, :WIDTH].astype(float), BASES, axis=0)


def of_address(name: str, question: str, kernel: Any, exact: Any, rows: int) -> Probe:
    """Returns a probe of addresses of a loop; those of one row are controls for those of many."""
    one = "that one row may be at an address known at run time"
    return Probe(
        name,
        question,
        "kiln notes on trn1 that an indirect DMA reads within one row; nki-aps.rst and nki-library "
        "have several rows at the address of a register",
        kernel,
        exact,
        ((rows + BASES, PITCH),),
        (rows,),
        rule="dynamic-rows" if rows > 1 else "",
        settles=one if rows == 1 else "",
    )


# The cost of DMA: issue of a copy, rows apart in HBM, 64 partitions, strides of powers of two.

ROW = 128  # float32 numbers of a row, whose copy costs little beside its issue
SHORT = 256  # numbers of a row of 1 KiB, long enough that a run exceeds its least time
APART = 3  # distance of rows in HBM, no power of two
BLOCK = 1 << 18  # numbers of a transfer of a MiB, which keeps all engines busy
RING = 4
RUN = 1024  # numbers of a row of 4 KiB


@nki.jit
def copied_by_rows(x, mode, asks):
    """Copies x [count, 128] in HBM row by row, or by one transfer.

    ``mode`` says who writes the descriptors: software, hardware or static.
    """
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if asks:
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
    else:
        nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def summed(dense, spread, count, asks):
    """Returns count * dense [128, 256], loaded each time from every third row of spread [384, 256].

    The twin loads rows that follow each other. Each load waits until a sum has read the tile.
    """
    source = spread[0 : APART * PARTITIONS : APART] if asks else dense
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    total = nl.ndarray(source.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    for _ in range(count):
        nisa.dma_copy(dst=tile, src=source)
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add, engine=nisa.engine.vector)
    return stored(total)


@nki.jit
def copied_through(x, asks):
    """Copies x [count, a MiB] through SBUF tiles of 64 partitions, or of 128."""
    partitions = PARTITIONS // 2 if asks else PARTITIONS
    width = BLOCK // partitions
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ring = new_ring((partitions, width), x.dtype)
    pattern = [[width, partitions], [1, width]]
    for i in range(x.shape[0]):
        nisa.dma_copy(dst=ring[i % RING], src=x.ap(pattern=pattern, offset=i * BLOCK))
        nisa.dma_copy(dst=out.ap(pattern=pattern, offset=i * BLOCK), src=ring[i % RING])
    return out


@nki.jit
def summed_columns(even, padded, count, asks):
    """Returns count times the first column of even [128, 2048]; loads 4 KiB of every row.

    The twin loads padded [128, 2112], whose rows are no power of two apart.
    """
    source = even if asks else padded
    ring, total = new_ring((PARTITIONS, RUN), source.dtype), zero_column()
    for i in range(count):
        nisa.dma_copy(dst=ring[i % RING], src=source[:, part(0, RUN)])
        use_first_column(total, ring[i % RING])
    return stored(total)


def apart(generator: np.random.Generator, count: int) -> Arguments:
    dense = normal(generator, PARTITIONS, SHORT)
    return dense, np.repeat(dense, APART, axis=0)


def strided(generator: np.random.Generator, count: int) -> Arguments:
    padded = normal(generator, PARTITIONS, 2 * RUN + 64)
    return padded[:, : 2 * RUN].copy(), padded


def many_rows(generator: np.random.Generator, count: int, length: int) -> Arguments:
    return (normal(generator, count, length),)


def of_issue(mode: str, constant: str, record: str, generations: tuple[int, ...]) -> Probe:
    """Returns a probe of the cost to issue a copy, by who writes its descriptors."""
    return Probe(
        f"dma-issue-{mode}",
        f"what does issuing a dma_copy cost with {mode} descriptors?",
        record,
        copied_by_rows,
        exact_copy,
        draw=partial(many_rows, length=ROW),
        constants=(mode,),
        constant=constant,
        counts=(64, 256, 1024),
        generations=generations,
    )


# Transposes by DMA off the lines of 32 bytes.

LINES, COLUMNS = 16, 128  # of each block of the source, of 2-byte numbers


@nki.jit
def reversed_dimensions(source, asks):
    """Returns source [16, blocks, 128] with its dimensions reversed.

    It goes by way of rows that are 40 bytes apart, or 64.
    """
    narrow = copied(load(source), nl.bfloat16)
    shape = (COLUMNS, source.shape[1], LINES + 4 if asks else 2 * LINES)
    rows = nl.ndarray(shape, dtype=nl.bfloat16, buffer=nl.sbuf)[:, :, 0:LINES]
    nisa.dma_transpose(dst=rows, src=narrow)
    return stored(copied(rows, nl.float32))


def whole_numbers(generator: np.random.Generator, count: int, blocks: int) -> Arguments:
    """Returns blocks of whole numbers, which are exact in bfloat16.

    One block is all of its tile: of 40 bytes in a partition 32 are written.
    """
    return (generator.integers(-128, 128, (LINES, blocks, COLUMNS)).astype(np.float32),)


of_transpose = partial(
    Probe,
    kernel=reversed_dimensions,
    exact=lambda source: source.astype(float).transpose(2, 1, 0),
)

PROBES = (
    of_pattern(
        "ap-of-slice",
        "is the offset of .ap added to that of the view it is called on?",
        last_rows,
        (128, 64, 64),
        (partial(rows_from, part=1), partial(rows_from, part=0)),
    ),
    of_pattern(
        "ap-of-slice-with-offset",
        "is an offset that .ap is given added to that of the view it is called on?",
        last_rows,
        (128, 32, 64),
        (partial(rows_from, part=3), partial(rows_from, part=1)),
    ),
    of_pattern(
        "ap-of-reshaped",
        "does a scalar_offset of .ap count by the shape of the view it is called on?",
        half_rows,
        (64, 64),
        (partial(halves_from, place=PLACE), partial(halves_from, place=2 * PLACE)),
    ),
    of_address(
        "dynamic-row-load",
        "a row loaded from an address that a loop on the device has: the right one?",
        sum_of_rows,
        exact_sum_of_rows,
        1,
    ),
    of_address(
        "dynamic-rows-load",
        "128 rows loaded from an address that a loop on the device has: the right ones?",
        sum_of_rows,
        exact_sum_of_rows,
        PARTITIONS,
    ),
    of_address(
        "dynamic-row-store",
        "a row stored at an address that a loop on the device has: in the right place?",
        stored_rows,
        exact_stored,
        1,
    ),
    of_address(
        "dynamic-rows-store",
        "128 rows stored at an address that a loop on the device has: in the right places?",
        stored_rows,
        exact_stored,
        PARTITIONS,
    ),
    of_issue("software", "software_dge_ns", "nki-dge.rst; kiln: 1 us of GpSimdE", (2, 3, 4)),
    of_issue("hardware", "hardware_dge_ns", "nki-dge.rst: 600 ns of its queue", (3, 4)),
    of_issue("static", "dma_copy_ns", "0.32 to 0.49 us by write-ups of CS149", (2, 3, 4)),
    Probe(
        "contiguous-rows",
        "rows apart in HBM against rows that follow each other: what does a run cost?",
        "nki-dma-overview.rst: 8 rows of 256 bytes are one read of 2 KiB",
        summed,
        lambda dense, spread, count: count * dense.astype(float),
        draw=apart,
        constants=(COUNT,),
        constant="dma_descriptor_ns",
        counts=(64, 256, 1024),
    ),
    Probe(
        "64-partitions",
        "transfers to 64 partitions: do they use all DMA engines, as those to 128 do?",
        "hardware records 5 and kiln on trn1: 64 partitions use all; [dma]: 4 rows use one",
        copied_through,
        exact_copy,
        draw=partial(many_rows, length=BLOCK),
        constant="dma_partitions_per_engine",
        counts=(4, 16, 64),
        values=(4, 8),
    ),
    Probe(
        "power-of-two-stride",
        "rows of HBM a power of two apart: do they arrive at half the rate?",
        "hardware records 5: spectral-dns on v2 measured it, kiln could not find it",
        summed_columns,
        lambda even, padded, count: count * even[:, :1].astype(float),
        draw=strided,
        constants=(COUNT,),
        counts=(64, 256, 1024),
        settles="whether such rows need a cost of their own in `hardware`",
    ),
    of_transpose(
        "transposed-lines",
        "dma_transpose to rows that are 40 bytes apart: does it compile, and is it right?",
        "hardware records 2: the verifier of neuronx-cc wants multiples of 32 bytes (trn2)",
        draw=partial(whole_numbers, blocks=4),
        rule="transposed-lines",
    ),
    of_transpose(
        "transposed-pitch",
        "dma_transpose to a tile of 40 bytes a partition: does it compile?",
        "hardware records 2: one reading of that report; nki-library does it",
        draw=partial(whole_numbers, blocks=1),
        rule="transposed-pitch",
    ),
)
