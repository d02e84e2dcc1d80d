"""Tables of the real Stockham kernels, and the geometry from which their shapes follow.

real_stockham.py has the mathematics: a stage on real numbers, slots K of their spectra, and two
runs of outputs for each slot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..base.engines import DMA_RUN, PARTITIONS, PSUM_BANK, WHOLE_RADIX
from ..base.roots import dft_matrix, roots
from ..base.table_terms import Array, TableSpec, table_spec

MAX_REAL_RADIX = 128
MAX_SPECTRUM_RADIX = 64
GROUP = 4  # products whose results share a PSUM bank, at most


@dataclass(frozen=True)
class Geometry:
    """Sizes of both stages; n = K + R q is an output."""

    radix: int  # R of the stage on real numbers
    left: int  # M of the stage on spectra

    @property
    def n(self) -> int:
        """The length of the transform."""
        return self.radix * self.left

    @property
    def slots(self) -> int:
        """Complex numbers that hold a spectrum of R reals, Nyquist beside DC."""
        return (self.radix + 1) // 2

    @cached_property
    def slabs(self) -> int:
        """Slabs g of a product of the real stage: 2 g slots <= 128, and g divides M."""
        most = max(1, PARTITIONS // (2 * self.slots))
        return max(g for g in range(1, most + 1) if self.left % g == 0)

    @property
    def pairs_rows(self) -> bool:
        """Whether two row tiles of the array can take slabs of two rows in the real stage.

        The product's run of 128 numbers has to begin the second row with its second half.
        """
        fits = WHOLE_RADIX % self.radix == 0 and self.radix % 2 == 0 and self.n <= DMA_RUN
        return fits and self.left % (WHOLE_RADIX // self.radix) == 0

    @property
    def pairs_slots(self) -> bool:
        """Whether two row tiles can take two slots, each of which fills one of them."""
        return 2 * self.left == WHOLE_RADIX and self.radix % 4 == 0

    @property
    def run(self) -> int:
        """Numbers q of the longer run of a slot: n = K + R q, n <= N/2."""
        return (self.left + 1) // 2

    @property
    def step(self) -> int:
        """The outputs of slot 0 are multiples of R/2, or of an odd R."""
        return self.radix // 2 if self.radix % 2 == 0 else self.radix

    @property
    def multiples(self) -> int:
        """How many outputs slot 0 has."""
        return self.n // 2 // self.step + 1

    @property
    def own(self) -> int:
        """How many outputs of slot 0 are real: X[0] and, for even N, X[N/2]."""
        return 2 - self.n % 2

    @property
    def edge(self) -> int:
        """Reals in slot 0's outputs: two for each, but one for X[0] and for X[N/2]."""
        return 2 * self.multiples - self.own

    @property
    def length(self) -> int:
        """Numbers of a part of a spectrum in natural order, in whole runs of R."""
        return max(self.n // 2 + 1, self.run * self.radix)

    def state_place(self, slot: int) -> int:
        """Return where a slot begins between the stages, where each has (part, m)."""
        return 2 * self.left * slot

    def slot_place(self, slot: int) -> int:
        """Return where a slot begins in a spectrum by slots, each of the others (part, q, run)."""
        return 0 if slot == 0 else self.edge + (slot - 1) * 4 * self.run

    def slot_groups(self) -> Iterator[list[range]]:
        """Yield the slots whose products share a PSUM bank: those of each row tile of the array.

        First comes slot 0, or slots 0 and 1 where slots are paired; groups of the others follow.
        """
        tiles = 2 if self.pairs_slots else 1
        group = tiles * min(GROUP, PSUM_BANK // (4 * self.run))
        yield [range(slot, slot + 1) for slot in range(tiles)]
        for first in range(tiles, self.slots, group):
            last = min(first + group, self.slots)
            yield [range(first + tile, last, tiles) for tile in range(tiles)]


def real_stockham_tables(
    n: int, radices: tuple[int, int], inverse: bool = False, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return the tables of ``real_stockham``: (real stage, slot 0, *slots, *paired rows).

    The real stage is [g R, 2 slots g], rows (j, slab), columns (slot, part, slab). Slot 0 is [2 M,
    2 E], rows (part, m), columns (part, multiple) of complex outputs, then of real ones. Slots 1,
    2, ... are one table [2 M, slots - 1, 4 Q], rows (part, m), columns (part, q, run), or, where
    ``pairs_slots``, [128, slots / 2, 64] with the tables of slots 2 i and 2 i + 1 on the two halves
    of the rows; if there is one slot, there is no such table. Paired rows, where ``pairs_rows``,
    are the first table for g R = 64, on both halves of the rows.

    Args:
        n, inverse, scale: as for ``stockham_tables``.
        radices: (R, M) with product n; R is 2 to 128, M is 2 to 64.
    """
    geometry = _checked(n, radices)
    radix, left, slots = geometry.radix, geometry.left, geometry.slots
    w = dft_matrix(radix, inverse, radix, slots)
    real = np.stack([w.real, w.imag], 2)
    real[:, 0, 1] = _nyquist(radix)
    outputs = geometry.step * np.arange(geometry.multiples)
    w = scale * roots(np.arange(left)[:, None] * outputs, n, inverse)
    edge = np.stack([w, w])
    if radix % 2 == 0:
        edge[0, :, 1::2] = edge[1, :, 0::2] = 0
    else:
        edge[1] = 0
    own = _are_real(n, outputs)
    split = _split(edge)
    columns = [split[:, :, part, mine] for mine in (~own, own) for part in range(2)]
    # The scale comes last, because rows are judged by the stages' results without it.
    pairs = [scale * _pair(geometry, slot, inverse) for slot in range(1, slots)]
    return (
        _of_slabs("jkp,st->jskpt", real, geometry.slabs),
        np.concatenate(columns, 2).reshape(2 * left, -1).astype(np.float32),
        *_stacked(pairs, geometry),
        *_of_paired_rows("jkp,st->jskpt", real, geometry),
    )


def inverse_real_stockham_tables(
    n: int, radices: tuple[int, int], inverse: bool = True, scale: float = 1.0
) -> tuple[Array, ...]:
    """Return the tables of ``inverse_real_stockham``, in the order of the forward tables.

    The real stage is [2 slots g, g R], rows (slot, part, slab), columns (j, slab). Slot 0 is
    [edge_size, 2 M], rows (part, multiple) of complex outputs, then real ones, columns (part, m).
    Slots 1, 2, ... are one table [4 Q, slots - 1, 2 M], rows (part, q, run), columns (part, m).
    Pairs of slots and of rows are as in ``real_stockham_tables``.

    Args:
        n, radices, inverse, scale: as for ``real_stockham_tables``.
    """
    geometry = _checked(n, radices)
    radix, left, slots = geometry.radix, geometry.left, geometry.slots
    outputs = geometry.step * np.arange(geometry.multiples)
    # The scale comes first, so that large numbers do not overflow before their sum is scaled.
    w = 2 * scale * roots(outputs[:, None] * np.arange(left), n, inverse)
    own = _are_real(n, outputs)
    w[own] = w[own].real / 2
    edge = np.zeros((geometry.multiples, 2, 2, left))
    for part in range(2 - radix % 2):
        mine = slice(part, None, 2) if radix % 2 == 0 else slice(None)
        edge[mine, 0, part], edge[mine, 1, part] = w.real[mine], -w.imag[mine]
    rows = np.concatenate([edge[~own, 0], edge[~own, 1], edge[own, 0]])
    # This is the transpose of the forward stage with the other sign, which conjugates.
    pairs = [scale * _pair(geometry, slot, not inverse).T for slot in range(1, slots)]
    w = 2 * dft_matrix(radix, inverse, slots, radix)
    real = np.stack([w.real, -w.imag], 1)
    real[0, 0], real[0, 1] = 1, _nyquist(radix)
    return (
        _of_slabs("kpj,st->kpsjt", real, geometry.slabs),
        rows.reshape(-1, 2 * left).astype(np.float32),
        *_stacked(pairs, geometry),
        *_of_paired_rows("kpj,st->kpsjt", real, geometry),
    )


def real_stockham_specs(radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``real_stockham_tables(n, radices, ...)``."""
    of = Geometry(*radices)
    opening = table_spec((of.slabs * of.radix, 2 * of.slots * of.slabs))
    edge = table_spec((2 * of.left, 2 * of.multiples))
    return opening, edge, *_other_specs(of, (2 * of.left, of.slots - 1, 4 * of.run))


def inverse_real_stockham_specs(radices: tuple[int, ...]) -> tuple[TableSpec, ...]:
    """Return the (shape, dtype) of each of ``inverse_real_stockham_tables(n, radices, ...)``."""
    of = Geometry(*radices)
    closing = table_spec((2 * of.slots * of.slabs, of.slabs * of.radix))
    edge = table_spec((of.edge, 2 * of.left))
    return closing, edge, *_other_specs(of, (4 * of.run, of.slots - 1, 2 * of.left))


def _other_specs(geometry: Geometry, slots: tuple[int, int, int]) -> list[TableSpec]:
    """Return the specs after the first two; slots: the shape of slots' table without pairs."""
    found = [table_spec(slots)] if slots[1] > 0 else []
    if geometry.pairs_slots:
        found = [table_spec((PARTITIONS, (slots[1] + 1) // 2, slots[2]))]
    return found + ([table_spec((PARTITIONS, WHOLE_RADIX))] if geometry.pairs_rows else [])


def _checked(n: int, radices: tuple[int, int]) -> Geometry:
    """Return the geometry of radices, once they are known to be a transform of length n."""
    if len(radices) != 2 or radices[0] * radices[1] != n:
        raise ValueError(f"radices {radices}: must be two with the product n = {n}")
    limits = MAX_REAL_RADIX, MAX_SPECTRUM_RADIX
    if any(not 2 <= r <= limit for r, limit in zip(radices, limits, strict=True)):
        raise ValueError(f"radices {radices}: the first must be 2 to 128, the second 2 to 64")
    return Geometry(*radices)


def _nyquist(radix: int) -> Any:
    """Return the factors of frequency R/2, or zero for an odd R, which has none."""
    return (-1.0) ** np.arange(radix) if radix % 2 == 0 else 0 * np.arange(radix)


def _pair(geometry: Geometry, slot: int, inverse: bool) -> Array:
    """Return a slot's two runs of outputs, [2 M, 4 Q]: rows (part, m), columns (part, q, run)."""
    starts = np.array([slot, geometry.radix - slot])
    outputs = starts + geometry.radix * np.arange(geometry.run)[:, None]  # [q, run]
    w = roots(np.arange(geometry.left)[:, None, None] * outputs, geometry.n, inverse)
    w[:, 2 * outputs > geometry.n] = 0
    return _split(np.stack([w, w * np.array([1j, -1j])])).reshape(2 * geometry.left, -1)


def _are_real(n: int, outputs: Array) -> Any:
    return (outputs == 0) | (2 * outputs == n)


def _of_slabs(order: str, real: Array, slabs: int) -> Array:
    """Return the real stage's table for ``slabs`` slabs; the rows end with the first slab index."""
    table = np.einsum(order, real, np.eye(slabs))
    rows = math.prod(table.shape[: order.index("s", order.index(">")) - order.index(">")])
    return table.reshape(rows, -1).astype(np.float32)


def _of_paired_rows(order: str, real: Array, geometry: Geometry) -> list[Array]:
    """Return [that table for half of the array, on both halves], or []."""
    if not geometry.pairs_rows:
        return []
    return [np.tile(_of_slabs(order, real, WHOLE_RADIX // geometry.radix), (2, 1))]


def _stacked(pairs: list[Array], geometry: Geometry) -> list[Array]:
    """Return [one float32 table of slots 1, 2, ...], in pairs where slots are paired; or []."""
    if not pairs:
        return []
    if not geometry.pairs_slots:
        return [np.stack(pairs, 1).astype(np.float32)]
    whole = [np.zeros_like(pairs[0]), *pairs]  # slot 0 has a table of its own
    halves = [np.stack(whole[half::2], 1) for half in range(2)]
    return [np.concatenate(halves).astype(np.float32)]


def _split(w: Array) -> Array:
    """Return complex [part, m, ...], part 1 with its factor i, as reals [part, m, part', ...]."""
    return np.stack([w.real, w.imag], 2)
