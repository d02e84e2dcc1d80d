"""Which arrays the memory can hold: they are refused before they are made."""

import math
import os
from collections.abc import Iterable

import torch

_FEW = 2**24  # elements, for which any computer has the memory
_MOST_BYTES = 2**63 - 1  # of a tensor, wherever it is


def may_be_too_many(elements: int) -> bool:
    """Whether an array has so many elements that `check_memory` has to be asked.

    No array of a graph has, as the graph would be for smaller ones only then.
    """
    return not torch.compiler.is_compiling() and elements > _FEW


def check_memory(
    what: str, shape: Iterable[int], itemsize: int, device: torch.device | str
) -> None:
    """RuntimeError for an array that no tensor, or on the CPU no memory here, can hold.

    torch's own error would name no argument, and where the system promises more memory than it
    has, the process would be ended.

    Args:
        what: says the argument that makes the array, and its value.
        shape, itemsize, device: of the array.
    """
    if torch.compiler.is_compiling():
        return
    size = math.prod(shape) * itemsize
    memory = _memory() if torch.device(device).type == "cpu" else _MOST_BYTES
    if size > memory:
        raise RuntimeError(
            f"{what}, which takes {size >> 30} GiB, allowed are {memory >> 30} GiB here; use less, "
            f"or split it"
        )


def _memory() -> int:
    """Bytes that an array can have at most here."""
    if not hasattr(os, "sysconf"):  # as on Windows
        return _MOST_BYTES
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return installed if limit == resource.RLIM_INFINITY else min(limit, installed)
