"""What `suites.toml` says about one package."""

from __future__ import annotations

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FETCHED = Path(sys.prefix) / "suites"  # in .venv-others
MODES = ("patched", "split", "unpatched")


@dataclass(frozen=True)
class Suite:
    """The tests of a package; `suites.toml` explains the fields."""

    name: str
    tests: tuple[str, ...]
    through: str
    repository: str = ""
    commit: str = ""
    files: tuple[str, ...] = ()
    imports: str = ""
    needs: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder to which the names of `tests` are relative."""
        return FETCHED / self.name if self.repository else Path(sysconfig.get_path("purelib"))

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that this suite has."""
        return MODES if self.through == "patch_torch" else ("patched", "unpatched")


def suites() -> dict[str, Suite]:
    """Returns all suites by name."""
    return {name: Suite(name, **table) for name, table in read("suites.toml").items()}


def read(name: str) -> dict[str, Any]:
    """Returns what a TOML file of this folder contains."""
    import tomllib  # Python 3.11; the default tests import this module on 3.10, too

    return tomllib.loads((HERE / name).read_text("utf-8"))
