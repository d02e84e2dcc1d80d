"""A finder that makes ``import nki`` load the simulator where there is no real package.

This module needs the standard library only. The simulator and NumPy load when ``nki`` is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType

SIMULATOR_VARIABLE = "TRNFFT_SIMULATOR"  # 1: use the simulator, even if the real nki is installed

PLACEHOLDER_MARK = "WRONG PACKAGE"  # in the placeholder's ImportError, and in its description
_PLACEHOLDER_BYTES = 4096  # nki 0.0.1 on the public index has a single line


class NkiFinder(MetaPathFinder, Loader):
    """A finder at the front of ``sys.meta_path`` that asks all other finders first.

    It finds the simulator if the other finders find no ``nki``, a placeholder of that name, or a
    folder without ``__init__.py``, whose modules remain importable. If TRNFFT_SIMULATOR is 1, it
    always finds the simulator.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the simulator's spec for "nki"; None for a real package and all other names."""
        if name in ("neuronxcc", "neuronxcc.nki"):
            _refuse_neuronxcc(name, path)
            return None
        nki = sys.modules.get("nki")
        if name == "nki.compiler" and hasattr(nki, "__simulator__") and hasattr(nki, "compiler"):
            return ModuleSpec(name, self)  # in releases of NKI that have it
        if name.startswith(("nki.", "nki_kernels.simulator.")):
            _refuse_missing(name, path)
            return None
        if name != "nki":
            return None
        installed = installed_spec()
        if not _is_simulated(installed):
            return None
        spec = ModuleSpec("nki", self, is_package=True)
        if installed is not None and installed.origin is None:
            spec.submodule_search_locations = list(installed.submodule_search_locations or ())
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the module ``nki``, and registers its submodules like ``simulator.install``."""
        if spec.name == "nki.compiler":
            return sys.modules["nki"].compiler  # type: ignore[no-any-return]
        from nki_kernels.simulator.install import simulated_nki

        modules = simulated_nki()
        nki = modules.pop("nki")
        nki.__path__ = list(spec.submodule_search_locations or ())
        sys.modules.update(modules)
        return nki

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing, because the module is complete."""


def _refuse_neuronxcc(name: str, path: Sequence[str] | None) -> None:
    """Raises an error that says what to import, unless neuronxcc exists or is only looked up."""
    if not _is_asked() and _others_spec(name, path) is None:
        from nki_kernels.removed_api import NEURONXCC

        raise ModuleNotFoundError(
            f"No module named {name!r}: neuronxcc.nki was {NEURONXCC}", name=name
        )


def _refuse_missing(name: str, path: Sequence[str] | None) -> None:
    """Raises an ImportError for a missing name, as in ``from nki.language import arange``.

    For such an import Python looks up a module nki.language.arange, and its own error would not say
    what to write instead.
    """
    if not getattr(sys.modules.get("nki"), "__simulator__", False) or _is_asked():
        return
    from nki_kernels.removed_api import SHORT, public_names, removed_name, unknown

    owner, _, last = name.rpartition(".")
    module = owner.replace("nki_kernels.simulator", "nki", 1)
    if removed := removed_name(f"{module}.{last}"):
        raise ImportError(f"{module}.{last} was {removed}")
    if module in SHORT and owner in sys.modules and _others_spec(name, path) is None:
        raise ImportError(unknown(module, last, public_names(sys.modules[owner])))


def _is_asked() -> bool:
    """Returns whether ``importlib.util.find_spec`` looks up a module without importing it."""
    caller: FrameType | None = sys._getframe(1)
    while caller and caller.f_globals.get("__name__") in (__name__, "importlib._bootstrap"):
        caller = caller.f_back
    return caller is not None and caller.f_globals.get("__name__") == "importlib.util"


def answer() -> NkiFinder:
    """Puts a finder at the front of ``sys.meta_path``, unless there is one, and returns it."""
    found = next((finder for finder in sys.meta_path if isinstance(finder, NkiFinder)), None)
    if found is None:
        found = NkiFinder()
        sys.meta_path.insert(0, found)
    return found


def is_simulated() -> bool:
    """Returns whether ``import nki`` loads the simulator, given the packages and the variable."""
    return _is_simulated(installed_spec())


def _is_simulated(installed: ModuleSpec | None) -> bool:
    return os.environ.get(SIMULATOR_VARIABLE) == "1" or not is_real(installed)


def installed_spec() -> ModuleSpec | None:
    """Returns the spec that other finders find for ``nki``, or None."""
    return _others_spec("nki")


def _others_spec(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if not isinstance(finder, NkiFinder) and hasattr(finder, "find_spec"):
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
