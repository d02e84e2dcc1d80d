"""Sums that begin with zeros in PSUM, and transposes into PSUM of another dtype: are they right?"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from bench.probes.moves import copied, evacuated, load, stored
from bench.probes.probe import Arguments, Array, Probe, normal
from nki_kernels.base.isa import nisa, nki, nl

ROWS, COLUMNS, WIDTH, TERMS = 64, 64, 128, 2


@nki.jit
def sum_onto_zeros(left, right):
    """Returns TERMS times left.T @ right, [64, 128], where each product is added to the bank."""
    bank = nl.zeros((COLUMNS, WIDTH), dtype=nl.float32, buffer=nl.psum)
    stationary, moving = load(left), load(right)
    for _ in range(TERMS):
        nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving, accumulate=True)
    return stored(evacuated(bank))


@nki.jit
def sum_from_a_product(left, right):
    """Returns the same sum, which begins with a product."""
    bank = nl.ndarray((COLUMNS, WIDTH), dtype=nl.float32, buffer=nl.psum)
    stationary, moving = load(left), load(right)
    for term in range(TERMS):
        nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving, accumulate=term > 0)
    return stored(evacuated(bank))


@nki.jit
def transpose_into_float32(data):
    """Returns the transpose of data in bfloat16, [128, 64], by way of a float32 bank."""
    return transposed(data, nl.float32)


@nki.jit
def transpose_into_bfloat16(data):
    """Returns the same transpose by way of a bank of bfloat16."""
    return transposed(data, nl.bfloat16)


def transposed(data: Any, dtype: Any) -> Any:
    """Transposes data in bfloat16 into a bank of the dtype, and returns it as float32 in HBM."""
    tile = copied(load(data), nl.bfloat16)
    bank = nl.ndarray((WIDTH, ROWS), dtype=dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=bank, data=tile, engine=nisa.engine.tensor)
    return stored(evacuated(bank))


def factors(generator: np.random.Generator, count: int) -> Arguments:
    return normal(generator, ROWS, COLUMNS), normal(generator, ROWS, WIDTH)


def exact_sum(left: Array, right: Array) -> Array:
    return TERMS * (left.astype(float).T @ right)


def rows(generator: np.random.Generator, count: int) -> Arguments:
    return (normal(generator, ROWS, WIDTH),)


def exact_transpose(data: Array) -> Array:
    return data.astype(ml_dtypes.bfloat16).astype(float).T


PROBES = (
    Probe(
        name="psum-onto-zeros",
        question="products that are added to zeros in PSUM: right?",
        record="nisa.nc_matmul: undefined on v2 and v3; published kernels do it",
        kernel=sum_onto_zeros,
        twin=sum_from_a_product,
        arguments=factors,
        exact=exact_sum,
        rule="accumulate-onto-others",
    ),
    Probe(
        name="transpose-into-float32",
        question="a transpose of bfloat16 into float32 PSUM: right?",
        record="nisa.nc_transpose: one dtype; a published kernel does it on trn1",
        kernel=transpose_into_float32,
        twin=transpose_into_bfloat16,
        arguments=rows,
        exact=exact_transpose,
        rule="transpose-dtype",
    ),
)
