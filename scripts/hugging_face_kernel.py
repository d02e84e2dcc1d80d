"""Builds a kernel repository for the Hugging Face Hub: python scripts/hugging_face_kernel.py OUT

    OUT/README.md                the repository's card
    OUT/build/torch-neuron/      the kernel, a Python package: packages/hugging_face of this tree,
                                 the modules of trnfft and nki_kernels that it imports, plans, and
                                 metadata.json with the hashes of all of them

A kernel may depend on a few packages only, of which trnfft is none. So it brings copies, which
import each other by relative imports: their modules have other names than those of an installed
trnfft, and their operators of torch.library a namespace of their own. docs/models.md says how to
publish the folder and how to use it.
"""

from __future__ import annotations

import argparse
import ast
import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ROOT / "packages" / "hugging_face"
OWN = ("__init__.py", "layers.py")
VARIANT = Path("build", "torch-neuron")
BACKEND = "neuron"
LICENSE = "apache-2.0"  # as the Hub spells it
PACKAGES = ("trnfft", "nki_kernels")
# Imported by a computed name: nki_kernels/simulator/twin.py loads it with the simulator.
ALSO = ("nki_kernels.lint",)
DATA = {
    "trnfft/plans": "plans/trn*.json",
    "nki_kernels": "nki_kernels/known_violations.json",
    "nki_kernels/simulator/report/template": "nki_kernels/simulator/report/template/*",
    "nki_kernels/simulator/report/uplot": "nki_kernels/simulator/report/uplot/*",
}
# trnfft's own imports all of the library, and changes what torch does with complex tensors.
TRNFFT = '''"""The modules of trnfft that the layers of this kernel import."""

__version__ = "{version}"
'''
OF_TRNFFT = ("__version__",)  # what that has beside modules
# By the name of a package no copy is found.
BY_NAME = re.compile(rf"(?:import_module|files)\(f?[\"'](?:{'|'.join(PACKAGES)})\b")
# Where operators are named: in schemas, in torch.ops and in torch.library. A kernel's have to be in
# the namespace that its metadata call id; those for TorchNeuron's graphs get names of their own.
OPERATORS = re.compile(r'\btrnfft(?=::)|(?<=torch\.ops\.)trnfft\b|(?<=Library\(")trnfft\b')
OF_GRAPHS = "trnfft_neuron::"
REPOSITORY = re.compile(r"[\w.-]+/[a-z][a-z0-9-]*[a-z0-9]")
TAKEN = ("layers", *PACKAGES)  # a folder of the kernel's name would hide these


@dataclass(frozen=True)
class Import:
    """A statement by which a module imports of this tree's packages.

    Attributes:
        line: its number, from 1 on.
        old, new: its beginning, here and in a copy; both empty where it is relative already.
        modules: what it imports, as far as that is modules.
    """

    line: int
    old: str
    new: str
    modules: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description="Build a kernel repository for Hugging Face.")
    parser.add_argument("out", type=Path, help="the folder to make; empty, if it is there")
    parser.add_argument("--version", type=int, default=1, help="of the kernel, from 1 on")
    parser.add_argument(
        "--repository", default="your-name/trnfft-fnet", help="where it is published: org/name"
    )
    arguments = parser.parse_args()
    try:
        build(arguments.out, arguments.version, arguments.repository)
    except ValueError as error:
        sys.exit(f"hugging_face_kernel.py: {error}")
    print(f"{arguments.out / VARIANT}: version {arguments.version} of {arguments.repository}")


def build(out: Path, version: int = 1, repository: str = "your-name/trnfft-fnet") -> None:
    """Writes a kernel repository.

    Args:
        out: the folder.
        version: of the kernel, which is that of the branch it goes to: v1.
        repository: its name on the Hub; what follows the slash is that of the kernel, too.

    Raises:
        ValueError: the folder has files, or an argument is not allowed.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(
            f"argument 'out' is {str(out)!r}, allowed is a folder that is empty or not there; "
            f"remove it, or name another"
        )
    if version < 1:
        raise ValueError(f"argument 'version' is {version}, allowed is 1 or more; the first is 1")
    name = repository.partition("/")[2]
    if not REPOSITORY.fullmatch(repository) or python_name(name) in TAKEN:
        raise ValueError(
            f"argument 'repository' is {repository!r}, allowed is org/name, with a name of lower "
            f"case letters, digits and hyphens that begins with a letter and is none of "
            f"{', '.join(TAKEN)}; take one like your-name/trnfft-fnet"
        )
    files, namespace = contents(name)
    for path, data in files.items():
        write(out / VARIANT / path, data)
    metadata = {
        "name": name,
        "id": namespace,
        "version": version,
        "license": LICENSE,
        "python-depends": ["nki"],
        "backend": {"type": BACKEND},
        "digest": {"algorithm": "sha256", "files": hashes(files)},
    }
    write(out / VARIANT / "metadata.json", json.dumps(metadata, indent=2).encode() + b"\n")
    write(out / "README.md", card(repository, version).encode())


def contents(name: str) -> tuple[dict[str, bytes], str]:
    """The files of a kernel by their paths, but for metadata.json, and its id.

    The id is that of the contents, so that two builds go into one process if they differ.
    """
    files = copied()
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.encode() + b"\0" + files[path] + b"\0")
    namespace = f"_{python_name(name)}_{BACKEND}_{digest.hexdigest()[:7]}"
    for path in files:
        if path.endswith(".py"):
            source = OPERATORS.sub(namespace, files[path].decode())
            source = source.replace(OF_GRAPHS, f"{namespace}::{BACKEND}_")
            files[path] = source.encode()
    files[f"{python_name(name)}/__init__.py"] = (LAYERS / "by_name.py").read_bytes()
    return files, namespace


def python_name(name: str) -> str:
    """A kernel's name as that of a module."""
    return name.replace("-", "_")


