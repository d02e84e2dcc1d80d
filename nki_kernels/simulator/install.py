"""Finds the real ``nki``, and makes ``import nki`` load the simulator."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nki_kernels import releases
from nki_kernels.neuron_packages import how_to_install
from nki_kernels.nki_finder import PLACEHOLDER_MARK, SIMULATOR_VARIABLE, NkiFinder, answer
from nki_kernels.removed_api import no_attribute


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
        if spec is None or isinstance(spec.loader, NkiFinder):
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
    """Returns the real ``nki`` package, or None if it is absent or TRNFFT_SIMULATOR is 1.

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


def install() -> None:
    """Registers the simulator as ``nki``, ``nki.language``, ``nki.isa`` and so on.

    Raises RuntimeError if the real package is installed, which has its own ``nki.simulate``, and
    TRNFFT_SIMULATOR is not 1.
    """
    if real_nki() is not None:
        raise RuntimeError(
            "the real nki package is installed, and the simulator does not replace it: use its "
            f"nki.simulate(kernel), or set {SIMULATOR_VARIABLE}=1 to use the simulator"
        )
    for name in [n for n in sys.modules if n == "nki" or n.startswith("nki.")]:
        del sys.modules[name]
    sys.modules.update(simulated_nki())
    answer()  # its errors say what to import instead of neuronxcc.nki


def simulated_nki() -> dict[str, ModuleType]:
    """Returns the simulator's modules by the names that they have in the SDK."""
    from . import isa, language, typing
    from .compiler import public_name
    from .kernel import Kernel, jit, simulate

    nki = ModuleType("nki", "CPU simulator of the Neuron Kernel Interface (trnfft).")
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

    def refuse(*args: Any, **kwargs: Any) -> None:
        rule = "run it on hardware, or compute what the ranks exchange"
        raise NotImplementedError(
            f"nki.collectives.{name} is not simulated, because a launch is one device: {rule}"
        )

    return refuse
