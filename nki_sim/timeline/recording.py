"""What a timeline holds: the schedules of recorded launches, and what can be read from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from nki_sim.base.enums import MemoryRegion
from nki_sim.errors import KernelWarning, SourceLine
from nki_sim.hardware import PARTITIONS, NeuronCore
from nki_sim.instructions.launch_state import LaunchState

from .dma_over_time import Moved, moved
from .engines import ENGINES
from .memory_over_time import OverTime, summed
from .order_costs import OrderCost, order_costs
from .pair_schedule import Meetings
from .placed import LoopRun, Placed
from .schedule import Schedule


@dataclass(frozen=True)
class Event:
    """One instruction on the timeline. All times are modelled, in ns since the first launch.

    An event in a loop on the device is that of the first iteration. Comparisons of events ignore
    ``source`` and ``operands``, because dry runs omit them outside of `nki_sim.sources`.

    Attributes:
        number: the number of the instruction in its program, from 0 in every launch.
        name: the name that the kernel gives it, or its function in nki.isa.
        engine: one of tensor, vector, scalar, gpsimd, dma.
        start_ns, end_ns: the time on the engine; for a DMA, from its trigger to its last byte.
        core: 0 or 1.
        index: the index of the event in ``Timeline.events``.
        launch: the number of the launch, from 0.
        instruction: the function, such as "nisa.nc_matmul".
        queue: the queue of a DMA, such as "dma load", else "".
        bytes, descriptors: the bytes that a DMA moves, and its descriptors; else 0.
        hbm_bytes: the bytes that the DMA reads and writes in HBM.
        moves_ns: how long the DMA engines need for the bytes, if they do nothing else; else 0.
        descriptors_ns: how long GpSimdE writes the descriptors, from start_ns on; else 0.
        latency_ns: how long after start_ns a DMA's first byte can move, if no engine is busy; else
            0. Up to ``end_ns - moves_ns`` the DMA then waits in a queue.
        macs: the multiply-accumulate operations of a matmul; 0 for transposes.
        times: how often the instruction runs: once, or in each iteration of a loop.
        waited_for: the index of the event that it waited for last, or None.
        wait: the reason for that wait, one of ``waits.KINDS``, or "".
        source: the line of the kernel.
        operands: a text, such as "dst sbuf 128x512 float32, src shared_hbm 128x512 float32".
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
    latency_ns: float = 0.0
    macs: int = 0
    times: int = 1
    waited_for: int | None = None
    wait: str = ""
    source: SourceLine | None = field(default=None, compare=False)
    operands: str = field(default="", compare=False)


@dataclass(frozen=True)
class _Launch:
    """A schedule on the timeline, with its start and the index of its first event."""

    base: float
    first: int
    number: int
    schedule: Schedule
    kernel: str

    @property
    def placed(self) -> Placed:
        """The times of its instructions."""
        return self.schedule.placed


