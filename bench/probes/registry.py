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
    moving_operands,
    narrow_products,
    psum_contents,
    psum_destinations,
    psum_groups,
    stationaries,
    transfers,
    transposes,
)
from bench.probes.probe import Probe
from bench.probes.report import COMPLEX

TOPICS = (
    launches,
    psum_groups,
    stationaries,
    psum_destinations,
    psum_contents,
    array_tiles,
    kernel_arguments,
    device_loops,
    access_patterns,
    logical_cores,
    moving_operands,
    column_operands,
    narrow_products,
    gpsimd,
    dynamic_rows,
    transfers,
    transposes,
)
PROBES: dict[str, Probe] = {probe.name: probe for topic in TOPICS for probe in topic.PROBES}


def chosen(names: tuple[str, ...]) -> list[Probe]:
    """Returns the named probes, or all probes if there is no name.

    The name COMPLEX is allowed but yields no probe, because it is no kernel: see `asks_tensors`.

    Raises:
        ValueError: a name is not known.
    """
    known = (*PROBES, COMPLEX)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"argument 'PROBE' is {unknown[0]!r}, allowed are {', '.join(known)}")
    return [probe for name, probe in PROBES.items() if not names or name in names]


def asks_tensors(names: tuple[str, ...]) -> bool:
    """Returns whether COMPLEX is among the names, or there is no name."""
    return not names or COMPLEX in names