def copied() -> dict[str, bytes]:
    """What a kernel has of this tree, by path; operators are still those of this tree."""
    modules = own_modules()
    files = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    wanted = list(ALSO)
    for path in (LAYERS / own for own in OWN):
        found = list(imports(path.read_text("utf-8"), "", modules))
        wanted += [module for one in found for module in one.modules]
        files[path.name] = rewritten(path, found)
    for module in needed(wanted, modules):
        path = modules[module]
        if module == "trnfft":
            files["trnfft/__init__.py"] = TRNFFT.format(version=version_of_trnfft()).encode()
            continue
        found = list(imports(path.read_text("utf-8"), package_of(module, path), modules))
        files[path.relative_to(ROOT).as_posix()] = rewritten(path, found)
    for folder, pattern in DATA.items():
        for path in sorted(ROOT.glob(pattern)):
            files[f"{folder}/{path.name}"] = path.read_bytes()
    return files


def own_modules() -> dict[str, Path]:
    """The files of this tree's packages by the names of their modules."""
    modules = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def package_of(module: str, path: Path) -> str:
    """The package that a module is in; itself, of a package."""
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def needed(wanted: list[str], modules: dict[str, Path]) -> list[str]:
    """The modules wanted, those they import, in functions too, and the packages these are in."""
    todo, found = list(wanted), set()
    while todo:
        module = todo.pop()
        if module in found:
            continue
        found.add(module)
        parent = module.rpartition(".")[0]
        todo += [parent] if parent else []
        if module == "trnfft":  # replaced
            continue
        path = modules[module]
        for one in imports(path.read_text("utf-8"), package_of(module, path), modules):
            todo += one.modules
    return sorted(found)


def imports(source: str, package: str, modules: dict[str, Path]) -> Iterator[Import]:
    """What a module in a package imports of this tree.

    Raises:
        ValueError: by a statement that has no relative form, or what a copy has not.
    """
    depth = len(package.split(".")) if package else 0
    top = "." * (depth + 1)  # the package that holds the copies
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: depth - node.level + 1]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            if base.partition(".")[0] not in PACKAGES:
                continue
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
            if base == "trnfft":
                check_names([alias.name for alias in node.names], modules)
            old = f"from {node.module} import" if not node.level else ""
            new = f"from {top}{node.module} import" if not node.level else ""
            yield Import(node.lineno, old, new, tuple(name for name in names if name in modules))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] not in PACKAGES:
                    continue
                if len(node.names) > 1 or "." in alias.name or alias.asname:
                    raise ValueError(
                        f"'{ast.unparse(node)}' in package {package!r} has no relative form here; "
                        f"write 'from PACKAGE import MODULE'"
                    )
                new = f"from {top} import {alias.name}"
                yield Import(node.lineno, f"import {alias.name}", new, (alias.name,))


def check_names(names: list[str], modules: dict[str, Path]) -> None:
    """ValueError where one of the names imported of trnfft is none that the kernel's has."""
    for name in names:
        if f"trnfft.{name}" not in modules and name not in OF_TRNFFT:
            raise ValueError(
                f"'from trnfft import {name}' imports no module, and the kernel's trnfft has "
                f"{', '.join(OF_TRNFFT)} alone; import it from the module that defines it"
            )


def rewritten(path: Path, found: list[Import]) -> bytes:
    """A file with its imports of this tree relative.

    Raises:
        ValueError: it has others.
    """
    source = path.read_text("utf-8")
    if named := BY_NAME.search(source):
        raise ValueError(
            f"{path.relative_to(ROOT)} has {named[0]!r}, which finds no copy; derive the name of "
            f"the package from __name__"
        )
    lines = source.splitlines(keepends=True)
    for one in found:
        line = lines[one.line - 1]
        if one.old not in line:
            raise ValueError(
                f"line {one.line} of {path.relative_to(ROOT)} is {line.strip()!r}, allowed is one "
                f"that begins with {one.old!r}; write the import in this form"
            )
        lines[one.line - 1] = line.replace(one.old, one.new, 1)
    return "".join(lines).encode()


def hashes(files: dict[str, bytes]) -> dict[str, str]:
    """SHA-256 of each file in base64, as the package `kernels` computes them."""
    return {
        path: base64.b64encode(hashlib.sha256(files[path]).digest()).decode()
        for path in sorted(files)
    }


def card(repository: str, version: int) -> str:
    """The text of the repository's README.md."""
    text = (LAYERS / "README.md").read_text("utf-8")
    return text.replace("{repository}", repository).replace("{version}", str(version))


def version_of_trnfft() -> str:
    found = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)
    assert found
    return found[1]


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


if __name__ == "__main__":
    main()
