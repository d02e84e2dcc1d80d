"""Steps of the real Stockham kernels: transposes, products, and the places of their results."""

from __future__ import annotations

from typing import Any

from ..nki_api import nisa, nl
from ..row_blocks import HbmRows, Rows, store_rows
from ..tiles import element_count, evacuate, multiply, multiply_half, padded_columns, transpose

# How results of several products lie in a PSUM bank.
BY_PRODUCT = 0  # one product after the other
BY_COLUMN = 1  # interleaved: next to each other are those of the same column
MIRRORED = 2  # interleaved, those of the second run the other way round
EDGE = 3  # one product, its columns for one result after the other


class Products(nl.NKIObject):
    """What the array, or one of its row tiles, makes in a step: results that share a PSUM bank."""

    tables: Any  # SBUF [K, columns], one a product
    order: int  # of results in the bank: one of those above
    results: Any  # SBUF views that take them
    marks: Any  # added to them: [SBUF [P, 1]] of rows that may be set aside, or []


class Step(nl.NKIObject):
    """Runs of data that are transposed, and multiplied by the array or by both of its row tiles."""

    data: Any  # strided runs of SBUF [P, K or more], one a product
    products: Any  # [Products], of one or of each row tile
    is_dependent: bool  # whether it reads what the step before writes
    stores: Any  # stores that may begin after it


class Store(nl.NKIObject):
    """Results on their way to HBM."""

    target: HbmRows
    tile: Any  # SBUF [P, rows, N or more]
    rows: Rows


class Pipeline(nl.NKIObject):
    """Steps one after the other: transposes of one, then products of the one before."""

    identity: Any  # of load_identity
    is_scalar: bool  # whether ScalarE takes transposes from PSUM, instead of VectorE
    waiting: Any  # [the step whose products are still to do], or []
    moved: Any  # its data, transposed, SBUF [K or more, products, P or more]


def advance(pipeline: Pipeline, step: Step) -> None:
    """Transposes of a step, then the products of the one before."""
    if step.is_dependent:
        drain(pipeline)
    partitions = step.data[0].shape[0]
    depth = step.data[0].shape[1]
    columns = padded_columns(partitions, min(depth, step.products[0].tables[0].shape[0]))
    bank = nl.ndarray((depth, len(step.data), columns), dtype=nl.float32, buffer=nl.psum)
    for product in range(len(step.data)):
        transpose(bank[:, product], step.data[product], pipeline.identity)
    moved = evacuate(bank, nl.float32, pipeline.is_scalar)
    drain(pipeline)
    pipeline.waiting = [step]
    pipeline.moved = moved


def drain(pipeline: Pipeline) -> None:
    """Products of the step that waits, their evacuation by ScalarE, and its stores."""
    if len(pipeline.waiting) == 0:
        return
    step, moved = pipeline.waiting[0], pipeline.moved
    pipeline.waiting = []
    banks = []
    for products in step.products:
        count, width = len(products.tables), products.tables[0].shape[1]
        banks.append(bank_of(products.order, moved.shape[2], count, width))
    for product in range(len(step.data)):
        for half in range(len(banks)):
            multiply_slab(step, moved, product, half, banks[half])
    for half in range(len(banks)):
        leave_bank(step.products[half], banks[half][0 : step.data[0].shape[0]])
    for store in step.stores:
        store_rows(store.target.tensor, store.tile, store.rows, store.target.columns)


def multiply_slab(step: Step, moved: Any, product: int, half: int, bank: Any) -> None:
    """One product of a step, in the whole array or in one of its row tiles."""
    products = step.products[half]
    table = products.tables[product]
    depth = min(step.products[0].tables[0].shape[0], moved.shape[0])
    place = place_of(bank, products.order, product)
    if len(step.products) == 1:
        multiply(place, moved[0:depth, product], table[0:depth], False)
    else:
        multiply_half(place, moved[:, product], table, half, False)


def leave_bank(products: Products, made: Any) -> None:
    """Results of a bank to where they belong."""
    count, marks = len(products.tables), products.marks
    if products.order == EDGE:
        low = 0
        for result in products.results:
            high = low + width_of(result)
            leave(result, made[:, 0, low:high], marks)
            low = high
    elif products.order == MIRRORED:
        others = products.results[1].shape[2]
        leave(products.results[0], made[:, :, :, 0:count], marks)
        leave(products.results[1], made[:, :, 0:others, count : 2 * count], marks)
    else:
        leave(products.results[0], made, marks)


def width_of(tile: Any) -> int:
    """Numbers of a partition."""
    return element_count(tile.shape[1:])


def bank_of(order: int, columns: int, count: int, width: int) -> Any:
    """A PSUM bank for ``count`` products of so many columns, in an order of those above."""
    shape: Any = (columns, count, width)
    if order == BY_COLUMN:
        shape = (columns, width, count)
    if order == MIRRORED:
        shape = (columns, 2, width // 4, 2 * count)
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)


def place_of(bank: Any, order: int, product: int) -> Any:
    """Where the results of a product go in a PSUM bank."""
    if order in (BY_PRODUCT, EDGE):
        return bank[:, product]
    if order == BY_COLUMN:
        return bank[:, :, product]
    last = bank.shape[3] - 1 - product
    return bank[:, :, :, product : last + 1 : last - product]


def leave(dst: Any, bank: Any, marks: Any) -> None:
    """ScalarE takes results from PSUM, with the marks of rows that were set aside."""
    if len(marks) == 0:
        nisa.activation(dst=dst, op=nl.copy, data=bank)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=bank, bias=marks[0])
