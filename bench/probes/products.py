"""Products on TensorE: sums in a bank of PSUM, strides of operands and results, small tiles."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from bench.model_check.tiles import load, part, stored
from bench.probes.engines import copied
from bench.probes.probe import COUNT, Array, Probe
from nki_kernels.base.isa import nisa, nki, nl

ROWS, COLUMNS, WIDTH = 64, 64, 128  # of stationary operands, and of moving ones
FACTORS = ((ROWS, COLUMNS), (ROWS, WIDTH))
ALL = 128  # rows and columns of the array


def evacuated(bank: Any) -> Any:
    """Copies a view of PSUM to a new SBUF tile, by VectorE."""
    return copied(bank, nl.float32)


def product(stationary: Any, moving: Any, columns: int) -> Any:
    """Returns stationary.T @ moving in a new SBUF tile of float32, which has ``columns`` rows."""
    bank = nl.ndarray((columns, moving.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving, accumulate=False)
    return evacuated(bank)


def exact_product(left: Array, right: Array, *_: Any) -> Array:
    return left.astype(float).T @ right


# Several accumulation groups in one PSUM bank: do they keep all of their terms? As in the records,
# there are five PSUM tiles of four sums, each of four products, which are evacuated after the last
# product. A stationary operand is large enough that v2 does not refuse it as too small.

TILES, GROUPS, TERMS = 5, 4, 4


@nki.jit
def sums_in_a_bank(stationaries, moving, is_given, is_interleaved, asks):
    """Computes out[:, tile, group] = sum over terms of stationary.T @ moving, four sums in a bank.

    stationaries [64, terms, 64], moving [64, tiles, groups, terms, 128]; returns [64, tiles, 512].
    ``is_given``: the argument accumulate is given instead of left out. ``is_interleaved``: all sums
    get their first term before any sum gets its second. The twin has a bank for each sum.
    """
    left = load(stationaries)
    out = nl.ndarray((COLUMNS, TILES, GROUPS * WIDTH), dtype=nl.float32, buffer=nl.shared_hbm)
    for tile in range(TILES):
        right = load(moving[:, tile])
        if asks:
            bank = nl.ndarray((COLUMNS, GROUPS * WIDTH), dtype=nl.float32, buffer=nl.psum)
            for step in range(GROUPS * TERMS):
                group, term = step // TERMS, step % TERMS
                if is_interleaved:
                    group, term = step % GROUPS, step // GROUPS
                dst = bank[:, part(group, WIDTH)]
                add_term(dst, left[:, term], right[:, group, term], term, is_given)
            nisa.dma_copy(dst=out[:, tile], src=evacuated(bank))
        else:
            for group in range(GROUPS):
                bank = nl.ndarray((COLUMNS, WIDTH), dtype=nl.float32, buffer=nl.psum)
                for term in range(TERMS):
                    add_term(bank, left[:, term], right[:, group, term], term, True)
                nisa.dma_copy(dst=out[:, tile, part(group, WIDTH)], src=evacuated(bank))
    return out


def add_term(bank: Any, stationary: Any, moving: Any, term: int, is_given: bool) -> None:
    """Adds a product to a sum; the first one begins the sum."""
    if is_given:
        nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving, accumulate=term > 0)
    else:
        nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving)


def exact_sums(left: Array, right: Array, *_: Any) -> Array:
    sums = np.einsum("kcm,ktgcn->mtgn", left.astype(float), right.astype(float))
    return sums.reshape(COLUMNS, TILES, GROUPS * WIDTH)


of_groups = partial(
    Probe,
    record="hardware records 1.1: kiln on trn1, an LM head on trn2",
    kernel=sums_in_a_bank,
    exact=exact_sums,
    shapes=((ROWS, TERMS, COLUMNS), (ROWS, TILES, GROUPS, TERMS, WIDTH)),
    rule="psum-bank-groups",
)


# Sums that begin with zeros in PSUM, and transposes into PSUM of another dtype.


@nki.jit
def doubled_product(left, right, asks):
    """Returns 2 left.T @ right; both products are added to zeros, or the first one begins."""
    stationary, moving = load(left), load(right)
    if asks:
        bank = nl.zeros((COLUMNS, WIDTH), dtype=nl.float32, buffer=nl.psum)
    else:
        bank = nl.ndarray((COLUMNS, WIDTH), dtype=nl.float32, buffer=nl.psum)
    for term in range(2):
        nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving, accumulate=asks or term > 0)
    return stored(evacuated(bank))


@nki.jit
def transposed(data, asks):
    """Returns the transpose of data in bfloat16, [128, 64], by way of float32 or bfloat16."""
    tile = copied(load(data), nl.bfloat16)
    bank = nl.ndarray((WIDTH, ROWS), dtype=nl.float32 if asks else nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(dst=bank, data=tile, engine=nisa.engine.tensor)
    return stored(evacuated(bank))


# Stationary operands with one, two and three free dimensions.

SHAPE = (ROWS, 8, 4, 8)  # views of it have 64 columns in one, two or three free dimensions


@nki.jit
def product_of_view(data, moving, dimensions, asks):
    """Returns view(data).T @ moving, [64, 128]; TensorE reads the view in place, or a copy."""
    stationary = view(load(data), dimensions)
    if not asks:
        stationary = copied(stationary, nl.float32).reshape((ROWS, COLUMNS))
    return stored(product(stationary, load(moving), COLUMNS))


def view(tile: Any, dimensions: int) -> Any:
    """Returns 64 columns of a tile [64, 8, 4, 8] in so many free dimensions that do not merge."""
    if dimensions == 1:
        return tile.reshape((ROWS, 256))[:, 0:128:2]
    if dimensions == 2:
        return tile.reshape((ROWS, 32, 8))[:, 0:16, 0:4]
    return tile[:, :, 0:2, 0:4]


def exact_of_view(data: Array, moving: Array, dimensions: int) -> Array:
    columns = view(data.astype(float), dimensions).reshape(ROWS, COLUMNS)
    return columns.T @ moving.astype(float)


def of_view(name: str, dimensions: int, rule: str = "", settles: str = "") -> Probe:
    """Returns a probe of a view with so many free dimensions."""
    return Probe(
        name,
        f"a stationary operand of {dimensions} free dimension(s) with strides: right?",
        "hardware records 1.2: vllm-neuron on trn2",
        product_of_view,
        exact_of_view,
        (SHAPE, (ROWS, WIDTH)),
        (dimensions,),
        rule=rule,
        settles=settles,
    )


# Products that are written to PSUM with strides.


@nki.jit
def strided_product(left, right, dimensions, asks):
    """Writes left.T @ right [64, 64] twice, with strides; returns all 128 columns.

    The product is written to PSUM with strides, or spread on its way from PSUM to SBUF.
    """
    stationary, moving = load(left), load(right)
    if asks:
        bank = nl.ndarray((COLUMNS, 2 * ROWS), dtype=nl.float32, buffer=nl.psum)
        for half in range(2):  # both halves, so that no part of the bank stays unwritten
            dst = places(bank, dimensions, half)
            nisa.nc_matmul(dst=dst, stationary=stationary, moving=moving, accumulate=False)
        result = evacuated(bank)
    else:
        bank = nl.ndarray((COLUMNS, ROWS), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving, accumulate=False)
        source = bank if dimensions == 1 else bank.reshape((COLUMNS, 8, 8))
        result = nl.ndarray((COLUMNS, 2 * ROWS), dtype=nl.float32, buffer=nl.sbuf)
        for half in range(2):
            dst = places(result, dimensions, half)
            nisa.tensor_copy(dst=dst, src=source, engine=nisa.engine.vector)
    return stored(result)


def places(tile: Any, dimensions: int, half: int) -> Any:
    """Returns 64 of 128 columns of a tile: every second one, or eight of every sixteen."""
    if dimensions == 1:
        return tile[:, half : 2 * ROWS : 2]
    return tile.reshape((COLUMNS, 8, 16))[:, :, half * 8 : half * 8 + 8]


def exact_strided(left: Array, right: Array, dimensions: int) -> Array:
    result = np.empty((COLUMNS, 2 * ROWS))
    for half in range(2):
        dst = places(result, dimensions, half)
        dst[...] = exact_product(left, right).reshape(dst.shape)
    return result


of_strides = partial(
    Probe,
    record="hardware records 1.2: kiln writes such destinations on trn1",
    kernel=strided_product,
    exact=exact_strided,
    shapes=((ROWS, COLUMNS), (ROWS, ROWS)),
    settles="that PSUM destinations may have strides",
)


# Small tiles of the systolic array: 32 rows and 32 columns, and narrow stationary operands.


@nki.jit
def small_product(left, right, is_column_tile, asks):
    """Returns left.T @ right of [K, M] and [K, 128].

    ``is_column_tile``: the product uses a tile of 64 rows and 64 columns of the array. The twin
    pads the operands by zeros, so that all 128 rows and columns work.
    """
    rows, columns = left.shape
    if not asks:
        result = product(padded(left, ALL), padded(right, WIDTH), ALL)[0:columns, :]
    elif is_column_tile:
        bank = nl.ndarray((columns, WIDTH), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(
            dst=bank,
            stationary=load(left),
            moving=load(right),
            accumulate=False,
            tile_position=(0, 0),
            tile_size=(rows, columns),
        )
        result = evacuated(bank)
    else:
        result = product(load(left), load(right), columns)
    return stored(result)


def padded(source: Any, columns: int) -> Any:
    """Copies HBM [K, M] into a tile [128, columns] of zeros."""
    tile = nl.ndarray((ALL, columns), dtype=source.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    inside = tile[0 : source.shape[0], 0 : source.shape[1]]
    nisa.tensor_copy(dst=inside, src=load(source), engine=nisa.engine.vector)
    return tile


def of_tile(
    name: str, rows: int, columns: int, question: str = "", record: str = "", rule: str = ""
) -> Probe:
    """Returns a probe of a stationary operand; one with a question uses a tile of the array."""
    kind = f"a stationary operand of {rows} partitions and {columns} columns: does it compile?"
    return Probe(
        name,
        question or kind,
        record or "hardware records 2: NCC_IBIR058, by kiln on trn1",
        small_product,
        exact_product,
        ((rows, columns), (rows, WIDTH)),
        (bool(question),),
        rule=rule or "small-array-tile",
    )


# Float32 products whose moving rows begin at a multiple of 16 bytes, and elsewhere.

USED, AROUND = 222, 224  # columns, as in the convolution of the record


@nki.jit
def shifted_products(left, right, count, asks):
    """Returns left.T @ right[:, 1:223], which is computed ``count`` times in one bank.

    The products read the rows where they lie, or a copy that begins at a multiple of 16 bytes.
    """
    moving = load(right)[:, slice(1, 1 + USED)]
    if not asks:
        tile = nl.ndarray((ALL, AROUND), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile[:, slice(0, USED)], src=moving, engine=nisa.engine.vector)
        moving = tile[:, slice(0, USED)]
    stationary = load(left)
    bank = nl.ndarray((ALL, USED), dtype=nl.float32, buffer=nl.psum)
    for _ in range(count):
        nisa.nc_matmul(dst=bank, stationary=stationary, moving=moving, accumulate=False)
    return stored(evacuated(bank))


PROBES = (
    of_groups(
        "psum-groups-given",
        "four sums of four products in one PSUM bank, with accumulate given: all terms there?",
        constants=(True, False),
    ),
    of_groups(
        "psum-groups-omitted",
        "four sums of four products in one PSUM bank, with accumulate left out: all terms there?",
        constants=(False, False),
    ),
    of_groups(
        "psum-groups-interleaved",
        "four sums in one PSUM bank, all open at once, with accumulate given: all terms there?",
        constants=(True, True),
    ),
    of_view("stationary-one-dimension", 1, settles="that one strided run is read as it lies"),
    of_view("stationary-two-dimensions", 2, rule="stationary-dimensions"),
    of_view("stationary-three-dimensions", 3, rule="stationary-dimensions"),
    of_strides(
        "psum-stride",
        "a product written to every second column of PSUM: right?",
        constants=(1,),
    ),
    of_strides(
        "psum-two-dimensions",
        "a product written to eight of every sixteen columns: right?",
        constants=(2,),
    ),
    Probe(
        "psum-onto-zeros",
        "products that are added to zeros in PSUM: right?",
        "nisa.nc_matmul: undefined on v2 and v3; published kernels do it",
        doubled_product,
        lambda left, right: 2 * exact_product(left, right),
        FACTORS,
        rule="accumulate-onto-others",
    ),
    Probe(
        "transpose-into-float32",
        "a transpose of bfloat16 into float32 PSUM: right?",
        "nisa.nc_transpose: one dtype; a published kernel does it on trn1",
        transposed,
        lambda data: data.astype(ml_dtypes.bfloat16).astype(float).T,
        ((ROWS, WIDTH),),
        rule="transpose-dtype",
    ),
    of_tile("array-tile-32x32", 32, 32),
    of_tile("array-tile-32x16", 32, 16),
    of_tile("array-tile-128x32", 128, 32, rule="narrow-stationary"),
    of_tile(
        "array-tile-columns",
        64,
        64,
        "tile_size of 64 rows and 64 columns, on which the documents disagree: right?",
        "nki/api/nki/isa: nc_matmul, tile_size",
        "column-tiles",
    ),
    Probe(
        "misaligned-moving",
        "float32 products of rows that begin 4 bytes behind a multiple of 16: slower?",
        "asst4-trainium2: 479 ns for 222 columns on trn2; strides could explain it as well",
        shifted_products,
        lambda left, right, count: exact_product(left, right[:, 1 : 1 + USED]),
        ((ALL, ALL), (ALL, AROUND)),
        (COUNT,),
        constant="misaligned_moving_factor",
        counts=(16, 256, 1024),
        generations=(3, 4),
    ),
)
