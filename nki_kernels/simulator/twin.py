"""The kernels of this package, bound to the simulator, where the real nki has the first copy.

Kernels are bound to one nki when they are imported: to the real one where it is installed. Prices,
dry runs and the backend "nki-sim" need them in the simulator even there. So their modules are
imported once more under another package name, which has the same files and its own `nki_api`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from .install import simulated_nki

PACKAGE = __name__.removesuffix(".simulator.twin")  # which may lie in another package
TWIN = f"{PACKAGE}_in_simulator"
SHARED = ("hardware", "lint", "releases", "simulator")  # no kernels in them: one copy serves both


def twin(kernel: Any) -> Any | None:
    """The simulator's copy of a kernel of this package; None of any other kernel."""
    # By identity: which attributes the real nki gives its kernels is not documented.
    for path, module in list(sys.modules.items()):
        if path.startswith(f"{PACKAGE}.") and not path.startswith(f"{PACKAGE}.simulator"):
            for name, value in vars(module).items():
                if value is kernel:
                    return getattr(twin_module(path), name)
    return None


def twin_module(path: str) -> ModuleType:
    """The simulator's copy of a module of this package, named as the first: nki_kernels.x."""
    if TWIN not in sys.modules:
        package = importlib.import_module(PACKAGE)
        copy = ModuleType(TWIN, package.__doc__)
        copy.__path__ = list(package.__path__)
        api = ModuleType(f"{TWIN}.nki_api")
        modules = simulated_nki()
        api.__dict__.update(
            REAL_NKI=False,
            nki=modules["nki"],
            nl=modules["nki.language"],
            nisa=modules["nki.isa"],
        )
        for name in SHARED:
            importlib.import_module(f"{PACKAGE}.{name}")
        shared = tuple(f"{PACKAGE}.{name}." for name in SHARED)
        for loaded, module in list(sys.modules.items()):  # with the modules inside of them
            if f"{loaded}.".startswith(shared):
                sys.modules[TWIN + loaded.removeprefix(PACKAGE)] = module
        sys.modules.update({TWIN: copy, api.__name__: api})
    return importlib.import_module(TWIN + path.removeprefix(PACKAGE))
