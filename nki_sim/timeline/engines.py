"""When the engines and DMA queues of one NeuronCore are free.

The Tensor, Vector, Scalar and GpSimd engines each run one instruction at a time. The Tensor engine
loads the next stationary operand during the running pass, and array tiles run in parallel. On
NeuronCore-v2, VectorE and GpSimdE take turns in using SBUF, and VectorE and ScalarE in using PSUM;
on later cores they take turns in using a bank of PSUM. DMA transfers share 16 engines and a core's
bandwidth of HBM. An engine prepares one transfer after another, while it moves the bytes of earlier
ones. GpSimdE writes the descriptors of some transfers (`isa/dma_costs`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from nki_sim.hardware import NeuronCore
from nki_sim.instructions.issue import Issue

from . import waits

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "dma")
_FULL_ARRAY = (0, 4)

# For one instruction: start, end, when the result is visible, when its queue continues, the
# instruction that delayed it (-1: only its queue and operands did), and why (one of `waits`).
Place = tuple[float, float, float, float, int, str]


class Engines:
    """The engines of one core, which run an instruction as soon as they are free.

    The attribute ``busy`` has the nanoseconds for which each of ``ENGINES`` was busy. The value of
    "dma" is that of the busiest DMA engine.
    """

    def __init__(self, chip: NeuronCore, banks: dict[int, tuple[Hashable, ...]]) -> None:
        self.chip = chip
        self._banks = banks  # PSUM banks that an instruction uses alone, by its number
        self._bank_free: dict[Any, float] = {}
        self._busy = dict.fromkeys(ENGINES, 0.0)
        self._dma_free = [0.0] * chip.dma_engines
        self._dma_prepared = [0.0] * chip.dma_engines  # when an engine can prepare a transfer
        self._dma_busy = [0.0] * chip.dma_engines
        self._dma_user = [-1] * chip.dma_engines
        self._are_dma_alike = True  # whether the lists above have one value each, except times busy
        self._dma_shared = 0.0  # when the core's share of HBM is free
        self._dma_shared_user = -1
        self._dma_shared_busy = 0.0
        self._array_free = [0.0] * 16  # 32x32 tiles of the systolic array, row-major
        self._array_end = 0.0  # when all tiles of the array are free
        self._background_free = 0.0  # when the array is free for a transpose in the background
        self._tensor_end = 0.0
        self._stationary_free = 0.0
        self._ports: dict[Any, tuple[float, int]] = {}  # when it is free, and its last user
        self._tables: set[str] = set()  # functions whose tables ScalarE has loaded

    @property
    def busy(self) -> dict[str, float]:
        return {**self._busy, "dma": max(*self._dma_busy, self._dma_shared_busy)}

    def count_busy(self) -> list[float]:
        """Returns how long each engine, each DMA engine and the share of HBM were busy, in ns."""
        return [*self._busy.values(), *self._dma_busy, self._dma_shared_busy]

    def repeat_busy(self, before: list[float], times: int) -> None:
        """Counts what the engines have done since ``before`` another ``times`` times."""
        grown = [a + times * (a - b) for a, b in zip(self.count_busy(), before, strict=True)]
        self._busy = dict(zip(self._busy, grown, strict=False))
        *self._dma_busy, self._dma_shared_busy = grown[len(self._busy) :]

    def placer(self, engine: str) -> Callable[[int, Issue, float], Place]:
        """Returns what runs instruction n, ready at a time, on the engine of its queue."""
        if engine == "dma":
            return self._transfer
        return self._multiply if engine == "tensor" else self._stream

    def _stream(self, n: int, issue: Issue, start: float) -> Place:
        """Runs an instruction of VectorE, ScalarE or GpSimdE."""
        held_by, why = -1, ""
        ports = issue.ports + self._banks[n] if issue.takes_banks else issue.ports
        for port in ports:
            free, user = self._ports.get(port, (0.0, -1))
            if free > start:
                start, held_by = free, user
                why = waits.OF_PORTS.get(port, waits.PSUM_BANK)
        if issue.table:
            start += self.load_tables({issue.table})
        finish = start + issue.cost_ns
        for port in ports:
            self._ports[port] = (finish, n)
        self._busy[issue.engine] += issue.cost_ns
        return start, finish, finish + issue.latency_ns, finish, held_by, why

    def load_tables(self, functions: set[str]) -> float:
        """Returns how long ScalarE takes to load the tables that it does not have yet."""
        new = functions - self._tables
        self._tables |= new
        return len(new) * self.chip.activation_table_ns

    def _multiply(self, n: int, issue: Issue, start: float) -> Place:
        """Runs LoadStationary in the background, and MultiplyMoving on its part of the array."""
        loaded = max(start, self._stationary_free) + issue.load_stationary_ns
        if issue.rows == _FULL_ARRAY and issue.columns == _FULL_ARRAY:
            start = self._whole_array(issue, loaded)
        else:
            start = self._array_tile(n, issue, loaded)
        finish = start + issue.cost_ns
        # The next LoadStationary may overwrite the shadow weights once this pass has begun.
        self._stationary_free = start
        self._busy["tensor"] += max(0.0, finish - max(start, self._tensor_end))
        self._tensor_end = max(self._tensor_end, finish)
        queue_free = start if issue.load_stationary_ns else finish
        return start, finish, finish + issue.latency_ns, queue_free, -1, ""

    def _whole_array(self, issue: Issue, loaded: float) -> float:
        """Returns the start of a pass on the whole array.

        A transpose runs beside another pass if the chip can do so.
        """
        start = max(loaded, self._array_end)
        if issue.is_transpose and self.chip.background_transposes:
            background = max(loaded, self._background_free)
            if background < start:
                self._background_free = background + issue.cost_ns
                return background
        end = self._array_end = start + issue.cost_ns
        self._array_free = [end] * len(self._array_free)
        return start

    def _array_tile(self, n: int, issue: Issue, loaded: float) -> float:
        """Returns the start of a pass on an array tile. One pass at a time writes a PSUM bank."""
        cells = _cells(issue.rows, issue.columns)
        banks = self._banks[n] if issue.takes_banks else ()
        array_free, bank_free = self._array_free, self._bank_free
        start = max(loaded, *[array_free[c] for c in cells])
        for bank in banks:
            start = max(start, bank_free.get(bank, 0.0))
        end = start + issue.cost_ns
        for c in cells:
            array_free[c] = end
        for bank in banks:
            bank_free[bank] = end
        self._array_end = max(self._array_end, end)
        return start

    def _transfer(self, n: int, issue: Issue, start: float) -> Place:
        """Runs a transfer on the engines of its rows, no faster than the core's bandwidth."""
        chip = self.chip
        trigger: tuple[int, str] = (-1, "")  # what delayed the trigger
        if issue.uses_software_dge:
            idle, user = self._ports.get("gpsimd", (0.0, -1))
            if idle > start:
                start, trigger = idle, (user, waits.DESCRIPTORS)
            self._ports["gpsimd"] = start + issue.trigger_ns, n
            self._busy["gpsimd"] += issue.trigger_ns
        triggered = start + issue.trigger_ns
        first = triggered + chip.dma_start_ns
        finish = max(first, self._dma_shared) + issue.dma_shared_ns
        cause = trigger
        if self._dma_shared > first:
            cause = self._dma_shared_user, waits.HBM
        self._dma_shared, self._dma_shared_user = finish, n
        self._dma_shared_busy += issue.dma_shared_ns
        end, user, why = self._run_dma_engines(n, issue, first, finish)
        if end > finish:
            finish, cause = end, trigger if user < 0 else (user, why)
        return start, finish, finish + chip.dma_finish_ns, triggered, *cause

    def _run_dma_engines(
        self, n: int, issue: Issue, first: float, finish: float
    ) -> tuple[float, int, str]:
        """Returns when the last engine ends, but at least ``finish``, and what delayed it.

        An engine prepares the transfer from ``first`` on, or when it has prepared the one before.
        It then is busy for its cost. The second value is the transfer before that delayed the last
        engine, or -1; the third says why, one of ``waits``.
        """
        free, busy, users = self._dma_free, self._dma_busy, self._dma_user
        prepared, interval, costs = self._dma_prepared, issue.prepared_ns, issue.dma_ns
        if not self._are_dma_alike:
            self._are_dma_alike = all([_are_equal(one) for one in (free, prepared, users)])
        if self._are_dma_alike and costs and costs[0] and _are_equal(costs):
            # All engines have the same cost and became free together, so one stands for all.
            begin, why = _later(free[0], prepared[0])
            user = -1 if begin < first else users[0]
            end = max(first, begin) + costs[0]
            self._dma_prepared = [max(first, prepared[0]) + interval] * len(free)
            self._dma_free, self._dma_user = [end] * len(free), [n] * len(users)
            self._dma_busy = [time + costs[0] for time in busy]
            return end, user, why
        self._are_dma_alike = False
        last, why = -1, ""
        for engine, cost in enumerate(costs):
            if cost:
                begin, held_by = _later(free[engine], prepared[engine])
                end = free[engine] = max(first, begin) + cost
                prepared[engine] = max(first, prepared[engine]) + interval
                if end > finish:
                    finish, last, why = end, -1 if begin < first else users[engine], held_by
                users[engine] = n
                busy[engine] += cost
        return finish, last, why


def _later(free: float, prepared: float) -> tuple[float, str]:
    if prepared > free:
        return prepared, waits.DMA_COPIES
    return free, waits.DMA_ENGINES


def _are_equal(values: Sequence[float]) -> bool:
    return values.count(values[0]) == len(values)


@functools.lru_cache
def _cells(rows: tuple[int, int], columns: tuple[int, int]) -> list[int]:
    return [4 * r + c for r in range(*rows) for c in range(*columns)]
