"""Timeline of a kernel: when each instruction runs on a model of one NeuronCore, or of two.

`schedule` and `pair_schedule` have the model of order and waits, `engines` that of the engines and
DMA queues, `memory_reuse` that of SBUF and PSUM. Costs come from ``nki_kernels.hardware``.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nki_kernels.whole_file import write_whole

from .engines import ENGINES
from .issue import Issue
from .schedule import Schedule


@dataclass(frozen=True)
class Event:
    """One instruction on the timeline. Times in modelled nanoseconds from the launch."""

    number: int
    name: str
    engine: str
    start_ns: float
    end_ns: float
    core: int = 0


class Timeline:
    """What a recorded kernel cost, modelled. Filled when the recorded kernel returns.

    Attributes: ``total_ns``; ``engine_busy_ns`` (tensor, vector, scalar, gpsimd, dma; for dma the
    busiest of the 16 engines); ``dma_bytes`` moved, ``dma_descriptors``, ``hbm_bytes`` read and
    written; ``hbm_scratch_bytes`` that a launch allocated in HBM beside its outputs, the most of
    all launches; ``instructions``; ``sbuf_peak_bytes`` a partition; ``psum_peak_banks``;
    ``waived_rules``, the rules of ``device_rules`` that were broken and waived;
    ``critical_path`` (the events that bound ``total_ns``, first to last); ``events``; ``launches``;
    ``where``, the chip and the degree of LNC, as "trn2, LNC=2"; several where launches differ.

    A launch of two programs ends with the later core; ``engine_busy_ns`` has each engine of the
    core where it is busier, as do the two peaks; bytes, descriptors and instructions are sums.
    """

    def __init__(self) -> None:
        self.total_ns = 0.0
        self.engine_busy_ns = dict.fromkeys(ENGINES, 0.0)
        self.dma_bytes = 0
        self.dma_descriptors = 0
        self.hbm_bytes = 0
        self.hbm_scratch_bytes = 0
        self.instructions = 0
        self.sbuf_peak_bytes = 0
        self.psum_peak_banks = 0
        self.launches = 0
        self.where = ""
        self.waived_rules: set[str] = set()
        self._runs: list[tuple[float, list[tuple[Issue, list[int], str]], Schedule]] = []

    def add(self, session: Any, peaks: dict[str, int]) -> None:
        """Append one launch; several launches follow each other."""
        self.add_schedule(Schedule(session), session.waived, peaks)

    def add_schedule(self, schedule: Schedule, waived: set[str], peaks: dict[str, int]) -> None:
        """Append one launch that is scheduled already."""
        trace = schedule.trace
        self._runs.append((self.total_ns, trace, schedule))
        self.launches += 1
        if schedule.where not in self.where.split("; "):
            self.where = "; ".join(filter(None, (self.where, schedule.where)))
        self.total_ns += schedule.total_ns
        for engine in ENGINES:
            self.engine_busy_ns[engine] += schedule.busy[engine]
        for (issue, _, _), times in zip(trace, schedule.times, strict=True):
            if issue.dma_bytes:
                self.dma_bytes += times * issue.dma_bytes
                self.dma_descriptors += times * issue.dma_descriptors
                self.hbm_bytes += times * issue.hbm_bytes
        self.instructions += sum(schedule.times)
        self.waived_rules |= waived
        self.hbm_scratch_bytes = max(self.hbm_scratch_bytes, peaks["hbm_scratch_bytes"])
        self.sbuf_peak_bytes = max(self.sbuf_peak_bytes, peaks["sbuf_peak_bytes"])
        self.psum_peak_banks = max(self.psum_peak_banks, peaks["psum_peak_banks"])

    @property
    def events(self) -> list[Event]:
        """Every instruction in program order, those of core 0 first."""
        found: list[Event] = []
        for base, trace, schedule in self._runs:
            for n in range(len(trace)):
                found.append(_event(base, trace, schedule, n))
        return found

    @property
    def critical_path(self) -> list[Event]:
        """Events that bound the total, each the one its successor waited for."""
        found: list[Event] = []
        for base, trace, schedule in self._runs:
            path: list[Event] = []
            n = schedule.last
            while n >= 0:
                path.append(_event(base, trace, schedule, n))
                n = schedule.blame[n]
            found.extend(reversed(path))
        return found

    def save_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for ui.perfetto.dev: one process a core, one track an engine.

        The file is written whole or not at all.
        """
        found = self.events
        cores = max([event.core for event in found], default=0) + 1
        events = [entry for core in range(cores) for entry in _tracks(core, cores, self.where)]
        for event in found:
            events.append(
                {
                    "ph": "X",
                    "pid": event.core,
                    "tid": ENGINES.index(event.engine),
                    "name": event.name,
                    "ts": event.start_ns / 1000,
                    "dur": (event.end_ns - event.start_ns) / 1000,
                    "args": {"number": event.number},
                }
            )
        write_whole(Path(path), json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}))

    def __repr__(self) -> str:
        waived = f", waived: {', '.join(sorted(self.waived_rules))}" if self.waived_rules else ""
        where = f" on {self.where}" if self.where else ""
        time = f"{self.total_ns:.0f} ns modelled{where}"
        return f"Timeline({self.instructions} instructions, {time}{waived})"


def _tracks(core: int, cores: int, where: str) -> list[dict[str, Any]]:
    """The tracks of one core in a trace, with their names."""
    tracks: list[dict[str, Any]] = []
    for track, engine in enumerate(ENGINES):
        of_track = {"ph": "M", "pid": core, "tid": track}
        tracks.append({**of_track, "name": "thread_name", "args": {"name": engine}})
        tracks.append({**of_track, "name": "thread_sort_index", "args": {"sort_index": track}})
    number = f" {core}" if cores > 1 else ""
    name = {"name": f"NeuronCore{number} of {where} (modelled)"}
    tracks.append({"ph": "M", "pid": core, "name": "process_name", "args": name})
    return tracks


def _event(
    base: float, trace: list[tuple[Issue, list[int], str]], schedule: Schedule, n: int
) -> Event:
    issue, _, name = trace[n]
    label = name or issue.instruction.removeprefix("nisa.")
    start, end = base + schedule.start[n], base + schedule.end[n]
    if n < schedule.split:
        return Event(n, label, issue.engine, start, end)
    return Event(n - schedule.split, label, issue.engine, start, end, core=1)
