"""Registers and NkiScalars in a traced kernel: their values are not known while it is traced."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from .source import Loop

RECORDED = (ast.Add, ast.Sub, ast.Mult)  # what an NkiScalar takes [nki-scalar]


class LaterValues(ast.NodeVisitor):
    """The part of a check that follows such values through a function, by their names."""

    def __init__(self) -> None:
        self.registers: set[str] = set()
        self.scalars: set[str] = set()

    def report(self, rule: str, what: str = "", line: int | None = None, message: str = "") -> None:
        """Add a violation."""
        raise NotImplementedError

    @contextmanager
    def later_values(self, parameters: set[str], loop: Loop | None) -> Iterator[None]:
        """Inside of a function with these parameters, which the body of a loop gets from it."""
        kept = self.registers, self.scalars
        self.registers, self.scalars = self.registers - parameters, self.scalars - parameters
        if loop is not None and loop.gives_scalar:
            self.scalars |= parameters
        elif loop is not None:
            self.registers |= parameters
        try:
            yield
        finally:
            self.registers, self.scalars = kept

    def rule_of(self, node: ast.expr) -> str:
        """The rule that an operator on a value breaks; "" of what is known while tracing."""
        if isinstance(node, ast.Name) and node.id in self.registers:
            return "register-operator"
        return "scalar-operator" if self.is_scalar(node) else ""

    def is_scalar(self, node: ast.expr) -> bool:
        """Whether an expression is an NkiScalar: one, or a sum or product of one."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, RECORDED):
            return self.is_scalar(node.left) or self.is_scalar(node.right)
        return isinstance(node, ast.Name) and node.id in self.scalars

    def check_operator(
        self, node: ast.AST, *operands: ast.expr, operator: ast.operator | None = None
    ) -> None:
        """Report an operator on what has no value yet; + - * of scalars are recorded."""
        for rule in {self.rule_of(operand) for operand in operands} - {""}:
            if not (rule == "scalar-operator" and isinstance(operator, RECORDED)):
                self.report(rule, ast.unparse(node))

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Arithmetic."""
        self.check_operator(node, node.left, node.right, operator=node.op)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Arithmetic and an assignment in one."""
        self.check_operator(node, node.target, node.value, operator=node.op)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Comparisons; which object a name holds is known."""
        if not all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            self.check_operator(node, node.left, *node.comparators)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """What is made of a scalar is one."""
        self.generic_visit(node)
        if self.is_scalar(node.value):
            self.scalars |= {t.id for t in node.targets if isinstance(t, ast.Name)}

    def check_index(self, node: ast.Subscript) -> None:
        """Report an index that has no value yet."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            ends = [part.lower, part.upper, part.step] if isinstance(part, ast.Slice) else [part]
            for end in ends:
                if end is not None and (rule := self.rule_of(end)):
                    self.report(rule, ast.unparse(node))
