"""All probes, by name."""

from __future__ import annotations

from bench.probes import copies, engines, launches, narrow_products, products
from bench.probes.probe import Probe
from bench.probes.report import COMPLEX

TOPICS = (launches, products, narrow_products, engines, copies)
PROBES: dict[str, Probe] = {probe.name: probe for topic in TOPICS for probe in topic.PROBES}


def chosen(names: tuple[str, ...]) -> list[Probe]:
    """Returns the named probes, or all probes if there is no name.

    The name COMPLEX is allowed but yields no probe, because it is no kernel.

    Raises:
        ValueError: a name is not known.
    """
    known = (*PROBES, COMPLEX)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"argument 'PROBE' is {unknown[0]!r}, allowed are {', '.join(known)}")
    return [probe for name, probe in PROBES.items() if not names or name in names]
