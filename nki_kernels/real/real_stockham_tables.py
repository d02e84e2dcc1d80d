"""Tables of the real Stockham kernels, and the numbers from which their shapes follow.

real_stockham.py has the mathematics: a stage on real numbers, slots K of their spectra, and two
runs of outputs for each slot.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..roots import roots
from ..table_terms import table_spec
from ..tiles import DMA_RUN, PARTITIONS, WHOLE_RADIX

MAX_REAL_RADIX = 128
MAX_SPECTRUM_RADIX = 64


def slot_count(radix: int) -> int:
    """Return how many complex numbers hold a spectrum of ``radix`` reals, Nyquist beside DC."""
    return (radix + 1) // 2


def slabs_together(radix: int, left: int) -> int:
    """Return the slabs g of a product of the real stage: 2 g slots <= 128, and g divides M."""
    best = 1
    for g in range(2, PARTITIONS // (2 * slot_count(radix)) + 1):
        if left % g == 0:
            best = g
    return best


def pairs_rows(radices: Any) -> bool:
    """Return whether two row tiles of the array can take slabs of two rows in the real stage.

    The product's run of 128 numbers has to begin the second row with its second half.
    """
    radix, left = radices
    fits = WHOLE_RADIX % radix == 0 and radix % 2 == 0 and radix * left <= DMA_RUN
    return bool(fits and left % (WHOLE_RADIX // radix) == 0)


def pairs_slots(radices: Any) -> bool:
    """Return whether two row tiles can take two slots, each of which fills one of them."""
    return bool(2 * radices[1] == WHOLE_RADIX and radices[0] % 4 == 0)


def run_length(left: int) -> int:
    """Return the numbers q of the longer run of a slot: n = K + R q, n <= N/2."""
    return (left + 1) // 2


def multiples(radix: int, left: int) -> tuple[int, int]:
    """Return step and count of the n <= N/2 that slot 0 makes: multiples of R/2, or of an odd R."""
    step = radix // 2 if radix % 2 == 0 else radix
    return step, radix * left // 2 // step + 1


def edge_size(radices: Any) -> int:
    """Return the reals in slot 0's outputs: two for each, but one for X[0] and for X[N/2]."""
    radix, left = radices
    return 2 * multiples(radix, left)[1] - own_outputs(radices)


def own_outputs(radices: Any) -> int:
    """Return how many outputs of slot 0 are real: X[0] and, for even N, X[N/2]."""
    return 2 - radices[0] * radices[1] % 2


def real_stockham_tables(
    n: int, radices: tuple[int, int], inverse: bool = False, scale: float = 1.0
) -> tuple[Any, ...]:
    """Return the tables of ``real_stockham``: (real stage, slot 0, *slots, *paired rows).

    The real stage is [g R, 2 slots g], rows (j, slab), columns (slot, part, slab). Slot 0 is [2 M,
    2 E], rows (part, m), columns (part, multiple) of complex outputs, then of real ones. Slots 1,
    2, ... are one table [2 M, slots - 1, 4 Q], rows (part, m), columns (part, q, run), or, where
    ``pairs_slots``, [128, slots / 2, 64] with the tables of slots 2 i and 2 i + 1 on the two halves
    of the rows; if there is one slot, there is no such table. Paired rows, where ``pairs_rows``,
    are the first table for g R = 64, on both halves of the rows.

    Args:
        n: length of the transform.
        radices: (R, M) with product n; R is 2 to 128, M is 2 to 64.
        inverse: the sign of the exponent: False for exp(-...), True for exp(+...).
        scale: a factor on the transform.

    Returns:
        A tuple of float32 arrays.

    Raises:
        ValueError: the radices do not multiply to n, or one is out of range.
    """
    _check(n, radices)
    radix, left = radices
    slots = slot_count(radix)
    real = np.zeros((radix, slots, 2))
    for slot in range(slots):
        w = roots(np.arange(radix) * slot, radix, inverse)
        real[:, slot, 0], real[:, slot, 1] = w.real, w.imag
    real[:, 0, 1] = (-1.0) ** np.arange(radix) if radix % 2 == 0 else 0
    m = np.arange(left)[:, None]
    step, count = multiples(radix, left)
    w = scale * roots(m * (step * np.arange(count)), n, inverse)
    edge = np.stack([w, w])
    if radix % 2 == 0:
        edge[0, :, 1::2] = edge[1, :, 0::2] = 0
    else:
        edge[1] = 0
    own = _are_real(n, step * np.arange(count))
    outputs = _split(edge)
    columns = [outputs[:, :, part, mine] for mine in (~own, own) for part in range(2)]
    # The scale comes last, because rows are judged by the stages' results without it.
    pairs = [scale * _pair(n, radix, left, slot, inverse) for slot in range(1, slots)]
    return (
        _of_slabs("jkp,st->jskpt", real, slabs_together(radix, left)),
        np.concatenate(columns, 2).reshape(2 * left, -1).astype(np.float32),
        *_stacked(pairs, radices),
        *_of_paired_rows("jkp,st->jskpt", real, radices),
    )


