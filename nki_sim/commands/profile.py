"""``nki-sim profile``: models the time of a kernel from the shapes of its arguments."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import traceback
import warnings
from typing import Any

from nki_sim.base import dtypes
from nki_sim.errors import NkiSimulationWarning, NkiValidationError
from nki_sim.instructions.instruction_notes import sources
from nki_sim.launch.kernel import Kernel
from nki_sim.launch.simulation import dry_run
from nki_sim.report.timeline import Timeline

from . import findings, kernel_file, outputs, settings
from .errors import FINE, FOUND, CommandError

ABOUT = "model the time of a kernel from the shapes of its arguments"
_SHAPE = re.compile(r"(\d+(?:x\d+)*)(?::(\w+))?")
_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class _Add(argparse.Action):
    """Collects --shape and --arg in one list, in the order of the kernel's parameters."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        read = _shape if option == "--shape" else _argument
        for value in values:
            named = _NAMED.fullmatch(value)
            name, text = named.groups() if named else ("", value)
            try:
                namespace.given = [*(namespace.given or []), (name, read(text))]
            except ValueError as error:
                parser.error(f"argument {option}: {error}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the kernel, its arguments, and the options for outputs."""
    parser.usage = "%(prog)s file.py::kernel [--shape 128x512:bfloat16 64x8 ...] [options]"
    parser.add_argument(
        "kernel", metavar="file.py::kernel", help="a kernel in a file, which the command imports"
    )
    group = parser.add_argument_group("the kernel's arguments, in their order or as name=...")
    group.add_argument(
        "--shape",
        action=_Add,
        dest="given",
        nargs="+",
        metavar=("128x512:bfloat16", "64x8"),
        help="shapes of tensors, which are float32 without a dtype",
    )
    group.add_argument(
        "--arg",
        action=_Add,
        dest="given",
        nargs="+",
        metavar=("4", "None"),
        help="other arguments: numbers, strings, None or tuples",
    )
    settings.add_options(parser)
    outputs.add_options(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the modelled time of the kernel. Returns 1 if the kernel breaks a rule."""
    outputs.check(options)
    kernel_file.answer_imports()
    timeline: Timeline | None = None
    error: BaseException | None = None
    with settings.apply(options), outputs.users_prints(options), kernel_file.same_folder():
        try:
            kernel = kernel_file.named_kernel(options.kernel)
            timeline = _dry(kernel, options.given or [], options.lnc)
        except kernel_file.NotImported as failed:
            error = failed.__cause__
        except (CommandError, KeyboardInterrupt):
            raise
        except BaseException as failed:  # the error of pytest.skip is not an Exception
            error = failed
    if timeline is None:
        assert error is not None
        return _refused(options, error)
    found = findings.of_warnings(timeline)
    outputs.write(options, timeline, found)  # first, as the reader of the pipe may end
    if outputs.STDOUT not in (options.json, options.sarif):
        print(outputs.facts_of(timeline))
        print("".join(f"{one}\n" for one in found), end="")
    return FINE


def _refused(options: argparse.Namespace, error: BaseException) -> int:
    """Prints the error; unless it is about a rule, with all of the user's frames."""
    found = findings.of_error(error)
    if options.sarif:
        outputs.write(
            argparse.Namespace(html=None, perfetto=None, json=None, sarif=options.sarif),
            Timeline(),
            [found],
        )
    if not isinstance(error, NkiValidationError):
        frames = [
            f for f in traceback.extract_tb(error.__traceback__) if findings.is_users(f.filename)
        ]
        outputs.say("".join(traceback.format_list(frames)).rstrip())
    outputs.say(str(found))
    for file in (options.html, options.perfetto, options.json):
        if file and file != outputs.STDOUT:
            outputs.say(f"{file} was not written")
    return FOUND


def _dry(kernel: Kernel, given: list[tuple[str, Any]], lnc: int | None) -> Timeline:
    positional = [value for name, value in given if not name]
    named = {name: value for name, value in given if name}
    signature = inspect.signature(kernel.func)
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        raise CommandError(
            f"{error}: pass a --shape or --arg for each argument of "
            f"{kernel.func.__name__}{signature}, in this order or as name=..."
        ) from None
    if lnc:
        kernel = kernel.with_programs(lnc)
    with sources(), warnings.catch_warnings():
        warnings.simplefilter("ignore", NkiSimulationWarning)  # printed as findings instead
        return dry_run(kernel, *positional, **named)


def _shape(text: str) -> tuple[tuple[int, ...], str]:
    """Returns shape and dtype; raises ValueError for any other text."""
    match = _SHAPE.fullmatch(text)
    if match is None and "::" in text:
        raise ValueError(f"{text!r} is not a shape: name the kernel before the shapes")
    if match is None:
        raise ValueError(
            f"{text!r} is not a shape, allowed are sizes such as 128x512 or 128x512:bfloat16"
        )
    try:
        return tuple(map(int, match[1].split("x"))), dtypes.canonical(match[2] or "float32")
    except TypeError as error:
        raise ValueError(str(error)) from None


def _argument(text: str) -> Any:
    """Returns the value of a Python literal, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
