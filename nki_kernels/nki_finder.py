"""Answers ``import nki`` by the simulator where no real package is found.

Needs the standard library only: the simulator, and NumPy with it, load when ``nki`` is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType

SIMULATOR_VARIABLE = "TRNFFT_SIMULATOR"  # 1: the simulator, even where the real nki is installed

PLACEHOLDER_MARK = "WRONG PACKAGE"  # in the placeholder's ImportError, and in its description
_PLACEHOLDER_BYTES = 4096  # nki 0.0.1 on the public index is one line


class NkiFinder(MetaPathFinder, Loader):
    """A finder for the front of ``sys.meta_path``. It asks all the others first.

    It answers where these find no ``nki``, a placeholder of that name, or a folder without
    ``__init__.py``, whose modules stay importable; where TRNFFT_SIMULATOR is 1, in any case.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The simulator's spec for "nki"; None for a real package and for all other names."""
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
        """The module ``nki``. Its submodules are registered as in ``simulator.install``."""
        if spec.name == "nki.compiler":
            return sys.modules["nki"].compiler  # type: ignore[no-any-return]
        from nki_kernels.simulator.install import simulated_nki

        modules = simulated_nki()
        nki = modules.pop("nki")
        nki.__path__ = list(spec.submodule_search_locations or ())
        sys.modules.update(modules)
        return nki

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


def _refuse_neuronxcc(name: str, path: Sequence[str] | None) -> None:
    """An ImportError that says what to import, unless it is there or somebody only asks for it."""
    if not _is_asked() and _others_spec(name, path) is None:
        from nki_kernels.removed_api import NEURONXCC

        raise ModuleNotFoundError(
            f"No module named {name!r}: neuronxcc.nki was {NEURONXCC}", name=name
        )


def _refuse_missing(name: str, path: Sequence[str] | None) -> None:
    """An ImportError for ``from nki.language import arange``, where an AttributeError has no text.

    Python asks for a module of that name, in the package that the simulator's module is.
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
    """Whether ``importlib.util.find_spec`` only asks for a module."""
    caller: FrameType | None = sys._getframe(1)
    while caller and caller.f_globals.get("__name__") in (__name__, "importlib._bootstrap"):
        caller = caller.f_back
    return caller is not None and caller.f_globals.get("__name__") == "importlib.util"


def answer() -> NkiFinder:
    """Put a finder to the front of ``sys.meta_path``, and return it; the one there, if there is."""
    found = next((finder for finder in sys.meta_path if isinstance(finder, NkiFinder)), None)
    if found is None:
        found = NkiFinder()
        sys.meta_path.insert(0, found)
    return found


def is_simulated() -> bool:
    """Whether an NkiFinder answers ``import nki``, given what is installed and TRNFFT_SIMULATOR."""
    return _is_simulated(installed_spec())


def _is_simulated(installed: ModuleSpec | None) -> bool:
    return os.environ.get(SIMULATOR_VARIABLE) == "1" or not is_real(installed)


def installed_spec() -> ModuleSpec | None:
    """What other finders find under the name ``nki``; None where they find nothing."""
    return _others_spec("nki")


def _others_spec(name: str, path: Sequence[str] | None = None) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if not isinstance(finder, NkiFinder) and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path)
            if spec is not None:
                return spec
    return None


def is_real(spec: ModuleSpec | None) -> bool:
    """Whether ``spec`` is of a package, and not of the public index's placeholder."""
    if spec is None or spec.origin is None:
        return False
    try:
        with Path(spec.origin).open("rb") as file:
            return PLACEHOLDER_MARK.encode() not in file.read(_PLACEHOLDER_BYTES)
    except OSError:  # in an archive, say: no placeholder is
        return True
