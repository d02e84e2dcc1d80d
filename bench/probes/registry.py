"""All probes, by name."""

from __future__ import annotations

from bench.probes import (
    access_patterns,
    array_tiles,
    device_loops,
    kernel_arguments,
    launches,
    logical_cores,
    psum_destinations,
    psum_groups,
    stationaries,
    transfers,
)
from bench.probes.probe import Probe

TOPICS = (
    launches,
    psum_groups,
    stationaries,
    psum_destinations,
    array_tiles,
    kernel_arguments,
    device_loops,
    access_patterns,
    logical_cores,
    transfers,
)
PROBES: dict[str, Probe] = {probe.name: probe for topic in TOPICS for probe in topic.PROBES}


def chosen(names: tuple[str, ...]) -> list[Probe]:
    """Probes by name, all for none; ValueError for names that there are not."""
    unknown = [name for name in names if name not in PROBES]
    if unknown:
        raise ValueError(f"argument 'PROBE' is {unknown[0]!r}, allowed are {', '.join(PROBES)}")
    return [probe for name, probe in PROBES.items() if not names or name in names]
