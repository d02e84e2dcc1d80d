"""Copies with an address that is known only at run time: of one row, and of many rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.probes.moves import load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

# Rows of 64 numbers, 96 apart, so that no run is longer than a row.
ROWS, PITCH, WIDTH = 128, 96, 64
BASES = 3  # addresses, which a loop on the device goes through


@nki.jit
def sum_from_dynamic(x, rows):
    """Returns the sum of x[i : i + rows, 0:64] over the three i of a loop on the device."""
    total, tile = zeros(rows), zeros(rows)

    def step(i):
        source = x.ap([[PITCH, rows], [1, WIDTH]], scalar_offset=i, indirect_dim=0)
        nisa.dma_copy(dst=tile, src=source)
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add, engine=nisa.engine.vector)

    nl.fori_loop(0, BASES, step)
    return stored(total)


@nki.jit
def sum_from_static(x, rows):
    """Returns the same sum, by unrolled instructions."""
    total, tile = zeros(rows), zeros(rows)
    for i in range(BASES):
        nisa.dma_copy(dst=tile, src=x[i : i + rows, 0:WIDTH])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add, engine=nisa.engine.vector)
    return stored(total)


@nki.jit
def stored_at_dynamic(x, rows):
    """Stores the first 64 columns of x [3 + rows, 96] three times: out[row, i] = x[row].

    The address of a store is the counter of a loop on the device.
    """
    tile = load(x[0:rows, 0:WIDTH])
    out = nl.ndarray((rows * BASES, WIDTH), dtype=x.dtype, buffer=nl.shared_hbm)

    def step(i):
        place = out.ap([[BASES * WIDTH, rows], [1, WIDTH]], scalar_offset=i, indirect_dim=0)
        nisa.dma_copy(dst=place, src=tile)

    nl.fori_loop(0, BASES, step)
    return out


@nki.jit
def stored_at_static(x, rows):
    """Stores the same, by unrolled instructions."""
    tile = load(x[0:rows, 0:WIDTH])
    out = nl.ndarray((rows * BASES, WIDTH), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(BASES):
        nisa.dma_copy(dst=out[i : rows * BASES : BASES, :], src=tile)
    return out


def zeros(rows: int) -> Any:
    """Returns a tile [rows, 64] of zeros."""
    tile = nl.ndarray((rows, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    return tile


def many(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, ROWS + BASES, PITCH), ROWS


def one(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, 1 + BASES, PITCH), 1


def exact_sum(x: Array, rows: int) -> Array:
    return np.sum([x[i : i + rows, :WIDTH].astype(float) for i in range(BASES)], axis=0)


def exact_copies(x: Array, rows: int) -> Array:
    return np.repeat(x[:rows, :WIDTH].astype(float), BASES, axis=0)


RECORD = (
    "kiln notes on trn1 that an indirect DMA reads within one row; nki-aps.rst and nki-library "
    "have several rows at the address of a register"
)


def probe(name: str, question: str, kernel: Any, twin: Any, is_many: bool) -> Probe:
    """Returns a probe that loads or stores at addresses of a loop.

    The probes of one row are controls for those of many rows.
    """
    return Probe(
        name=name,
        question=question,
        record=RECORD,
        kernel=kernel,
        twin=twin,
        arguments=many if is_many else one,
        exact=exact_copies if kernel is stored_at_dynamic else exact_sum,
        rule="dynamic-rows" if is_many else "",
        settles="" if is_many else "that one row may be at an address known at run time",
    )


PROBES = (
    probe(
        "dynamic-row-load",
        "a row loaded from an address that a loop on the device has: the right one?",
        sum_from_dynamic,
        sum_from_static,
        False,
    ),
    probe(
        "dynamic-rows-load",
        "128 rows loaded from an address that a loop on the device has: the right ones?",
        sum_from_dynamic,
        sum_from_static,
        True,
    ),
    probe(
        "dynamic-row-store",
        "a row stored at an address that a loop on the device has: in the right place?",
        stored_at_dynamic,
        stored_at_static,
        False,
    ),
    probe(
        "dynamic-rows-store",
        "128 rows stored at an address that a loop on the device has: in the right places?",
        stored_at_dynamic,
        stored_at_static,
        True,
    ),
)
