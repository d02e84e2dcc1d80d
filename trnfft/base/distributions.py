"""The distributions of this project: their names, and how to install their extras.

The library is ``trnfft-nki``, whose import name is trnfft. The simulator and the kernels alone are
``nki-sim``. On the public package index the name trnfft is another project's. Neither distribution
is on an index yet, so that messages name a checkout and a wheel.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

LIBRARY, SIMULATOR = "trnfft-nki", "nki-sim"
CHECKOUTS = {LIBRARY: ".", SIMULATOR: "./packages/nki_sim"}  # folders in a checkout


def version_of(distribution: str) -> str | None:
    """Returns the version of an installed distribution, or None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def installed() -> str:
    """Returns the name of the installed distribution that holds this package.

    The library is the answer where both are installed, and in a checkout where neither is.
    """
    is_alone = version_of(LIBRARY) is None and version_of(SIMULATOR) is not None
    return SIMULATOR if is_alone else LIBRARY


def from_extra(extra: str) -> str:
    """Returns the end of a sentence about a missing package, which an extra installs.

    Args:
        extra: name of the extra, as in pyproject.toml.
    """
    return f'which the extra "{extra}" of {installed()} installs: {how_to_install(extra)}'


def how_to_install(extra: str) -> str:
    """Returns how to install the installed distribution with an extra, in words and commands."""
    folder = CHECKOUTS[installed()]
    return (
        f'in a checkout, pip install "{folder}[{extra}]"; with a wheel, '
        f'pip install "FILE.whl[{extra}]"'
    )
