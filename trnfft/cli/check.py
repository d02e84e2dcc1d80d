"""`trnfft check`: tests transforms over many devices, and measures them."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from trnfft.distributed.check.self_test import Report, Result

POINTS = 1 << 20
NPROC = 4
PER_CORE = 4  # processes for each core of the computer; more of them stop each other
COLORS = {"ok": "green", "wrong": "bold red", "refused": "yellow"}


def check(
    nproc: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Processes to start on this computer. Default: {NPROC}; under torchrun, the "
            "processes that it has started.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="Type of the devices, as torch names it, for example cpu.")
    ] = "cpu",
    points: Annotated[
        int, typer.Option(min=64, max=1 << 28, help="About how many points each process holds.")
    ] = POINTS,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Tests transforms over many devices here, and measures how long they take.

    The command starts processes on this computer. Under torchrun it runs in the processes that
    torchrun has started. It ends with status 1 where a result is wrong or missing.
    """
    from trnfft.distributed.check import processes  # here, as it loads torch.distributed

    try:
        reports = _reports(nproc, device, points)
    except ValueError as error:
        if os.environ.get("RANK", "0") == "0":
            typer.echo(str(error), err=True)
        _end(2)
    except processes.Failure as error:
        typer.echo(str(error), err=True)
        _end(1)
    if reports is None:
        return
    report = reports[0]
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=1))
    else:
        Console().print(screen(report))
    _end(0 if report.verdict == "ok" else 1)


def _reports(nproc: int | None, device: str, points: int) -> list[Report] | None:
    """Returns the reports of all processes; None in all processes but the first."""
    from trnfft.distributed.check import processes, self_test

    processes.backend_of(device)
    if not processes.is_launched():
        cores = os.cpu_count() or 1
        most = max(2 * NPROC, PER_CORE * cores)
        if nproc is not None and nproc > most:
            raise ValueError(
                f"argument '--nproc' is {nproc}, allowed are 1 to {most} on this computer with "
                f"{cores} cores; use torchrun on several hosts for more processes"
            )
        return processes.started(self_test.run, nproc or NPROC, device, points)
    if nproc is not None:
        raise ValueError(
            f"argument '--nproc' is {nproc}, allowed under torchrun is none; give torchrun its "
            f"option --nproc-per-node instead"
        )
    return processes.together(self_test.run, device, points)


def _end(code: int) -> NoReturn:
    """Ends the command, even where threads wait for processes that never answer."""
    sys.stdout.flush()
    sys.stderr.flush()
    if "RANK" in os.environ:
        os._exit(code)
    raise typer.Exit(code)


def screen(report: Report) -> Group:
    """Returns the report as tables and sentences."""
    results = list(enumerate(report.results, 1))
    where = report.hosts[0] if len(report.hosts) == 1 else f"{len(report.hosts)} hosts"
    heading = (
        f"trnfft {report.version}: {report.processes} processes on {where}, "
        f"device {report.device}, group {report.group}, backend {report.backend}, "
        f"precision {report.precision}"
    )
    problems = [
        Text(f"{number} {result.function}: {result.problem}", "red")
        for number, result in results
        if result.status != "ok"
    ]
    columns = ("", "", "transform", "of", "processes", "split along")
    parts: list[RenderableType] = [
        escape(heading),
        "",
        _table(columns, ("error",), [_result(number, result) for number, result in results]),
        *problems,
        "",
        "Times measured here:",
        _table(
            ("", "transform"),
            ("ms", *report.shares, "ratio", "MB", "GB/s"),
            [_times(number, result) for number, result in results if result.seconds is not None],
        ),
    ]
    if report.links:
        rows = [(link.name, *_of_link(link.seconds, link.bytes)) for link in report.links]
        table = _table(("",), ("ms", "MB", "GB/s"), rows)
        parts += ["", "An all-to-all alone, measured here:", table]
    return Group(*parts, "", *_verdict(report))


def _result(number: int, result: Result) -> tuple[str, ...]:
    """Returns the row of a transform: its sizes, how it is split, and whether it is right."""
    sizes = (" x ".join(map(str, sizes)) for sizes in (result.shape, result.mesh))
    before, after = (",".join(map(str, dims)) for dims in (result.split, result.out))
    split = before if before == after else f"{before} to {after}"
    status = f"[{COLORS[result.status]}]{result.status}"
    return (status, str(number), result.function, *sizes, split, _number(result.error, ".1e"))


def _times(number: int, result: Result) -> tuple[str, ...]:
    """Returns the row of a transform, by its number: its time and what that is spent on."""
    return (
        str(number),
        result.function,
        _number(result.seconds, ".1f", 1e-3),
        *(f"{share:.0%}" for share in (result.shares or {}).values()),
        _number(result.compute_to_exchange, ".1f"),
        _number(sum((result.sent or {}).values()), ".2f", 1e6),
        _number(result.bytes_per_second, ".2f", 1e9),
    )


def _of_link(seconds: float, sent: int) -> tuple[str, ...]:
    rate = _number(sent / seconds, ".2f", 1e9)
    return (_number(seconds, ".1f", 1e-3), _number(sent, ".2f", 1e6), rate)


def _number(value: float | None, form: str, unit: float = 1.0) -> str:
    return "" if value is None else format(value / unit, form)


def _verdict(report: Report) -> list[str]:
    """Returns sentences: what the columns mean, and what the results come to."""
    said = [
        "Column ms is the time of the slowest process, in the fastest of a few rounds. The next "
        "columns are the shares of that time, as the mean of all processes; ratio is all other "
        "time over that of the exchanges. MB and GB/s are what one process sends."
    ]
    per_host, cores = -(-report.processes // len(report.hosts)), report.cores
    if report.device == "cpu" and per_host > cores:
        said.append(
            f"[yellow]{per_host} processes share {cores} cores here. They wait for each other, and "
            f"the waiting counts as exchange."
        )
    if report.shares:
        spent = ", ".join(f"{kind} {share:.0%}" for kind, share in report.shares.items())
        said.append(f"The time of all transforms together: {spent}.")
    statuses = [result.status for result in report.results]
    if report.verdict == "ok":
        said.append(f"[green]All {len(statuses)} results are right, and placed as asked for.")
    else:
        others = len(statuses) - statuses.count("ok")
        said.append(f"[bold red]{others} of {len(statuses)} results are not right.")
    return said


def _table(words: tuple[str, ...], numbers: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in words:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
