"""`trnfft doctor`: what is installed, which backend runs and why, and whether it works."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import asdict, dataclass
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

    diagnosis = Diagnosis(health_checks.examine(), health_checks.neuron_machine())
    if as_json:
        sections = {
            title: list(map(asdict, checks)) for title, checks in diagnosis.sections.items()
        }
        typer.echo(json.dumps({"verdict": diagnosis.verdict, "sections": sections}, indent=1))
    else:
        console = Console()
        console.print(screen(diagnosis.sections))
        console.print()
        console.print("\n".join(advice_lines(diagnosis)), markup=False, soft_wrap=True)
        console.print("\n".join(last_lines(diagnosis)), markup=False, highlight=False)
    raise typer.Exit(EXIT_STATUSES[diagnosis.verdict])


@dataclass(frozen=True)
class Diagnosis:
    """All checks by the title of their section, and what shows that there are NeuronCores here."""

    sections: dict[str, list[Check]]
    machine: str

    @property
    def broken(self) -> list[str]:
        """Returns the names of all broken checks, each once."""
        checks = [check for section in self.sections.values() for check in section]
        return list(dict.fromkeys(check.name for check in checks if check.status == "broken"))

    @property
    def missing(self) -> list[str]:
        """Returns the broken checks without which no kernel runs on the NeuronCores here."""
        from trnfft.cli.health_checks import NEURON, TOOLS

        needed = [check for check in self.sections[NEURON] if check.name not in TOOLS]
        return [check.name for check in needed if self.machine and check.status == "broken"]

    @property
    def verdict(self) -> str:
        """Returns "ok", "broken", or NO_KERNELS on a computer with NeuronCores."""
        if self.missing:
            return NO_KERNELS
        return "broken" if self.broken else "ok"


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


def advice_lines(diagnosis: Diagnosis) -> list[str]:
    """Returns what to do about every check that is not ok; those with the same advice together."""
    same: dict[str, list[Check]] = {}
    for checks in diagnosis.sections.values():
        for check in checks:
            if check.status != "ok":
                same.setdefault(check.advice, []).append(check)
    if not same:
        return []
    lines = ["What to do"]
    if not diagnosis.machine:
        lines += textwrap.wrap(
            "Notes name what is absent. This computer has no NeuronCore, as far as its instance "
            "type and its devices tell, and trnfft works here without what the notes name.",
            WIDTH,
        )
    for advice, checks in same.items():
        names = ", ".join(dict.fromkeys(check.name for check in checks))
        is_broken = any(check.status == "broken" for check in checks)
        lines += [f"{'broken' if is_broken else 'note':<5} {names}", *wrapped(advice)]
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


def last_lines(diagnosis: Diagnosis) -> list[str]:
    """Returns the verdict in sentences."""
    others = [name for name in diagnosis.broken if name not in diagnosis.missing]
    if diagnosis.missing:
        lines = [
            f"No kernel can run on the NeuronCores of this computer ({diagnosis.machine}), because "
            f"of: {', '.join(diagnosis.missing)}."
        ]
        return lines + ([f"Also broken: {', '.join(others)}."] if others else [])
    if others:
        return [f"Broken: {', '.join(others)}."]
    what = f", and kernels have what they need on this computer ({diagnosis.machine})"
    return [f"Nothing is broken{what if diagnosis.machine else ''}."]
