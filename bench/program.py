"""The parts that the benchmark programs share: their arguments, and the loop over cases."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.cases import OPERATIONS
from bench.cases.case import Case
from bench.environment import environment
from bench.measurement import device_of, settings
from bench.results import Asked, Missing, Program, Results, Row, save
from nki_sim import hardware
from nki_sim.measured_times import about

BackendOption = Annotated[str, typer.Option(help="Backend: torch, matmul, nki-sim or nki.")]
TargetOption = Annotated[
    str | None,
    typer.Option(
        help=f"Chip: trn1, trn2 or trn3. Default: the chip that {hardware.TARGET_VARIABLE} names, "
        f"else that of this instance, else trn1. {hardware.LNC_VARIABLE} sets the degree of LNC; "
        "without it, the chip's default counts.",
        show_default=False,
    ),
]


def chip_name(text: str) -> str:
    """Returns the name of a chip, from its name on the command line."""
    try:
        return hardware.chip(text).name
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


TargetsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        help="Chips. Default: all.",
        parser=chip_name,
        metavar="trn1|trn2|trn3",
        show_default=False,
    ),
]
OutOption = Annotated[Path, typer.Option(help="Results to write, as JSON.")]
OperationsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="OPERATION", help="Operations. Default: all.", show_default=False),
]
console = Console(stderr=True)


def stop(sentence: str, code: int) -> NoReturn:
    """Ends the program with one sentence on stderr."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


def check(backend: str, target: str | None, out: Path) -> str:
    """Returns the name of the chip, or ends the program before any work begins.

    The program ends where the backend, the chip, the degree of LNC or the output file cannot be
    used.
    """
    if backend == "auto":
        stop("argument '--backend' is 'auto', allowed are torch, matmul, nki-sim and nki", 2)
    check_out(out)
    try:
        chip = hardware.current() if target is None else hardware.chip(target)
        hardware.degree(None if target is None else chip)
        with settings(backend, chip.name):
            device_of(backend)
    except (ValueError, ImportError) as error:
        stop(str(error).replace("argument 'name'", "argument '--backend'"), 2)
    return chip.name


def check_out(out: Path) -> None:
    """Ends the program where the output file cannot be written."""
    if not out.parent.is_dir():
        stop(f"cannot write {out}: there is no folder {out.parent}", 2)
    if out.exists() and not out.is_file() or not os.access(out.parent, os.W_OK):
        stop(f"cannot write {out}: it is not a file that can be replaced", 2)


def list_operations() -> None:
    """Prints the operations with their cases."""
    table = Table(title="Operations and their cases")
    for name in ("operation", "case", "algorithm", "batch"):
        table.add_column(name, justify="right" if name == "batch" else "left")
    for operation, cases in OPERATIONS.items():
        for case in cases:
            chosen = case.algorithm or "the planner's choice"
            table.add_row(operation, case.name, chosen, str(case.batch))
        table.add_section()
    Console().print(table)


def rows_of(
    cases: Iterable[Case], backend: str, work: Callable[[Case], Row]
) -> tuple[list[Row], list[Missing]]:
    """Returns the rows of all cases, and the reasons of those cases that have no row.

    A failure of one case does not stop the others.
    """
    rows: list[Row] = []
    missing: list[Missing] = []
    for case in cases:
        reason, is_failure = case.why_not(backend), False
        if not reason:
            try:
                rows.append(work(case))
                console.print(escape(line_of(rows[-1])), highlight=False, soft_wrap=True)
                continue
            except NotImplementedError as error:
                reason = str(error)
            # One failure on a device must not lose the results of the other cases.
            except Exception as error:
                reason, is_failure = f"{type(error).__name__}: {error}", True
        missing.append(Missing(**case.asked, reason=reason, is_failure=is_failure))
        sentence = escape(f"{title_of(missing[-1])}: {reason}")
        console.print(sentence, highlight=False, soft_wrap=True, style="yellow")
    return rows, missing


def title_of(row: Asked) -> str:
    """Returns the case in words."""
    by = f" by {row.algorithm}" if row.algorithm else ""
    precision = "" if row.precision == "fast" else f", {row.precision}"
    return f"{row.case}{by}, batch {row.batch}{precision}"


def line_of(row: Row) -> str:
    """Returns the results of a row in one line."""
    parts = []
    if row.time_us is not None:
        where = f" on {row.where}" if row.kernel_us is not None else ""
        parts.append(f"{row.time_us:,.1f} us {row.time_source}{where}")
        if row.with_launches_us is not None:
            a_launch = "a launch" if row.launches == 1 else f"{row.launches} launches"
            parts.append(f"with {a_launch}, about {about(1e3 * row.with_launches_us)}")
    for name in ("relative_error", "round_trip_error", "relative_difference"):
        if (value := getattr(row, name)) is not None:
            parts.append(f"{name.replace('_', ' ')} {value:.1e}")
    return f"{title_of(row)}: {', '.join(parts)}"


def write(
    program: Program, backend: str, target: str, rows: list[Row], missing: list[Missing], out: Path
) -> None:
    """Writes the results; ends the program with code 1 where a case failed."""
    results = Results(
        program=program,
        backend=backend,
        target=target,
        cores=hardware.degree(hardware.chip(target)),
        environment=environment(),
        rows=rows,
        missing=missing,
    )
    try:
        save(results, out)
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror or error}", 2)
    typer.echo(f"wrote {out}: {len(rows)} rows, {len(missing)} cases without one")
    if failed := [each for each in missing if each.is_failure]:
        stop(f"{len(failed)} cases failed, the first: {title_of(failed[0])}", 1)
