"""What bounds a kernel: the modelled time of the critical path by cause, with advice.

The causes and the advice refer to the model that docs/timing_model.md describes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from nki_sim.base.enums import ENGINE_NAMES
from nki_sim.errors import SourceLine
from nki_sim.hardware import NeuronCore
from nki_sim.timeline import waits
from nki_sim.timeline.critical_path import Share, critical_shares, is_left
from nki_sim.timeline.recording import Event, Recording

from . import causes
from .advice import advice


@dataclass(frozen=True)
class Bottleneck:
    """A cause of the total time.

    Attributes:
        cause: the cause in words.
        ns: its modelled nanoseconds on the critical path.
        share: its share of ``Timeline.total_ns``, 0 to 1.
        events: its events on the critical path, each once. An event in a loop stands for all
            iterations.
        lines: (source line, its nanoseconds), longest first. Empty if no source lines were noted.
        advice: what to try, in sentences.
    """

    cause: str
    ns: float
    share: float
    events: list[Event]
    lines: list[tuple[SourceLine, float]]
    advice: str


@dataclass
class _Group:
    """The time of one cause while its parts are added up."""

    ns: float = 0.0
    events: dict[int, Event] = field(default_factory=dict)
    lines: dict[SourceLine, float] = field(default_factory=dict)

    def add(self, event: Event, ns: float) -> None:
        self.ns += ns
        self.events[event.index] = event
        if event.source is not None:
            self.lines[event.source] = self.lines.get(event.source, 0.0) + ns


def bottlenecks(timeline: Recording) -> list[Bottleneck]:
    """Returns the causes, longest first. The sum of their times is ``timeline.total_ns``.

    If loops on the device are nested, the branches of the outer loop may be missing.
    """
    groups: dict[str, _Group] = {}
    shares = critical_shares(timeline)
    for share, following in zip_longest(shares, shares[1:]):
        for cause, ns in _causes(timeline, share, following):
            if ns > 0:
                groups.setdefault(cause, _Group()).add(share.event, ns)
    found = [_bottleneck(timeline, cause, group) for cause, group in groups.items()]
    return sorted(found, key=lambda one: -one.ns)


def _bottleneck(timeline: Recording, cause: str, group: _Group) -> Bottleneck:
    events = list(group.events.values())
    # Differences of times have rounding errors: a line of less than half a nanosecond is left out.
    lines = {line: ns for line, ns in group.lines.items() if ns >= 0.5}
    chips = list(dict.fromkeys(timeline.chip_of_launch(event.launch) for event in events))
    return Bottleneck(
        cause=cause,
        ns=group.ns,
        share=group.ns / timeline.total_ns,
        events=events,
        lines=sorted(lines.items(), key=lambda item: -item[1]),
        advice=advice(cause, timeline, chips, events),
    )


def _causes(
    timeline: Recording, share: Share, following: Share | None
) -> Iterator[tuple[str, float]]:
    """Splits the time of an event by cause: its own work, and the wait until the next event."""
    event, left = share.event, share.ns - share.once_ns
    chip = timeline.chip_of_launch(event.launch)
    tables = share.once_ns if share.once_ns >= chip.activation_table_ns - 1 else 0.0
    yield causes.TABLES, tables
    yield causes.LATENCY, share.once_ns - tables
    after = following.event if following and following.event.launch == event.launch else None
    if any(is_left(loop, event, after) for loop in timeline.loops):
        branches = min(left, chip.loop_iteration_ns * event.times)
        yield causes.BRANCHES, branches
        left -= branches
    one = left / event.times
    parts = _of_dma(chip, event, after, one) if event.engine == "dma" else None
    for cause, ns in parts or _of_engine(chip, event, after, one):
        yield cause, ns * event.times


def _of_dma(
    chip: NeuronCore, event: Event, after: Event | None, ns: float
) -> Iterator[tuple[str, float]]:
    wait = after.wait if after else ""
    if wait == waits.DESCRIPTORS:
        yield causes.DESCRIPTORS, ns
    elif wait == waits.DMA_COPIES:
        prepares = min(ns, chip.dma_partial_copy_ns)
        yield causes.DMA_COPIES, prepares
        yield causes.DMA_LATENCY, ns - prepares
    elif wait == waits.DMA_QUEUE:
        # The trigger holds the queue: that is GpSimdE's time where it writes the descriptors.
        yield (causes.DESCRIPTORS if event.descriptors_ns else causes.DMA_TRIGGERS), ns
    elif after and (held := _held_back(after)):
        yield held, ns
    else:
        moves = min(ns, event.moves_ns)
        rate = event.bytes / event.moves_ns if event.moves_ns else 0.0
        yield (
            (causes.DMA_MOVES if rate >= 0.5 * chip.dma_core_bytes_per_ns else causes.DMA_SLOW),
            moves,
        )
        yield causes.DMA_LATENCY, ns - moves


def _of_engine(
    chip: NeuronCore, event: Event, after: Event | None, ns: float
) -> Iterator[tuple[str, float]]:
    duration = event.end_ns - event.start_ns
    busy = min(ns, duration)
    if after and (held := _held_back(after)):
        yield held, busy
    elif event.instruction == "nisa.core_barrier":
        yield causes.BARRIER, busy
    else:
        name = ENGINE_NAMES[event.engine]
        is_small = duration < _small_ns(chip, event.engine)
        yield f"{name} {causes.COMPUTE}" + (f": {causes.SMALL}" if is_small else ""), busy
    rest = ns - busy
    if after and after.engine == "scalar" and rest >= chip.activation_table_ns:
        yield causes.TABLES, chip.activation_table_ns
        rest -= chip.activation_table_ns
    yield (causes.BARRIER if after and after.wait == waits.BARRIER else causes.LATENCY), rest


def _held_back(after: Event) -> str:
    """Returns the cause if the next event waits for memory or a port, not for data."""
    if after.wait == waits.REUSED:
        is_psum = after.operands.split(" ")[1:2] == ["psum"] or after.engine == "tensor"
        return causes.PSUM_REUSE if is_psum else causes.SBUF_REUSE
    if after.wait == waits.READ:
        return causes.READERS
    if after.wait == waits.NO_REORDER:
        return causes.NO_REORDER
    if after.wait in (waits.SBUF_PORT, waits.PSUM_PORT, waits.PSUM_BANK):
        return causes.PORTS
    return ""


def _small_ns(chip: NeuronCore, engine: str) -> float:
    """Returns the time below which half or more of an instruction's time is a fixed cost."""
    if engine == "tensor":
        return 2 * chip.matmul_min_cycles / chip.tensor_ghz
    start = chip.gpsimd_start_cycles if engine == "gpsimd" else chip.stream_start_cycles
    return (max(start, chip.stream_min_cycles) + start + 1) / chip.clock_ghz(engine)
