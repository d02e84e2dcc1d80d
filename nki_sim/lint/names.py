"""Resolves the names in a function to modules, objects, and full names of APIs."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import MutableMapping, MutableSequence, MutableSet
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any

# The customary names. They hold even if a stand-in replaces the real module.
ALIASES = {
    "nki": "nki",
    "nl": "nki.language",
    "nisa": "nki.isa",
    "ncc": "nki.collectives",
    "np": "numpy",
    "numpy": "numpy",
}
SIMULATOR = __name__.removesuffix(".lint.names")
LIBRARIES = frozenset({"nki", "neuronxcc", "numpy", "ml_dtypes"}) | sys.stdlib_module_names
UNKNOWN = object()


@dataclass(frozen=True)
class Names:
    """The names in a function.

    Attributes:
        globals: the names of its module, with their values.
        locals: the names that the function binds.
    """

    globals: dict[str, Any]
    locals: frozenset[str]

    def resolve(self, node: ast.expr) -> Any:
        """Returns the global object that `name` or `module.name` stands for, or UNKNOWN."""
        if isinstance(node, ast.Name) and node.id not in self.locals:
            outside = vars(builtins).get(node.id, UNKNOWN)
            return self.globals.get(node.id, outside)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            if isinstance(base, ModuleType):
                return vars(base).get(node.attr, UNKNOWN)
        return UNKNOWN

    def path(self, node: ast.expr) -> str:
        """Returns the full name of an API, such as `nki.language.mod` for `nl.mod`, or ''."""
        value = self.resolve(node)
        if isinstance(value, ModuleType):
            return _in_sdk(value.__name__)
        if isinstance(node, ast.Attribute):
            base = self.path(node.value)
            return f"{base}.{node.attr}" if base else ""
        if isinstance(node, ast.Name) and node.id not in self.locals:
            if node.id in ALIASES:
                return ALIASES[node.id]
            module = getattr(value, "__module__", None)  # from nki.language import mod
            if isinstance(module, str) and not is_user_module(module):
                return _public_path(module, getattr(value, "__name__", node.id))
            return node.id
        return ""


def _is_simulators(module: str) -> bool:
    return module == SIMULATOR or module.startswith(f"{SIMULATOR}.")


def _in_sdk(module: str) -> str:
    return f"nki{module.removeprefix(SIMULATOR)}" if _is_simulators(module) else module


def _public_path(module: str, name: str) -> str:
    """Returns the full name of an object that a module of the API defines.

    Modules of the simulator consist of several files, so the name of the file is removed. The class
    `nki.isa.NkiScalar` is defined outside of the simulator's folder isa.
    """
    if module == SIMULATOR or not _is_simulators(module):
        return f"{_in_sdk(module)}.{name}"
    room = module.removeprefix(f"{SIMULATOR}.").partition(".")[0]
    return f"nki.{room if room in ('language', 'isa') else 'isa'}.{name}"


def origin(value: object) -> str:
    """Returns the module from which a function, class, module or other object comes."""
    if isinstance(value, ModuleType):
        return value.__name__
    owner = getattr(value, "__self__", None)  # random.random is a method of a Random
    for thing in (value, None if isinstance(owner, ModuleType) else type(owner), type(value)):
        module = getattr(thing, "__module__", None)
        if isinstance(module, str) and module != "builtins":
            return module
    return owner.__name__ if isinstance(owner, ModuleType) else ""


def is_user_module(name: str | None) -> bool:
    """Returns whether the compiler must compile the functions of a module, unlike libraries'."""
    if not name or _is_simulators(name):
        return False
    return name.partition(".")[0] not in LIBRARIES


def is_mutable(value: object) -> bool:
    """Returns whether a global may change after the kernel was compiled."""
    if isinstance(value, tuple):
        return any(is_mutable(item) for item in value)
    is_array = (type(value).__module__, type(value).__name__) == ("numpy", "ndarray")
    return is_array or isinstance(value, MutableSequence | MutableMapping | MutableSet)


def is_nki_class(cls: type) -> bool:
    """Returns whether a kernel may use objects of the class."""
    return issubclass(cls, Enum) or any(base.__name__ == "NKIObject" for base in cls.__mro__)


def has_one_base(cls: type) -> bool:
    """Returns whether a class inherits from NKIObject or Enum, and from no other class."""
    return len(cls.__bases__) == 1 and cls.__bases__[0].__name__ in ("NKIObject", "Enum")
