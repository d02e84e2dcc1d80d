"""Several accumulation groups in one PSUM bank: do they keep all of their terms?

As in the records, there are five PSUM tiles of four sums, each of four products, which are
evacuated after the last product.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.model_check.tiles import part
from bench.probes.moves import evacuated, load
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

ROWS, COLUMNS = 64, 64  # of a stationary operand; enough that v2 does not refuse it as too small
TILES, GROUPS, TERMS, WIDTH = 5, 4, 4, 128


@nki.jit
def sums_in_a_bank(stationaries, moving, is_given, is_interleaved):
    """Computes out[:, tile, group] = sum over terms of stationary.T @ moving, four sums in a bank.

    stationaries [64, terms, 64], moving [64, tiles, groups, terms, 128]; returns [64, tiles, 512].
    ``is_given``: the argument accumulate is given instead of left out. ``is_interleaved``: all sums
    get their first term before any sum gets its second.
    """
    left = load(stationaries)
    out = new_result()
    for tile in range(TILES):
        right = load(moving[:, tile])
        bank = nl.ndarray((COLUMNS, GROUPS * WIDTH), dtype=nl.float32, buffer=nl.psum)
        for step in range(GROUPS * TERMS):
            group, term = step // TERMS, step % TERMS
            if is_interleaved:
                group, term = step % GROUPS, step // GROUPS
            dst = bank[:, part(group, WIDTH)]
            if is_given:
                nisa.nc_matmul(
                    dst=dst,
                    stationary=left[:, term],
                    moving=right[:, group, term],
                    accumulate=term > 0,
                )
            else:
                nisa.nc_matmul(dst=dst, stationary=left[:, term], moving=right[:, group, term])
        store_bank(out[:, tile], bank)
    return out


@nki.jit
def sums_in_banks(stationaries, moving, is_given, is_interleaved):
    """Computes the same, with a bank for each sum."""
    left = load(stationaries)
    out = new_result()
    for tile in range(TILES):
        right = load(moving[:, tile])
        for group in range(GROUPS):
            bank = nl.ndarray((COLUMNS, GROUPS * WIDTH), dtype=nl.float32, buffer=nl.psum)
            for term in range(TERMS):
                nisa.nc_matmul(
                    dst=bank[:, 0:WIDTH],
                    stationary=left[:, term],
                    moving=right[:, group, term],
                    accumulate=term > 0,
                )
            store_bank(out[:, tile, part(group, WIDTH)], bank[:, 0:WIDTH])
    return out


def new_result() -> Any:
    """Returns a tensor in HBM for all sums."""
    shape = (COLUMNS, TILES, GROUPS * WIDTH)
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm)


def store_bank(destination: Any, bank: Any) -> None:
    """Copies PSUM to a view of HBM, by way of SBUF."""
    nisa.dma_copy(dst=destination, src=evacuated(bank))


def arguments(
    generator: np.random.Generator, count: int, is_given: bool, is_interleaved: bool
) -> Arguments:
    left = normal(generator, ROWS, TERMS, COLUMNS)
    right = normal(generator, ROWS, TILES, GROUPS, TERMS, WIDTH)
    return left, right, is_given, is_interleaved


def exact(left: Array, right: Array, *_: Any) -> Array:
    sums = np.einsum("kcm,ktgcn->mtgn", left.astype(float), right.astype(float))
    return sums.reshape(COLUMNS, TILES, GROUPS * WIDTH)


def probe(name: str, question: str, is_given: bool, is_interleaved: bool) -> Probe:
    """Returns a probe of one way to write the same sums."""
    return Probe(
        name=name,
        question=question,
        record="hardware records 1.1: kiln on trn1, an LM head on trn2",
        kernel=sums_in_a_bank,
        twin=sums_in_banks,
        arguments=partial(arguments, is_given=is_given, is_interleaved=is_interleaved),
        exact=exact,
        rule="psum-bank-groups",
    )


PROBES = (
    probe(
        "psum-groups-given",
        "four sums of four products in one PSUM bank, with accumulate given: all terms there?",
        True,
        False,
    ),
    probe(
        "psum-groups-omitted",
        "four sums of four products in one PSUM bank, with accumulate left out: all terms there?",
        False,
        False,
    ),
    probe(
        "psum-groups-interleaved",
        "four sums in one PSUM bank, all open at once, with accumulate given: all terms there?",
        True,
        True,
    ),
)
