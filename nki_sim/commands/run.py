"""``nki-sim run``: runs a script, or a module such as pytest, with the simulator as ``nki``."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from nki_sim import hardware
from nki_sim.errors import NkiValidationError
from nki_sim.launch.kernel import launches_begun
from nki_sim.launch.recorded import record

from . import findings, kernel_file, no_launch, outputs, settings
from .errors import FINE, FOUND, CommandError

ABOUT = "run a Python script, or a module by -m, with the simulator as nki"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options before the script. All arguments after it belong to the script."""
    settings.add_options(
        parser,
        f"set {hardware.LNC_VARIABLE} for the script, the cores of a launch in NKI 0.7",
    )
    outputs.add_options(parser)
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="run a module, like python -m"
    )
    parser.add_argument("script", help="a file, or with -m a module")
    rest = parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="arguments of the script"
    )
    rest.required = False


def main(options: argparse.Namespace) -> int:
    """Runs the script. Returns its exit code, or 1 if it raises an error."""
    if not options.is_module and not Path(options.script).is_file():
        raise CommandError(f"{options.script}: there is no such script")
    kernel_file.answer_imports()
    outputs.check(options)
    before = launches_begun()
    with settings.apply(options):
        if not outputs.are_wanted(options):
            ran = _run(options)
            if ran.should_have_launched(options) and launches_begun() == before:
                outputs.say(no_launch.advice(options.script, ran.names))
            return ran.code
        with record() as timeline, outputs.users_prints(options), kernel_file.same_folder():
            ran = _run(options)
    found = findings.of_warnings(timeline)
    if ran.error is not None:
        found.append(findings.of_error(ran.error))
    outputs.write(options, timeline, found)
    was_refused = isinstance(ran.error, NkiValidationError) and not timeline.launches
    if ran.should_have_launched(options) and launches_begun() == before:
        outputs.say(no_launch.advice(options.script, ran.names))
    else:
        outputs.say("no launch was completed" if was_refused else outputs.facts_of(timeline))
    return ran.code


class _Ran(NamedTuple):
    """What is left of a script that has ended: its exit code, its error and its names."""

    code: int
    error: BaseException | None = None
    names: dict[str, Any] = {}

    def should_have_launched(self, options: argparse.Namespace) -> bool:
        """Returns whether a file without a launch is worth a word. A module may be pytest."""
        return not (self.code or options.is_module)


def _run(options: argparse.Namespace) -> _Ran:
    """Runs the script. Python prints its error."""
    sys.argv = [options.script, *options.arguments]
    try:
        if options.is_module:
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(options.script, run_name="__main__", alter_sys=True)
            return _Ran(FINE)
        sys.path.insert(0, str(Path(options.script).resolve().parent))
        return _Ran(FINE, None, runpy.run_path(options.script, run_name="__main__"))
    except SystemExit as error:
        return _Ran(_exit_code(error.code))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the error of pytest.skip is not an Exception
        error.__traceback__ = _of_script(error.__traceback__)
        traceback.print_exception(error)
        return _Ran(FOUND, error)


def _exit_code(code: object) -> int:
    """Returns the exit code for an argument of sys.exit, as the interpreter interprets it."""
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)
    return FOUND


def _of_script(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and not findings.is_users(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace
