"""Transposes of runs, and results on their way out of PSUM, for which two engines take turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base import chip
from ..base.engines import (
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    columns_read,
    element_count,
    evacuate,
    itemsize,
    padded_columns,
    psum,
    sbuf,
    transpose,
    transposed_dtype,
)
from ..base.isa import Tensor, nisa, nl

_TOGETHER = PSUM_BANK // PARTITIONS  # transposes that share a PSUM bank
_START = 64  # columns that take as long as an instruction takes to start


class Balance:
    """Gives each result to the engine that has moved fewer columns.

    VectorE moves none where the two engines exclude each other, because ScalarE is faster.
    """

    def __init__(self) -> None:
        self._is_shared = chip.psum_port_is_shared()
        self._clocks = chip.core().scalar_ghz, chip.core().vector_ghz
        self._busy = [0.0, 0.0]  # of ScalarE and VectorE

    def restart(self) -> None:
        """Forget what was moved, as every iteration of a loop has to."""
        self._busy = [0.0, 0.0]

    def take(self, columns: int) -> bool:
        """Return whether ScalarE moves so many columns."""
        times = [(columns + _START) / clock for clock in self._clocks]
        is_scalar = self._is_shared or self._busy[0] + times[0] <= self._busy[1] + times[1]
        self._busy[0 if is_scalar else 1] += times[0 if is_scalar else 1]
        return is_scalar

    def move(
        self, dst: Tensor, bank: Tensor, marks: Tensor | None = None, factor: float = 1.0
    ) -> None:
        """Move a bank to SBUF; marks [P, 1] are added, and a factor multiplied, by ScalarE."""
        must = marks is not None or factor != 1.0
        columns = element_count(bank.shape[1:])
        if must:
            self._busy[0] += (columns + _START) / self._clocks[0]
        is_scalar = must or self.take(columns)
        evacuate(bank, dst, is_scalar=is_scalar, marks=marks, factor=factor)

    def add(self, dst: Tensor, bank: Tensor) -> None:
        """Add a bank to numbers in SBUF, on VectorE."""
        self._busy[1] += (element_count(bank.shape[1:]) + _START) / self._clocks[1]
        nisa.tensor_tensor(dst=dst, data1=bank, data2=dst, op=nl.add)

    def move_sum(self, dst: Tensor, banks: Sequence[Tensor], marks: Tensor | None = None) -> None:
        """Move the sum of banks to SBUF, with marks added."""
        self.move(dst, banks[0], marks)
        for other in banks[1:]:
            self.add(dst, other)


def columns_of(columns: int) -> int:
    """Return how many columns a stationary operand needs, where narrow ones are refused."""
    is_narrow = chip.refuses_narrow_operands() and columns <= NARROW
    return columns_read(columns) if is_narrow else columns


def slack() -> int:
    """Return how many numbers follow the last run of a tile, so that runs may be widened."""
    return NARROW + 1 if chip.refuses_narrow_operands() else 0


def spread_bank(shape: Sequence[int], dtype: Any) -> Tensor:
    """Allocate a bank for transposes of a dtype, each of which may begin at any number.

    They begin at multiples of 4 bytes, so that a number of 2 bytes has a gap after it.
    """
    if itemsize(transposed_dtype(dtype)) == 4:
        return psum(shape)
    return psum((*shape, 2), dtype)[..., 0]


def turn(
    balance: Balance,
    tile: Tensor,
    cuts: Sequence[tuple[int, int]],
    identity: Tensor,
    target: Tensor | None = None,
    columns: int = 0,
) -> list[Tensor]:
    """Transpose runs (first, count) of SBUF [P, n], up to 128 each, to SBUF [count, P].

    Four of them share a bank. Where narrow operands are refused, a run takes the numbers after it
    along, whose results are not used. target: a tile [count, run, P] for runs of one length.
    columns: if more than P, zeros follow in the results.
    """
    found, held = list[Tensor](), max(columns, tile.shape[0])
    for first in range(0, len(cuts), _TOGETHER):
        group = cuts[first : first + _TOGETHER]
        sizes = [count for _, count in group]
        wide = [padded_columns(count, tile.shape[0]) for count in sizes]
        bank = psum((max(wide), len(group), held), transposed_dtype(tile.dtype))
        if target is None:
            moved = sbuf((max(sizes), len(group), held), tile.dtype)
        else:
            moved = target[:, first : first + len(group)]
        for place, ((low, _), count) in enumerate(zip(group, wide, strict=True)):
            transpose(bank[0:count, place], tile[:, low : low + count], identity)
        same = 0
        while same < len(group):  # runs of one length leave together
            end = same + 1
            while end < len(group) and sizes[end] == sizes[same]:
                end += 1
            size = sizes[same]
            balance.move(moved[0:size, same:end], bank[0:size, same:end])
            same = end
        found += [moved[0:size, place] for place, size in enumerate(sizes)]
    return found
