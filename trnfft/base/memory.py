"""Memory of the host: refusing arrays that exceed it, and returning what searches have freed."""

import ctypes
import itertools
import math
import os
from collections.abc import Iterable

import torch

_FEW = 2**24  # any computer has the memory for so many elements
_MOST_BYTES = 2**63 - 1  # of a tensor on any device
_SEARCHES = itertools.count(1)
_TOGETHER = 4  # searches, of 100 ms each, after which about 1 ms is spent


def may_be_too_many(elements: int) -> bool:
    """Whether an array has so many elements that `check_memory` must be called.

    False while a graph is compiled, because the check would bind the graph to smaller arrays.
    """
    return not torch.compiler.is_compiling() and elements > _FEW


def check_memory(
    what: str, shape: Iterable[int], itemsize: int, device: torch.device | str
) -> None:
    """Raises RuntimeError for an array that no tensor, or on the CPU no memory here, can hold.

    torch's own error names no argument. Where the system promises more memory than it has, the
    system would end the process.

    Args:
        what: names the argument from which the array follows, and its value.
        shape, itemsize, device: of the array.
    """
    if torch.compiler.is_compiling():
        return
    size = math.prod(map(int, shape)) * itemsize  # those of NumPy overflow
    memory = _memory() if torch.device(device).type == "cpu" else _MOST_BYTES
    if size > memory:
        raise RuntimeError(
            f"{what}, which needs {size >> 30} GiB, allowed are {memory >> 30} GiB here; use a "
            f"smaller size, or split the data"
        )


def check_memory_of(name: str, x: torch.Tensor) -> None:
    """Raises RuntimeError for an argument that is larger than the memory, as an expanded one."""
    what = f"argument '{name}' has shape {tuple(x.shape)}"
    check_memory(what, x.shape, x.element_size(), x.device)


def _memory() -> int:
    """Returns how many bytes an array can have at most on this computer."""
    if not hasattr(os, "sysconf"):  # on Windows
        return _MOST_BYTES
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return installed if limit == resource.RLIM_INFINITY else min(limit, installed)


def return_freed_memory() -> None:
    """Returns memory that searches have freed to the system, once for several searches.

    What a search keeps lies between what it frees. glibc returns only the end of its heap by
    itself; other C libraries have no such function.
    """
    if os.name != "posix" or next(_SEARCHES) % _TOGETHER:
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
