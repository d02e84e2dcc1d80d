"""The names that modules had before the simulator was the package nki_sim, and kernels had folders.

The old names work for one release, with a warning. `nki_kernels.simulator.x` is `nki_sim.x`, or `x`
in the folder of nki_sim that holds this file now; `nki_kernels.lint`, `nki_kernels.hardware` and
the other modules without kernels have the same names in nki_sim. `nki_kernels.kernels.x` is `x` in
one of the folders of nki_kernels, and `nki_kernels.nki_api` is `nki_kernels.isa`. A module under an
old name is a stand-in that has the names of the new one, and those that went from it to other
files.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType
from typing import Any

_OLD = "nki_kernels"
_NEW = "nki_sim"
_SIMULATOR = f"{_OLD}.simulator"
_OTHERS = {
    *("distributions", "hardware", "lint", "measured_times", "neuron_packages", "nki_finder"),
    *("pytest_plugin", "releases", "removed_api", "syntax_names", "tensor_arithmetic"),
    *("time_range", "whole_file"),
}
_FOLDERS = {
    "views": "access_patterns layout no_arithmetic register scalar shadow tensor",
    "instructions": "instruction_notes issue issue_cache origins work",
    "rules": """
    accesses accumulation core_hazards device_rules dma_written full_memory hazards lost_outputs
    register_lives unwritten
    """,
    "launch": "indirect kernel launch_arguments pair session tracebacks turns",
    "timeline": """
    budget critical_path device_loops dma_over_time engines memory_over_time memory_reuse
    pair_schedule perfetto schedule timeline timeline_summary waits
    """,
}
# The files and folders of the simulator that lie at the top of nki_sim.
_AT_THE_TOP = {
    *("__main__", "arguments", "commands", "compiler", "dtypes", "enums", "errors", "isa"),
    *("language", "operators", "report", "typing"),
}
_IN_FOLDER = {name: folder for folder, names in _FOLDERS.items() for name in names.split()}
_ROOMS = ("fft", "real", "nd", "convolution")  # of kernels
_RENAMED = {"install": "nki_sim.nki_finder", "order": "nki_sim.launch.instruction_order"}
# Files to which names of other files went.
_ALSO = (
    *("errors", "running", "installed_nki", "modules", "nki_finder", "launch.simulation"),
    *("launch.recorded", "timeline.placed", "timeline.recording", "timeline.timeline"),
)


def new_name(name: str) -> str | None:
    """Returns the name that a module has now, or None for a module that has not moved."""
    top, *inner = name.split(".")
    if top == _OLD and inner[:1] == ["kernels"]:
        return _kernel(inner[1:])
    if top == _OLD and inner == ["nki_api"]:
        return f"{_OLD}.isa"
    if top != _OLD or not inner or inner[0] not in {"simulator", *_OTHERS}:
        return None
    if inner[0] == "simulator":
        inner = inner[1:]
        file = inner[0] if inner else ""
        if file in _RENAMED:
            return _RENAMED[file] if len(inner) == 1 else None
        if file in _IN_FOLDER:
            inner.insert(0, _IN_FOLDER[file])
        elif file and file not in _AT_THE_TOP:
            return None
    new = ".".join([_NEW, *inner])
    try:
        return new if find_spec(new) else None
    except (ModuleNotFoundError, ValueError):
        return None


def _kernel(inner: Sequence[str]) -> str | None:
    """Returns the name of a kernel's module, or the name of the package that has all kernels."""
    if not inner:
        return _OLD
    names = (".".join([_OLD, room, *inner]) for room in _ROOMS if len(inner) == 1)
    return next((name for name in names if find_spec(name)), None)


class _StandIn(ModuleType):
    """A module under its old name, which reads and writes the names of the new one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        home = importlib.import_module(self.__home__)
        if self.__home__ == _NEW and name not in home.__all__:
            inner = f"{self.__name__}.{name}"
            if new_name(inner):
                return importlib.import_module(inner)
        for found in (home, *(importlib.import_module(f"{_NEW}.{other}") for other in _ALSO)):
            if hasattr(found, name):
                return getattr(found, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, _StandIn):
            super().__setattr__(name, value)
        else:
            setattr(importlib.import_module(self.__home__), name, value)

    def __dir__(self) -> list[str]:
        return dir(importlib.import_module(self.__home__))


class MovedFinder(MetaPathFinder, Loader):
    """A finder of the modules under their old names."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns a spec for an old name, after a warning; None for all other names."""
        new = new_name(name)
        if new is None:
            return None
        if not name.endswith(".__main__"):
            text = f"{name} is {new} now, and the old name goes with the next release"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        found = find_spec(new)
        is_package = found is not None and found.submodule_search_locations is not None
        return ModuleSpec(name, self, origin=new, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns a stand-in for the module."""
        made = _StandIn(spec.name, importlib.import_module(str(spec.origin)).__doc__)
        made.__home__ = str(spec.origin)
        made.__all__ = getattr(importlib.import_module(made.__home__), "__all__", None) or [
            name for name in dir(made) if not name.startswith("_")
        ]
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Prepares the stand-in of the simulator, whose function `install` was a module, too."""
        if module.__name__ == _SIMULATOR:
            # Python does not put a module that it has into its package, in place of the function.
            install = ModuleSpec(f"{_SIMULATOR}.install", self, origin=_RENAMED["install"])
            sys.modules.setdefault(install.name, importlib.util.module_from_spec(install))

    def get_code(self, name: str) -> CodeType:
        """Returns code for ``python -m`` with an old name, which runs the new one."""
        new = new_name(name)
        return compile(f"import runpy; runpy.run_module({new!r}, None, '__main__')", name, "exec")


def answer() -> None:
    """Puts the finder at the front of ``sys.meta_path``, unless there is one."""
    if not any(type(finder).__name__ == MovedFinder.__name__ for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedFinder())
