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
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

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
OF_TRNFFT = "__version__"  # the name in TRNFFT beside modules
# Imports by the name of a package would not find the copies.
BY_NAME = re.compile(rf"(?:import_module|files)\(f?[\"'](?:{'|'.join(PACKAGES)})\b")
# Names of operators in schemas, in torch.ops and in torch.library. A kernel's operators must be in
# the namespace that its metadata call id; those for TorchNeuron's graphs get separate names.
OPERATORS = re.compile(r'\btrnfft(?=::)|(?<=torch\.ops\.)trnfft\b|(?<=Library\(")trnfft\b')
OF_GRAPHS = "trnfft_neuron::"
REPOSITORY = re.compile(r"[\w.-]+/[a-z][a-z0-9-]*[a-z0-9]")
TAKEN = ("layers", *PACKAGES)  # a folder with the kernel's name would hide these


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
    files = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    for path in (LAYERS / own for own in OWN):
        files[path.name] = relative(path.read_text("utf-8"), path.name).encode()
    for path in needed():
        place = path.relative_to(ROOT).as_posix()
        files[place] = relative(path.read_text("utf-8"), place).encode()
    files["trnfft/__init__.py"] = TRNFFT.format(version=version_of_trnfft()).encode()
    for folder, pattern in DATA.items():
        for path in sorted(ROOT.glob(pattern)):
            files[f"{folder}/{path.name}"] = path.read_bytes()
    return files


class Forgotten(dict):
    """Modules that were not found: ModuleFinder would take nki_sim.language.math for math."""

    def __contains__(self, name: object) -> bool:
        return False


def needed() -> list[Path]:
    """Returns the files of the modules that the layers import, and these, and so on.

    Imports inside functions count, too. The module trnfft is replaced by TRNFFT, and imports none.
    """
    finder: Any = ModuleFinder([str(ROOT)])
    finder.badmodules = Forgotten()
    finder.add_module("trnfft").__path__ = [str(ROOT / "trnfft")]
    finder.load_file(str(LAYERS / "layers.py"))
    modules = [one for name, one in finder.modules.items() if name.partition(".")[0] in PACKAGES]
    return sorted(Path(one.__file__) for one in modules if one.__file__)


def relative(source: str, place: str) -> str:
    """Returns a module whose imports from this tree's packages are relative.

    place: path of the copy in the kernel.

    Raises:
        ValueError: an import has no relative form, or imports something that no copy has.
    """
    if named := BY_NAME.search(source):
        raise ValueError(
            f"{place} has {named[0]!r}, which would not find the copy; derive the name of the "
            f"package from __name__"
        )
    top = "." * len(Path(place).parts)  # the package that contains the copies
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and not node.level and is_ours(node.module):
            check_names(node)
            forms = f"from {node.module} import", f"from {top}{node.module} import"
        elif isinstance(node, ast.Import) and any(is_ours(alias.name) for alias in node.names):
            forms = f"import {node.names[0].name}", f"from {top} import {node.names[0].name}"
            if ast.unparse(node) != forms[0] or "." in node.names[0].name:
                raise ValueError(
                    f"'{ast.unparse(node)}' in {place} has no relative form here; "
                    f"write 'from PACKAGE import MODULE'"
                )
        else:
            continue
        lines[node.lineno - 1] = lines[node.lineno - 1].replace(*forms, 1)
    return "".join(lines)


def is_ours(module: str | None) -> bool:
    """Returns whether a module belongs to this tree's packages."""
    return (module or "").partition(".")[0] in PACKAGES


def check_names(node: ast.ImportFrom) -> None:
    """Checks that the kernel's trnfft has the names that are imported from trnfft.

    Raises:
        ValueError: it does not have one of them.
    """
    for alias in node.names if node.module == "trnfft" else ():
        place = ROOT / "trnfft" / alias.name
        if (
            not place.is_dir()
            and not place.with_suffix(".py").is_file()
            and alias.name != OF_TRNFFT
        ):
            raise ValueError(
                f"'from trnfft import {alias.name}' imports no module, and the kernel's trnfft has "
                f"only {OF_TRNFFT}; import {alias.name} from the module that defines it"
            )


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
