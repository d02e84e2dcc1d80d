"""No file of a package imports itself by way of others, lazy imports and annotations included.

What a lower floor needs of a higher one it is given: a hook that is filled, a table in which the
higher floor registers itself, or a Protocol of what it asks.
"""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("trnfft", "nki_kernels", "nki_sim", "trnfft_demo")


def modules(root: Path, packages: tuple[str, ...] = PACKAGES) -> dict[str, Path]:
    """Returns the files of packages by the names of their modules."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """Returns a file's syntax tree."""
    return ast.parse(path.read_text("utf-8"))


def imported(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """Returns the modules from which a file takes something, now or later or for annotations.

    `from package import name` is an import of the submodule of that name, if there is one, and of
    the package's `__init__.py` otherwise. A lazy `__getattr__` of such a face is not followed.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for level, base, names in statements(path):
        above = package.split(".")[: len(package.split(".")) - level + 1]
        base = ".".join([*(above if level else ()), *filter(None, [base])])
        for inner in (f"{base}.{each}" for each in names):
            found.add(inner if inner in known else base)
        if not names:
            found.add(base)
    return {module for module in found if module in known and module != name}


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all statements below a node, and what else holds statements, but no expressions."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from parts(child)


@cache
def statements(path: Path) -> list[tuple[int, str, tuple[str, ...]]]:
    """Returns the level, the module and the names of each import; `import module` has no names."""
    found = []
    for node in parts(parsed(path)):
        if isinstance(node, ast.Import):
            found += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            found.append((node.level, node.module or "", names))
    return found


def circle(root: Path, packages: tuple[str, ...] = PACKAGES) -> list[str]:
    """Returns the modules of a circle of imports in order, or none."""
    known = modules(root, packages)
    graph = {name: imported(name, path, known) for name, path in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_there_is_no_circle_of_imports():
    assert " <- ".join(circle(ROOT)) == ""


FLOORS = {"nki_sim": (), "nki_kernels": ("nki_sim",), "trnfft": ("nki_kernels", "nki_sim")}


@pytest.mark.parametrize("package", FLOORS)
def test_a_package_imports_only_those_below_it(package):
    known = modules(ROOT)
    for name, path in modules(ROOT, (package,)).items():
        others = {found.partition(".")[0] for found in imported(name, path, known)}
        assert others <= {package, *FLOORS[package]}, path


@pytest.mark.parametrize("package", ["nki_sim", "nki_kernels"])
def test_no_file_needs_torch_to_be_imported(package):
    for path in modules(ROOT, (package,)).values():
        names = []
        for node in parsed(path).body:  # outside of functions
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.append(str(node.module))
        assert "torch" not in {name.partition(".")[0] for name in names}, path


@pytest.mark.parametrize(
    ("text", "is_circle"),
    [
        ("def later():\n    from house.stairs import up\n", True),
        ("from . import stairs\n", True),
        ("import house.stairs\n", True),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .stairs import up\n",
            True,
        ),
        ("from house import face\n", False),
        ("stairs = 1\n", False),
    ],
)
def test_lazy_imports_and_those_for_annotations_count(tmp_path, text, is_circle):
    folder = tmp_path / "house"
    folder.mkdir()
    (folder / "__init__.py").write_text("face = 1\n")
    (folder / "stairs.py").write_text("from .cellar import dark\ndef up(): pass\n")
    (folder / "cellar.py").write_text("dark = True\n" + text)
    assert bool(circle(tmp_path, ("house",))) == is_circle
