"""Finds the source of a function, and what the source says about the names in it."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType

from nki_sim.base.syntax_names import last_name

from .rules import LOOPS


def unwrap(kernel: object) -> FunctionType | None:
    """Returns the innermost function, or None if there is no function."""
    for _ in range(16):  # bounded, because an object may have every attribute
        if isinstance(kernel, type | ModuleType):
            return None
        for name in ("__wrapped__", "func", "__func__"):
            inner = getattr(kernel, name, None)
            if callable(inner):
                kernel = inner
                break
        else:
            break
    return kernel if isinstance(kernel, FunctionType) else None


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Loop:
    """A loop on the device.

    Attributes:
        kind: "fori_loop" or "while_loop".
        gives_scalar: whether the loop variable is an NkiScalar in a traced kernel, not a register.
    """

    kind: str
    gives_scalar: bool


def definition_of(function: FunctionType) -> Definition | None:
    """Finds the function in its file, which is parsed as a whole for correct line numbers."""
    try:
        lines, _ = inspect.findsource(function)
        found = _definitions("".join(lines))
    except (OSError, SyntaxError):
        return None
    code = function.__code__
    return found.get((code.co_name, code.co_firstlineno))


@functools.lru_cache(maxsize=32)  # a kernel's helpers are in few files
def _definitions(text: str) -> dict[tuple[str, int], Definition]:
    """Returns the functions of a file by name and first line, which may be a decorator's."""
    found: dict[tuple[str, int], Definition] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found.setdefault((node.name, first), node)
        elif isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), node)
    return found


# Methods by which lists, dicts, sets and NumPy's arrays change.
_CHANGING = frozenset(
    {"add", "append", "clear", "discard", "extend", "fill", "insert", "pop", "popitem", "remove"}
    | {"resize", "reverse", "setdefault", "sort", "update"}
)


def changed_globals(function: FunctionType) -> frozenset[str]:
    """Returns the names, such as `ROWS`, whose objects change by statements of the function's file.

    A global that is bound twice, or named by `global`, is one of them.
    """
    try:
        return _changed("".join(inspect.findsource(function)[0]))
    except (OSError, SyntaxError):
        return frozenset()


@functools.lru_cache(maxsize=32)
def _changed(text: str) -> frozenset[str]:
    tree = ast.parse(text)
    names = [ast.unparse(target) for node in tree.body for target in _targets(node)]
    found = {name for name in names if names.count(name) > 1}
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            found.update(node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in _CHANGING:
                found.add(ast.unparse(_whole(node.func.value)))
        else:
            inner = [x for x in _targets(node) if isinstance(x, ast.Subscript | ast.Attribute)]
            found.update(ast.unparse(_whole(x.value)) for x in inner)
            if isinstance(node, ast.AugAssign):
                found.add(ast.unparse(_whole(node.target)))
    return frozenset(found)


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign | ast.Delete):
        return [x for t in node.targets for x in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def _whole(node: ast.expr) -> ast.expr:
    # `x` of x[i][j].
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def bound_names(definition: ast.AST) -> Iterator[str]:
    """Yields every name that the function binds: parameters, assignments, inner functions."""
    for node in ast.walk(definition):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node is not definition:
            yield node.name


def assigned(
    tree: ast.AST, kinds: tuple[type[ast.AST], ...] = (ast.Assign,)
) -> Iterator[tuple[str, ast.expr]]:
    """Yields name and value of each statement `name = value` of these kinds."""
    for node in ast.walk(tree):
        if isinstance(node, kinds) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from [(t.id, node.value) for t in targets if isinstance(t, ast.Name)]


def assigned_to(definition: ast.AST, kind: type[ast.expr], call: str) -> Iterator[str]:
    """Yields the names that are bound to a literal such as `[]`, or to a call such as `list()`."""
    for name, value in assigned(definition, (ast.Assign, ast.AnnAssign)):
        value = value.left if isinstance(value, ast.BinOp) else value
        made = isinstance(value, ast.Call) and last_name(value.func) == call
        if made or isinstance(value, kind):
            yield name


def assigned_values(definition: Definition) -> dict[str, list[ast.expr]]:
    """Returns the values of each name that is bound by assignments `x = value` only."""
    values: dict[str, list[ast.expr]] = {}
    for name, value in assigned(definition):
        values.setdefault(name, []).append(value)
    bindings = list(bound_names(definition))
    return {name: found for name, found in values.items() if bindings.count(name) == len(found)}


def counters(definition: ast.AST) -> Iterator[str]:
    """Yields the names of loop counters, such as `i` in `for i in range(4)`."""
    for node in ast.walk(definition):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            made = node.iter.func if isinstance(node.iter, ast.Call) else node.iter
            if last_name(made).endswith("range"):
                yield node.target.id


def loops_on_device(definition: ast.AST, registers: set[str]) -> dict[ast.Call, Loop]:
    """Returns the calls of nl.fori_loop and nl.while_loop.

    If a bound is one of ``registers``, the loop variable is a register, too.
    """
    found = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Call) and last_name(node.func) in LOOPS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            names = {value.id for value in given if isinstance(value, ast.Name)}
            calls = {last_name(value.func) for value in given if isinstance(value, ast.Call)}
            is_register = bool(names & registers) or "register_alloc" in calls
            kind = last_name(node.func)
            found[node] = Loop(kind, kind == "fori_loop" and not is_register)
    return found


def loop_bodies(
    definition: ast.AST, loops: dict[ast.Call, Loop]
) -> dict[ast.FunctionDef | ast.Lambda, Loop]:
    """Maps each inner function that is passed to one of ``loops`` to that loop.

    If several functions have the same name, the last one before the loop is its body.
    """
    functions = [node for node in ast.walk(definition) if isinstance(node, ast.FunctionDef)]
    bodies: dict[ast.FunctionDef | ast.Lambda, Loop] = {}
    for call, loop in loops.items():
        for value in [*call.args, *(keyword.value for keyword in call.keywords)]:
            if isinstance(value, ast.Lambda):
                bodies[value] = loop
            elif isinstance(value, ast.Name):
                named = [f for f in functions if f.name == value.id and f is not definition]
                before = [f for f in named if f.lineno < call.lineno] or named
                bodies.update({max(before, key=lambda f: f.lineno): loop} if before else {})
    return bodies


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes of a function, without those of functions and classes inside of it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield node
            yield from own_nodes(node)


def is_none(node: ast.expr | None) -> bool:
    """Returns whether an expression is absent, or None."""
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
