"""Checks of how a kernel calls its helpers, constructors and methods, and the engines of calls."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from enum import Enum
from types import ModuleType

from nki_sim.base.enums import ENGINE_NAMES

from .names import Names, is_nki_class, is_user_module
from .source import unwrap

# Methods of lists only, methods of lists and other types, and methods of numbers only.
LIST_METHODS = frozenset({"clear", "extend", "insert", "remove", "reverse", "sort"})
SHARED_METHODS = frozenset({"copy", "count", "index", "pop"})
NUMBER_METHODS = frozenset(
    {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "is_integer", "to_bytes"}
)
MUTATORS = LIST_METHODS | {"append", "pop", "popitem", "setdefault", "update"}
CONSTANTS = (int, float, str, tuple)
_OF_NAMES = (
    (("nc_matmul", "nc_transpose"), "TensorE"),
    (("activation", "activate2"), "ScalarE"),
    (("dma_",), "DMA"),
    (("iota", "core_barrier", "register_", "sendrecv"), ""),  # GpSimdE, SyncE, or both programs
)


def contested_call(node: ast.Call, names: Names, lists: set[str]) -> Iterator[tuple[str, str]]:
    """Yields (rule, what) for a call that the compiler may refuse, other than of nl or nisa."""
    value = names.resolve(node.func)
    function = unwrap(value)
    text = ast.unparse(node.func)
    if isinstance(value, type):
        is_record = is_nki_class(value) and not issubclass(value, Enum)
        if node.keywords and is_record and is_user_module(value.__module__):
            yield "constructor-keyword", text
    elif function is not None and is_user_module(function.__module__):
        if node.keywords:
            yield "helper-keyword", text
        omitted = _omitted(node, inspect.signature(function))
        if omitted:
            yield "helper-default", f"{text} without {', '.join(omitted)}"
    elif isinstance(node.func, ast.Attribute):
        owner = names.resolve(node.func.value)
        if not isinstance(owner, ModuleType):
            yield from _method(node.func, owner, lists)


def _omitted(node: ast.Call, signature: inspect.Signature) -> list[str]:
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return []
    given = {keyword.arg for keyword in node.keywords}
    rest = list(signature.parameters.values())[len(node.args) :]
    return [p.name for p in rest if p.default is not p.empty and p.name not in given]


def _method(function: ast.Attribute, owner: object, lists: set[str]) -> Iterator[tuple[str, str]]:
    name, text = function.attr, ast.unparse(function)
    is_literal = isinstance(function.value, ast.Constant | ast.JoinedStr | ast.Tuple)
    is_list = isinstance(function.value, ast.Name) and function.value.id in lists
    if is_literal or isinstance(owner, CONSTANTS) or name in NUMBER_METHODS:
        yield "constant-method", text
    elif name in LIST_METHODS or (is_list and name in SHARED_METHODS):
        yield "list-method", text
    elif name == "broadcast":
        yield "view-broadcast", text
    elif name == "broadcast_to":
        yield "broadcast-method", text


def names_a_key(key: ast.expr, counters: set[str]) -> bool:
    """Returns whether an expression may be a string, unlike numbers, tuples and loop counters."""
    if isinstance(key, ast.Constant):
        return isinstance(key.value, str)
    if isinstance(key, ast.Name):
        return key.id not in counters
    if isinstance(key, ast.BinOp):
        return names_a_key(key.left, counters) and names_a_key(key.right, counters)
    return not isinstance(key, ast.Tuple | ast.UnaryOp)


def engines_of(body: list[ast.stmt], names: Names) -> set[str]:
    """Returns the engines of the calls of nki.isa in a block, as far as the source shows them."""
    calls: list[ast.Call] = []
    nodes: list[ast.AST] = [*body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Call):
            calls.append(node)
        if not isinstance(node, ast.FunctionDef | ast.Lambda):  # which may run elsewhere
            nodes += ast.iter_child_nodes(node)
    return {engine for call in calls if (engine := _engine(call, names))}


def _engine(call: ast.Call, names: Names) -> str:
    module, _, function = names.path(call.func).rpartition(".")
    if module != "nki.isa":
        return ""
    named = [word.value for word in call.keywords if word.arg == "engine"]
    if named and not function.startswith("dma_"):
        return ENGINE_NAMES.get(ast.unparse(named[0]).rpartition(".")[2], "")
    for prefixes, engine in _OF_NAMES:
        if function.startswith(prefixes):
            return engine
    return "VectorE"
