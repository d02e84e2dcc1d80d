"""Names of engines.py and tables.py for kernels that are not yet composed of parts."""

from __future__ import annotations

from typing import Any

from . import engines
from .engines import (  # noqa: F401
    DMA_RUN,
    HALF,
    NARROW,
    PARTITIONS,
    PSUM_BANK,
    SMALLEST_SBUF,
    SPLIT_TERMS,
    WHOLE_RADIX,
    Turns,
    columns_read,
    element_count,
    even_columns,
    factor_views,
    itemsize,
    multiply,
    multiply_banks,
    multiply_complex,
    multiply_half,
    multiply_row_tile,
    multiply_through_psum,
    padded_columns,
    psum,
    transpose,
    transposed_dtype,
)
from .tables import load_identity, load_tables  # noqa: F401


def psum_banks(count: int, shape: Any) -> Any:
    """Allocate PSUM tiles for sums that may not share a bank, or that are made side by side."""
    return [psum(shape) for _ in range(count)]


def evacuate(bank: Any, dtype: Any, is_scalar: bool) -> Any:
    """Move a PSUM bank to a fresh SBUF tile, by ScalarE or VectorE."""
    return engines.evacuate(bank, dtype=dtype, is_scalar=is_scalar)


def turns_of(every: int) -> Any:
    """Return the turns of a launch; VectorE takes every ``every``-th turn."""
    return Turns(every)


def evacuate_in_turn(dst: Any, bank: Any, turns: Any) -> None:
    """Move results from PSUM to their places in SBUF, by the engine whose turn it is."""
    turns.evacuate(bank, dst)
