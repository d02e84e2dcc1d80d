"""Storage: the memory behind tensors, and what the simulator tracks about it."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nki_sim.base import dtypes
from nki_sim.base.dtypes import Array
from nki_sim.base.enums import ON_CHIP, MemoryRegion


@dataclass(eq=False, slots=True)
class Storage:
    """The memory behind a tensor, and what the simulator tracks about this memory."""

    shape: tuple[int, ...]
    dtype: str
    buffer: MemoryRegion
    name: str
    free_bytes: int = field(init=False)
    size_bytes: int = field(init=False)
    held_bytes: int = field(init=False)  # free_bytes, with what PSUM adds
    start_partition: int = 0
    address: int | None = None  # byte in the partition, for an explicit placement
    data: Array | None = None  # uint8; None in a dry run
    fresh: np.dtype[Any] | None = None  # NumPy type of data that is not yet filled
    written: Any = False  # shadow memory: True, False or flags
    matmul_written: Any = False  # PSUM only: where a matmul may accumulate
    # PSUM: number of terms, by bank and group
    groups: dict[int, dict[Any, int]] = field(default_factory=dict)
    is_argument: bool = False
    is_dma_written: bool = False
    scope: Any = None  # the loop body that allocated it
    first_use: int = -1  # instruction numbers
    last_use: int = -1
    # Accesses that later ones may have to wait for, each as (view, instruction, stream).
    writes: dict[Any, tuple[Any, int, str]] = field(default_factory=dict)
    reads: dict[Any, tuple[Any, int, str]] = field(default_factory=dict)
    writers: list[int] | None = None  # the instructions in ``writes``, once they are asked for
    joints: list[Any] = field(default_factory=list)  # waits for many of them
    last_users: dict[str | int, int] = field(default_factory=dict)
    # In order: n where instruction n reads it, ~n where instruction n writes it.
    accesses: list[int] = field(default_factory=list)
    is_tracked_whole: bool = False  # whether dependencies are tracked for the whole tile

    def __post_init__(self) -> None:
        self.free_bytes, self.size_bytes = _sizes(self.shape, self.dtype, self.buffer in ON_CHIP)
        self.held_bytes = self.free_bytes

    def allocate(self, np_type: np.dtype[Any]) -> None:
        """Allocates memory, which is filled later: at the first read or partial write."""
        self.data = np.empty(math.prod(self.shape) * np_type.itemsize, np.uint8)
        self.fresh = np_type

    def fill(self) -> None:
        """Sets every element of fresh memory to the value that unwritten memory reads as."""
        assert self.data is not None and self.fresh is not None
        self.data.view(self.fresh)[...] = dtypes.fresh_value(self.dtype)
        self.fresh = None

    def users(self) -> list[int]:
        """Returns the numbers of the instructions in ``accesses``, each once, in order."""
        return list(dict.fromkeys([n if n >= 0 else ~n for n in self.accesses]))

    def shares_memory(self, other: Storage) -> bool:
        """Returns whether two tiles to which the kernel gives addresses share memory."""
        assert self.address is not None and other.address is not None
        return (
            self.buffer is other.buffer
            and self.start_partition < other.start_partition + other.shape[0]
            and other.start_partition < self.start_partition + self.shape[0]
            and self.address < other.address + other.free_bytes
            and other.address < self.address + self.free_bytes
        )

    def describe(self) -> str:
        """Returns a short text for messages."""
        label = f" {self.name!r}" if self.name else ""
        shape = "x".join(map(str, self.shape))
        return f"{self.buffer.value} tile{label} {shape} {self.dtype}"


@functools.lru_cache(4096)
def _sizes(shape: tuple[int, ...], dtype: str, is_on_chip: bool) -> tuple[int, int]:
    # Of a partition, or of all of a tensor in HBM; and of all.
    size = math.prod(shape) * dtypes.itemsize(dtype)
    return (size // shape[0], size) if is_on_chip else (size, size)
