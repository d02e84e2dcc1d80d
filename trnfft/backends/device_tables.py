"""Tables on devices. They are made and uploaded once, and kept as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from trnfft import cache

TABLE_BYTES = 256 << 20  # bytes of the tables that are kept on all devices together


def _bytes_of(tables: Any) -> int:
    if isinstance(tables, (list, tuple)):
        return sum(map(_bytes_of, tables))
    return tables.nbytes if isinstance(tables, torch.Tensor) else 0


def tables_like(
    x: torch.Tensor, make: Callable[..., Any], *arguments: Hashable
) -> tuple[torch.Tensor, ...]:
    """Returns `tables_for` with the device and the dtype of a real tensor."""
    return tables_for(x.device, x.dtype, make, *arguments)


def tables_for(
    device: torch.device, dtype: torch.dtype, make: Callable[..., Any], *arguments: Hashable
) -> tuple[torch.Tensor, ...]:
    """Returns the arrays `make(*arguments)` as tensors on the device and in the dtype."""
    tables = uploaded(device, dtype, make, *arguments)
    if device.type == "xla" and torch.is_inference_mode_enabled():
        # In inference mode torch_xla makes no views of tensors that were made outside it.
        return tuple(table.clone() for table in tables)
    return tables


@cache.constant_when_compiled
@cache.cached(TABLE_BYTES, _bytes_of)
def uploaded(
    device: torch.device,
    dtype: torch.dtype | None,
    make: Callable[..., Any],
    *arguments: Hashable,
) -> Any:
    """Returns `make(*arguments)`, nested tuples of arrays, as plain tensors on a device.

    Args:
        device: the device of the tensors.
        dtype: the dtype of the tensors, or None for the dtype of each array.
        make: makes the tables; items that are not arrays stay as they are.
        arguments: the arguments of `make`.
    """
    # A thread of its own makes them: a mode of this thread (inference_mode, torch.func, fake
    # tensors) would stay in the tensors that are kept.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: _moved(make(*arguments), dtype, device)).result()


def _moved(tables: Any, dtype: torch.dtype | None, device: torch.device) -> Any:
    if isinstance(tables, (list, tuple)):
        return tuple(_moved(item, dtype, device) for item in tables)
    if not isinstance(tables, np.ndarray):
        return tables
    if tables.dtype.name == "bfloat16":  # from ml_dtypes, which torch does not know
        return torch.tensor(tables.view(np.int16)).view(torch.bfloat16).to(dtype).to(device)
    return torch.tensor(tables).to(dtype).to(device)
