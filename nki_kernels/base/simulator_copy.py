"""Copies of this package's kernels for the simulator, for use where the real nki is installed.

A kernel is bound to one nki when it is imported. Where the real nki is installed, that is the real
one. Prices, dry runs and the backend "nki-sim" need the kernels in the simulator even there.
So their modules are imported a second time under another package name, which has the same files
and its own `isa`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from . import counting
from .tensor import Tensor

PACKAGE = __name__.removesuffix(".base.simulator_copy")  # may be part of another package
COPY = f"{PACKAGE}_in_simulator"


def simulator_copy(kernel: Any) -> Any | None:
    """Returns the simulator's copy of a kernel of this package, or None for other kernels."""
    # Found by identity, because the attributes of kernels of the real nki are not documented.
    for path, module in list(sys.modules.items()):
        if path.startswith(f"{PACKAGE}."):
            for name, value in vars(module).items():
                if value is kernel:
                    return getattr(copied_module(path), name)
    return None


def copied_module(path: str) -> ModuleType:
    """Returns the simulator's copy of the module ``path``, such as nki_kernels.x."""
    if COPY not in sys.modules:
        from nki_sim.import_nki.modules import simulated_nki  # loads the simulator

        package = importlib.import_module(PACKAGE)
        copy = ModuleType(COPY, package.__doc__)
        copy.__path__ = list(package.__path__)
        base = ModuleType(f"{COPY}.base")
        base.__path__ = [f"{folder}/base" for folder in package.__path__]
        api = ModuleType(f"{COPY}.base.isa")
        modules = simulated_nki()
        api.__dict__.update(
            REAL_NKI=False,
            nki=modules["nki"],
            nl=modules["nki.language"],
            nisa=counting.counted_isa(modules["nki.isa"]),
            Tensor=Tensor,
        )
        sys.modules.update({COPY: copy, base.__name__: base, api.__name__: api})
        sys.modules[f"{COPY}.base.counting"] = sys.modules[counting.__name__]
    return importlib.import_module(COPY + path.removeprefix(PACKAGE))
