"""Which distribution the simulator is of."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def version_text() -> str:
    """Name and version of the installed distribution; "" where none is."""
    for name in ("trnfft-kernels", "trnfft"):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return ""
