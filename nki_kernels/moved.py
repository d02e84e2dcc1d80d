"""The names that the simulator's modules had before they became the package nki_sim.

These names work for one release, with a warning. `nki_kernels.simulator.x` is `nki_sim.x`, or `x`
in the folder of nki_sim that holds this file now. `nki_kernels.lint`, `nki_kernels.hardware` and
the other modules without kernels have the same names in nki_sim.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

_SIMULATOR = "nki_kernels.simulator"
_FOLDERS = ("", "views.", "instructions.", "rules.", "launch.", "timeline.")
_OTHERS = {
    *("distributions", "hardware", "lint", "measured_times", "neuron_packages", "nki_finder"),
    *("pytest_plugin", "releases", "removed_api", "syntax_names", "tensor_arithmetic"),
    *("time_range", "whole_file"),
}
_RENAMED = {f"{_SIMULATOR}.install": "nki_sim.nki_finder"}


def new_name(name: str) -> str | None:
    """Returns the name that a module has now, or None for a module that has not moved."""
    top, _, rest = name.partition(".")
    if top != "nki_kernels" or rest.partition(".")[0] not in {"simulator", *_OTHERS}:
        return None
    if name in _RENAMED:
        return _RENAMED[name]
    if name == _SIMULATOR:
        return "nki_sim"
    inner = rest.removeprefix("simulator.")
    folders = _FOLDERS if inner != rest else _FOLDERS[:1]
    names = (f"nki_sim.{folder}{inner}" for folder in folders)
    return next((found for found in names if importlib.util.find_spec(found)), None)


class MovedFinder(MetaPathFinder, Loader):
    """A finder of the modules under their old names, which loads them under their new ones."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns a spec for an old name, after a warning; None for all other names."""
        new = new_name(name)
        if new is None:
            return None
        warnings.warn(
            f"{name} is {new} now, and the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        is_package = importlib.util.find_spec(new).submodule_search_locations is not None  # type: ignore[union-attr]
        return ModuleSpec(name, self, origin=new, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the module itself, so that both names are of one object."""
        module = importlib.import_module(str(spec.origin))
        spec.loader_state = module.__spec__  # Python is about to replace it
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module its own spec back; the module has run already."""
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = spec.loader_state

    def get_code(self, name: str) -> CodeType | None:
        """Returns the code of a module, for ``python -m`` with an old name."""
        spec = importlib.util.find_spec(str(new_name(name)))
        return spec.loader.get_code(spec.name)  # type: ignore[union-attr, no-any-return]


def answer() -> None:
    """Puts the finder at the front of ``sys.meta_path``, unless it is there."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedFinder())
