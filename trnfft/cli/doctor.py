"""`trnfft doctor`: what is installed, which backend runs and why, and whether it works."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from trnfft.cli.health_checks import Check

NEURON = "NeuronCore"  # title of the section of what kernels on a NeuronCore need
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
    from trnfft.cli.health_checks import neuron_machine

    sections, machine = examine(), neuron_machine()
    verdict = verdict_of(sections, machine)
    if as_json:
        typer.echo(json.dumps(report(sections, machine), indent=1))
    else:
        console = Console()
        console.print(screen(sections))
        console.print()
        console.print("\n".join(advice_lines(sections, machine)), markup=False, soft_wrap=True)
        console.print("\n".join(last_lines(sections, machine)), markup=False, highlight=False)
    raise typer.Exit(EXIT_STATUSES[verdict])


def examine() -> dict[str, list[Check]]:
    """Returns all checks, by the title of their section.

    A computer without NeuronCores does not miss what a NeuronCore needs: those checks are notes.
    """
    from trnfft.cli import health_checks
    from trnfft.cli.health_checks import BROKEN, NOTE

    neuron = health_checks.neuron_checks()
    if not health_checks.neuron_machine():
        neuron = [replace(one, status=NOTE) if one.status == BROKEN else one for one in neuron]
    return {
        "Packages": health_checks.package_checks(),
        "Settings": health_checks.setting_checks(),
        'Backend "auto"': health_checks.backend_checks(),
        "Remembered plans": health_checks.wisdom_checks(),
        "Self-tests": health_checks.self_tests(),
        NEURON: neuron,
    }


def verdict_of(sections: dict[str, list[Check]], machine: str) -> str:
    """Returns "ok", "broken", or NO_KERNELS on a computer with NeuronCores."""
    if machine and missing_for_kernels(sections):
        return NO_KERNELS
    return "broken" if broken(sections) else "ok"


def broken(sections: dict[str, list[Check]]) -> list[str]:
    """Returns the names of all broken checks, each once."""
    return list(
        dict.fromkeys(
            check.name for checks in sections.values() for check in checks if is_broken(check)
        )
    )


def missing_for_kernels(sections: dict[str, list[Check]]) -> list[str]:
    """Returns the names of the broken checks without which no kernel runs on a NeuronCore."""
    from trnfft.cli.health_checks import TOOLS

    return [
        check.name for check in sections[NEURON] if is_broken(check) and check.name not in TOOLS
    ]


def is_broken(check: Check) -> bool:
    """Returns whether a check is broken."""
    return check.status == "broken"


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


def advice_lines(sections: dict[str, list[Check]], machine: str) -> list[str]:
    """Returns what to do about every check that is not ok; those with the same advice together."""
    names: dict[str, list[str]] = {}
    statuses: dict[str, str] = {}
    for checks in sections.values():
        for check in checks:
            if check.status == "ok":
                continue
            names.setdefault(check.advice, [])
            if check.name not in names[check.advice]:
                names[check.advice].append(check.name)
            if is_broken(check) or check.advice not in statuses:
                statuses[check.advice] = check.status
    lines = ["What to do"] if names else []
    if names and not machine:
        lines += textwrap.wrap(
            "Notes name what is absent. This computer has no NeuronCore, as far as its instance "
            "type and its devices tell, and trnfft works here without what the notes name.",
            WIDTH,
        )
    for advice, about in names.items():
        lines += [f"{statuses[advice]:<5} {', '.join(about)}", *wrapped(advice)]
    return [*lines, ""] if lines else []


def wrapped(advice: str) -> list[str]:
    """Returns advice in lines of up to WIDTH columns, each command in lines of its own."""
    lines = []
    for part in re.split(r"; | && |(?<=[:,]) (?=pip |export )", advice):
        is_command = part.startswith(("pip ", "export "))
        indent = " " * (10 if is_command else 6)
        found = textwrap.wrap(
            part if is_command else part[0].upper() + part[1:],
            WIDTH - 2,
            initial_indent=indent,
            subsequent_indent=indent + "    " * is_command,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += [f"{line} \\" for line in found[:-1]] + found[-1:] if is_command else found
    return lines


def last_lines(sections: dict[str, list[Check]], machine: str) -> list[str]:
    """Returns the verdict in sentences."""
    verdict, others = verdict_of(sections, machine), broken(sections)
    if verdict == NO_KERNELS:
        missing = missing_for_kernels(sections)
        others = [name for name in others if name not in missing]
        lines = [
            f"No kernel can run on the NeuronCores of this computer ({machine}), because of: "
            f"{', '.join(missing)}."
        ]
        return lines + ([f"Also broken: {', '.join(others)}."] if others else [])
    if verdict == "broken":
        return [f"Broken: {', '.join(others)}."]
    if machine:
        return [f"Nothing is broken, and kernels have what they need on this computer ({machine})."]
    return ["Nothing is broken."]


def report(sections: dict[str, list[Check]], machine: str) -> dict[str, Any]:
    """Returns the verdict and the checks of each section, as JSON types."""
    return {
        "verdict": verdict_of(sections, machine),
        "sections": {title: list(map(asdict, checks)) for title, checks in sections.items()},
    }
