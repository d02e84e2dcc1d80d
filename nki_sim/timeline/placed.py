"""The times of the instructions of one launch, which a schedule has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nki_sim.hardware import NeuronCore

from . import waits
from .causes import Causes


@dataclass(frozen=True)
class LoopRun:
    """A loop on the device. Times are modelled, in nanoseconds.

    Attributes:
        label: the function, such as "nl.fori_loop".
        trips: the number of iterations.
        core: 0 or 1.
        first, end: its instructions are those from ``first`` to ``end``, exclusive.
        start_ns: when the first iteration begins.
        iteration_end_ns: when the first iteration and its branch end.
        end_ns: when the last iteration ends.
    """

    label: str
    trips: int
    core: int
    first: int
    end: int
    start_ns: float
    iteration_end_ns: float
    end_ns: float


@dataclass(frozen=True)
class Placed:
    """When each instruction of a launch runs, and which one it waited for. Times are in ns.

    Of a loop on the device there is the first iteration only. Instruction n of a second core is
    ``second_begin`` + n.

    Attributes:
        chip: the chip with the costs.
        cores: the number of cores.
        second_begin: where the instructions of a second core begin.
        issues: the instructions.
        times: how often each instruction runs.
        start, end: when it begins, and when it ends on its engine.
        last: the instruction that ends last, or -1.
        total_ns: the time of the launch.
        loops: the loops on the device.
        busy: for each engine, how long it is busy.
        causes: what each instruction waited for.
    """

    chip: NeuronCore
    cores: int
    second_begin: int
    issues: list[Any]
    times: list[int]
    start: list[float]
    end: list[float]
    last: int
    total_ns: float
    loops: list[LoopRun]
    busy: dict[str, float]
    causes: Causes

    @property
    def sequence(self) -> list[int]:
        """The instructions as engines took them, first to last."""
        return self.causes.sequence

    @property
    def blame(self) -> list[int]:
        """The instruction that each one waited for last, or -1."""
        return self.causes.last_waits[0]

    @property
    def why(self) -> list[str]:
        """The reason for that wait, which `wait` tells in full."""
        return self.causes.last_waits[1]

    def wait(self, n: int) -> str:
        """Returns one of ``waits.KINDS``, or "" if the instruction waited for no other."""
        other, found = self.blame[n], self.why[n]
        if other < 0:
            return ""
        if found == waits.QUEUE:
            return waits.DMA_QUEUE if self.issues[n].engine == "dma" else waits.ENGINE
        if found in waits.OF_OPERANDS:
            meets = self.issues[other].instruction == "nisa.core_barrier"
            if meets or (other < self.second_begin) != (n < self.second_begin):
                return waits.BARRIER
        return found

    @property
    def where(self) -> str:
        """The chip and the degree of LNC, in words."""
        return f"{self.chip.name}, LNC={self.cores}"
