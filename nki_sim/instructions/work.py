"""The work of an instruction, and its price on a chip.

The work follows from the operands. The price follows from the work and from the costs of
`nki_sim.hardware`, so that an instruction can be priced again with other readings of the
records on which these costs are based.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

from nki_sim.base.enums import dge_mode
from nki_sim.hardware import NeuronCore

from .issue import Issue


@dataclass(frozen=True)
class Stream:
    """An instruction of VectorE, ScalarE or GpSimdE.

    Attributes:
        engine: vector, scalar or gpsimd.
        cycles: the cycles in which the elements pass, without the start-up.
        more_starts: start-ups of GpSimdE beside the first.
        reads_result: whether a second, short instruction reads the engine's accumulators.
    """

    engine: str
    cycles: float
    more_starts: int = 0
    reads_result: bool = False

    def price(self, issue: Issue, chip: NeuronCore) -> None:
        """Notes the time on the engine, and the time until the result is visible.

        A small instruction hides its start-up behind the instruction before.
        """
        clock, least = chip.clock_ghz(self.engine), chip.stream_min_cycles
        is_gpsimd = self.engine == "gpsimd"
        start = chip.gpsimd_start_cycles if is_gpsimd else chip.stream_start_cycles
        busy = max(self.cycles + start, least)
        until_result = max(self.cycles, least) + start
        visible = chip.dependent_cycles + chip.tensor_access_cycles
        more = self.more_starts * chip.gpsimd_start_cycles + self.reads_result * least
        issue.cost_ns = (busy + more) / clock
        issue.latency_ns = (until_result - busy + visible) / clock


@dataclass(frozen=True)
class ArrayPass:
    """A pass of the systolic array: MultiplyMoving, and LoadStationary in the background.

    Attributes:
        columns: the columns that pass, where a slow stride counts twice.
        factor: cycles for a column.
        stationary_cycles: cycles in which the stationary operand is loaded.
        is_misaligned: whether rows of a float32 moving operand begin anywhere in 16 bytes.
    """

    columns: int
    factor: int
    stationary_cycles: float
    is_misaligned: bool = False

    def price(self, issue: Issue, chip: NeuronCore) -> None:
        """Notes the time of the pass and of its LoadStationary."""
        rate = chip.tensor_columns_per_ns
        factor = self.factor * (chip.misaligned_moving_factor if self.is_misaligned else 1.0)
        issue.cost_ns = factor * max(self.columns, chip.matmul_min_cycles) / rate
        issue.load_stationary_ns = self.stationary_cycles / rate
        issue.latency_ns = chip.tensor_access_cycles / chip.tensor_ghz


@dataclass(frozen=True)
class Transfer:
    """The work of the DMA engines for one copy.

    Attributes:
        shares: for each engine the number of descriptors, and its fraction of the bytes.
        size: the bytes.
        speed: the engines' rate relative to their rate of copies.
    """

    shares: tuple[tuple[float, float], ...]
    size: int
    speed: float = 1.0

    def engine_ns(self, chip: NeuronCore) -> list[float]:
        """Returns how long each engine moves its share, in nanoseconds."""
        byte_ns = self.size / (chip.dma_bytes_per_ns * self.speed)
        return [
            max(n * chip.dma_least_ns, n * chip.dma_descriptor_ns + part * byte_ns)
            for n, part in self.shares
        ]


@dataclass(frozen=True)
class Transfers:
    """An instruction of DMA: its copies, and who writes their descriptors, a ``dge_mode``."""

    copies: tuple[Transfer, ...]
    written_by: dge_mode

    def price(self, issue: Issue, chip: NeuronCore) -> None:
        """Notes the times of the DMA engines, of their shared bandwidth, and of the trigger."""
        times = [one.engine_ns(chip) for one in self.copies]
        issue.dma_ns = tuple(map(sum, zip(*times, strict=True)))
        issue.cost_ns = max(issue.dma_ns)
        uses_all = min(issue.dma_ns) > 0.0
        issue.prepared_ns = chip.dma_copy_ns if uses_all else chip.dma_partial_copy_ns
        issue.dma_shared_ns = sum(one.size for one in self.copies) / chip.dma_core_bytes_per_ns
        issue.uses_software_dge = self.written_by is dge_mode.swdge
        issue.trigger_ns = {
            dge_mode.swdge: chip.software_dge_ns,
            dge_mode.hwdge: chip.hardware_dge_ns,
            dge_mode.none: chip.static_dma_ns,
        }[self.written_by]


def priced(issue: Issue, chip: NeuronCore) -> Issue:
    """Returns the issue with its price on a chip; an issue without work is the same."""
    if issue.work is None:
        return issue
    found = copy.copy(issue)
    found.work.price(found, chip)
    return found
