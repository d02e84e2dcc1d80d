"""Outputs of a recorded timeline: a trace, a report, JSON, SARIF, and a few lines of text."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import textwrap
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from nki_sim.base.distribution import from_extra
from nki_sim.base.time_range import time_range
from nki_sim.base.whole_file import write_whole
from nki_sim.errors import SourceLine
from nki_sim.measured_times import about, in_words
from nki_sim.report.timeline import Timeline

from . import findings
from .errors import CommandError
from .sarif import sarif

STDOUT = "-"
_SHOWN = 4  # the number of causes of the critical path in the text
_INDENT = " " * 14


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds --perfetto, --html, --json and --sarif, each with a file."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "--html", metavar="FILE", type=_file, help="write a report, one page for any browser"
    )
    group.add_argument(
        "--perfetto", metavar="FILE", type=_file, help="write a trace for ui.perfetto.dev"
    )
    group.add_argument("--json", metavar="FILE", help="write the numbers; - is standard output")
    group.add_argument(
        "--sarif", metavar="FILE", help="write warnings and errors for GitHub's annotations"
    )


def _file(text: str) -> str:
    if text == STDOUT:
        raise argparse.ArgumentTypeError(
            "'-' is not a file: name a file, as only --json and --sarif write to standard output"
        )
    return text


def are_wanted(options: argparse.Namespace) -> bool:
    """Returns whether an option asks for an output."""
    return any((options.html, options.perfetto, options.json, options.sarif))


def check(options: argparse.Namespace) -> None:
    """Checks before the run that all outputs can be written."""
    for file in (options.html, options.perfetto, options.json, options.sarif):
        if file and file != STDOUT and not Path(file).resolve().parent.is_dir():
            raise CommandError(f"{file} cannot be written, as its folder does not exist")
    for file, package in ((options.html, "jinja2"), (options.perfetto, "perfetto")):
        if file and importlib.util.find_spec(package) is None:
            raise CommandError(f"{file} needs the package {package}, {from_extra('report')}")


def users_prints(options: argparse.Namespace) -> AbstractContextManager[Any]:
    """Makes the user's code print to standard error, if an output uses standard output."""
    is_taken = STDOUT in (options.json, options.sarif)
    return redirect_stdout(sys.stderr) if is_taken else nullcontext()


def write(
    options: argparse.Namespace, timeline: Timeline, found: Iterable[findings.Finding]
) -> None:
    """Writes all outputs that the options ask for and that can be written."""
    writers: list[tuple[str | None, Callable[[str], None]]] = [
        (options.json, lambda file: write_text(file, json.dumps(timeline.summary(), indent=1))),
        (options.sarif, lambda file: write_text(file, sarif(found))),
        (options.html, timeline.save_html),
        (options.perfetto, timeline.save_perfetto),
    ]
    failed = []
    for file, save in sorted(writers, key=lambda writer: writer[0] == STDOUT):
        try:
            if file:
                save(file)
        except BrokenPipeError:
            raise
        except OSError as error:
            failed.append(f"{file}: {error.strerror or error}")
        except (CommandError, ImportError) as error:
            failed.append(str(error))
    if failed:
        raise CommandError("; ".join(failed))


def write_text(file: str, text: str) -> None:
    """Writes a file as a whole or not at all; "-" is standard output."""
    if file == STDOUT:
        print(text)
        return
    try:
        write_whole(Path(file), text + "\n")
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None


def facts_of(timeline: Timeline) -> str:
    """Returns the most important facts about a timeline as lines of text."""
    from nki_sim.report.bottlenecks import bottlenecks

    if not timeline.launches:
        return "no kernel was launched in this thread; other threads and processes are not recorded"
    floors = timeline.floors_ns()
    total = timeline.total_ns
    kernels = list(dict.fromkeys(timeline.kernels))
    names = ", ".join(kernels[:3]) + (", ..." if len(kernels) > 3 else "")
    if not timeline.instructions:
        return f"{names}: no instruction, on {timeline.where}"
    launches = f" in {timeline.launches} launches" if timeline.launches > 1 else ""
    busy = [(name, ns / total) for name, ns in timeline.engine_busy_ns.items() if ns]
    shares = [f"{name} {one:.0%}" if one >= 0.005 else f"{name} <1%" for name, one in busy]
    banks = "1 bank" if timeline.psum_peak_banks == 1 else f"{timeline.psum_peak_banks} banks"
    lines = [
        f"{names}: {time_range(total, timeline.low_ns, timeline.high_ns)} modelled on "
        f"{timeline.where}, {timeline.instructions:,} instructions{launches}",
        *_with_launches(timeline),
        "busy     " + ", ".join(shares),
        f"floors   HBM {_share(floors['hbm'], total)}, Tensor engine "
        f"{_share(floors['tensor'], total)}",
        *_orders(timeline),
        f"memory   SBUF {timeline.sbuf_peak_bytes:,} bytes a partition, PSUM {banks}, "
        f"HBM {timeline.hbm_bytes:,} bytes moved",
    ]
    for one in [b for b in bottlenecks(timeline) if b.share >= 0.01][:_SHOWN]:
        place = f", most at {_place(one.lines[0][0])}" if one.lines else ""
        lines.append(f"bound    {one.share:4.0%} {one.cause}{place}")
        lines += textwrap.wrap(one.advice, 96, initial_indent=_INDENT, subsequent_indent=_INDENT)
    return "\n".join(lines)


def _with_launches(timeline: Timeline) -> list[str]:
    text = f"with {in_words(timeline.launches)}, about {about(timeline.with_launches_ns)}. "
    notes = text + " ".join(timeline.launch_notes)
    return textwrap.wrap(notes, 96, initial_indent="launch   ", subsequent_indent=" " * 9)


def _orders(timeline: Timeline) -> list[str]:
    """Returns lines on what the compiler's order changes."""
    written = timeline.written_ns
    orders = f"{time_range(timeline.reordered_ns)}, as written {time_range(written)}"
    lines = [f"order    as the compiler may order it {orders}"]
    for one in timeline.order_costs[:_SHOWN]:
        first, second = one.first, one.second
        if one.ns >= 0.01 * written and first is not None and second is not None:
            other = f"line {second.line}" if first.file == second.file else _place(second)
            cost = f"costs {time_range(one.ns)} unless the compiler mends it"
            text = f"{_place(first)} before {other} {cost}"
            lines += textwrap.wrap(text, 96, initial_indent=_INDENT, subsequent_indent=_INDENT)
    for name, (scalar, vector) in timeline.on_scalar.items():
        lines.append(
            f"{_INDENT}{name} without an engine: {scalar:,} on ScalarE, {vector:,} on VectorE"
        )
    return lines


def _share(ns: float, total: float) -> str:
    return f"{ns:,.0f} ns ({ns / total:.0%})"


def _place(source: SourceLine) -> str:
    return f"{findings.shown_path(source.file)}:{source.line}"


def say(text: str) -> None:
    """Prints a text for people to standard error, as a script or an output uses the other one."""
    print(text, file=sys.stderr)
