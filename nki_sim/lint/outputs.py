"""Finds tensors in nl.shared_hbm that a kernel creates, does not return, and does not read.

The search stays silent where source code leaves a doubt: a kernel that returns nothing may change
an argument, also in a helper, and a tensor may be scratch memory, which some instruction reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_sim.base.removed_api import SHORT
from nki_sim.base.syntax_names import assigned_names

from . import api
from .names import Names
from .rules import TENSOR_MAKERS, VIEWS
from .source import Definition, bound_names, definition_of, is_none, own_nodes, unwrap

_METADATA = frozenset(("shape", "dtype", "ndim", "size", "buffer", "name", "strides", "offset"))
_READ, _WRITTEN, _KNOWN = "read", "written", "known"  # _KNOWN: a shape or a dtype is asked for
_DEPTH = 4  # of helpers in helpers
# What takes numbers, dtypes and the like, or asks whether there is a tensor.
_NO_TENSOR = ast.BinOp | ast.UnaryOp | ast.Compare | ast.Slice | ast.FormattedValue | ast.Assert
_NUMBERS = frozenset(
    f"builtins.{name}"
    for name in ("abs", "bool", "divmod", "float", "int", "isinstance", "len", "max", "min")
    + ("pow", "print", "range", "round", "str", "type")
)


def lost_outputs(definition: Definition, names: Names) -> list[tuple[str, int]]:
    """Returns the names of lost tensors, with the lines that create them."""
    created = dict(_created(definition, names))
    returned = [node.value for node in own_nodes(definition) if isinstance(node, ast.Return)]
    values = [value for value in returned if value is not None and not is_none(value)]
    if not created or any(
        isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(definition)
    ):
        return []
    uses = _Uses(definition, names)
    if not (values or uses.may_change(_parameters(definition))):
        return list(created.items())
    kept = {node.id for value in values for node in ast.walk(value) if isinstance(node, ast.Name)}
    found = {name: uses.of(name) for name in created if name not in kept}
    return [(name, created[name]) for name, kinds in found.items() if _is_unread(kinds)]


def _is_unread(kinds: set[str]) -> bool:
    return _WRITTEN in kinds and kinds <= {_WRITTEN, _KNOWN}


def _parameters(definition: Definition) -> list[str]:
    args = definition.args
    packed = [arg for arg in (args.vararg, args.kwarg) if arg]
    return [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, *packed)]


def _created(definition: Definition, names: Names) -> Iterator[tuple[str, int]]:
    """Yields (name, line) for names that hold new tensors in nl.shared_hbm and nothing else."""
    found: dict[str, list[int]] = {}
    for node in own_nodes(definition):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in assigned_names(target, node.value):
                    if value is not None and _is_shared(value, names):
                        found.setdefault(name, []).append(value.lineno)
    bindings = list(bound_names(definition))
    for name, lines in found.items():
        if bindings.count(name) == len(lines):
            yield name, lines[0]


def _is_shared(value: ast.expr, names: Names) -> bool:
    if not (isinstance(value, ast.Call) and names.path(value.func) in TENSOR_MAKERS):
        return False
    given = [*value.args, *(keyword.value for keyword in value.keywords)]
    return any(names.path(one) == "nki.language.shared_hbm" for one in given)


class _Uses:
    """How a function uses the tensors that its names hold."""

    def __init__(self, definition: Definition, names: Names, depth: int = 0) -> None:
        self.definition = definition
        self.names = names
        self.depth = depth
        self.parents = {
            child: node for node in ast.walk(definition) for child in ast.iter_child_nodes(node)
        }

    def may_change(self, tensors: list[str]) -> bool:
        """Returns whether an instruction may write to one of these tensors, or to a view of it."""
        followed = list(tensors)
        for name in followed:  # the loop appends the names of views
            for node in self._loads(name):
                kind, place = self._use(node)
                if kind == _WRITTEN or (kind == "" and not self._follows(place, followed)):
                    return True
        return False

    def of(self, name: str) -> set[str]:
        """Returns the kinds of all uses of a name; "" is a use of another kind."""
        return {self._use(node)[0] for node in self._loads(name)}

    def _loads(self, name: str) -> list[ast.Name]:
        names = [node for node in ast.walk(self.definition) if isinstance(node, ast.Name)]
        return [node for node in names if node.id == name and isinstance(node.ctx, ast.Load)]

    def _use(self, node: ast.expr) -> tuple[str, ast.AST]:
        """Returns the kind of a use, and the node that is left if the kind is unknown, or ""."""
        while True:
            parent = self.parents[node]
            if isinstance(parent, ast.Subscript) and parent.value is node:
                if not isinstance(parent.ctx, ast.Load):
                    return _WRITTEN, parent
                node = parent
            elif isinstance(parent, ast.Attribute):
                call = self.parents[parent]
                if parent.attr in _METADATA:
                    return _KNOWN, parent
                if not (parent.attr in VIEWS and isinstance(call, ast.Call)):
                    return "", parent
                node = call
            elif isinstance(parent, _NO_TENSOR) or self._is_asked(node, parent):
                return _KNOWN, parent
            elif isinstance(parent, ast.Tuple | ast.List):
                node = parent
            elif isinstance(parent, ast.Call | ast.keyword):
                return self._argument(node, parent), node
            else:
                return "", node

    def _is_asked(self, node: ast.expr, parent: ast.AST) -> bool:
        is_condition = isinstance(parent, ast.If | ast.While | ast.IfExp) and parent.test is node
        return is_condition or (isinstance(parent, ast.Subscript) and parent.slice is node)

    def _argument(self, node: ast.expr, parent: ast.Call | ast.keyword) -> str:
        """Returns how a function of NKI or a helper uses an argument."""
        call = self.parents[parent] if isinstance(parent, ast.keyword) else parent
        assert isinstance(call, ast.Call)
        keyword = parent.arg if isinstance(parent, ast.keyword) else None
        path = self.names.path(call.func)
        module, _, function = path.rpartition(".")
        if path in _NUMBERS:
            return _KNOWN
        if module not in SHORT:
            return self._in_helper(call, node, keyword)
        known = api.parameters(module, function)
        index = call.args.index(node) if node in call.args else len(known)
        parameter = keyword or (known[index] if index < len(known) else "")
        if parameter.startswith("dst"):
            return _WRITTEN
        return _READ if parameter in known else ""

    def _in_helper(self, call: ast.Call, node: ast.expr, keyword: str | None) -> str:
        """Returns how a helper uses what it is passed at this place, or "" in doubt."""
        function = unwrap(self.names.resolve(call.func))
        inner = None if function is None or self.depth == _DEPTH else definition_of(function)
        if function is None or inner is None or isinstance(inner, ast.AsyncFunctionDef):
            return ""
        parameters = _parameters(inner)
        index = call.args.index(node) if node in call.args else len(parameters)
        name = keyword or (parameters[index] if index < len(parameters) else "")
        returns = [n.value for n in own_nodes(inner) if isinstance(n, ast.Return) and n.value]
        passed = {n.id for v in returns for n in ast.walk(v) if isinstance(n, ast.Name)}
        if name in passed or name not in parameters:
            return ""
        names = Names(function.__globals__, frozenset(bound_names(inner)))
        uses = _Uses(inner, names, self.depth + 1)
        if _is_unread(uses.of(name)):
            return _WRITTEN
        return "" if uses.may_change([name]) else _READ

    def _follows(self, node: ast.AST, followed: list[str]) -> bool:
        """Notes the name that holds a view; returns False for views that are used otherwise."""
        parent = self.parents[node]
        if isinstance(parent, ast.Assign) and parent.value is node:
            targets = [target.id for target in parent.targets if isinstance(target, ast.Name)]
            followed += [name for name in targets if name not in followed]
            return len(targets) == len(parent.targets)
        return False
