"""The distribution that holds this package: its name, its version, and how to install its extras.

Several distributions may hold the simulator, so that the installed one is asked for, by the entry
point of its plugin of pytest.
"""

from __future__ import annotations

from importlib.metadata import Distribution, entry_points


def _installed() -> Distribution | None:
    # None: no distribution is installed, as in a checkout on the path.
    found = entry_points(group="pytest11", name="nki_sim")
    return next((point.dist for point in found if point.dist is not None), None)


def name_and_version() -> str:
    """Returns name and version of the installed distribution, or "" where none is installed."""
    found = _installed()
    return f"{found.name} {found.version}" if found else ""


def packages() -> set[str]:
    """Returns the names of the packages and modules of the installed distribution."""
    found = _installed()
    return {"nki_sim", *((found and found.read_text("top_level.txt")) or "").split()}


def from_extra(extra: str) -> str:
    """Returns the end of a sentence about a missing package, which an extra installs.

    Args:
        extra: name of the extra, as in pyproject.toml.
    """
    found = _installed()
    name = found.name if found else "nki-sim"
    return (
        f'which the extra "{extra}" of {name} installs: in its checkout, pip install '
        f'".[{extra}]"; with a wheel, pip install "FILE.whl[{extra}]"'
    )
