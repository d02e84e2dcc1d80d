"""Tables on devices: made and uploaded once, and kept while they fit."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from trnfft import cache

TABLE_BYTES = 256 << 20  # kept on all devices together


def _bytes_of(tables: Any) -> int:
    if isinstance(tables, (list, tuple)):
        return sum(map(_bytes_of, tables))
    return tables.nbytes if isinstance(tables, torch.Tensor) else 0


def tables_like(
    x: torch.Tensor, make: Callable[..., Any], *arguments: Hashable
) -> tuple[torch.Tensor, ...]:
    """`make(*arguments)`, a sequence of arrays, on the device and in the dtype of a real tensor."""
    tables = uploaded(x.device, x.dtype, make, *arguments)
    if x.device.type == "xla" and torch.is_inference_mode_enabled():
        # In that mode torch_xla makes no views of tensors from outside of it.
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
    """`make(*arguments)`, nested tuples of arrays, as plain tensors on a device.

    Args:
        device: where.
        dtype: of the tensors. None: that of each array.
        make: makes the tables; what is no array in them stays as it is.
        arguments: its arguments.
    """
    # In a thread of its own: a mode of this one (inference_mode, torch.func, fake tensors) would
    # stay in the kept tensors.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: _moved(make(*arguments), dtype, device)).result()


def _moved(tables: Any, dtype: torch.dtype | None, device: torch.device) -> Any:
    if isinstance(tables, (list, tuple)):
        return tuple(_moved(item, dtype, device) for item in tables)
    if not isinstance(tables, np.ndarray):
        return tables
    if tables.dtype.name == "bfloat16":  # of ml_dtypes, which torch does not know
        return torch.tensor(tables.view(np.int16)).view(torch.bfloat16).to(dtype).to(device)
    return torch.tensor(tables).to(dtype).to(device)