class Recording:
    """The data of a timeline; `timeline.Timeline` describes its attributes."""

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
        self._events: list[Event] = []  # made when `events` is read

    def add(
        self, sessions: Sequence[LaunchState], meetings: Meetings, peaks: dict[str, int]
    ) -> None:
        """Appends a launch, which starts when the launch before has ended.

        It has one session, or two, whose instructions with the numbers in ``meetings`` meet.
        """
        schedule = Schedule(sessions, meetings)
        launches = self._launches
        placed = schedule.placed
        first = launches[-1].first + len(launches[-1].placed.issues) if launches else 0
        kernel = getattr(sessions[0].kernel, "__name__", "kernel")
        launches.append(_Launch(self.total_ns, first, self.launches, schedule, kernel))
        found = [warning for session in sessions for warning in session.warnings]
        self.warnings += [replace(warning, launch=self.launches) for warning in found]
        self.launches += 1
        if placed.where not in self.where.split("; "):
            self.where = "; ".join(filter(None, (self.where, placed.where)))
        self.total_ns += placed.total_ns
        for engine in ENGINES:
            self.engine_busy_ns[engine] += placed.busy[engine]
        for issue, times in zip(placed.issues, placed.times, strict=True):
            if issue.dma_bytes:
                self.dma_bytes += times * issue.dma_bytes
                self.dma_descriptors += times * issue.dma_descriptors
                self.hbm_bytes += times * issue.hbm_bytes
            elif issue.macs:
                self.macs += times * issue.macs
        self.instructions += sum(placed.times)
        self.waived_rules |= sessions[0].waived
        self.hbm_scratch_bytes = max(self.hbm_scratch_bytes, peaks["hbm_scratch_bytes"])
        self.sbuf_peak_bytes = max(self.sbuf_peak_bytes, peaks["sbuf_peak_bytes"])
        self.psum_peak_banks = max(self.psum_peak_banks, peaks["psum_peak_banks"])

    @property
    def low_ns(self) -> float:
        """The total in ns, by the cheapest reading of the records of others.

        Records differ on some costs of the chip, which are in ``NeuronCore.ranges``. The order of
        the instructions is that of ``total_ns``. Beyond these costs, the range is wider by the
        factor ``hardware.UNEXPLAINED``.
        """
        return sum([launch.schedule.low_ns for launch in self._launches])

    @property
    def high_ns(self) -> float:
        """The total in ns, by the dearest reading of the records and in the dearer order.

        The two orders are those of ``written_ns`` and ``reordered_ns``; see ``low_ns``.
        """
        return sum([launch.schedule.high_ns for launch in self._launches])

    @property
    def written_ns(self) -> float:
        """The total in ns if the compiler keeps program order."""
        return sum([launch.schedule.as_written.total_ns for launch in self._launches])

    @property
    def reordered_ns(self) -> float:
        """The total in ns in the compiler's order, also where that is slower than as written."""
        return sum([launch.schedule.reordered.total_ns for launch in self._launches])

    @property
    def order_costs(self) -> list[OrderCost]:
        """Which pairs of lines make ``written_ns`` longer than ``total_ns``, dearest first."""
        return order_costs([launch.schedule for launch in self._launches])

    @property
    def on_scalar(self) -> dict[str, tuple[int, int]]:
        """Which instructions without an engine run on ScalarE, and which on VectorE.

        The values are the numbers of instructions (on ScalarE, on VectorE), by function.
        """
        found: dict[str, tuple[int, int]] = {}
        for launch in self._launches:
            placed, written = launch.placed, launch.schedule.as_written
            for issue, before, times in zip(
                placed.issues, written.issues, placed.times, strict=True
            ):
                if before.on_scalar is not None:
                    scalar, vector = found.get(issue.instruction, (0, 0))
                    moved = times if issue.engine == "scalar" else 0
                    found[issue.instruction] = (scalar + moved, vector + times - moved)
        return found

    @property
    def event_count(self) -> int:
        """The number of events. Reading it does not create the events."""
        return sum([len(launch.placed.issues) for launch in self._launches])

    @property
    def events(self) -> list[Event]:
        """All instructions in program order; in each launch those of core 0 come first."""
        for launch in self._launches:
            if launch.first == len(self._events):
                found = [_event(launch, n) for n in range(len(launch.placed.issues))]
                self._events.extend(found)
        return list(self._events)

    @property
    def critical_path(self) -> list[Event]:
        """The events that bound ``total_ns``, first to last. Each waited for its predecessor."""
        found: list[Event] = []
        for launch in self._launches:
            path: list[Event] = []
            n = launch.placed.last
            while n >= 0:
                path.append(_event(launch, n))
                n = launch.placed.blame[n]
            found.extend(reversed(path))
        return found

    @property
    def loops(self) -> list[LoopRun]:
        """The loops on the device; ``first`` and ``end`` are indices of events."""
        found: list[LoopRun] = []
        for launch in self._launches:
            base, first = launch.base, launch.first
            for loop in launch.placed.loops:
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

    def sbuf_bytes_over_time(self, core: int = 0) -> OverTime:
        """Returns the SBUF in use as steps (modelled nanoseconds, bytes a partition from then on).

        A tile is in use from the start of its first instruction to the end of its last instruction.
        For the body of a loop, that is in the first iteration. Because loads run ahead, the highest
        step can exceed ``sbuf_peak_bytes``, which counts in program order.
        """
        return self._held(core, MemoryRegion.sbuf, lambda size, _: size)

    def psum_banks_over_time(self, core: int = 0) -> OverTime:
        """Returns the PSUM in use as steps (modelled nanoseconds, banks from then on)."""
        return self._held(core, MemoryRegion.psum, lambda size, bank: -(-size // bank))

    def _held(
        self, core: int, buffer: MemoryRegion, unit: Callable[[float, int], float]
    ) -> OverTime:
        found: OverTime = []
        for launch in self._launches:
            spans: list[tuple[float, float, float]] = []
            for held in launch.schedule.held[core : core + 1]:
                sizes, begins, ends = held[buffer]
                spans += zip(begins, ends, sizes, strict=True)
            bank = launch.placed.chip.psum_bank_bytes
            found += [(launch.base + time, unit(value, bank)) for time, value in summed(spans)]
        return [step for n, step in enumerate(found) if not n or found[n - 1][1] != step[1]]

    def dma_bytes_per_ns_over_time(self, core: int = 0) -> OverTime:
        """Returns the rate of DMA as steps (modelled nanoseconds, bytes a nanosecond from then on).

        The bytes of a transfer are spread over the time for which its engines are busy. Transfers
        in the body of a loop are those of the first iteration.
        """
        return self._moved(core, lambda span: span.rate)

    def hbm_bytes_per_ns_over_time(self, core: int = 0) -> OverTime:
        """Returns the rate at which DMA reads and writes HBM, as steps like those of DMA."""
        return self._moved(core, lambda span: span.hbm_rate)

    def _moved(self, core: int, rate: Callable[[Moved], float]) -> OverTime:
        found: OverTime = []
        for launch in self._launches:
            base = launch.base
            spans = [
                (base + span.start_ns, base + span.end_ns, rate(span))
                for span in moved(launch.placed)
                if span.core == core
            ]
            found += summed(spans)
        return found

    @property
    def chips(self) -> list[NeuronCore]:
        """The chips of the launches, without repetition."""
        return list(dict.fromkeys(launch.placed.chip for launch in self._launches))

    @property
    def kernels(self) -> list[str]:
        """The name of the kernel of each launch."""
        return [launch.kernel for launch in self._launches]

    @property
    def with_launches_ns(self) -> float:
        """The approximate total with the time that each launch adds, which others measured.

        The times of launches are in `measured_times`, and not part of the model. The sum assumes
        that no kernel is launched while another one runs.
        """
        added = [launch.placed.chip.with_launches_ns(0.0, 1) for launch in self._launches]
        return self.total_ns + sum(added)

    @property
    def launch_notes(self) -> list[str]:
        """For each chip a sentence on what was measured of its launches, and where."""
        return [chip.launches.note(chip.name) for chip in self.chips]

    def chip_of_launch(self, number: int) -> NeuronCore:
        """Returns the chip of a launch; launches are numbered from 0."""
        return self._launches[number].placed.chip

    def span_of_launch(self, number: int) -> tuple[float, float]:
        """Returns begin and end of a launch, in modelled ns since the begin of launch 0."""
        launch = self._launches[number]
        return launch.base, launch.base + launch.placed.total_ns

    def floors_ns(self) -> dict[str, float]:
        """Returns lower bounds of the time, for any order of the instructions.

        The bound ``hbm`` is the time to read and write ``hbm_bytes`` at the rate of the DMA engines
        and the HBM stack. The bound ``tensor`` is the time of ``macs`` on the whole systolic array,
        with 16-bit numbers. Both are sums over the launches.
        """
        found = {"hbm": 0.0, "tensor": 0.0}
        for launch in self._launches:
            placed = launch.placed
            chip, cores = placed.chip, placed.cores
            work = list(zip(placed.issues, placed.times, strict=True))
            hbm_bytes = sum([times * issue.hbm_bytes for issue, times in work])
            macs = sum([times * issue.macs for issue, times in work])
            found["hbm"] += chip.dma_floor_ns(hbm_bytes, bytes_per_point=1, cores=cores)
            found["tensor"] += macs / (cores * PARTITIONS**2 * chip.tensor_columns_per_ns)
        return found


def _event(launch: _Launch, n: int) -> Event:
    placed, notes = launch.placed, launch.schedule.notes
    issue, name = placed.issues[n], launch.schedule.names[n]
    note = notes and notes[n]
    core = int(n >= placed.second_begin)
    blamed = placed.blame[n]
    is_dma = issue.engine == "dma"
    return Event(
        number=n - placed.second_begin if core else n,
        name=name or issue.instruction.removeprefix("nisa."),
        engine=issue.engine,
        start_ns=launch.base + placed.start[n],
        end_ns=launch.base + placed.end[n],
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
        latency_ns=issue.trigger_ns + placed.chip.dma_start_ns if is_dma else 0.0,
        macs=issue.macs,
        times=placed.times[n],
        waited_for=launch.first + blamed if blamed >= 0 else None,
        wait=placed.wait(n),
        source=note.source() if note else None,
        operands=note.text() if note else "",
    )
