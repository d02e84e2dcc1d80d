"""Follows the names that surely hold tensors, which have no operators in a kernel.

The names are followed in the order of the source. Where branches of a kernel may give a name
different values, the name counts as a tensor only if every assignment in the function makes one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from nki_sim.base.syntax_names import last_name
from nki_sim.base.tensor_arithmetic import why_not

from .later_values import LaterValues
from .names import Names
from .rules import TENSOR_MAKERS, VIEWS
from .source import Loop

_BUILTINS = frozenset(("abs", "divmod", "float", "int", "max", "min", "pow", "round", "sum"))
_BRANCHES = ast.If | ast.For | ast.While | ast.Try | ast.With | ast.Match
_SYMBOLS: dict[type[ast.AST], str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"},
    **{ast.Pow: "**", ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>"},
    **{ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"},
    **{ast.USub: "negative", ast.UAdd: "positive", ast.Invert: "invert"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
}


class Tiles(LaterValues):
    """The part of a check that finds Python's operators and NumPy's functions on tensors."""

    names: Names
    rules: frozenset[str]

    def __init__(self) -> None:
        super().__init__()
        self.tiles: set[str] = set()  # names that hold a tensor here
        self.tensors: set[str] = set()  # names that hold a tensor wherever they are bound
        self.told: set[ast.expr] = set()  # comparisons of which another rule tells

    @contextmanager
    def later_values(self, parameters: Iterable[str], loop: Loop | None) -> Iterator[None]:
        """Enters a function, which may run after later assignments of the names outside of it."""
        names = list(parameters)
        kept, self.tiles = self.tiles, self.tensors - set(names)
        try:
            with super().later_values(names, loop):
                yield
        finally:
            self.tiles = kept

    @contextmanager
    def _shadowed(self, names: Iterable[str]) -> Iterator[None]:
        kept, self.tiles = self.tiles, self.tiles - set(names)
        try:
            with super()._shadowed(names):
                yield
        finally:
            self.tiles = kept

    def visit(self, node: ast.AST) -> None:
        """Checks operators, and forgets what only some branches of a statement assign."""
        if isinstance(node, ast.ExceptHandler | ast.match_case):
            self.tiles = self.tiles & self.tensors
        super().visit(node)
        if isinstance(node, _BRANCHES):
            self.tiles = self.tiles - (_stored(node) - self.tensors)

    def note(self, target: ast.expr, value: ast.expr | None) -> None:
        """Notes whether a target holds a tensor from here on."""
        super().note(target, value)
        if isinstance(target, ast.Name):
            is_tile = value is not None and self.is_tile(value)
            self.tiles = self.tiles - {target.id} | ({target.id} if is_tile else set())

    def is_tile(self, node: ast.expr) -> bool:
        """Returns whether an expression surely is a tensor: a name, a view or a new tensor."""
        if isinstance(node, ast.Subscript | ast.NamedExpr):
            return self.is_tile(node.value)
        if isinstance(node, ast.Call):
            if self.names.path(node.func) in TENSOR_MAKERS:
                return True
            made = node.func
            return (
                isinstance(made, ast.Attribute) and made.attr in VIEWS and self.is_tile(made.value)
            )
        return isinstance(node, ast.Name) and node.id in self.tiles

    def check_tiles(self, node: ast.AST) -> None:
        """Reports an operator, or a function of Python or NumPy, that does not take tensors."""
        operation, operands = self._operands(node)
        if node not in self.told and any(map(self.is_tile, operands)):
            self.report("tensor-operator", ast.unparse(node), message=why_not(operation))

    def _operands(self, node: ast.AST) -> tuple[str, list[ast.expr]]:
        """Returns an operation that is not defined on tensors, and its operands."""
        if isinstance(node, ast.BinOp):
            return _SYMBOLS[type(node.op)], [node.left, node.right]
        if isinstance(node, ast.AugAssign):
            return _SYMBOLS[type(node.op)], [node.target, node.value]
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return _SYMBOLS[type(node.op)], [node.operand]
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _SYMBOLS:
            return _SYMBOLS[type(node.ops[0])], [node.left, *node.comparators]
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if isinstance(node.func, ast.Name) and name in _BUILTINS:
                return name, node.args
            if self.names.path(node.func).startswith("numpy.") and "numpy-call" not in self.rules:
                return name, node.args
        return "", []


def _stored(node: ast.AST) -> set[str]:
    """Returns the names that a statement binds."""
    names = {
        n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    return names | {n.name for n in ast.walk(node) if isinstance(n, ast.ExceptHandler) and n.name}
