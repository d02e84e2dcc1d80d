"""The data that the page's scripts draw.

They are the events as columns, the tracks with their lanes, and numbers over time.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from nki_sim.base.enums import ENGINE_NAMES
from nki_sim.timeline.critical_path import critical_shares
from nki_sim.timeline.engines import ENGINES
from nki_sim.timeline.memory_over_time import OverTime
from nki_sim.timeline.recording import Event, Recording


class _Words:
    """Keeps each text once, as many texts occur often. An event has the number of its text."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        found = self._numbers.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found


@dataclass
class _Track:
    """A row of the picture.

    The events of a lane do not overlap. ``lanes`` has the end of each lane's last event.
    """

    name: str
    engine: str
    core: int
    lanes: list[float] = field(default_factory=lambda: [0.0])

    def lane(self, event: Event) -> int:
        """Returns the first free lane. Events must come in the order of their starts."""
        for number, end in enumerate(self.lanes):
            if end <= event.start_ns:
                self.lanes[number] = event.end_ns
                return number
        self.lanes.append(event.end_ns)
        return len(self.lanes) - 1


def chart_data(timeline: Recording) -> dict[str, Any]:
    """Returns the data as types of JSON.

    Times are modelled nanoseconds since the first launch, exactly as in the timeline.
    """
    events = timeline.events
    cores = max((event.core for event in events), default=0) + 1
    tracks, places = _tracks(events, cores)
    words = _Words()
    indices = {(event.launch, event.core, event.number): event.index for event in events}
    warnings = [((w.launch, w.core, w.number), w.message) for w in timeline.warnings]
    path_ns: dict[int, float] = defaultdict(float)
    for share in critical_shares(timeline):
        path_ns[share.event.index] += share.ns
    return {
        "total_ns": timeline.total_ns,
        "cores": cores,
        "launches": _launches(timeline),
        "loops": _loops(timeline),
        "tracks": [
            {"name": t.name, "engine": t.engine, "core": t.core, "lanes": len(t.lanes)}
            for t in tracks
        ],
        "events": {
            **_columns(events, places, words),
            "path_ns": [path_ns.get(event.index) for event in events],
            # Only copies whose descriptors GpSimdE writes have an entry.
            "descriptors_end": [
                e.start_ns + e.descriptors_ns if e.descriptors_ns else None for e in events
            ],
        },
        "path": [event.index for event in timeline.critical_path],
        "warnings": [(indices[key], text) for key, text in warnings if key in indices],
        "words": words.texts,
        "counters": list(_counters(timeline, cores)),
    }


def short_source(file: str, line: int) -> str:
    """Returns a source line as tables show it: the file's name without its folder."""
    return f"{os.path.basename(file)}:{line}"


def _launches(timeline: Recording) -> list[dict[str, Any]]:
    spans = [timeline.span_of_launch(number) for number in range(timeline.launches)]
    return [
        {"name": name, "start": start, "end": end}
        for name, (start, end) in zip(timeline.kernels, spans, strict=True)
    ]


def _loops(timeline: Recording) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{loop.label}, {loop.trips} iterations",
            "core": loop.core,
            "start": loop.start_ns,
            "iteration_end": loop.iteration_end_ns,
            "end": loop.end_ns,
        }
        for loop in timeline.loops
    ]


def _tracks(events: list[Event], cores: int) -> tuple[list[_Track], list[tuple[int, int]]]:
    """Returns the tracks, also of idle engines, and (track, lane) of each event."""
    by_key: dict[tuple[int, int, str], _Track] = {}
    for core in range(cores):
        for rank, engine in enumerate(ENGINES[:-1]):
            by_key[core, rank, ""] = _Track(ENGINE_NAMES[engine], engine, core)
    for event in events:
        if event.engine == "dma":
            key = (event.core, ENGINES.index("dma"), event.queue)
            by_key.setdefault(key, _Track(event.queue, "dma", event.core))
    keys = sorted(by_key, key=lambda key: key[:2])  # queues in the order of their first use
    numbers = {key: number for number, key in enumerate(keys)}
    tracks = [by_key[key] for key in keys]
    places = [(0, 0)] * len(events)
    for event in sorted(events, key=lambda e: (e.start_ns, e.end_ns)):
        track = numbers[event.core, ENGINES.index(event.engine), event.queue]
        places[event.index] = track, tracks[track].lane(event)
    return tracks, places


def _columns(
    events: list[Event], places: list[tuple[int, int]], words: _Words
) -> dict[str, list[Any]]:
    """Returns a list for each field, in the order of ``Timeline.events``.

    Texts are given by their numbers.
    """
    sources = [event.source for event in events]
    texts: dict[str, Callable[[Event], str]] = {
        "name": lambda e: e.name,
        "instruction": lambda e: e.instruction,
        "operands": lambda e: e.operands,
        "wait": lambda e: e.wait,
    }
    numbers = (
        *("number", "core", "launch", "bytes", "descriptors", "latency_ns", "moves_ns"),
        *("macs", "times"),
    )
    return {
        "track": [track for track, _ in places],
        "lane": [lane for _, lane in places],
        "start": [event.start_ns for event in events],
        "end": [event.end_ns for event in events],
        "waited_for": [-1 if e.waited_for is None else e.waited_for for e in events],
        "source": [words.number(short_source(s.file, s.line) if s else "") for s in sources],
        "function": [words.number(s.function if s else "") for s in sources],
        "file": [words.number(s.file if s else "") for s in sources],
        **{key: [words.number(text(event)) for event in events] for key, text in texts.items()},
        **{key: [getattr(event, key) for event in events] for key in numbers},
    }


def _counters(timeline: Recording, cores: int) -> Iterator[dict[str, Any]]:
    """Yields memory and DMA over time, with a line for each core.

    ``most`` is the size or rate that the chip has.
    """
    kib, gb = ("KiB", "KiB", 1024), ("GB/s", "GB/s", 1)
    counters = (
        ("SBUF held by tiles over time", kib, "sbuf_partition_bytes", "a partition",
         timeline.sbuf_bytes_over_time),
        ("PSUM held by tiles over time", ("banks", "bank", 1), "psum_banks", "of a partition",
         timeline.psum_banks_over_time),
        ("DMA rate", gb, "dma_total_bytes_per_ns", "a core",
         timeline.dma_bytes_per_ns_over_time),
    )  # fmt: skip
    for name, (unit, one, scale), most, of, over_time in counters:
        lines = [over_time(core) for core in range(cores)]
        times = sorted({time for line in lines for time, _ in line})
        yield {
            "name": name,
            "unit": unit,
            "one": one,
            "scale": scale,
            "most": max((getattr(chip, most) for chip in timeline.chips), default=0),
            "of": of,
            "times": times,
            "values": [list(_values(line, times)) for line in lines],
        }


def _values(line: OverTime, times: list[float]) -> Iterator[float]:
    spans = list(pairwise([(float("-inf"), 0.0), *line, (float("inf"), 0.0)]))
    at = 0
    for time in times:
        while spans[at][1][0] <= time:
            at += 1
        yield spans[at][0][1]
