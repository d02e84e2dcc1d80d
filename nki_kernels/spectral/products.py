"""Products in a slot of partitions."""

from __future__ import annotations

from nki_sim.hardware import PARTITIONS

from .. import chip
from ..engines import NARROW, columns_read, multiply, multiply_row_tile
from ..tensor import Tensor


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
