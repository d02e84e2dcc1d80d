"""Tables of tests that name algorithms are complete and current, compared with the registry.

A new algorithm must be added to the tables named here, and a new table must be declared here.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.kernels import test_device_rules as violations
from tests.registry import REGISTRY

TESTS = Path(__file__).parents[1]
KERNELS = {algorithm.kernel.__name__ for algorithm in REGISTRY.values()}

# Tables of names at the top of a module: what makes each complete, or why it need not be.
TABLES = {
    (
        "kernels/test_device_rules.py",
        "NOT_COUNTED",
    ): "all run with the sweep, new ones too",
    ("kernels/test_large_numbers.py", "CASES"): "algorithms that scale by a table",
    **{
        (f"kernels/test_{name}.py", table): reason
        for name, tables, reason in (
            (
                "device_loops",
                ("CASES", "OF_REAL"),
                "butterflies and columns have loops of their own",
            ),
            (
                "every_chip",
                ("CASES", "OF_REAL"),
                "the tests of other kernels run on the chips by turns",
            ),
            ("few_instructions", ("CASES", "MORE"), "device rules count those of all kernels"),
            (
                "independent_rows",
                ("CASES", "OF_REAL"),
                "a test of a kernel that is not in it fails",
            ),
            (
                "modelled_times",
                ("REAL",),
                "those with a transform of complex data of the same radices",
            ),
            ("two_cores", ("CASES", "MORE"), "batches that two cores share well"),
        )
        for table in tables
    },
    ("kernels/launched.py", "MODULES"): "a test of a kernel that is not in it fails",
    ("planner/test_algorithms.py", "LIKELIEST"): "lengths at which ranks are close",
    ("simulator/test_perfetto.py", "KERNELS"): "one kernel of each kind of loop",
}


@pytest.mark.parametrize("name", REGISTRY)
def test_rules_are_tested_of_every_algorithm(name):
    algorithm = REGISTRY[name]
    assert algorithm in violations.KERNELS[algorithm.kernel.__name__]
    if algorithm.takes_shapes:
        assert algorithm.samples
    else:
        assert algorithm.short or any(not algorithm.why_not(n) for n in violations.LENGTHS)


def named(table: ast.expr) -> list[str]:
    """The strings that a literal has as keys or elements, or as first ones of its tuples."""
    if isinstance(table, ast.Dict):
        items = [key for key in table.keys if key is not None]
    elif isinstance(table, (ast.Tuple, ast.List, ast.Set)):
        items = [x.elts[0] if isinstance(x, ast.Tuple) and x.elts else x for x in table.elts]
    else:
        return []
    return [x.value for x in items if isinstance(x, ast.Constant) and isinstance(x.value, str)]


def is_of_names(table: ast.expr) -> bool:
    """Whether most of several strings of a literal are names of algorithms or kernels."""
    names = named(table)
    known = [name for name in names if name in REGISTRY or name in KERNELS]
    return len(names) > 1 and 2 * len(known) > len(names)


@functools.cache
def modules() -> list[tuple[str, ast.Module]]:
    """Returns the name and the syntax tree of each module with the name of an algorithm."""
    quoted = re.compile(f'"({"|".join({*REGISTRY, *KERNELS})})"')
    texts = {path: path.read_text("utf-8") for path in sorted(TESTS.rglob("*.py"))}
    return [
        (path.relative_to(TESTS).as_posix(), ast.parse(text))
        for path, text in texts.items()
        if quoted.search(text)
    ]


def test_no_table_has_a_stale_name():
    stale = {
        (file, node.lineno, name)
        for file, module in modules()
        for node in ast.walk(module)
        if isinstance(node, ast.expr) and is_of_names(node)
        for name in named(node)
        if name not in REGISTRY and name not in KERNELS
    }
    assert stale == set()


def test_tables_are_declared():
    found = {
        (file, target.id)
        for file, module in modules()
        for node in module.body
        if isinstance(node, ast.Assign) and is_of_names(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert found == set(TABLES)
