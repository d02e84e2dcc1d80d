"""Make ``import nki`` resolve to the simulator."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any


def real_nki() -> ModuleType | None:
    """The real ``nki`` package, or None where it is absent or the empty placeholder.

    The name on the public index (nki 0.0.1) is a placeholder without ``jit``.
    """
    module = sys.modules.get("nki")
    if module is None:
        if importlib.util.find_spec("nki") is None:
            return None
        module = importlib.import_module("nki")
    if getattr(module, "__simulator__", False) or not hasattr(module, "jit"):
        return None
    return module


def install() -> None:
    """Register the simulator as ``nki``, ``nki.language``, ``nki.isa`` and ``nki.typing``.

    Raises RuntimeError where the real package is installed: it has its own ``nki.simulate``.
    """
    if real_nki() is not None:
        raise RuntimeError(
            "the real nki package is installed, so the simulator does not replace it: use "
            "nki.simulate(kernel), or an environment without the Neuron SDK"
        )
    for name in [n for n in sys.modules if n == "nki" or n.startswith("nki.")]:
        del sys.modules[name]
    sys.modules.update(simulated_nki())


def simulated_nki() -> dict[str, ModuleType]:
    """The simulator's modules by the names the SDK gives them."""
    from . import isa, language, typing
    from .kernel import Kernel, jit, simulate

    nki = ModuleType("nki", "CPU simulator of the Neuron Kernel Interface (trnfft).")
    collectives = ModuleType("nki.collectives", "Not simulated: one NeuronCore.")
    contents: dict[str, Any] = {
        "__simulator__": True,
        "__path__": [],
        "__version__": "0.6.0",
        "dtype": str,
        "jit": jit,
        "simulate": simulate,
        "Kernel": Kernel,
        "language": language,
        "isa": isa,
        "typing": typing,
        "collectives": collectives,
    }
    nki.__dict__.update(contents)
    collectives.__getattr__ = _no_collective  # type: ignore[method-assign]
    return {
        "nki": nki,
        "nki.language": language,
        "nki.isa": isa,
        "nki.typing": typing,
        "nki.collectives": collectives,
    }


def _no_collective(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"nki.collectives.{name} is not simulated")

    return refuse
