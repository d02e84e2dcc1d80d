"""No file and no room of a package imports itself by way of others, lazy imports included.

A room is a folder of a package, or a file at its root. Imports for annotations count, too.

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


def room_of(path: Path, root: Path) -> str:
    """Returns the room of a file, such as "nki_sim/isa" or "nki_sim/hardware.py"."""
    inner = path.relative_to(root).parts
    return "/".join(inner[:2])


def rooms(root: Path, package: str) -> dict[str, set[str]]:
    """Returns for each room of a package the rooms from which it takes something.

    The package's `__init__.py` is its face, from which no room takes anything that it defines.
    """
    known = modules(root, (package,))
    face = f"{package}/__init__.py"
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        found = {room_of(known[other], root) for other in imported(name, path, known)}
        graph.setdefault(room_of(path, root), set()).update(found - {face})
    graph.pop(face)
    return {room: others - {room} for room, others in graph.items()}


def circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Returns the sets of rooms each of which reaches all others of its set."""
    reached = {room: set(others) for room, others in graph.items()}
    for middle in graph:
        for room in graph:
            if middle in reached[room]:
                reached[room] |= reached[middle]
    return {
        frozenset(other for other in reached[room] if room in reached[other])
        for room in graph
        if room in reached[room]
    }


# Circles that are still to be taken apart.


@pytest.mark.parametrize("package", ["trnfft", "nki_kernels", "nki_sim"])
def test_there_is_no_circle_of_rooms(package):
    assert not circles(rooms(ROOT, package))


def test_a_circle_of_rooms_is_found_although_there_is_none_of_files(tmp_path):
    for name, text in {
        "__init__": "",
        "cellar/wine": "def fetch():\n    from house.garden import door\n",
        "cellar/coal": "",
        "garden/door": "",
        "garden/tree": "from house.cellar.coal import fire\nfrom ..stairs import up\n",
        "stairs": "",
    }.items():
        path = tmp_path / "house" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()
    assert not circle(tmp_path, ("house",))
    graph = rooms(tmp_path, "house")
    assert graph["house/garden"] == {"house/cellar", "house/stairs.py"}
    assert circles(graph) == {frozenset({"house/cellar", "house/garden"})}


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
