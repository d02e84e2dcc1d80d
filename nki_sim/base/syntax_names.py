"""Names in Python's syntax trees, for the lint and for the messages of the simulator."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def last_name(node: ast.expr) -> str:
    """Returns the name after the last dot of `a.b.c`, or "" of other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def assigned_names(
    target: ast.expr, value: ast.expr | None
) -> Iterator[tuple[str, ast.expr | None]]:
    """Yields the names of a target, each with its value if that is an expression of its own."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        values: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(values):
            values = list(value.elts)
        for one, its in zip(target.elts, values, strict=True):
            yield from assigned_names(one, its)
    elif isinstance(target, ast.Starred):
        yield from assigned_names(target.value, None)
