"""Enumerations of nki.isa, with the values that the SDK documents."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

_Enum = TypeVar("_Enum", bound=type[Enum])


def _plain(enum: _Enum) -> _Enum:
    """Returns the enumeration with members as plain class attributes, hashed by identity.

    Python 3.10 and 3.11 look up each member, such as `engine.vector`, by slow Python functions.
    """
    for name, member in enum.__members__.items():
        type.__setattr__(enum, name, member)
    type.__setattr__(enum, "__hash__", object.__hash__)
    return enum


@_plain
class engine(Enum):
    """Engines of a NeuronCore."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


# In words, by the name in `engine`.
ENGINE_NAMES = {
    "tensor": "TensorE",
    "vector": "VectorE",
    "scalar": "ScalarE",
    "gpsimd": "GpSimdE",
    "sync": "SyncE",
}


@_plain
class reduce_cmd(Enum):
    """Commands for the accumulator registers of an engine."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


@_plain
class dge_mode(Enum):
    """Generators of DMA descriptors."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


@_plain
class oob_mode(Enum):
    """Reactions of a DMA to an index out of bounds."""

    error = 0
    skip = 1


@_plain
class matmul_perf_mode(Enum):
    """FP8 modes of the Tensor engine."""

    none = "none"
    double_row = "double_row"


@_plain
class nc_version(Enum):
    """Generations of the NeuronCore, in order. AWS's kernels compare them, and also with ints."""

    gen2 = 2
    gen3 = 3
    gen4 = 4

    def __lt__(self, other: object) -> bool:
        return bool(self.value < _number(other))

    def __le__(self, other: object) -> bool:
        return bool(self.value <= _number(other))

    def __gt__(self, other: object) -> bool:
        return bool(self.value > _number(other))

    def __ge__(self, other: object) -> bool:
        return bool(self.value >= _number(other))


def _number(version: object) -> Any:
    return version.value if isinstance(version, nc_version) else version


@_plain
class dma_engine(Enum):
    """DMA engines that a sendrecv can use."""

    dma = 1
    gpsimd_dma = 2


@_plain
class MemoryRegion(Enum):
    """Memories of a NeuronCore."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"


ON_CHIP = frozenset({MemoryRegion.sbuf, MemoryRegion.psum})
