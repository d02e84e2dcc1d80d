"""Tables on devices. They are made and uploaded once, and kept as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from trnfft.base import cache
from trnfft.base.torch_private import tree_leaves, tree_map_only

TABLE_BYTES = 256 << 20  # the most that `_counted` may sum to, for all devices together
OBJECT_BYTES = 2048  # of a tensor beside its numbers, and of its share of the key
SMALL_BYTES = 1 << 20  # of the tables of one result on the host, up to which they count more
SMALL_FACTOR = 8
ALIGNMENT = 64  # bytes

Make = Callable[..., object]  # of nested tuples, or a list, of arrays


def held_bytes(tables: object) -> int:
    """Returns the bytes of tensors in nested tuples, with those of the tensors as objects."""
    return sum(x.nbytes + OBJECT_BYTES for x in _tensors(tables))


def _counted(tables: object) -> int:
    """Returns the bytes of tables, of which the first MiB on the host counts eightfold.

    So small tables, as many lengths need them, take 32 MiB of the host's memory at most. The tables
    of a few long transforms, which are slow to make, are still kept up to 256 MiB.
    """
    size = held_bytes(tables)
    is_elsewhere = any(x.device.type != "cpu" for x in _tensors(tables))
    return size if is_elsewhere else size + (SMALL_FACTOR - 1) * min(size, SMALL_BYTES)


def _tensors(tables: object) -> list[torch.Tensor]:
    return [x for x in tree_leaves(tables) if isinstance(x, torch.Tensor)]


def tables_like(x: torch.Tensor, make: Make, *arguments: Hashable) -> tuple[torch.Tensor, ...]:
    """Returns `tables_for` with the device and the dtype of a real tensor."""
    return tables_for(x.device, x.dtype, make, *arguments)


def tables_for(
    device: torch.device, dtype: torch.dtype, make: Make, *arguments: Hashable
) -> tuple[torch.Tensor, ...]:
    """Returns the arrays `make(*arguments)` as tensors on the device and in the dtype."""
    tables: tuple[torch.Tensor, ...] = uploaded(device, dtype, make, *arguments)
    if device.type == "xla" and torch.is_inference_mode_enabled():
        # In inference mode torch_xla makes no views of tensors that were made outside it.
        return tuple(table.clone() for table in tables)
    return tables


@cache.constant_when_compiled
@cache.cached(TABLE_BYTES, _counted)
def uploaded(
    device: torch.device, dtype: torch.dtype | None, make: Make, *arguments: Hashable
) -> Any:
    """Returns `make(*arguments)`, nested tuples of arrays, as plain tensors on a device.

    Args:
        device: the device of the tensors.
        dtype: the dtype of the tensors, or None for the dtype of each array.
        make: makes the tables; items that are not arrays stay as they are.
        arguments: the arguments of `make`.
    """
    made = make(*arguments)
    made = tuple(made) if isinstance(made, list) else made
    arrays = tree_map_only(np.ndarray, lambda array: _on_host(array, dtype), made)

    def moved(array: np.ndarray) -> torch.Tensor:
        if array.dtype.name == "bfloat16":  # from ml_dtypes, which torch does not know
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(dtype).to(device)
        return torch.from_numpy(array).to(dtype).to(device)

    # Another thread makes the tensors: a mode of this thread (inference_mode, torch.func, fake
    # tensors) would stay in the tensors that are kept. It allocates nothing on the host, because
    # glibc gives each thread a heap of its own, which keeps holes.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(tree_map_only, np.ndarray, moved, arrays).result()


def _on_host(array: np.ndarray, dtype: torch.dtype | None) -> np.ndarray:
    """Returns a copy of an array in the dtype, if NumPy has it, aligned as torch aligns tensors."""
    is_torchs = dtype in (None, torch.bfloat16) or array.dtype.name == "bfloat16"
    kind = array.dtype if is_torchs else np.dtype(str(dtype).removeprefix("torch."))
    size = array.size * kind.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    copy = memory[first : first + size].view(kind).reshape(array.shape)
    copy[...] = array
    return copy
