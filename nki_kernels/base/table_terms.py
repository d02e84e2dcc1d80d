"""Tables of one term or, refined, of two terms, and the operands that are multiplied by them.

A table has float32 or bfloat16 numbers. A refined table is a pair of bfloat16 tables, the rounded
table and what rounding lost. The data that is multiplied by it is split in the same way, and the
product of both is a sum of three products.

Each kernel has a function that computes its tables, whose name ends with ``_tables`` or
``_matrix``. It raises ValueError for a length, a shape or radices that the kernel does not accept.
The arrays are float32 unless an argument says otherwise.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .engines import evacuate, sbuf
from .isa import Tensor, nisa, nl

Array = np.ndarray[Any, Any]
TableSpec = tuple[tuple[int, ...], str]  # the shape and the dtype of a table

# The pairs of terms (data, table) that are multiplied: high by high, and high by each low. Low by
# low is smaller than the rounding of either. Where both have one term, only the first pair is used.
PAIRS = ((0, 0), (0, 1), (1, 0))


def rounded_table(table: Array, dtype: str, refined: bool) -> Array:
    """Return ``table`` in float32 or bfloat16.

    refined: return [2, ...], the rounded table and what rounding lost.
    """
    types: dict[str, Any] = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}
    if dtype not in types or (refined and dtype != "bfloat16"):
        raise ValueError(
            f"dtype {dtype!r}: use 'float32' or 'bfloat16'; refined tables are bfloat16"
        )
    high = table.astype(types[dtype])
    if not refined:
        return high
    return np.stack([high, (table - high.astype(np.float64)).astype(high.dtype)])


def table_spec(shape: tuple[int, ...], dtype: str = "float32", refined: bool = False) -> TableSpec:
    """Return the (shape, dtype) of ``rounded_table(table, dtype, refined)`` for a table's shape."""
    return ((2, *shape) if refined else shape), dtype


def table_terms(table: Tensor, dimensions: int) -> list[Tensor]:
    """Return the tables that add up to ``table``: two if it is refined and has a dimension more."""
    return [table[0], table[1]] if term_count(table, dimensions) > 1 else [table]


def term_count(table: Tensor, dimensions: int) -> int:
    """Return how many tables add up to ``table``."""
    return 2 if len(table.shape) > dimensions else 1


def data_dtype(table: Tensor, dimensions: int) -> Any:
    """Return the dtype in which data is transposed: the table's, or float32 for a refined table."""
    return nl.float32 if len(table.shape) > dimensions else table.dtype


def evacuate_operand(bank: Tensor, dtype: Any, terms: int, is_scalar: bool) -> list[Tensor]:
    """Move a PSUM bank to SBUF as an operand: ``terms`` tiles of ``dtype`` that add up."""
    if terms == 1:
        return [evacuate(bank, dtype=dtype, is_scalar=is_scalar)]
    high, low = evacuate(bank, dtype=dtype), sbuf(bank.shape, dtype)
    nisa.tensor_tensor(dst=low, data1=bank, data2=high, op=nl.subtract)
    return [high, low]
