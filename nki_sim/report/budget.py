"""Budgets of a timeline: limits on its numbers, and the error about numbers above a limit."""

from __future__ import annotations

import math
from numbers import Real
from pathlib import Path
from typing import Any

from nki_sim.timeline.recording import Recording

from .timeline_summary import summary

_UNITS = {
    "total_ns": " ns modelled",
    "hbm_bytes": " bytes",
    "hbm_scratch_bytes": " bytes",
    "dma_bytes": " bytes",
    "dma_descriptors": "",
    "instructions": "",
    "sbuf_peak_bytes": " bytes a partition",
    "psum_peak_banks": " banks",
}
_SHOWN = 4  # entries of the critical path


def assert_within(
    timeline: Recording,
    *,
    total_ns: float | None = None,
    hbm_bytes: float | None = None,
    hbm_scratch_bytes: float | None = None,
    dma_bytes: float | None = None,
    dma_descriptors: float | None = None,
    instructions: float | None = None,
    sbuf_peak_bytes: float | None = None,
    psum_peak_banks: float | None = None,
) -> None:
    """Raises AssertionError if the timeline exceeds a limit; a value equal to a limit is allowed.

    The limits have the names and units of the timeline's attributes. Over several launches they are
    sums, except for the three limits on memory, which are maxima. ``sbuf_peak_bytes`` is for one
    partition.

    Raises:
        AssertionError: a limit is exceeded. The message lists every such limit, and what bounds the
            time.
        ValueError: a limit is not a number of at least 0, there is no limit, or no kernel was
            recorded.
    """
    __tracebackhide__ = True
    given = {name: value for name, value in locals().items() if name in _UNITS}
    limits = {name: _limit(name, value) for name, value in given.items() if value is not None}
    if not limits:
        raise ValueError(
            f"assert_within needs at least one limit; its limits are {', '.join(_UNITS)}"
        )
    if not timeline.launches:
        raise ValueError(
            "assert_within found no recorded kernel: run a kernel in the simulator while the "
            "timeline records"
        )
    exceeded = []
    for name, limit in limits.items():
        value = getattr(timeline, name)
        if value > limit:
            more = f" ({value / limit - 1:.0%} more)" if limit else ""
            numbers = f"{value:,.0f}{_UNITS[name]}, the limit is {limit:,.10g}{more}"
            exceeded.append(f"  {name} is {numbers}")
    if exceeded:
        several = "s" if len(limits) > 1 else ""
        head = f"{len(exceeded)} of {len(limits)} budget{several} exceeded on {timeline.where}:"
        path = summary(timeline)["critical_path"][:_SHOWN]
        lines = ["the critical path, modelled:", *[_on_path(entry, timeline) for entry in path]]
        raise AssertionError("\n".join([head, *exceeded, *lines]))


def _limit(name: str, value: float) -> float:
    """Returns ``value`` as a limit; raises ValueError if it is not a number of at least 0."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:
        raise ValueError(
            f"argument {name!r} of assert_within is {value!r}, allowed is a number of at least 0"
        )
    return float(value)


def _on_path(entry: dict[str, Any], timeline: Recording) -> str:
    """Returns a line about the instructions of one source line, engine and wait."""
    source = entry["source"]
    place = f" at {Path(source['file']).name}:{source['line']}" if source else ""
    wait = f" ({entry['wait']})" if entry["wait"] else ""
    share = f"{entry['ns']:,.0f} ns, {entry['ns'] / timeline.total_ns:.0%}"
    return f"  {share}: {entry['events']} {entry['name']}{place} on {entry['engine']}{wait}"
