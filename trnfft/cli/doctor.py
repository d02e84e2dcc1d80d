"""`trnfft doctor`: what is installed, which backend runs and why, and whether it works."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from trnfft.cli.health_checks import Check

COLORS = {"ok": "green", "note": "yellow", "broken": "bold red"}
NO_KERNELS = "cannot run kernels"
EXIT_STATUSES = {"ok": 0, "broken": 1, NO_KERNELS: 3}  # by verdict; 2 is for wrong arguments
WIDTH = 80  # columns of the advice, on any terminal


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """Checks what is installed, which backend runs and why, and says what to do.

    Exit status: 0 where nothing is broken, 1 where something is, 3 on a computer with NeuronCores
    where no kernel can run.
    """
    from trnfft.cli import health_checks  # here, as it loads torch

    sections, machine = health_checks.examine(), health_checks.neuron_machine()
    needed = [check for check in sections[health_checks.NEURON] if machine]
    missing = [check.name for check in broken(needed) if check.name not in health_checks.TOOLS]
    every = [check for checks in sections.values() for check in checks]
    others = [check.name for check in broken(every) if check.name not in missing]
    verdict = NO_KERNELS if missing else "broken" if others else "ok"
    if as_json:
        rows = {title: list(map(asdict, checks)) for title, checks in sections.items()}
        typer.echo(json.dumps({"verdict": verdict, "sections": rows}, indent=1))
    else:
        console = Console()
        console.print(screen(sections))
        console.print()
        console.print("\n".join(advice_lines(every, machine)), markup=False, soft_wrap=True)
        lines = last_lines(missing, list(dict.fromkeys(others)), machine)
        console.print("\n".join(lines), markup=False, highlight=False)
    raise typer.Exit(EXIT_STATUSES[verdict])


def broken(checks: Iterable[Check]) -> list[Check]:
    """Returns the checks of what is broken."""
    return [check for check in checks if check.status == "broken"]


def screen(sections: dict[str, list[Check]]) -> Table:
    """Returns a table with one row a check, sections below each other."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for title, checks in sections.items():
        table.add_row("", f"[bold]{escape(title)}", "")
        for check in checks:
            status = f"[{COLORS[check.status]}]{check.status}"
            table.add_row(status, escape(check.name), escape(check.detail))
    return table


def advice_lines(every: list[Check], machine: str) -> list[str]:
    """Returns what to do about every check that is not ok; those with the same advice together."""
    same: dict[str, list[Check]] = {}
    for check in every:
        if check.status != "ok":
            same.setdefault(check.advice, []).append(check)
    if not same:
        return []
    lines = ["What to do"]
    if not machine:
        lines += textwrap.wrap(
            "Notes name what is absent. This computer has no NeuronCore, as far as its instance "
            "type and its devices tell, and trnfft works here without what the notes name.",
            WIDTH,
        )
    for advice, checks in same.items():
        names = ", ".join(dict.fromkeys(check.name for check in checks))
        lines += [f"{'broken' if broken(checks) else 'note':<5} {names}", *wrapped(advice)]
    return [*lines, ""]


def wrapped(advice: str) -> list[str]:
    """Returns advice in lines of up to WIDTH columns, each command in lines of its own."""
    lines = []
    for part in re.split(r"; | && |(?<=[:,]) (?=pip |export )", advice):
        is_command = part.startswith(("pip ", "export "))
        indent = " " * (10 if is_command else 6)
        folded = textwrap.wrap(
            part if is_command else part[0].upper() + part[1:],
            WIDTH - 2,
            initial_indent=indent,
            subsequent_indent=indent + "    " * is_command,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += [f"{line} \\" for line in folded[:-1]] + folded[-1:] if is_command else folded
    return lines


def last_lines(missing: list[str], others: list[str], machine: str) -> list[str]:
    """Returns the verdict in sentences: of what kernels here lack, and of what else is broken."""
    if not missing:
        what = f", and kernels have what they need on this computer ({machine})" * bool(machine)
        return [f"Broken: {', '.join(others)}." if others else f"Nothing is broken{what}."]
    no_kernels = (
        f"No kernel can run on the NeuronCores of this computer ({machine}), because of: "
        f"{', '.join(missing)}."
    )
    return [no_kernels, *([f"Also broken: {', '.join(others)}."] if others else [])]
