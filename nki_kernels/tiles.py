"""Named sizes that all kernels share: of a tile, of a PSUM bank, of a DMA descriptor."""

from __future__ import annotations

from .hardware import PARTITIONS

PSUM_BANK = 512  # fp32 numbers of a PSUM bank, a partition
DMA_RUN = 1024  # fp32 numbers of a 4 KiB DMA descriptor
WHOLE_RADIX = PARTITIONS // 2  # the largest that is contracted at once, both parts together

__all__ = ["DMA_RUN", "PARTITIONS", "PSUM_BANK", "WHOLE_RADIX"]
