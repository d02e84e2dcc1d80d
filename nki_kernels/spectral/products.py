"""Products in a slot of partitions, and transposes."""

from __future__ import annotations

from collections.abc import Sequence

from nki_sim.hardware import PARTITIONS

from .. import chip
from ..engines import (
    NARROW,
    PSUM_BANK,
    columns_read,
    multiply,
    multiply_row_tile,
    psum,
    sbuf,
    transpose,
)
from ..tensor import Tensor
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


def turn(balance: Balance, runs: Sequence[Tensor], identity: Tensor) -> list[Tensor]:
    """Transpose runs, each SBUF [P, n <= 128], to SBUF [n, P]; four of them share a bank."""
    found = list[Tensor]()
    held = runs[0].shape[0]
    for first in range(0, len(runs), _TOGETHER):
        group = runs[first : first + _TOGETHER]
        sizes = [run.shape[1] for run in group]
        bank = psum((max(sizes), len(group), held))
        moved = sbuf(bank.shape)
        for place, run in enumerate(group):
            transpose(bank[0 : sizes[place], place], run, identity)
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
