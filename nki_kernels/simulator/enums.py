"""Enumerations of nki.isa, with the values the SDK documents."""

from __future__ import annotations

from enum import Enum


class engine(Enum):
    """Engines of a NeuronCore."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class reduce_cmd(Enum):
    """What an instruction does with an engine's accumulator registers."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode(Enum):
    """Who generates DMA descriptors."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(Enum):
    """What a DMA does with an index out of bounds."""

    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    """FP8 modes of the Tensor engine."""

    none = "none"
    double_row = "double_row"


class nc_version(Enum):
    """Generations of the NeuronCore."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


class dma_engine(Enum):
    """Which DMA engine a sendrecv uses."""

    dma = 1
    gpsimd_dma = 2


class MemoryRegion(Enum):
    """Memories of a NeuronCore."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"


ON_CHIP = frozenset({MemoryRegion.sbuf, MemoryRegion.psum})
