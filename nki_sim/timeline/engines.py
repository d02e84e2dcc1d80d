"""When the engines and DMA queues of one NeuronCore are free.

The Tensor, Vector, Scalar and GpSimd engines each run one instruction at a time. The Tensor engine
loads the next stationary operand during the running pass, and array tiles run in parallel. On
NeuronCore-v2, VectorE and GpSimdE take turns in using SBUF, and VectorE and ScalarE in using PSUM;
on later cores they take turns in using a bank of PSUM. GpSimdE writes the descriptors of some
transfers (`isa/dma_costs`), which `dma_engines` then moves.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable
from typing import Any

from nki_sim.hardware import NeuronCore
from nki_sim.instructions.issue import Issue

from . import waits
from .dma_engines import DmaEngines, alike

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "dma")
_FULL_ARRAY = (0, 4)

# Runs instruction n, which is ready at a time, and returns when its queue continues.
Place = Callable[[int, Issue, float], float]


class Times:
    """When instructions run, and what delayed them.

    Attributes:
        start: when each instruction begins.
        over: the times at which waits are over, or -1. The time at which the result of n is visible
            is at n, and the end of n at ~n. In between are those of joints (`joints`), and two that
            stay -1.
        delays: for an instruction that found its engine busy the instruction that kept it busy, and
            why (one of `waits`).
    """

    def __init__(self, count: int, joints: int) -> None:
        self.start = [0.0] * count
        self.over = [-1.0] * (2 * count + joints + 2)
        self.delays: dict[int, tuple[int, str]] = {}


class Engines:
    """The engines of one core, which run an instruction as soon as they are free.

    The argument ``banks`` has the PSUM banks that an instruction uses alone, by its number.
    """

    def __init__(self, chip: NeuronCore, banks: dict[int, tuple[Hashable, ...]]) -> None:
        self.chip = chip
        self._banks = banks
        self._tiles_free: defaultdict[Any, float] = defaultdict(float)  # array tiles and banks
        self._busy = dict.fromkeys(ENGINES[:-1], 0.0)
        self._array_end = 0.0  # when all tiles of the array are free
        self._whole_end = 0.0  # when the last pass on the whole array has ended
        self._background_free = 0.0  # when the array is free for a transpose in the background
        self._tensor_end = 0.0
        self._stationary_free = 0.0
        self._ports: dict[Any, tuple[float, int]] = {}  # when it is free, and its last user
        self._tables: set[str] = set()  # functions whose tables ScalarE has loaded

    def prepare(self, issues: Collection[Issue], times: Times) -> None:
        """Prepares for issues, and notes where the times of instructions go."""
        self._start, self._over, self._delays = times.start, times.over, times.delays
        self._dma = DmaEngines(self.chip, issues)
        # The tiles of the systolic array that a pass uses, as far as passes tell them apart.
        cells = {issue: _cells(issue.rows, issue.columns) for issue in issues if _is_tile(issue)}
        regions = set(cells.values())
        groups = alike(list(regions))
        tiles = {one: tuple([cell for cell in groups if one[cell]]) for one in regions}
        self._tiles = {issue: tiles[one] for issue, one in cells.items()}

    @property
    def busy(self) -> dict[str, float]:
        """For how long each of ``ENGINES`` was busy; for "dma" that of the busiest DMA engine."""
        return {**self._busy, "dma": max([*self._dma.busy, self._dma.shared_busy])}

    def count_busy(self) -> list[float]:
        """Returns how long each engine, each DMA engine and the share of HBM were busy, in ns."""
        return [*self._busy.values(), *self._dma.busy, self._dma.shared_busy]

    def repeat_busy(self, before: list[float], times: int) -> None:
        """Counts what the engines have done since ``before`` another ``times`` times."""
        grown = [a + times * (a - b) for a, b in zip(self.count_busy(), before, strict=True)]
        self._busy = dict(zip(self._busy, grown, strict=False))
        *self._dma.busy, self._dma.shared_busy = grown[len(self._busy) :]

    def placer(self, engine: str) -> Place:
        """Returns what runs the instructions of an engine's queue."""
        if engine == "dma":
            return self._transfer
        return self._multiply if engine == "tensor" else self._stream

    def _stream(self, n: int, issue: Issue, start: float) -> float:
        """Runs an instruction of VectorE, ScalarE or GpSimdE."""
        ports: tuple[Any, ...] = issue.ports
        if issue.takes_banks:
            ports += self._banks[n]
        for port in ports:
            if port in self._ports:
                free, user = self._ports[port]
                if free > start:
                    start = free
                    self._delays[n] = user, waits.OF_PORTS.get(port, waits.PSUM_BANK)
        if issue.table and issue.table not in self._tables:
            start += self.load_tables({issue.table})
        finish = start + issue.cost_ns
        for port in ports:
            self._ports[port] = (finish, n)
        self._busy[issue.engine] += issue.cost_ns
        over = self._over
        self._start[n], over[n], over[~n] = start, finish + issue.latency_ns, finish
        return finish

    def load_tables(self, functions: set[str]) -> float:
        """Returns how long ScalarE takes to load the tables that it does not have yet."""
        new = functions - self._tables
        self._tables |= new
        return len(new) * self.chip.activation_table_ns

    def _multiply(self, n: int, issue: Issue, start: float) -> float:
        """Runs LoadStationary in the background, and MultiplyMoving on its part of the array."""
        load, cost, free = issue.load_stationary_ns, issue.cost_ns, self._stationary_free
        loaded = (start if start > free else free) + load
        tiles = self._tiles.get(issue)
        if tiles is not None:
            start = self._array_tile(
                self._banks[n] if issue.takes_banks else (), tiles, loaded, cost
            )
            finish = start + cost
        elif issue.is_transpose and self.chip.background_transposes:
            start = self._transpose(loaded, cost)
            finish = start + cost
        else:
            end = self._array_end
            start = loaded if loaded > end else end
            finish = self._array_end = self._whole_end = start + cost
        # The next LoadStationary may overwrite the shadow weights once this pass has begun.
        self._stationary_free = start
        end = self._tensor_end
        if finish > end:
            self._busy["tensor"] += finish - (start if start > end else end)
            self._tensor_end = finish
        over = self._over
        self._start[n], over[n], over[~n] = start, finish + issue.latency_ns, finish
        return start if load else finish

    def _transpose(self, loaded: float, cost: float) -> float:
        """Returns the start of a transpose on the whole array, beside another pass if it can."""
        start, background = max(loaded, self._array_end), max(loaded, self._background_free)
        if background < start:
            self._background_free = background + cost
            return background
        self._array_end = self._whole_end = start + cost
        return start

    def _array_tile(
        self, banks: tuple[Hashable, ...], tiles: tuple[int, ...], loaded: float, cost: float
    ) -> float:
        """Returns the start of a pass on an array tile. One pass at a time writes a PSUM bank."""
        start, free = loaded if loaded > self._whole_end else self._whole_end, self._tiles_free
        used = (*tiles, *banks)
        for one in used:
            if free[one] > start:
                start = free[one]
        end = start + cost
        for one in used:
            free[one] = end
        if end > self._array_end:
            self._array_end = end
        return start

    def _transfer(self, n: int, issue: Issue, start: float) -> float:
        """Runs a transfer, whose descriptors GpSimdE may have to write."""
        if issue.uses_software_dge:
            idle, user = self._ports.get("gpsimd", (0.0, -1))
            if idle > start:
                start = idle
                self._delays[n] = user, waits.DESCRIPTORS
            self._ports["gpsimd"] = start + issue.trigger_ns, n
            self._busy["gpsimd"] += issue.trigger_ns
        triggered = start + issue.trigger_ns
        finish, by, why = self._dma.run(n, issue, triggered)
        if by >= 0:
            self._delays[n] = by, why
        self._start[n], self._over[~n] = start, finish
        self._over[n] = finish + self.chip.dma_finish_ns
        return triggered


def is_alone(issue: Issue) -> bool:
    """Returns whether an instruction takes nothing that instructions of other queues want, too."""
    if issue.engine == "tensor":
        return True
    return issue.engine != "dma" and not issue.ports and not issue.takes_banks


def _is_tile(issue: Issue) -> bool:
    """Returns whether an instruction is a pass on an array tile."""
    is_whole = issue.rows == _FULL_ARRAY and issue.columns == _FULL_ARRAY
    return not is_whole and issue.engine == "tensor"


@functools.lru_cache
def _cells(rows: tuple[int, int], columns: tuple[int, int]) -> tuple[bool, ...]:
    """Returns for each of the 32x32 tiles of the array, row-major, whether it is in a pass."""
    return tuple([r in range(*rows) and c in range(*columns) for r in range(4) for c in range(4)])
