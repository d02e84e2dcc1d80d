"""Steps of the real Stockham kernels: transposes, products, and the places of their results."""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..row_blocks import HbmRows, Rows, store_rows
from ..tiles import element_count, evacuate, multiply, multiply_half, padded_columns, transpose

# The order of several products' results in a PSUM bank.
BY_PRODUCT = 0  # one product after the other
BY_COLUMN = 1  # interleaved: results of the same column lie next to each other
MIRRORED = 2  # interleaved, with the second run in reverse order
EDGE = 3  # one product, whose columns belong to one result after the other


class Products(nl.NKIObject):
    """Products of a step, by the array or one of its row tiles, which share a PSUM bank."""

    tables: Any  # SBUF [K, columns], one for each product
    order: int  # the order of results in the bank, one of the above
    results: Any  # SBUF views into which the results are moved
    marks: Any  # added to the results: [SBUF [P, 1]] for rows that may be set aside, or []


class Step(nl.NKIObject):
    """Runs of data that are transposed, then multiplied by the array or by two row tiles."""

    data: Any  # strided runs of SBUF [P, K or more], one for each product
    products: Any  # [Products], for one or for each row tile
    is_dependent: bool  # whether it reads what the step before writes
    stores: Any  # stores that may begin after it


class Store(nl.NKIObject):
    """Results on their way to HBM."""

    target: HbmRows
    tile: Any  # SBUF [P, rows, N or more]
    rows: Rows


class Pipeline(nl.NKIObject):
    """Steps one after the other: a step's transposes, then the products of the step before."""

    identity: Any  # SBUF, see load_identity
    is_scalar: bool  # whether ScalarE, instead of VectorE, moves transposes out of PSUM
    waiting: Any  # [the step whose products are not yet made], or []
    moved: Any  # that step's data, transposed, SBUF [K or more, products, P or more]


def advance(pipeline: Pipeline, step: Step) -> None:
    """Make the transposes of a step, then the products of the step before."""
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
    """Make the products of the step that waits; ScalarE evacuates them; start its stores."""
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
    """Make one product of a step, in the whole array or in one of its row tiles."""
    products = step.products[half]
    table = products.tables[product]
    depth = min(step.products[0].tables[0].shape[0], moved.shape[0])
    place = place_of(bank, products.order, product)
    if len(step.products) == 1:
        multiply(place, moved[0:depth, product], table[0:depth], False)
    else:
        multiply_half(place, moved[:, product], table, half, False)


def leave_bank(products: Products, made: Any) -> None:
    """Move the results of a bank to their places."""
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
    """Return how many numbers of a tile lie on a partition."""
    return element_count(tile.shape[1:])


def bank_of(order: int, columns: int, count: int, width: int) -> Any:
    """Allocate a PSUM bank for ``count`` products of ``width`` columns, in an order."""
    shape: Any = (columns, count, width)
    if order == BY_COLUMN:
        shape = (columns, width, count)
    if order == MIRRORED:
        shape = (columns, 2, width // 4, 2 * count)
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)


def place_of(bank: Any, order: int, product: int) -> Any:
    """Return the place of a product's results in a PSUM bank."""
    if order in (BY_PRODUCT, EDGE):
        return bank[:, product]
    if order == BY_COLUMN:
        return bank[:, :, product]
    last = bank.shape[3] - 1 - product
    return bank[:, :, :, product : last + 1 : last - product]


def leave(dst: Any, bank: Any, marks: Any) -> None:
    """Move results out of PSUM by ScalarE, adding the marks of rows that were set aside."""
    if len(marks) == 0:
        nisa.activation(dst=dst, op=nl.copy, data=bank)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=bank, bias=marks[0])
