"""Writes a timeline as a trace for ui.perfetto.dev, in Perfetto's own format.

Each core has a group of tracks: one for each engine, each DMA queue, each number over time, and the
loops on the device. Perfetto drops slices of a track that are neither nested nor disjoint.
Transfers of a queue overlap, and so do array tiles. Such a track therefore has several lanes, which
are tracks with the same name that the viewer shows as one. Times are rounded to nanoseconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from nki_sim.base.distribution import from_extra
from nki_sim.base.whole_file import write_whole
from nki_sim.timeline.engines import ENGINES
from nki_sim.timeline.memory_over_time import OverTime
from nki_sim.timeline.recording import Event, Recording

_SEQUENCE = 1  # Perfetto drops events without a sequence of packets
_MODELLED = "All times are modelled; none was measured on a chip."
_ABOUT = {
    "tensor": "The Tensor engine, which runs matrix products and transposes.",
    "vector": "The Vector engine.",
    "scalar": "The Scalar engine.",
    "gpsimd": "The GpSimd engine, which also writes the descriptors of DMA.",
    "dma": "The transfers of one queue, from trigger to last byte. They can overlap.",
    "loops": "The loops on the device. The trace shows the instructions of the first iteration.",
}


_Details = dict[str, str | int | float]


@dataclass
class _Slice:
    """A slice on a track, in whole nanoseconds, with the numbers of the arrows that touch it."""

    name: str
    start: int
    end: int
    details: _Details
    flows: list[int] = field(default_factory=list)
    track: int = 0


_Track = tuple[str, str, list[_Slice]]  # name, meaning, slices


class _Writer:
    """Writes packets of a trace to a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._builder = _builder()(file)
        self._tracks = 0

    def add_track(
        self, name: str, parent: int = 0, about: str = "", rank: int = 0, unit: str = ""
    ) -> int:
        """Adds a track, and returns its number.

        Without ``parent`` it is a group of tracks, and with a ``unit`` a quantity over time.
        """
        self._tracks += 1
        packet = self._builder.create_packet()
        track = packet.track_descriptor
        track.uuid, track.name = self._tracks, name
        track.description = f"{about} {_MODELLED}".strip()
        track.sibling_order_rank = rank
        if parent:
            track.parent_uuid = parent
        else:
            track.child_ordering = track.EXPLICIT
        if unit:
            track.counter.unit_name = unit
        self._builder.write_packet(packet)
        return self._tracks

    def write_slices(self, slices: list[_Slice]) -> None:
        """Writes all slices of the trace. At the same time, ends come before begins."""
        marks = [(s.start, 1, n) for n, s in enumerate(slices)]
        marks += [(s.end, 0 if s.end > s.start else 2, n) for n, s in enumerate(slices)]
        for time, kind, n in sorted(marks):
            found = slices[n]
            packet, event = self._event(found.track, time)
            if kind == 1:
                event.type, event.name = event.TYPE_SLICE_BEGIN, _text(found.name)
                event.flow_ids.extend(found.flows)
                for key, value in found.details.items():
                    _annotate(event, key, value)
            else:
                event.type = event.TYPE_SLICE_END
            self._builder.write_packet(packet)

    def write_counter(self, track: int, values: OverTime) -> None:
        """Writes the values of a counter."""
        for time, value in values:
            packet, event = self._event(track, round(time))
            event.type, event.double_counter_value = event.TYPE_COUNTER, value
            self._builder.write_packet(packet)

    def _event(self, track: int, time: int) -> tuple[Any, Any]:
        packet = self._builder.create_packet()
        packet.timestamp, packet.trusted_packet_sequence_id = time, _SEQUENCE
        packet.track_event.track_uuid = track
        return packet, packet.track_event


def save_perfetto(timeline: Recording, path: str | os.PathLike[str]) -> None:
    """Writes a timeline as a trace. `Timeline.save_perfetto` says what it raises."""
    _builder()
    write_whole(Path(path), lambda file: _write(timeline, _Writer(file)))


def _builder() -> Any:
    try:
        from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder
    except ImportError as error:
        raise ImportError(
            f"the trace needs the package perfetto, {from_extra('report')}"
        ) from error
    return StreamingTraceProtoBuilder


def _annotate(event: Any, key: str, value: str | int | float) -> None:
    entry = event.debug_annotations.add()
    entry.name = key
    if isinstance(value, str):
        entry.string_value = _text(value)
    elif isinstance(value, int):
        entry.int_value = value
    else:
        entry.double_value = value


def _text(text: str) -> str:
    # Names of files other than UTF-8 have surrogates, which protobuf refuses.
    return text.encode("utf-8", "replace").decode()


