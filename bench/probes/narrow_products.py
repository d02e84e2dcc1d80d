"""Products of bfloat16 and tfloat32: does TensorE round them before PSUM adds them up in float32?

A bfloat16 number has 8 bits, so that a product of two has up to 16 bits, which float32 holds
exactly. If a chip rounds a product to bfloat16 before the sum, a single product lacks the lower
bits. A sum shows the rounding through split products: a float32 number is the sum of two or three
bfloat16 numbers, and the product of two such sums consists of three or six products, without the
smallest ones.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.model_check.tiles import load, stored
from bench.probes.engines import combined, copied
from bench.probes.probe import Arguments, Array, Probe, Reading, normal
from bench.probes.products import COLUMNS, ROWS, WIDTH, evacuated, exact_product, product
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim.base import dtypes

MASKS = {"bfloat16": 0xFFFF0000, "tfloat32": 0xFFFFE000}  # the bits of float32 that the dtype keeps


@nki.jit
def narrow_product(left, right, name, asks):
    """Returns left.T @ right in the narrow dtype ``name`` or in float32.

    The narrow dtype holds all numbers exactly.
    """
    stationary, moving = load(left), load(right)
    if asks:
        stationary, moving = copied(stationary, narrow(name)), copied(moving, narrow(name))
    return stored(product(stationary, moving, COLUMNS))


@nki.jit
def split_product(left, right, left_parts, right_parts, name, asks):
    """Returns the sum of products of parts of left and right: of parts 0 and 0, 0 and 1, and so on.

    The kernel makes the parts; or it multiplies the host's parts [count, 64, 64] and [count, 64,
    128] in float32.
    """
    count = left_parts.shape[0]
    if asks:
        stationaries = parts_of(load(left), count, narrow(name))
        movings = parts_of(load(right), count, narrow(name))
    else:
        stationaries, movings = [], []
        for index in range(count):
            stationaries.append(load(left_parts[index]))
            movings.append(load(right_parts[index]))
    bank = nl.ndarray((COLUMNS, WIDTH), dtype=nl.float32, buffer=nl.psum)
    for i in range(count):
        for j in range(count - i):
            nisa.nc_matmul(
                dst=bank, stationary=stationaries[i], moving=movings[j], accumulate=i + j > 0
            )
    return stored(evacuated(bank))


def narrow(name: str) -> Any:
    """Returns the dtype of NKI with that name."""
    return nl.tfloat32 if name == "tfloat32" else nl.bfloat16


def parts_of(tile: Any, count: int, dtype: Any) -> Any:
    """Returns tiles of a narrow dtype whose sum is nearly a float32 tile, the largest first."""
    parts = []
    rest = tile
    for index in range(count):
        part = copied(rest, dtype)
        parts.append(part)
        if index + 1 < count:
            rest = combined(rest, copied(part, nl.float32), nl.subtract, nisa.engine.vector)
    return parts


def rounded(values: Array, name: str) -> Array:
    """Rounds values to the nearest numbers of a narrow dtype; returns float32."""
    out = np.empty(values.shape, dtypes.numpy_type(name))
    dtypes.store(out, values.astype(np.float32), name)
    return out.astype(np.float32)


def cut(values: Array, name: str) -> Array:
    """Cuts off the bits that a narrow dtype lacks; returns float32."""
    bits = values.astype(np.float32).view(np.uint32) & np.uint32(MASKS[name])
    return bits.view(np.float32)


def host_parts(values: Array, count: int, name: str) -> Array:
    """Returns the parts that `parts_of` makes, as float32 [count, ...]."""
    parts, rest = [], values
    for _ in range(count):
        parts.append(rounded(rest, name))
        rest = rest - parts[-1]
    return np.stack(parts)


def single(generator: np.random.Generator, count: int, name: str) -> Arguments:
    """Returns a diagonal matrix and a matrix: every element of the result is one product."""
    factors = rounded(normal(generator, ROWS), name)
    return np.diag(factors), rounded(normal(generator, ROWS, WIDTH), name)


def split(generator: np.random.Generator, count: int, name: str, parts: int) -> Arguments:
    left, right = normal(generator, ROWS, COLUMNS), normal(generator, ROWS, WIDTH)
    return left, right, host_parts(left, parts, name), host_parts(right, parts, name)


def rounded_single(left: Array, right: Array, name: str) -> Array:
    return rounded(exact_product(left, right), name).astype(float)


def cut_single(left: Array, right: Array, name: str) -> Array:
    return cut(exact_product(left, right), name).astype(float)


def exact_split(_: Array, __: Array, left: Array, right: Array, name: str) -> Array:
    count = len(left)
    pairs = [(i, j) for i in range(count) for j in range(count - i)]
    return np.sum([exact_product(left[i], right[j]) for i, j in pairs], axis=0)


def rounded_split(_: Array, __: Array, left: Array, right: Array, name: str) -> Array:
    """Returns the sum of products that are each rounded before the sum."""
    count, total = len(left), np.zeros((COLUMNS, WIDTH))
    for i in range(count):
        for j in range(count - i):
            for row, other in zip(left[i], right[j], strict=True):
                total += rounded(np.multiply.outer(row, other), name)
    return total


def largest_parts(_: Array, __: Array, left: Array, right: Array, name: str) -> Array:
    """Returns the product of the largest parts, as if the other parts were zeros."""
    return exact_product(left[0], right[0])


FIELDS = {"bfloat16": "rounds_bf16_products", "tfloat32": "rounds_tfloat32_products"}
SHORT = {"bfloat16": "bf16", "tfloat32": "tf32"}
RECORD = (
    "a log of split products on trn1 and trn2, SDK 2.29: as far off as one product. Products may "
    "be rounded before PSUM, or a compiler folded the split away, which XLA had to make"
)


def of_one(name: str) -> Probe:
    """Returns a probe of single products of a narrow dtype."""
    return Probe(
        f"{SHORT[name]}-product",
        f"one product of {name}: does it reach PSUM with all of its bits?",
        RECORD,
        narrow_product,
        exact_product,
        draw=partial(single, name=name),
        constants=(name,),
        shown=FIELDS[name],
        readings=(
            Reading("exact", exact_product, False),
            Reading("rounded to nearest", rounded_single, True),
            Reading("cut off", cut_single),
        ),
    )


def of_split(name: str, parts: int, products: int) -> Probe:
    """Returns a probe of sums of products of parts that the kernel makes."""
    return Probe(
        f"{SHORT[name]}-split-{products}",
        f"{products} products of {name} parts made in the kernel: are all terms there?",
        RECORD,
        split_product,
        exact_split,
        draw=partial(split, name=name, parts=parts),
        constants=(name,),
        shown=FIELDS[name],
        readings=(
            Reading("exact", exact_split, False),
            Reading("rounded to nearest", rounded_split, True),
            Reading("largest parts alone", largest_parts),
        ),
    )


PROBES = (
    of_one("bfloat16"),
    of_split("bfloat16", 2, 3),
    of_split("bfloat16", 3, 6),
    of_one("tfloat32"),
    of_split("tfloat32", 2, 3),
)
