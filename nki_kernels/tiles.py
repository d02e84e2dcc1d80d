"""What all kernels share: sizes of a tile, a PSUM bank, a DMA run; views of complex factors."""

from __future__ import annotations

from typing import Any

from .hardware import PARTITIONS

PSUM_BANK = 512  # fp32 numbers of a PSUM bank, a partition
DMA_RUN = 1024  # fp32 numbers of a 4 KiB DMA descriptor
WHOLE_RADIX = PARTITIONS // 2  # the largest that is contracted at once, both parts together

__all__ = ["DMA_RUN", "PARTITIONS", "PSUM_BANK", "WHOLE_RADIX", "factor_views"]


def factor_views(factors: Any, low: int, shape: Any) -> Any:
    """Real and imaginary part of factors for both parts of data of ``shape``, by strides of 0.

    factors: a whole SBUF tile [P, 2, L], of which columns from ``low`` on are meant. shape: that
    of the data, [p, 2, n], or [p, 2, rows, n] for the same factors in every row.
    """
    length = factors.shape[2]
    pattern = [[2 * length, shape[0]], [0, 2]]
    if len(shape) == 4:
        pattern.append([0, shape[2]])
    pattern.append([1, shape[len(shape) - 1]])
    return [factors.ap(pattern, low), factors.ap(pattern, length + low)]