def _write(timeline: Recording, writer: _Writer) -> None:
    events = timeline.events
    slices = _slices(timeline, events)
    written = _descriptors(events)
    drawn: list[_Slice] = []
    counters: list[tuple[int, OverTime]] = []
    cores = max([event.core for event in events], default=0) + 1
    for core in range(cores):
        number = f" {core}" if cores > 1 else ""
        where = f" of {timeline.where}" if timeline.where else ""
        group = writer.add_track(f"NeuronCore{number}{where} (modelled)")
        mine = [(event, slices[event.index]) for event in events if event.core == core]
        descriptors = [one for event, one in written if event.core == core]
        tracks = [
            *([] if core else [_launches(timeline)]),
            *_engines(mine, descriptors),
            *_loops(timeline, core),
        ]
        for rank, (name, about, found) in enumerate(tracks):
            for lane in _lanes(found):
                track = writer.add_track(name, group, about, rank)
                for one in lane:
                    one.track = track
                drawn += lane
        for rank, (name, about, unit, values) in enumerate(_counters(timeline, core), len(tracks)):
            counters.append((writer.add_track(name, group, about, rank, unit), values))
    writer.write_slices(drawn)
    for track, values in counters:
        writer.write_counter(track, values)


def _launches(timeline: Recording) -> _Track:
    found = []
    for number, kernel in enumerate(timeline.kernels):
        start, end = timeline.span_of_launch(number)
        found.append(_Slice(kernel, round(start), round(end), {"launch": number}))
    return "launches", "", found


def _engines(mine: list[tuple[Event, _Slice]], descriptors: list[_Slice]) -> Iterator[_Track]:
    """Yields the tracks of all engines, also idle ones, and of the DMA queues."""
    for engine in ENGINES:
        also = descriptors if engine == "gpsimd" else []
        found = [(event.queue or engine, one) for event, one in mine if event.engine == engine]
        names = dict.fromkeys([name for name, _ in found] or [engine])
        for name in names:
            yield name, _ABOUT[engine], [one for queue, one in found if queue == name] + also


def _descriptors(events: list[Event]) -> list[tuple[Event, _Slice]]:
    """Returns a slice for each DMA whose descriptors GpSimdE writes."""
    found = []
    for event in [event for event in events if event.descriptors_ns]:
        details: _Details = {"descriptors_of": f"{event.name} {event.number}"}
        end = round(event.start_ns + event.descriptors_ns)
        one = _Slice("descriptors", round(event.start_ns), end, details)
        found.append((event, one))
    return found


def _loops(timeline: Recording, core: int) -> Iterator[_Track]:
    found = []
    for loop in timeline.loops:
        if loop.core == core:
            iteration = loop.iteration_end_ns - loop.start_ns
            name = f"{loop.label}, {loop.trips} iterations"
            details: _Details = {"trips": loop.trips, "iteration_ns": iteration}
            found.append(_Slice(name, round(loop.start_ns), round(loop.end_ns), details))
    if found:
        yield "loops on the device", _ABOUT["loops"], found


def _slices(timeline: Recording, events: list[Event]) -> list[_Slice]:
    """Returns a slice for each event, with arrows along the critical path."""
    warnings = {(w.launch, w.core, w.number): w.message for w in timeline.warnings}
    found = []
    for event in events:
        details = _details(event, events)
        warning = warnings.get((event.launch, event.core, event.number))
        if warning is not None:
            details["warning"] = warning
        start, end = round(event.start_ns), round(event.end_ns)
        found.append(_Slice(event.name, start, end, details))
    path = timeline.critical_path
    for number, (event, following) in enumerate(zip(path, path[1:], strict=False), 1):
        for one in (event, following):
            found[one.index].flows.append(number)
    return found


def _details(event: Event, events: list[Event]) -> _Details:
    """Returns the details of an event, under the names of the attributes of `Event`."""
    details: _Details = {"number": event.number, "instruction": event.instruction}
    if event.source is not None:
        details["source"] = f"{event.source} ({event.source.function})"
    if event.operands:
        details["operands"] = event.operands
    if event.waited_for is not None:
        other = events[event.waited_for]
        core = f" of core {other.core}" if other.core != event.core else ""
        details["wait"] = event.wait
        details["waited_for"] = f"{other.name} {other.number}{core}"
    for name in ("bytes", "descriptors", "hbm_bytes", "moves_ns", "macs"):
        if getattr(event, name):
            details[name] = getattr(event, name)
    if event.times != 1:
        details["times"] = event.times
    return details


def _lanes(slices: list[_Slice]) -> Iterable[list[_Slice]]:
    """Returns the slices of a track in one or more lanes, in each of which they are disjoint."""
    lanes: list[list[_Slice]] = [[]]
    for one in sorted(slices, key=lambda s: (s.start, s.end)):
        for lane in lanes:
            if not lane or lane[-1].end <= one.start:
                lane.append(one)
                break
        else:
            lanes.append([one])
    return lanes


def _counters(timeline: Recording, core: int) -> Iterator[tuple[str, str, str, OverTime]]:
    """Yields name, meaning, unit and values of each counter of a core."""
    about = "in use by tiles, each from its first use to its last."
    sbuf, psum = timeline.sbuf_bytes_over_time(core), timeline.psum_banks_over_time(core)
    yield "SBUF", f"The bytes of a partition {about}", "bytes", sbuf
    yield "PSUM", f"The banks {about}", "banks", psum
    about = "The bytes of a transfer are spread over the time of its movement."
    rates = timeline.dma_bytes_per_ns_over_time(core), timeline.hbm_bytes_per_ns_over_time(core)
    yield "DMA", f"The bytes that DMA moves in a nanosecond. {about}", "B/ns", rates[0]
    text = "The bytes read and written in HBM in a nanosecond."
    yield "HBM", f"{text} {about}", "B/ns", rates[1]