def inverse_real_stockham_tables(
    n: int, radices: tuple[int, int], inverse: bool = True, scale: float = 1.0
) -> tuple[Any, ...]:
    """Return the tables of ``inverse_real_stockham``, in the order of the forward tables.

    The real stage is [2 slots g, g R], rows (slot, part, slab), columns (j, slab). Slot 0 is
    [edge_size, 2 M], rows (part, multiple) of complex outputs, then real ones, columns (part, m).
    Slots 1, 2, ... are one table [4 Q, slots - 1, 2 M], rows (part, q, run), columns (part, m).
    Pairs of slots and of rows are as in ``real_stockham_tables``.

    Args:
        n, radices, inverse, scale: as for ``real_stockham_tables``.

    Returns:
        A tuple of float32 arrays.

    Raises:
        ValueError: the radices do not multiply to n, or one is out of range.
    """
    _check(n, radices)
    radix, left = radices
    slots = slot_count(radix)
    step, count = multiples(radix, left)
    numbers = step * np.arange(count)
    w = roots(numbers[:, None] * np.arange(left), n, inverse) * 2
    own = _are_real(n, numbers)
    w[own] = w[own].real / 2
    edge = np.zeros((count, 2, 2, left))
    for part in range(2 - radix % 2):
        mine = slice(part, None, 2) if radix % 2 == 0 else slice(None)
        edge[mine, 0, part], edge[mine, 1, part] = w.real[mine], -w.imag[mine]
    rows = np.concatenate([edge[~own, 0], edge[~own, 1], edge[own, 0]])
    # This is the transpose of the forward stage with the other sign, which conjugates.
    pairs = [_pair(n, radix, left, slot, not inverse).T for slot in range(1, slots)]
    j = np.arange(radix)
    real = np.zeros((slots, 2, radix))
    for slot in range(slots):
        w = (1 if slot == 0 else 2) * roots(j * slot, radix, inverse)
        real[slot, 0], real[slot, 1] = w.real, -w.imag
    real[0, 1] = (-1.0) ** j if radix % 2 == 0 else 0
    return (
        _of_slabs("kpj,st->kpsjt", scale * real, slabs_together(radix, left)),
        rows.reshape(-1, 2 * left).astype(np.float32),
        *_stacked(pairs, radices),
        *_of_paired_rows("kpj,st->kpsjt", scale * real, radices),
    )


def real_stockham_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``real_stockham_tables(n, radices, ...)``."""
    radix, left = radices
    g, slots = slabs_together(radix, left), slot_count(radix)
    opening = table_spec((g * radix, 2 * slots * g))
    edge = table_spec((2 * left, 2 * multiples(radix, left)[1]))
    return opening, edge, *_other_specs(radices, (2 * left, slots - 1, 4 * run_length(left)))


def inverse_real_stockham_specs(radices: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the (shape, dtype) of each of ``inverse_real_stockham_tables(n, radices, ...)``."""
    radix, left = radices
    g, slots = slabs_together(radix, left), slot_count(radix)
    closing = table_spec((2 * slots * g, g * radix))
    edge = table_spec((edge_size(radices), 2 * left))
    return closing, edge, *_other_specs(radices, (4 * run_length(left), slots - 1, 2 * left))


def _other_specs(radices: tuple[int, ...], slots: tuple[int, int, int]) -> list[Any]:
    """Return the specs after the first two; slots: the shape of slots' table without pairs."""
    found = [table_spec(slots)] if slots[1] > 0 else []
    if pairs_slots(radices):
        found = [table_spec((PARTITIONS, (slots[1] + 1) // 2, slots[2]))]
    return found + ([table_spec((PARTITIONS, WHOLE_RADIX))] if pairs_rows(radices) else [])


def _check(n: int, radices: tuple[int, int]) -> None:
    if len(radices) != 2 or radices[0] * radices[1] != n:
        raise ValueError(f"radices {radices}: must be two with the product n = {n}")
    limits = MAX_REAL_RADIX, MAX_SPECTRUM_RADIX
    if any(not 2 <= r <= limit for r, limit in zip(radices, limits, strict=True)):
        raise ValueError(f"radices {radices}: the first must be 2 to 128, the second 2 to 64")


def _pair(n: int, radix: int, left: int, slot: int, inverse: bool) -> np.ndarray[Any, Any]:
    """Return a slot's two runs of outputs, [2 M, 4 Q]: rows (part, m), columns (part, q, run)."""
    starts = np.array([slot, radix - slot])
    outputs = starts + radix * np.arange(run_length(left))[:, None]  # [q, run]
    w = roots(np.arange(left)[:, None, None] * outputs, n, inverse)
    w[:, 2 * outputs > n] = 0
    return _split(np.stack([w, w * np.array([1j, -1j])])).reshape(2 * left, -1)


def _are_real(n: int, outputs: np.ndarray[Any, Any]) -> Any:
    """Return which outputs of real data are real."""
    return (outputs == 0) | (2 * outputs == n)


def _of_slabs(order: str, real: np.ndarray[Any, Any], slabs: int) -> np.ndarray[Any, Any]:
    """Return the real stage's table for ``slabs`` slabs; the rows end with the first slab index."""
    table = np.einsum(order, real, np.eye(slabs))
    rows = math.prod(table.shape[: order.index("s", order.index(">")) - order.index(">")])
    return table.reshape(rows, -1).astype(np.float32)


def _of_paired_rows(order: str, real: np.ndarray[Any, Any], radices: Any) -> list[Any]:
    """Return [that table for half of the array, on both halves], or []."""
    if not pairs_rows(radices):
        return []
    return [np.tile(_of_slabs(order, real, WHOLE_RADIX // radices[0]), (2, 1))]


def _stacked(pairs: list[np.ndarray[Any, Any]], radices: Any) -> list[np.ndarray[Any, Any]]:
    """Return [one float32 table of slots 1, 2, ...], in pairs where slots are paired; or []."""
    if not pairs:
        return []
    if not pairs_slots(radices):
        return [np.stack(pairs, 1).astype(np.float32)]
    whole = [np.zeros_like(pairs[0]), *pairs]  # slot 0 has a table of its own
    halves = [np.stack(whole[half::2], 1) for half in range(2)]
    return [np.concatenate(halves).astype(np.float32)]


def _split(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return complex [part, m, ...], part 1 with its factor i, as reals [part, m, part', ...]."""
    return np.stack([w.real, w.imag], 2)
