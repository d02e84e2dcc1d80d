"""Tables on devices. They are made and uploaded once, and kept as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import torch

from trnfft.base import cache

TABLE_BYTES = 256 << 20  # the most that `_counted` may sum to, for all devices together
OBJECT_BYTES = 2048  # of a tensor beside its numbers, and of its share of the key
SMALL_BYTES = 1 << 20  # of the tables of one result on the host, up to which they count more
SMALL_FACTOR = 8
ALIGNMENT = 64  # bytes


@dataclass(frozen=True)
class Shared:
    """A table `make(*arguments)` that results of `uploaded` share while one of them is kept."""

    make: Callable[..., np.ndarray]
    arguments: tuple[Hashable, ...]


_shared: WeakValueDictionary[Any, torch.Tensor] = WeakValueDictionary()
cache.after_fork(_shared.clear)


def held_bytes(tables: Any) -> int:
    """Returns the bytes of tensors in nested tuples, with those of the tensors as objects."""
    if isinstance(tables, (list, tuple)):
        return sum(map(held_bytes, tables))
    return tables.nbytes + OBJECT_BYTES if isinstance(tables, torch.Tensor) else 0


def _counted(tables: Any) -> int:
    """Returns the bytes of tables, of which the first MiB on the host counts eightfold.

    So small tables, as many lengths need them, take 32 MiB of the host's memory at most. The tables
    of a few long transforms, which are slow to make, are still kept up to 256 MiB.
    """
    size = held_bytes(tables)
    return size if _is_elsewhere(tables) else size + (SMALL_FACTOR - 1) * min(size, SMALL_BYTES)


def _is_elsewhere(tables: Any) -> bool:
    if isinstance(tables, (list, tuple)):
        return any(map(_is_elsewhere, tables))
    return isinstance(tables, torch.Tensor) and tables.device.type != "cpu"


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
@cache.cached(TABLE_BYTES, _counted)
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
        make: makes the tables, or `Shared` ones; items that are not arrays stay as they are.
        arguments: the arguments of `make`.
    """
    made = make(*arguments)
    arrays = _on_host(made, dtype, device)
    # Another thread makes the tensors: a mode of this thread (inference_mode, torch.func, fake
    # tensors) would stay in the tensors that are kept. It allocates nothing on the host, because
    # glibc gives each thread a heap of its own, which keeps holes.
    with ThreadPoolExecutor(1) as thread:
        moved = thread.submit(_moved, arrays, dtype, device).result()
    if isinstance(made, list):
        for item, tensor in zip(made, moved, strict=True):
            if isinstance(item, Shared):
                _shared[device, dtype, item] = tensor
    return moved


def _on_host(tables: Any, dtype: torch.dtype | None, device: torch.device) -> Any:
    """Returns copies of arrays in the dtype, if NumPy has it, aligned as torch aligns tensors."""
    if isinstance(tables, (list, tuple)):
        return tuple(_on_host(item, dtype, device) for item in tables)
    if isinstance(tables, Shared):
        known = _shared.get((device, dtype, tables))
        tables = tables.make(*tables.arguments) if known is None else known
    if not isinstance(tables, np.ndarray):
        return tables
    is_torchs = dtype in (None, torch.bfloat16) or tables.dtype.name == "bfloat16"
    kind = tables.dtype if is_torchs else np.dtype(str(dtype).removeprefix("torch."))
    size = tables.size * kind.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    copy = memory[first : first + size].view(kind).reshape(tables.shape)
    copy[...] = tables
    return copy


def _moved(tables: Any, dtype: torch.dtype | None, device: torch.device) -> Any:
    if isinstance(tables, (list, tuple)):
        return tuple(_moved(item, dtype, device) for item in tables)
    if not isinstance(tables, np.ndarray):
        return tables
    if tables.dtype.name == "bfloat16":  # from ml_dtypes, which torch does not know
        return torch.from_numpy(tables.view(np.int16)).view(torch.bfloat16).to(dtype).to(device)
    return torch.from_numpy(tables).to(dtype).to(device)
