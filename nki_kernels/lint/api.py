"""Which names and arguments NKI has: those of the simulator, which are the SDK's of NKI 0.6."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

from nki_kernels.removed_api import NAMES, SHORT, public_names, unknown

from .names import SIMULATOR


def _module(name: str) -> ModuleType:
    return importlib.import_module(name.replace("nki", SIMULATOR, 1))


def missing(path: str) -> tuple[str, str] | None:
    """The rule and the message for the full name of something that NKI does not have."""
    module = next((name for name in SHORT if path.startswith(f"{name}.")), "nki")
    name = path.removeprefix(f"{module}.").partition(".")[0]
    if f"{module}.{name}" in NAMES:
        return "removed", unknown(module, name, [])
    if module == "nki" or hasattr(_module(module), name):
        return None
    return "unknown-name", unknown(module, name, public_names(_module(module)))


def arguments(module: str, function: str) -> list[str]:
    """The parameters of a function of ``nki.language`` or ``nki.isa`` today."""
    found = getattr(_module(module), function, None)
    return list(inspect.signature(found).parameters) if inspect.isfunction(found) else []
