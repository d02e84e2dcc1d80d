"""The numbers of a timeline as types that JSON can hold."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nki_sim.timeline.critical_path import critical_shares
from nki_sim.timeline.engines import ENGINES
from nki_sim.timeline.recording import Recording


def summary(timeline: Recording) -> dict[str, Any]:
    """Returns the value of `Timeline.summary`."""
    total = timeline.total_ns
    return {
        "modelled": True,  # except for the times of launches, which others measured
        **_of(timeline, "total_ns", "low_ns", "high_ns", "written_ns", "reordered_ns"),
        "order_costs": [asdict(one) for one in timeline.order_costs],
        "on_scalar": {
            name: {"scalar": scalar, "vector": vector}
            for name, (scalar, vector) in timeline.on_scalar.items()
        },
        **_of(timeline, "with_launches_ns", "launch_notes", "where"),
        "chips": [
            {**asdict(chip), "ranges": [*map(asdict, chip.ranges)]} for chip in timeline.chips
        ],
        **_of(timeline, "launches", "kernels", "instructions"),
        "engine_busy_ns": dict(timeline.engine_busy_ns),
        "utilisation": {
            engine: timeline.engine_busy_ns[engine] / total if total else 0.0 for engine in ENGINES
        },
        **_of(timeline, "dma_bytes", "dma_descriptors", "hbm_bytes", "hbm_scratch_bytes", "macs"),
        "floors_ns": timeline.floors_ns(),
        **_of(timeline, "sbuf_peak_bytes", "psum_peak_banks"),
        "waived_rules": sorted(timeline.waived_rules),
        "warnings": [asdict(one) for one in timeline.warnings],
        "critical_path": _path(timeline),
    }


def _of(timeline: Recording, *names: str) -> dict[str, Any]:
    return {name: getattr(timeline, name) for name in names}


def _path(timeline: Recording) -> list[dict[str, Any]]:
    """Returns the critical path, summed over line, engine, name and wait, longest first."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for share in critical_shares(timeline):
        event = share.event
        key = (event.name, event.engine, event.queue, event.wait, event.source)
        entry = found.setdefault(
            key,
            {
                "name": event.name,
                "engine": event.engine,
                "queue": event.queue,
                "wait": event.wait,
                "source": None if event.source is None else asdict(event.source),
                "events": 0,
                "ns": 0.0,
            },
        )
        entry["events"] += event.times
        entry["ns"] += share.ns
    return sorted(found.values(), key=lambda entry: -entry["ns"])
