"""The work of a DMA transfer, and its price on a chip.

The work follows from the operands. The price follows from the work and from costs of
`nki_kernels.hardware`, so that a transfer can be priced again with other readings of the records.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from nki_kernels.hardware import NeuronCore

from .enums import dge_mode
from .issue import Issue


@dataclass(frozen=True)
class Transfer:
    """The work of the DMA engines for one transfer.

    Attributes:
        shares: for each engine the number of descriptors, and its fraction of the bytes.
        size: the bytes.
        speed: the engines' rate relative to their rate of copies.
        is_strided: whether rows in HBM have gaps and lie a power of two apart.
    """

    shares: tuple[tuple[float, float], ...]
    size: int
    speed: float = 1.0
    is_strided: bool = False

    def engine_ns(self, chip: NeuronCore) -> list[float]:
        """Returns how long each engine moves its share, in nanoseconds."""
        byte_ns = self.size / (chip.dma_bytes_per_ns * self.speed)
        if self.is_strided:
            byte_ns *= chip.power_of_two_stride_slowdown
        return [
            max(n * chip.dma_least_ns, n * chip.dma_descriptor_ns + part * byte_ns)
            for n, part in self.shares
        ]


def price(issue: Issue, chip: NeuronCore) -> None:
    """Notes the times of a transfer on a chip; its issue has ``transfers`` and ``written_by``."""
    times = [transfer.engine_ns(chip) for transfer in issue.transfers]
    issue.dma_ns = tuple(map(sum, zip(*times, strict=True)))
    issue.cost_ns = max(issue.dma_ns)
    issue.dma_shared_ns = sum(t.size for t in issue.transfers) / chip.dma_core_bytes_per_ns
    issue.uses_software_dge = issue.written_by is dge_mode.swdge
    issue.trigger_ns = {
        dge_mode.swdge: chip.software_dge_ns,
        dge_mode.hwdge: chip.hardware_dge_ns,
        dge_mode.none: chip.static_dma_ns,
    }[issue.written_by]


def priced(issue: Issue, chip: NeuronCore) -> Issue:
    """Returns the issue with its price on a chip; an issue without transfers is the same."""
    if not issue.transfers:
        return issue
    found = copy.copy(issue)
    price(found, chip)
    return found
