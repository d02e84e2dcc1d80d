"""Checks for the Neuron SDK's Python packages: the real nki, and the installed versions."""

from __future__ import annotations

import platform
from importlib import metadata

from nki_sim.base.installed_nki import find_nki
from nki_sim.base.neuron_packages import how_to_install

INSTALL = how_to_install("nki", "neuronx-cc")
WITHOUT_NKI = {
    "absent": "nki is not installed",
    "placeholder": "the installed nki is the placeholder of the public index",
    "broken": "the installed nki cannot be imported",
}


def why_no_nki() -> str:
    """Returns why there is no real nki, and how to install it; "" where there is one."""
    found = find_nki()
    if found.state == "real":
        return ""
    reason = ": ".join(filter(None, (WITHOUT_NKI[found.state], found.error)))
    return f"{reason}; {INSTALL}"


def versions() -> dict[str, str | None]:
    """Returns the versions of the packages that affect compiled kernels; None for absent ones."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in ("numpy", "ml_dtypes", "nki", "neuronx-cc", "trnfft-nki"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found
