"""A finder that makes ``import nki`` load the simulator where there is no real package.

This module needs the standard library only. The simulator and NumPy load when ``nki`` is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType

from nki_sim.base.installed_nki import (
    SIMULATOR_VARIABLE,
    installed_spec,
    is_simulated_for,
    others_spec,
    real_nki,
)


class NkiFinder(MetaPathFinder, Loader):
    """A finder at the front of ``sys.meta_path`` that asks all other finders first.

    It finds the simulator if the other finders find no ``nki``, a placeholder of that name, or a
    folder without ``__init__.py``, whose modules remain importable. If NKI_SIM_ALWAYS is 1, it
    always finds the simulator.
    """

    is_of_simulator = True

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
        if name.startswith(("nki.", "nki_sim.")):
            _refuse_missing(name, path)
            return None
        if name != "nki":
            return None
        installed = installed_spec()
        if not is_simulated_for(installed):
            return None
        spec = ModuleSpec("nki", self, is_package=True)
        if installed is not None and installed.origin is None:
            spec.submodule_search_locations = list(installed.submodule_search_locations or ())
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the module ``nki``, and registers its submodules like ``nki_sim.install``."""
        if spec.name == "nki.compiler":
            return sys.modules["nki"].compiler
        from nki_sim.import_nki.modules import simulated_nki

        modules = simulated_nki()
        nki = modules.pop("nki")
        nki.__path__ = list(spec.submodule_search_locations or ())
        sys.modules.update(modules)
        return nki

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing, because the module is complete."""


def _refuse_neuronxcc(name: str, path: Sequence[str] | None) -> None:
    """Raises an error that says what to import, unless neuronxcc exists or is only looked up."""
    if not _is_asked() and others_spec(name, path) is None:
        from nki_sim.base.removed_api import NEURONXCC

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
    from nki_sim.base.removed_api import SHORT, public_names, removed_name, unknown

    owner, _, last = name.rpartition(".")
    module = owner.replace("nki_sim", "nki", 1)
    if removed := removed_name(f"{module}.{last}"):
        raise ImportError(f"{module}.{last} was {removed}")
    if module in SHORT and owner in sys.modules and others_spec(name, path) is None:
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


def install() -> None:
    """Registers the simulator as ``nki``, ``nki.language``, ``nki.isa`` and so on.

    Raises RuntimeError if the real package is installed, which has its own ``nki.simulate``, and
    NKI_SIM_ALWAYS is not 1.
    """
    if real_nki() is not None:
        raise RuntimeError(
            "the real nki package is installed, and the simulator does not replace it: use its "
            f"nki.simulate(kernel), or set {SIMULATOR_VARIABLE}=1 to use the simulator"
        )
    from nki_sim.import_nki.modules import simulated_nki

    for name in [n for n in sys.modules if n == "nki" or n.startswith("nki.")]:
        del sys.modules[name]
    sys.modules.update(simulated_nki())
    answer()  # its errors say what to import instead of neuronxcc.nki
