"""``nki-sim lint``: lists what NKI would refuse in the kernels of files, which it imports."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

from nki_sim.base import releases
from nki_sim.launch.kernel import Kernel
from nki_sim.lint import lint

from . import findings, kernel_file, outputs, settings
from .errors import FINE, FOUND, UNUSABLE, CommandError
from .findings import Finding
from .sarif import sarif

ABOUT = "list what NKI would refuse in kernels, without running them"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the files, and the options for outputs."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="file.py",
        help="files with kernels, which are functions under @nki.jit, or folders of such files; "
        "the command imports the files",
    )
    settings.add_release(parser)
    parser.add_argument(
        "--contested",
        action="store_true",
        help="also list constructs on which documents or records disagree",
    )
    parser.add_argument("--json", metavar="FILE", help="write the findings; - is standard output")
    parser.add_argument(
        "--sarif", metavar="FILE", help="write the findings for GitHub's annotations"
    )


def main(options: argparse.Namespace) -> int:
    """Prints the findings. Returns 1 if there is an error, or 2 if there was nothing to check."""
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
    """Prints what was checked, and returns the exit code."""
    kernels = sum(count or 0 for count in counts)
    errors = sum(one.level == "error" for one in found)
    outputs.say(
        f"{_number(kernels, 'kernel')} in {_number(len(files), 'file')} checked for NKI "
        f"{releases.current()}, {_number(errors, 'error')}"
    )
    if None in counts:
        return UNUSABLE
    if not kernels:
        outputs.say("no kernel was found: a kernel is a function of a module under @nki.jit")
        return UNUSABLE
    return FOUND if errors else FINE


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _files(given: str) -> list[str]:
    """Returns the file, or the files of a folder that mention nki.

    Hidden folders and installed packages are left out.
    """
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
    """Returns the number of kernels in a file, or None if it cannot be imported (a finding)."""
    with kernel_file.forgotten_siblings():
        try:
            kernels = kernel_file.kernels_of(kernel_file.import_file(file))
        except kernel_file.NotImported as error:
            assert error.__cause__ is not None
            finding = findings.of_error(error.__cause__)
            kernels = _kernels_alone(file)
            if not kernels:
                found.append(finding)
                return None
            message = f"{finding.message}; the file was checked without what it imports from there"
            found.append(replace(finding, message=message, level="warning"))
        for kernel in kernels.values():
            try:
                found += findings.of_violations(lint(kernel, contested))
            except TypeError as error:
                raise CommandError(f"{file}: {error}") from None
        return len(kernels)


def _kernels_alone(file: str) -> dict[str, Kernel]:
    """Returns the kernels of a file that cannot be imported as a whole, as far as it can be."""
    try:
        return kernel_file.kernels_of(kernel_file.import_alone(file))
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 as SystemExit; the error of the whole import is shown
        return {}
