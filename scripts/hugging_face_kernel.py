"""Builds a kernel repository for the Hugging Face Hub: python scripts/hugging_face_kernel.py OUT

    OUT/README.md                the repository's card
    OUT/build/torch-neuron/      the kernel, a Python package: packages/hugging_face of this tree,
                                 the modules of trnfft, nki_kernels and nki_sim that it imports,
                                 plans, and metadata.json with the hashes of all of them

A kernel may depend on a few packages only, and trnfft is not one of them. The kernel therefore
contains copies of trnfft's modules, which import each other by relative imports. The copies have
other module names than an installed trnfft, and their operators of torch.library have a namespace
of their own. docs/models.md says how to publish the folder and how to use it.
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
LICENSE = "apache-2.0"  # the Hub's spelling
PACKAGES = ("trnfft", "nki_kernels", "nki_sim")
DATA = {
    "trnfft/plans": "plans/trn*.json",
    "nki_sim/report/template": "nki_sim/report/template/*",
    "nki_sim/report/uplot": "nki_sim/report/uplot/*",
}
# The kernel's trnfft/__init__.py. The original imports the whole library, and changes how torch
# treats complex tensors.
TRNFFT = '''"""The modules of trnfft that the layers of this kernel import."""

__version__ = "{version}"
'''
OF_TRNFFT = ("__version__",)  # names in TRNFFT beside modules
# Imports by the name of a package would not find the copies.
BY_NAME = re.compile(rf"(?:import_module|files)\(f?[\"'](?:{'|'.join(PACKAGES)})\b")
# Names of operators in schemas, in torch.ops and in torch.library. A kernel's operators must be in
# the namespace that its metadata call id; those for TorchNeuron's graphs get separate names.
OPERATORS = re.compile(r'\btrnfft(?=::)|(?<=torch\.ops\.)trnfft\b|(?<=Library\(")trnfft\b')
OF_GRAPHS = "trnfft_neuron::"
REPOSITORY = re.compile(r"[\w.-]+/[a-z][a-z0-9-]*[a-z0-9]")
TAKEN = ("layers", *PACKAGES)  # a folder with the kernel's name would hide these


@dataclass(frozen=True)
class Import:
    """A statement by which a module imports from this tree's packages.

    Attributes:
        line: number of its line, from 1 on.
        old, new: its beginning here and in a copy; both are empty where it is relative already.
        modules: the modules that it imports.
    """

    line: int
    old: str
    new: str
    modules: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description="Build a kernel repository for Hugging Face.")
    parser.add_argument("out", type=Path, help="folder to make; if it exists, it must be empty")
    parser.add_argument("--version", type=int, default=1, help="version of the kernel, from 1 on")
    parser.add_argument(
        "--repository", default="your-name/trnfft-fnet", help="repository on the Hub: org/name"
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
        version: version of the kernel, which is also that of its branch: v1.
        repository: name of the repository on the Hub; the part after the slash is also the name
            of the kernel.

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
            f"{', '.join(TAKEN)}; choose one like your-name/trnfft-fnet"
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
    """Returns the files of a kernel by their paths, without metadata.json, and the kernel's id.

    The id depends on the contents, so that one process can load two builds that differ.
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
    """Returns a kernel's name as the name of a module."""
    return name.replace("-", "_")


def copied() -> dict[str, bytes]:
    """Returns the files of this tree that a kernel contains, by path.

    Operators still have the names of this tree.
    """
    modules = own_modules()
    files = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    wanted: list[str] = []
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
    """Returns the files of this tree's packages by the names of their modules."""
    modules = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def package_of(module: str, path: Path) -> str:
    """Returns the package that contains a module; a package is its own package."""
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def needed(wanted: list[str], modules: dict[str, Path]) -> list[str]:
    """Returns the wanted modules, the modules that these import, and the packages of all of them.

    Imports inside functions count, too.
    """
    todo, found = list(wanted), set()
    while todo:
        module = todo.pop()
        if module in found:
            continue
        found.add(module)
        parent = module.rpartition(".")[0]
        todo += [parent] if parent else []
        if module == "trnfft":  # is replaced by TRNFFT
            continue
        path = modules[module]
        for one in imports(path.read_text("utf-8"), package_of(module, path), modules):
            todo += one.modules
    return sorted(found)


def imports(source: str, package: str, modules: dict[str, Path]) -> Iterator[Import]:
    """Yields the statements by which a module of a package imports from this tree.

    Raises:
        ValueError: a statement has no relative form, or imports something that no copy has.
    """
    depth = len(package.split(".")) if package else 0
    top = "." * (depth + 1)  # the package that contains the copies
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
    """Checks that the kernel's trnfft has the names that are imported from trnfft.

    Raises:
        ValueError: it does not have one of them.
    """
    for name in names:
        if f"trnfft.{name}" not in modules and name not in OF_TRNFFT:
            raise ValueError(
                f"'from trnfft import {name}' imports no module, and the kernel's trnfft has only "
                f"{', '.join(OF_TRNFFT)}; import {name} from the module that defines it"
            )


def rewritten(path: Path, found: list[Import]) -> bytes:
    """Returns a file whose imports from this tree are relative.

    Raises:
        ValueError: the file imports from this tree in another form.
    """
    source = path.read_text("utf-8")
    if named := BY_NAME.search(source):
        raise ValueError(
            f"{path.relative_to(ROOT)} has {named[0]!r}, which would not find the copy; derive the "
            f"name of the package from __name__"
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
    """Returns the SHA-256 of each file in base64, as the package `kernels` computes them."""
    return {
        path: base64.b64encode(hashlib.sha256(files[path]).digest()).decode()
        for path in sorted(files)
    }


def card(repository: str, version: int) -> str:
    """Returns the text of the repository's README.md."""
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
