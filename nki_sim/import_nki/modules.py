"""The simulator's modules under the names that they have in the SDK: nki, nki.isa and so on."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from nki_sim import isa, language, typing
from nki_sim.base import releases
from nki_sim.base.removed_api import no_attribute
from nki_sim.launch.compiler import public_name
from nki_sim.launch.kernel import Kernel, jit
from nki_sim.launch.simulation import simulate


def simulated_nki() -> dict[str, ModuleType]:
    """Returns the simulator's modules by the names that they have in the SDK."""
    nki = ModuleType("nki", "CPU simulator of the Neuron Kernel Interface.")
    collectives = ModuleType("nki.collectives", "Not simulated, as a launch is one device.")
    compiler = ModuleType("nki.compiler", "Settings of the compiler for a kernel (NKI 0.7).")
    contents: dict[str, Any] = {
        "__simulator__": True,
        "__path__": [],
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
    nki.__getattr__ = _attributes(nki, compiler)  # type: ignore[method-assign]
    compiler.__getattr__ = public_name  # type: ignore[method-assign]
    collectives.__getattr__ = _no_collective  # type: ignore[method-assign]
    return {
        "nki": nki,
        "nki.language": language,
        "nki.isa": isa,
        "nki.isa.constants": isa.constants,
        "nki.typing": typing,
        "nki.collectives": collectives,
    }


def _attributes(nki: ModuleType, compiler: ModuleType) -> Callable[[str], Any]:
    """Returns the ``__getattr__`` of nki, for names that depend on the release or do not exist.

    The finder uses it for ``import nki.compiler``.
    """
    others = no_attribute(nki, "nki")

    def found(name: str) -> Any:
        if name == "__version__":
            return f"{releases.current()}.0"
        return compiler if name == "compiler" and releases.is_traced() else others(name)

    return found


def _no_collective(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def refuse(*args: object, **kwargs: object) -> None:
        rule = "run it on hardware, or compute what the ranks exchange"
        raise NotImplementedError(
            f"nki.collectives.{name} is not simulated, because a launch is one device: {rule}"
        )

    return refuse
