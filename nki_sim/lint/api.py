"""The names and arguments of NKI, as the simulator has them in the current release."""

from __future__ import annotations

import ast
import importlib
import inspect
from types import ModuleType

from nki_sim.base.removed_api import SHORT, is_new, public_names, removed_name, signature, unknown

from .names import SIMULATOR


def _module(name: str) -> ModuleType:
    return importlib.import_module(name.replace("nki", SIMULATOR, 1))


def missing(path: str) -> tuple[str, str] | None:
    """Returns the rule and the message for a full name that NKI does not have, or None."""
    module = next((name for name in SHORT if path.startswith(f"{name}.")), "nki")
    name = path.removeprefix(f"{module}.").partition(".")[0]
    if removed_name(f"{module}.{name}"):
        return "removed", unknown(module, name, [])
    if module == "nki" or (hasattr(_module(module), name) and not is_new(f"{module}.{name}")):
        return None
    return "unknown-name", unknown(module, name, public_names(_module(module)))


def parameters(module: str, function: str) -> list[str]:
    """Returns the parameters of a function of ``nki.language`` or ``nki.isa``."""
    found = getattr(_module(module), function, None)
    return list(inspect.signature(found).parameters) if inspect.isfunction(found) else []


def misfit(module: str, function: str, call: ast.Call) -> str:
    """Returns Python's error about the arguments of a call, or "" if they fit."""
    found = getattr(_module(module), function, None)
    names = [keyword.arg for keyword in call.keywords]
    is_known = None not in names and not any(isinstance(a, ast.Starred) for a in call.args)
    if not (inspect.isfunction(found) and is_known):
        return ""
    try:
        inspect.signature(found).bind(*call.args, **dict.fromkeys(map(str, names)))
    except TypeError as error:
        return f"{error}; {signature(module, found)}"
    return ""
