"""``nki-sim lint``: what NKI would refuse in the kernels of files, which are imported."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from nki_kernels import releases
from nki_kernels.lint import lint

from . import findings, kernel_file, outputs, settings
from .errors import FINE, FOUND, UNUSABLE, CommandError
from .findings import Finding
from .sarif import sarif

ABOUT = "what NKI would refuse in kernels, without running them"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Files, and where to write what is found."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="file.py",
        help="files with kernels, functions under @nki.jit; or folders of such files. They are "
        "imported",
    )
    settings.add_release(parser)
    parser.add_argument(
        "--contested", action="store_true", help="also what documents or records disagree on"
    )
    parser.add_argument("--json", metavar="FILE", help="the findings; - is standard output")
    parser.add_argument("--sarif", metavar="FILE", help="the same for GitHub's annotations")


def main(options: argparse.Namespace) -> int:
    """Print what is found; 1 where that is anything, 2 where no kernel could be checked."""
    settings.apply_release(options)
    kernel_file.answer_imports()
    found: list[Finding] = []
    files = [file for given in options.files for file in _files(given)]
    with outputs.users_prints(options):
        counts = [_check(file, options.contested, found) for file in files]
    found = list(dict.fromkeys(found))
    if options.json:
        outputs.write_text(options.json, json.dumps([asdict(one) for one in found], indent=1))
    if options.sarif:
        outputs.write_text(options.sarif, sarif(found))
    if outputs.STDOUT not in (options.json, options.sarif):
        print("".join(f"{one}\n" for one in found), end="")
    return _verdict(files, counts, found)


def _verdict(files: list[str], counts: list[int | None], found: list[Finding]) -> int:
    """Say what was checked; the exit code."""
    kernels = sum(count or 0 for count in counts)
    errors = sum(one.level == "error" for one in found)
    outputs.say(
        f"{_number(kernels, 'kernel')} in {_number(len(files), 'file')} checked for NKI "
        f"{releases.current()}, {_number(errors, 'error')}"
    )
    if None in counts:
        return UNUSABLE
    if not kernels:
        outputs.say("no kernel was found: a kernel is a module's function under @nki.jit")
        return UNUSABLE
    return FOUND if errors else FINE


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _files(given: str) -> list[str]:
    """The file, or the files of a folder that speak of nki, but for hidden and installed ones."""
    if not Path(given).is_dir():
        return [given]
    found = []
    for folder, inner, names in os.walk(given):
        inner[:] = sorted(name for name in inner if not _is_foreign(Path(folder, name)))
        files = [Path(folder, name) for name in sorted(names) if name.endswith(".py")]
        found += [str(file) for file in files if file.is_file() and b"nki" in file.read_bytes()]
    return found


def _is_foreign(folder: Path) -> bool:
    is_hidden = folder.name.startswith(".")
    return is_hidden or folder.name == "site-packages" or (folder / "pyvenv.cfg").is_file()


def _check(file: str, contested: bool, found: list[Finding]) -> int | None:
    """The kernels that a file has; None where it cannot be imported, which is a finding."""
    with kernel_file.forgotten_siblings():
        try:
            kernels = kernel_file.kernels_of(kernel_file.import_file(file))
        except kernel_file.NotImported as error:
            assert error.__cause__ is not None
            found.append(findings.of_error(error.__cause__))
            return None
        for kernel in kernels.values():
            try:
                found += findings.of_violations(lint(kernel, contested))
            except TypeError as error:
                raise CommandError(f"{file}: {error}") from None
        return len(kernels)


def run(arguments: list[str] | None = None) -> int:
    """``python -m nki_kernels.lint``: the same command."""
    parser = argparse.ArgumentParser("python -m nki_kernels.lint", description=ABOUT)
    add_options(parser)
    try:
        return main(parser.parse_args(arguments))
    except CommandError as error:
        print(f"nki_kernels.lint: {error}", file=sys.stderr)
        return UNUSABLE
