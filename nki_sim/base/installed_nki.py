"""Which ``nki`` is installed: the real package, the public index's placeholder, or none.

This module needs the standard library only.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from nki_sim.base.neuron_packages import how_to_install

SIMULATOR_VARIABLE = "NKI_SIM_ALWAYS"  # 1: use the simulator, even if the real nki is installed

PLACEHOLDER_MARK = "WRONG PACKAGE"  # in the placeholder's ImportError, and in its description
_PLACEHOLDER_BYTES = 4096  # nki 0.0.1 on the public index has a single line
# Functions that return the simulator's copy of a kernel of the real nki, or None for others.
COPIES: list[Callable[[Any], Any]] = []
OF_SIMULATOR = "is_of_simulator"  # an attribute of the finder that finds the simulator


@dataclass(frozen=True)
class FoundNki:
    """The package that ``import nki`` finds.

    Attributes:
        state: "real", "placeholder", "broken" or "absent". The package on the public index is a
            placeholder: nki 0.0.1 raises an ImportError that begins with "WRONG PACKAGE". A module
            without ``jit`` also counts as a placeholder.
        module: the module, or None if it could not be imported.
        error: the reason why the import of a broken package failed.
    """

    state: str
    module: ModuleType | None = None
    error: str = ""


def find_nki() -> FoundNki:
    """Returns what is installed under the name ``nki``; the simulator counts as absent."""
    module = sys.modules.get("nki")
    if module is None:
        spec = importlib.util.find_spec("nki")
        if spec is None or hasattr(spec.loader, OF_SIMULATOR):
            return FoundNki("absent")
        try:
            module = importlib.import_module("nki")
        except Exception as error:  # a partly installed SDK may raise anything
            is_placeholder = isinstance(error, ImportError) and PLACEHOLDER_MARK in str(error)
            return FoundNki("placeholder" if is_placeholder else "broken", error=str(error))
    if getattr(module, "__simulator__", False):
        return FoundNki("absent")
    return FoundNki("real" if hasattr(module, "jit") else "placeholder", module)


def real_nki() -> ModuleType | None:
    """Returns the real ``nki`` package, or None if it is absent or NKI_SIM_ALWAYS is 1.

    A package that cannot be imported counts as absent, with a warning.
    """
    if os.environ.get(SIMULATOR_VARIABLE) == "1":
        return None
    found = find_nki()
    if found.state == "broken":
        warnings.warn(
            f"the installed nki cannot be imported ({found.error}), so the simulator is used "
            f"instead; to install nki again: {how_to_install('nki')}",
            stacklevel=2,
        )
    return found.module if found.state == "real" else None


def is_simulated() -> bool:
    """Returns whether ``import nki`` loads the simulator, given the packages and the variable."""
    return is_simulated_for(installed_spec())


def is_simulated_for(installed: ModuleSpec | None) -> bool:
    """Returns whether the simulator is used where ``installed`` is what other finders find."""
    return os.environ.get(SIMULATOR_VARIABLE) == "1" or not is_real(installed)


def installed_spec() -> ModuleSpec | None:
    """Returns the spec that other finders find for ``nki``, or None."""
    return others_spec("nki")


def others_spec(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
    """Returns what the finders other than the simulator's find for a name, or None."""
    for finder in sys.meta_path:
        if not hasattr(finder, OF_SIMULATOR) and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path)
            if spec is not None:
                return spec
    return None


def is_real(spec: ModuleSpec | None) -> bool:
    """Returns whether ``spec`` is that of a package, and not of the public index's placeholder."""
    if spec is None or spec.origin is None:
        return False
    try:
        with Path(spec.origin).open("rb") as file:
            return PLACEHOLDER_MARK.encode() not in file.read(_PLACEHOLDER_BYTES)
    except OSError:  # for example in an archive, where the placeholder never is
        return True
