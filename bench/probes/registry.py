"""All probes, by name."""

from __future__ import annotations

from bench.probes import (
    access_patterns,
    array_tiles,
    column_operands,
    device_loops,
    dynamic_rows,
    gpsimd,
    kernel_arguments,
    launches,
    logical_cores,
    narrow_products,
    psum_destinations,
    psum_groups,
    stationaries,
    transfers,
)
from bench.probes.probe import Probe
from bench.probes.report import COMPLEX

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
    column_operands,
    narrow_products,
    gpsimd,
    dynamic_rows,
    transfers,
)
PROBES: dict[str, Probe] = {probe.name: probe for topic in TOPICS for probe in topic.PROBES}


def chosen(names: tuple[str, ...]) -> list[Probe]:
    """Probes by name, all for none; ValueError for names that there are not.

    COMPLEX, which is no kernel, is a name and not among them: see `asks_tensors`.
    """
    known = (*PROBES, COMPLEX)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"argument 'PROBE' is {unknown[0]!r}, allowed are {', '.join(known)}")
    return [probe for name, probe in PROBES.items() if not names or name in names]


def asks_tensors(names: tuple[str, ...]) -> bool:
    """Whether COMPLEX is among the names."""
    return not names or COMPLEX in names
