"""Follows registers and NkiScalars in a traced kernel, whose values are not known during tracing.

The names that hold such values are followed in the order of the source. A name no longer holds such
a value after the assignment of another value, or if it is a `for` target, a parameter or the
target of a comprehension.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from nki_sim.base.syntax_names import last_name

from .source import Loop

RECORDED = (ast.Add, ast.Sub, ast.Mult)  # operators of an NkiScalar [nki-scalar]
ASKS_FOR_VALUE = frozenset(
    ("abs", "bool", "divmod", "float", "int", "max", "min", "pow", "range", "round", "sum")
)
_IDENTITY = (ast.Is, ast.IsNot)


class LaterValues(ast.NodeVisitor):
    """The part of a check that follows registers and scalars through a function by name."""

    def __init__(self) -> None:
        self.registers: set[str] = set()
        self.scalars: set[str] = set()

    def report(self, rule: str, what: str = "", line: int | None = None, message: str = "") -> None:
        """Adds a violation."""
        raise NotImplementedError

    @contextmanager
    def later_values(self, parameters: Iterable[str], loop: Loop | None) -> Iterator[None]:
        """Enters a function with these parameters, the first of which may be a loop variable."""
        names = list(parameters)
        with self._shadowed(names):
            if loop is not None and names:
                (self.scalars if loop.gives_scalar else self.registers).add(names[0])
            yield

    @contextmanager
    def _shadowed(self, names: Iterable[str]) -> Iterator[None]:
        """Enters a scope that has its own names."""
        kept = self.registers, self.scalars
        self.registers, self.scalars = self.registers - set(names), self.scalars - set(names)
        try:
            yield
        finally:
            self.registers, self.scalars = kept

    def rule_of(self, node: ast.expr | None) -> str:
        """Returns the rule that an operator on a value breaks, or "" for a known value."""
        if isinstance(node, ast.Name) and node.id in self.registers:
            return "register-operator"
        return "scalar-operator" if node is not None and self.is_scalar(node) else ""

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
        return isinstance(node, ast.Name) and node.id in self.scalars

    def note(self, target: ast.expr, value: ast.expr | None) -> None:
        """Notes the value of a target from here on; None stands for a known value."""
        if isinstance(target, ast.Tuple | ast.List):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                values = list(value.elts)
            for one, its in zip(target.elts, values, strict=True):
                self.note(one, its)
        elif isinstance(target, ast.Starred):
            self.note(target.value, None)
        elif isinstance(target, ast.Name):
            is_register = isinstance(value, ast.Call) and last_name(value.func) == "register_alloc"
            is_register = is_register or (
                isinstance(value, ast.Name) and value.id in self.registers
            )
            is_scalar = value is not None and self.is_scalar(value)
            self.registers = self.registers - {target.id} | ({target.id} if is_register else set())
            self.scalars = self.scalars - {target.id} | ({target.id} if is_scalar else set())

    def check_operator(
        self, node: ast.AST, *operands: ast.expr, operator: ast.operator | None = None
    ) -> None:
        """Reports an operator on an unknown value, except +, - and * of scalars."""
        for rule in {self.rule_of(operand) for operand in operands} - {""}:
            if not (rule == "scalar-operator" and isinstance(operator, RECORDED)):
                self.report(rule, ast.unparse(node))

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Checks arithmetic."""
        self.check_operator(node, node.left, node.right, operator=node.op)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Checks arithmetic that is also an assignment."""
        self.check_operator(node, node.target, node.value, operator=node.op)
        self.generic_visit(node)
        if isinstance(node.target, ast.Name) and self.rule_of(node.value):
            self.scalars = self.scalars | {node.target.id}

    def visit_Compare(self, node: ast.Compare) -> None:
        """Checks comparisons, except those by identity and with None, whose results are known."""
        operands = [node.left, *node.comparators]
        is_none = any(isinstance(o, ast.Constant) and o.value is None for o in operands)
        if not is_none and not all(isinstance(op, _IDENTITY) for op in node.ops):
            self.check_operator(node, *operands)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Notes targets of an assignment, which hold a scalar if the value is one."""
        self.generic_visit(node)
        for target in node.targets:
            self.note(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Notes the target of an assignment with an annotation."""
        self.generic_visit(node)
        if node.value is not None:
            self.note(node.target, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Notes the target of an assignment inside of an expression."""
        self.generic_visit(node)
        self.note(node.target, node.value)

    def visit_comprehension_of(self, node: ast.ListComp | ast.SetComp | ast.DictComp) -> None:
        """Visits a comprehension, whose targets are names of its own scope."""
        stored = {
            name.id
            for generator in node.generators
            for name in ast.walk(generator.target)
            if isinstance(name, ast.Name)
        }
        self.visit(node.generators[0].iter)
        with self._shadowed(stored):
            self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_comprehension_of
    visit_GeneratorExp = visit_comprehension_of  # type: ignore[assignment]

    def check_builtin(self, node: ast.Call) -> None:
        """Reports a built-in function that needs a known value."""
        if isinstance(node.func, ast.Name) and node.func.id in ASKS_FOR_VALUE:
            self.check_operator(node, *node.args)

    def check_slice(self, node: ast.Subscript) -> None:
        """Reports a bound of a slice that is an unknown value. nl.ds accepts such a start."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            if isinstance(part, ast.Slice):
                ends = [end for end in (part.lower, part.upper, part.step) if end is not None]
                self.check_operator(node, *ends)
