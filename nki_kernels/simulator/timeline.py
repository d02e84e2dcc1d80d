"""Timeline of a kernel: when each instruction runs on a model of one NeuronCore, or of two.

`schedule` and `pair_schedule` have the model of order and waits, `engines` that of the engines and
DMA queues, `memory_reuse` that of SBUF and PSUM. Costs come from ``nki_kernels.hardware``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from nki_kernels.hardware import PARTITIONS, NeuronCore

from . import budget, waits
from .dma_over_time import Moved, moved
from .engines import ENGINES
from .enums import MemoryRegion
from .instruction_notes import KernelWarning, SourceLine
from .memory_over_time import Held, Steps, steps
from .pair_schedule import PairSchedule
from .schedule import LoopRun, Schedule
from .timeline_summary import summary


@dataclass(frozen=True)
class Event:
    """One instruction on the timeline. Times in modelled nanoseconds from the first launch.

    In a loop on the device, that of the first iteration. ``source`` and ``operands`` take no part
    in comparisons, as dry runs leave them out unless `simulator.sources` is on.

    Attributes:
        number: of the instruction in its program, from 0 in every launch.
        name: what the kernel calls it, else its function in nki.isa.
        engine: one of tensor, vector, scalar, gpsimd, dma.
        start_ns, end_ns: of the engine; of a DMA from its trigger to its last byte.
        core: 0 or 1.
        index: of the event in ``Timeline.events``; ``number``, in one launch on one core.
        launch: from 0.
        instruction: its function, as "nisa.nc_matmul".
        queue: of a DMA ("dma load", for example), else "".
        bytes, descriptors: that a DMA moves and takes, else 0.
        hbm_bytes: that it reads and writes in HBM.
        moves_ns: how long the DMA engines take for them, if they do nothing else; else 0.
        descriptors_ns: how long GpSimdE writes the descriptors, from start_ns on; else 0.
        macs: products that a matmul adds up; 0 for transposes.
        times: how often it runs: once, or in each iteration.
        waited_for: index of the event that it waited for last, None where it waited for none.
        wait: why, one of ``waits.KINDS``, else "".
        source: the line of the kernel.
        operands: as text, "dst sbuf 128x512 float32, src shared_hbm 128x512 float32".
    """

    number: int
    name: str
    engine: str
    start_ns: float
    end_ns: float
    core: int = 0
    index: int = 0
    launch: int = 0
    instruction: str = ""
    queue: str = ""
    bytes: int = 0
    descriptors: int = 0
    hbm_bytes: int = 0
    moves_ns: float = 0.0
    descriptors_ns: float = 0.0
    macs: int = 0
    times: int = 1
    waited_for: int | None = None
    wait: str = ""
    source: SourceLine | None = field(default=None, compare=False)
    operands: str = field(default="", compare=False)


@dataclass(frozen=True)
class _Launch:
    """A schedule on the timeline: when it begins, and the index of its first event."""

    base: float
    first: int
    number: int
    schedule: Schedule
    kernel: str


class Timeline:
    """What a recorded kernel cost, modelled. Filled when the recorded kernel returns.

    Attributes: ``total_ns``; ``engine_busy_ns`` (tensor, vector, scalar, gpsimd, dma; for dma the
    busiest of the 16 engines); ``dma_bytes`` moved, ``dma_descriptors``, ``hbm_bytes`` read and
    written; ``macs``, products that matmuls add up; ``hbm_scratch_bytes`` that a launch allocated
    in HBM beside its outputs, the most of all launches; ``instructions``; ``sbuf_peak_bytes`` a
    partition; ``psum_peak_banks``; ``waived_rules``, the rules of ``device_rules`` that were broken
    and waived; ``warnings``, what the launches warned of; ``critical_path`` (the events that bound
    ``total_ns``, first to last); ``events``; ``event_count``; ``loops`` on the device;
    ``launches``; ``with_launches_ns``, about the total with what each launch adds;
    ``launch_notes``, what is known of that; ``where``, the chip and the degree of LNC, as
    "trn2, LNC=2"; several where launches differ.

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
        self.macs = 0
        self.instructions = 0
        self.sbuf_peak_bytes = 0
        self.psum_peak_banks = 0
        self.launches = 0
        self.where = ""
        self.waived_rules: set[str] = set()
        self.warnings: list[KernelWarning] = []
        self._launches: list[_Launch] = []
        self._events: list[Event] = []  # of the launches that somebody asked for

    def add(self, session: Any, peaks: dict[str, int]) -> None:
        """Append one launch; several launches follow each other."""
        self._add(Schedule(session), [session], peaks)

    def add_pair(self, pair: Any, peaks: dict[str, int]) -> None:
        """Append one launch on two cores."""
        self._add(PairSchedule(pair), pair.sessions, peaks)

    def _add(self, schedule: Schedule, sessions: list[Any], peaks: dict[str, int]) -> None:
        trace = schedule.trace
        launches = self._launches
        first = launches[-1].first + len(launches[-1].schedule.trace) if launches else 0
        kernel = getattr(sessions[0].kernel, "__name__", "kernel")
        launches.append(_Launch(self.total_ns, first, self.launches, schedule, kernel))
        found = [warning for session in sessions for warning in session.warnings]
        self.warnings += [replace(warning, launch=self.launches) for warning in found]
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
            elif issue.macs:
                self.macs += times * issue.macs
        self.instructions += sum(schedule.times)
        self.waived_rules |= sessions[0].waived
        self.hbm_scratch_bytes = max(self.hbm_scratch_bytes, peaks["hbm_scratch_bytes"])
        self.sbuf_peak_bytes = max(self.sbuf_peak_bytes, peaks["sbuf_peak_bytes"])
        self.psum_peak_banks = max(self.psum_peak_banks, peaks["psum_peak_banks"])

    @property
    def event_count(self) -> int:
        """How many events there are: without a look at them none is made."""
        return sum([len(launch.schedule.trace) for launch in self._launches])

    @property
    def events(self) -> list[Event]:
        """Every instruction in program order, of each launch those of core 0 first."""
        for launch in self._launches:
            if launch.first == len(self._events):
                found = [_event(launch, n) for n in range(len(launch.schedule.trace))]
                self._events.extend(found)
        return list(self._events)

    @property
    def critical_path(self) -> list[Event]:
        """Events that bound the total, each the one its successor waited for."""
        found: list[Event] = []
        for launch in self._launches:
            path: list[Event] = []
            n = launch.schedule.last
            while n >= 0:
                path.append(_event(launch, n))
                n = launch.schedule.blame[n]
            found.extend(reversed(path))
        return found

    @property
    def loops(self) -> list[LoopRun]:
        """Loops on the device; ``first`` and ``end`` are indices of events."""
        found: list[LoopRun] = []
        for launch in self._launches:
            base, first = launch.base, launch.first
            for loop in launch.schedule.loops:
                found.append(
                    replace(
                        loop,
                        first=first + loop.first,
                        end=first + loop.end,
                        start_ns=base + loop.start_ns,
                        iteration_end_ns=base + loop.iteration_end_ns,
                        end_ns=base + loop.end_ns,
                    )
                )
        return found

    def sbuf_bytes_over_time(self, core: int = 0) -> Steps:
        """Bytes a partition of SBUF that tiles hold: (modelled nanoseconds, bytes from then on).

        A tile is held from the start of its first instruction to the end of its last one, of a
        loop's body in the first iteration. Loads run ahead, so that the highest step may be more
        than ``sbuf_peak_bytes``, which counts in program order.
        """
        return self._held(core, MemoryRegion.sbuf, lambda size, _: size)

    def psum_banks_over_time(self, core: int = 0) -> Steps:
        """Banks of PSUM that tiles hold: (modelled nanoseconds, banks from then on), as of SBUF."""
        return self._held(core, MemoryRegion.psum, lambda size, bank: -(-size // bank))

    def _held(self, core: int, buffer: MemoryRegion, unit: Callable[[float, int], float]) -> Steps:
        found: Steps = []
        for launch in self._launches:
            held: Iterable[Held] = [h for c in launch.schedule.held[core : core + 1] for h in c]
            spans = [(h.start_ns, h.end_ns, h.size) for h in held if h.buffer is buffer]
            bank = launch.schedule.chip.psum_bank_bytes
            found += [(launch.base + time, unit(value, bank)) for time, value in steps(spans)]
        return [step for n, step in enumerate(found) if not n or found[n - 1][1] != step[1]]

    def dma_bytes_per_ns_over_time(self, core: int = 0) -> Steps:
        """Bytes a nanosecond that the DMA engines move: (modelled nanoseconds, rate from then on).

        A transfer's bytes are spread over the time that its engines have it. What transfers of a
        loop's body move is shown for the first iteration.
        """
        return self._moved(core, lambda span: span.rate)

    def hbm_bytes_per_ns_over_time(self, core: int = 0) -> Steps:
        """The same of what DMA reads and writes in HBM."""
        return self._moved(core, lambda span: span.hbm_rate)

    def _moved(self, core: int, rate: Callable[[Moved], float]) -> Steps:
        found: Steps = []
        for launch in self._launches:
            base = launch.base
            spans = [
                (base + span.start_ns, base + span.end_ns, rate(span))
                for span in moved(launch.schedule)
                if span.core == core
            ]
            found += steps(spans)
        return found

    @property
    def chips(self) -> list[NeuronCore]:
        """The chips of the launches, each once."""
        return list(dict.fromkeys(launch.schedule.chip for launch in self._launches))

    @property
    def kernels(self) -> list[str]:
        """The name of each launch's kernel."""
        return [launch.kernel for launch in self._launches]

    @property
    def with_launches_ns(self) -> float:
        """About the total with what each launch adds: see `measured_times`. No part of the model.

        As if none was launched while another one runs.
        """
        added = [launch.schedule.chip.with_launches_ns(0.0, 1) for launch in self._launches]
        return self.total_ns + sum(added)

    @property
    def launch_notes(self) -> list[str]:
        """For each chip what was measured of its launches, and on what."""
        return [chip.launches.note(chip.name) for chip in self.chips]

    def chip_of_launch(self, number: int) -> NeuronCore:
        """The chip of a launch, from 0."""
        return self._launches[number].schedule.chip

    def span_of_launch(self, number: int) -> tuple[float, float]:
        """When a launch, from 0, begins and ends, in modelled nanoseconds from the first one."""
        launch = self._launches[number]
        return launch.base, launch.base + launch.schedule.total_ns

    def floors_ns(self) -> dict[str, float]:
        """Least times that no order of the instructions can beat, whatever they wait for.

        ``hbm``: to read and write ``hbm_bytes`` at the rate of the DMA engines and the stack of
        HBM; ``tensor``: ``macs`` on whole arrays, as 16-bit numbers. Launches add up.
        """
        found = {"hbm": 0.0, "tensor": 0.0}
        for launch in self._launches:
            schedule = launch.schedule
            chip, cores = schedule.chip, schedule.cores
            work = list(zip([issue for issue, *_ in schedule.trace], schedule.times, strict=True))
            hbm_bytes = sum([times * issue.hbm_bytes for issue, times in work])
            macs = sum([times * issue.macs for issue, times in work])
            found["hbm"] += chip.dma_floor_ns(hbm_bytes, bytes_per_point=1, cores=cores)
            found["tensor"] += macs / (cores * PARTITIONS**2 * chip.tensor_columns_per_ns)
        return found

    def summary(self) -> dict[str, Any]:
        """The numbers as JSON types; all times are modelled, in nanoseconds.

        Keys: the attributes; ``chips`` with the figures of the model; ``utilisation``, of each
        engine the share of the time that it is busy; ``floors_ns``; ``warnings``; and
        ``critical_path``, its events by line, engine and wait, with the time that is theirs.
        """
        return summary(self)

    assert_within = budget.assert_within

    def save_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for ui.perfetto.dev, in Perfetto's binary format, as "launch.pftrace".

        Tracks for engines, DMA queues and loops of each core, what is known of each instruction,
        SBUF, PSUM and bandwidth over time, arrows along the critical path. The file is written
        whole or not at all.

        Raises:
            ImportError: the package perfetto, which the extra "report" installs, is missing.
            OSError: the file cannot be written.
        """
        from .perfetto import save_perfetto

        save_perfetto(self, path)

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write a report, one HTML file that needs no network."""
        from .report import save_html

        save_html(self, path)

    def __repr__(self) -> str:
        waived = f", waived: {', '.join(sorted(self.waived_rules))}" if self.waived_rules else ""
        where = f" on {self.where}" if self.where else ""
        time = f"{self.total_ns:.0f} ns modelled{where}"
        return f"Timeline({self.instructions} instructions, {time}{waived})"


def _event(launch: _Launch, n: int) -> Event:
    schedule = launch.schedule
    issue, _, name = schedule.trace[n]
    note = schedule.notes and schedule.notes[n]
    core = int(n >= schedule.split)
    blamed = schedule.blame[n]
    is_dma = issue.engine == "dma"
    return Event(
        number=n - schedule.split if core else n,
        name=name or issue.instruction.removeprefix("nisa."),
        engine=issue.engine,
        start_ns=launch.base + schedule.start[n],
        end_ns=launch.base + schedule.end[n],
        core=core,
        index=launch.first + n,
        launch=launch.number,
        instruction=issue.instruction,
        queue=issue.queue if is_dma else "",
        bytes=issue.dma_bytes,
        descriptors=issue.dma_descriptors,
        hbm_bytes=issue.hbm_bytes,
        moves_ns=max((*issue.dma_ns, issue.dma_shared_ns)) if is_dma else 0.0,
        descriptors_ns=issue.trigger_ns if issue.uses_software_dge else 0.0,
        macs=issue.macs,
        times=schedule.times[n],
        waited_for=launch.first + blamed if blamed >= 0 else None,
        wait=waits.why(schedule, n),
        source=note.source() if note else None,
        operands=note.text() if note else "",
    )
