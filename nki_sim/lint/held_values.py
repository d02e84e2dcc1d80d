"""Follows the names that hold registers, NkiScalars or tensors, which have no value while tracing.

The names are followed in the order of the source. A name no longer holds such a value after the
assignment of another value, or if it is a `for` target, a parameter or the target of a
comprehension. Where branches of a kernel may give a name different values, the name counts as a
tensor only if every assignment in the function makes one.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType

from nki_sim.base import releases
from nki_sim.base.syntax_names import assigned_names, last_name
from nki_sim.base.tensor_arithmetic import why_not

from .names import Names
from .rules import TENSOR_MAKERS, VIEWS, Violation, message_of, rules_of, severity_of
from .source import Loop, is_none

RECORDED = (ast.Add, ast.Sub, ast.Mult)  # operators of an NkiScalar [nki-scalar]
REGISTER, SCALAR = "register-operator", "scalar-operator"  # what an operator on the value breaks
_ASKS_FOR_VALUE = frozenset(
    ("abs", "bool", "divmod", "float", "int", "max", "min", "pow", "range", "round", "sum")
)
_ARITHMETIC = _ASKS_FOR_VALUE - {"bool", "range"}
_BRANCHES = ast.If | ast.For | ast.While | ast.Try | ast.With | ast.Match
_SYMBOLS: dict[type[ast.AST], str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"},
    **{ast.Pow: "**", ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>"},
    **{ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"},
    **{ast.USub: "negative", ast.UAdd: "positive", ast.Invert: "invert"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="},
}


class HeldValues(ast.NodeVisitor):
    """The part of a check that follows values through a function by name, and reports operators."""

    def __init__(self, function: FunctionType, outside: dict[str, object]) -> None:
        self.function = function
        self.rules = rules_of(releases.current())
        self.found: list[Violation] = []
        self.line = function.__code__.co_firstlineno
        self.names = Names(outside, frozenset())
        self.later: dict[str, str] = {}  # names that hold a register or a scalar, with its rule
        self.tiles: set[str] = set()  # names that hold a tensor here
        self.tensors: set[str] = set()  # names that hold a tensor wherever they are bound
        self.refused_elsewhere: set[ast.expr] = set()  # comparisons of which another rule tells

    def report(self, rule: str, what: str = "", line: int | None = None, message: str = "") -> None:
        """Adds a violation, if the rule holds in the release."""
        if rule not in self.rules:
            return
        message = message or message_of(rule)
        name = self.function.__name__
        file = inspect.getsourcefile(self.function) or self.function.__code__.co_filename
        text = f"{what}: {message}" if what else message
        self.found.append(Violation(file, line or self.line, name, rule, text, severity_of(rule)))

    @contextmanager
    def later_values(self, parameters: list[str], loop: Loop | None) -> Iterator[None]:
        """Enters a function with these parameters, the first of which may be a loop variable.

        The function may run after later assignments of the names outside of it.
        """
        with self._shadowed(parameters):
            self.tiles = self.tensors - set(parameters)
            if loop is not None and parameters:
                self.later[parameters[0]] = SCALAR if loop.gives_scalar else REGISTER
            yield

    @contextmanager
    def _shadowed(self, names: Iterable[str]) -> Iterator[None]:
        """Enters a scope that has its own names."""
        kept = self.later, self.tiles
        own = set(names)
        self.later = {name: rule for name, rule in self.later.items() if name not in own}
        self.tiles = self.tiles - own
        try:
            yield
        finally:
            self.later, self.tiles = kept

    def visit(self, node: ast.AST) -> None:
        """Visits a node, and forgets what only some branches of a statement assign."""
        if isinstance(node, ast.ExceptHandler | ast.match_case):
            self.tiles = self.tiles & self.tensors
        super().visit(node)
        if isinstance(node, _BRANCHES):
            inner = list(ast.walk(node))
            names = [n for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
            stored = {name.id for name in names}
            stored |= {n.name for n in inner if isinstance(n, ast.ExceptHandler) and n.name}
            self.tiles = self.tiles - (stored - self.tensors)

    def rule_of(self, node: ast.expr | None) -> str:
        """Returns the rule that an operator on a value breaks, or "" for a known value."""
        if isinstance(node, ast.Name) and self.later.get(node.id) == REGISTER:
            return REGISTER
        return SCALAR if node is not None and self.is_scalar(node) else ""

    def is_scalar(self, node: ast.expr) -> bool:
        """Returns whether an expression is an NkiScalar, or a sum or product of an NkiScalar."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, RECORDED):
            return self.is_scalar(node.left) or self.is_scalar(node.right)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.is_scalar(node.operand)
        if isinstance(node, ast.Call):
            return last_name(node.func) == "scalar_load"
        if isinstance(node, ast.NamedExpr):
            return self.is_scalar(node.value)
        return isinstance(node, ast.Name) and self.later.get(node.id) == SCALAR

    def is_tile(self, node: ast.expr) -> bool:
        """Returns whether an expression surely is a tensor: a name, a view or a new tensor."""
        if isinstance(node, ast.Subscript | ast.NamedExpr):
            return self.is_tile(node.value)
        if isinstance(node, ast.Call):
            made = node.func
            if isinstance(made, ast.Attribute) and made.attr in VIEWS and self.is_tile(made.value):
                return True
            return self.names.path(made) in TENSOR_MAKERS
        return isinstance(node, ast.Name) and node.id in self.tiles

    def note(self, target: ast.expr, value: ast.expr | None) -> None:
        """Notes the value of a target from here on; None stands for a known value."""
        for name, its in assigned_names(target, value):
            is_new = isinstance(its, ast.Call) and last_name(its.func) == "register_alloc"
            rule = REGISTER if is_new else self.rule_of(its)
            is_tile = its is not None and self.is_tile(its)
            self.later.pop(name, None)
            self.tiles = self.tiles - {name} | ({name} if is_tile else set())
            if rule:
                self.later[name] = rule

    def check_operation(self, node: ast.AST) -> None:
        """Reports an operator or function that does not take registers, NkiScalars or tensors."""
        operation, operands = self._operands(node)
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            rules: set[str] = set()  # a function of NumPy
        else:
            rules = {self.rule_of(operand) for operand in operands} - {""}
        if isinstance(getattr(node, "op", None), (*RECORDED, ast.USub)):
            rules -= {SCALAR}
        for rule in rules:
            self.report(rule, ast.unparse(node))
        if operation and node not in self.refused_elsewhere and any(map(self.is_tile, operands)):
            self.report("tensor-operator", ast.unparse(node), message=why_not(operation))

    def _operands(self, node: ast.AST) -> tuple[str, list[ast.expr]]:
        """Returns an operation, or "" if tensors have it, and the operands that must be known.

        Comparisons by identity and with None have known results. nl.ds accepts a register as start.
        """
        if isinstance(node, ast.BinOp):
            return _SYMBOLS[type(node.op)], [node.left, node.right]
        if isinstance(node, ast.AugAssign):
            return _SYMBOLS[type(node.op)], [node.target, node.value]
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return _SYMBOLS[type(node.op)], [node.operand]
        if isinstance(node, ast.Compare):
            operation = _SYMBOLS.get(type(node.ops[0]), "")
            operands = [node.left, *node.comparators]
            is_identity = all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
            is_known = is_identity or any(map(is_none, operands))
            return operation, operands if operation or not is_known else []
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            if isinstance(node.func, ast.Name) and name in _ASKS_FOR_VALUE:
                return name if name in _ARITHMETIC else "", node.args
            if self.names.path(node.func).startswith("numpy.") and "numpy-call" not in self.rules:
                return name, node.args
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            slices = [part for part in parts if isinstance(part, ast.Slice)]
            ends = [end for part in slices for end in (part.lower, part.upper, part.step)]
            return "", [end for end in ends if end is not None]
        return "", []

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name) and self.rule_of(node.value):
            self.later.setdefault(node.target.id, SCALAR)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            self.note(target, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.generic_visit(node)
        self.note(node.target, node.value)

    def visit_comprehension_of(self, node: ast.ListComp | ast.SetComp | ast.DictComp) -> None:
        """Visits a comprehension, whose targets are names of its own scope."""
        targets = [name for generator in node.generators for name in ast.walk(generator.target)]
        self.visit(node.generators[0].iter)
        with self._shadowed(name.id for name in targets if isinstance(name, ast.Name)):
            self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_comprehension_of
    visit_GeneratorExp = visit_comprehension_of  # type: ignore[assignment]
