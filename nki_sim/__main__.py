"""The command ``nki-sim``, which is also ``python -m nki_sim``."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from pathlib import Path

from .base.distribution import name_and_version
from .commands import lint, profile, report, run
from .commands.errors import INTERRUPTED, UNUSABLE, CommandError

_COMMANDS = {"run": run, "lint": lint, "profile": profile, "report": report}
_ABOUT = """\
Runs NKI kernels on any CPU, checks them against the chip's rules, and models their time. The
Neuron SDK is not needed.

The exit code is 0 if nothing was found; 1 if there is a finding, a refused kernel or an error of
the script; 2 if the command could not do its work. Times are modelled; none was measured on a chip.
"""
_EXAMPLES = """\
examples:
  nki-sim run script.py
  nki-sim run --target trn2 --html report.html -m pytest -q
  nki-sim lint kernels.py
  nki-sim profile kernels.py::softmax --shape 4096x512 --target trn2
"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command that the arguments name, and returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] not in _COMMANDS and Path(given[0]).suffix == ".py":
        given = ["run", *given]  # python -m nki_sim script.py
    options = parser().parse_args(given)
    if options.command is None:
        parser().print_help(sys.stderr)
        return UNUSABLE
    try:
        code = _COMMANDS[options.command].main(options)
        sys.stdout.flush()
        return code
    except CommandError as error:
        print(f"nki-sim: {error}", file=sys.stderr)
        return UNUSABLE
    except KeyboardInterrupt:
        if options.command == "run":
            raise  # with the traceback of the script
        print("nki-sim: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if error.errno == errno.ENOSPC:
            print(f"nki-sim: standard output: {error.strerror}", file=sys.stderr)
        elif not isinstance(error, BrokenPipeError):  # nki-sim ... | head: nobody reads the rest
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNUSABLE


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the options of all commands."""
    whole = argparse.ArgumentParser(
        "nki-sim",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"nki-sim of {name_and_version()}")
    commands = whole.add_subparsers(dest="command", metavar="command")
    for name, command in _COMMANDS.items():
        one = commands.add_parser(name, help=command.ABOUT, description=command.ABOUT)
        command.add_options(one)
    return whole


if __name__ == "__main__":
    raise SystemExit(main())
