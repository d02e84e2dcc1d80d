"""Products in a slot of partitions, and transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nki_sim.hardware import PARTITIONS

from ..base import chip
from ..base.engines import (
    NARROW,
    PSUM_BANK,
    columns_read,
    itemsize,
    multiply,
    multiply_row_tile,
    padded_columns,
    psum,
    sbuf,
    transpose,
    transposed_dtype,
)
from ..base.tensor import Tensor
from .evacuation import Balance

_TOGETHER = PSUM_BANK // PARTITIONS  # transposes that share a PSUM bank


def multiply_in_slot(
    dst: Tensor, stationary: Tensor, moving: Tensor, low: int, size: int, accumulate: bool
) -> None:
    """Multiply partitions from ``low`` on, in a row tile of that size, or in the whole array."""
    if size == PARTITIONS:
        multiply(dst, stationary, moving, accumulate)
    else:
        multiply_row_tile(dst, stationary, moving, low, size, accumulate)


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
