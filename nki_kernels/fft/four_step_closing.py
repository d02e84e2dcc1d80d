"""The DFTs over c that end four-step transforms, and the stores of their results.

four_step.py has the mathematics.
"""

from __future__ import annotations

from typing import Any

from ..isa import nisa, nl
from ..tiles import (
    PSUM_BANK,
    SPLIT_TERMS,
    factor_views,
    multiply,
    multiply_complex,
    multiply_through_psum,
)
from .four_step_passage import Flow, Passage, Results
from .four_step_shared import LONG, STORED
from .spread_lines import Place, Spread, load_factors, store_lines


class Closing(nl.NKIObject):
    """A part of the last state whose results a PSUM bank holds."""

    row: int
    rows: int
    low: int  # the first k_a
    size: int  # how many k_a
    store: Any  # the Closing of everything that is stored together, or nothing
    is_last: bool  # whether it is the last part of its store


def closing_work(spread: Spread, rows: int) -> Any:
    """Return the closings of a bundle, store by store."""
    length = spread.length
    most = STORED if length <= LONG else PSUM_BANK
    together = max(1, most // length)
    work: Any = []
    for top in range(0, rows, together):
        for low in range(0, length, most):
            count, size = min(together, rows - top), min(most, length - low)
            store = Closing(top, count, low, size, [], False)
            each = max(1, PSUM_BANK // size)
            for row in range(top, top + count, each):
                for start in range(low, low + size, PSUM_BANK):
                    rest = min(PSUM_BANK, low + size - start)
                    closing = Closing(row, min(each, top + count - row), start, rest, store, False)
                    work.append(closing)
            work[len(work) - 1].is_last = True
    return work


def close(closing: Closing, passage: Passage, flow: Flow) -> None:
    """Compute a closing's DFT over the partitions, and store if it is the last of its store."""
    spread, store, last = flow.spread, closing.store, flow.tables.last
    state = passage.states[len(passage.states) - 1]
    row, low = closing.row - store.row, closing.low - store.low
    if row == 0 and low == 0:
        passage.result = result_tile(store, flow)
    data = state[:, :, closing.row : closing.row + closing.rows]
    data = data[:, :, :, closing.low : closing.low + closing.size]
    for part in range(2):
        size = (last.shape[2], closing.rows, closing.size)
        bank = nl.ndarray(size, dtype=nl.float32, buffer=nl.psum)
        # W is symmetric.
        for term in range(2):
            multiply(bank, last[:, SPLIT_TERMS[part][term]], data[:, term], term > 0)
        target = passage.result[:, part, row : row + closing.rows, low : low + closing.size]
        nisa.activation(dst=target, op=nl.copy, data=bank[0 : spread.columns])
    if closing.is_last:
        place = Place(passage.bundle.first + store.row, store.low, spread.length)
        store_results(passage.result, flow.results, place)


def result_tile(store: Closing, flow: Flow) -> Any:
    """Return an SBUF tile for results that are stored together."""
    results, columns = flow.results, flow.spread.columns
    if results.tiles == None:
        shape = (columns, 2, store.rows, store.size)
        return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    results.made += 1
    return results.tiles[results.made % len(results.tiles)][:, :, :, 0 : store.size]


def store_results(result: Any, results: Results, place: Place) -> None:
    """Store SBUF [C, 2, rows, n], after a product with the factors, if there are any."""
    if len(results.factors) > 0:
        tile = results.factors[results.turn % len(results.factors)]
        results.turn += 1
        after = results.after[0]
        if after.shape[2] > place.pitch:  # each line has factors of its own
            numbers = result.flatten_dims(2, 3)
            load_factors(tile, after, place.row * place.pitch + place.low, numbers.shape[2])
            factors = tile[0 : numbers.shape[0], :, 0 : numbers.shape[2]]
            multiply_through_psum(numbers, numbers, factors)
        else:
            load_factors(tile, after, place.low, result.shape[3])
            multiply_complex(result, result, factor_views(tile, 0, result.shape))
    for part in range(2):
        store_lines(result[:, part], results.target, part, place)
