"""The Neuron SDK's Python packages: is nki the real one, and which versions are installed?"""

from __future__ import annotations

import platform
from importlib import metadata

from nki_kernels.neuron_packages import how_to_install
from nki_kernels.simulator.install import find_nki

INSTALL = how_to_install("nki", "neuronx-cc")
WITHOUT_NKI = {
    "absent": "nki is not installed",
    "placeholder": "the installed nki is the placeholder of the public index",
    "broken": "the installed nki cannot be imported",
}


def why_no_nki() -> str:
    """Why there is no real nki, and how to install it, in a sentence; "" where there is one."""
    found = find_nki()
    if found.state == "real":
        return ""
    reason = ": ".join(filter(None, (WITHOUT_NKI[found.state], found.error)))
    return f"{reason}; {INSTALL}"


def versions() -> dict[str, str | None]:
    """Versions of what decides what kernels become; None for what is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in ("numpy", "ml_dtypes", "nki", "neuronx-cc", "trnfft-nki"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found
