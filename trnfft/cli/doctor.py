"""`trnfft doctor`: what is installed, which backend runs and why, and whether it works."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trnfft.cli.health_checks import (
    BROKEN,
    NOTE,
    OK,
    Check,
    backend_checks,
    neuron_checks,
    neuron_devices,
    package_checks,
    self_tests,
    setting_checks,
    wisdom_checks,
)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
) -> None:
    """What is installed, which backend runs and why; ends with 1 if something is broken."""
    sections = examine()
    broken = [check for checks in sections.values() for check in checks if check.status == BROKEN]
    if as_json:
        typer.echo(json.dumps(report(sections), indent=1))
    else:
        Console().print(screen(sections))
        told = [*broken, *notes_on_devices(sections["NeuronCore"])]
        for name, advice in dict.fromkeys((check.name, check.advice) for check in told):
            typer.echo(f"{name}: {advice}", err=True)
        if not broken:
            typer.echo("nothing is broken")
    if broken:
        raise typer.Exit(1)


def examine() -> dict[str, list[Check]]:
    """All checks, by the title of their section.

    Without a Neuron driver, what a NeuronCore needs is not missed: those checks are notes.
    """
    neuron = neuron_checks()
    if not neuron_devices():
        neuron = [replace(one, status=NOTE) if one.status == BROKEN else one for one in neuron]
    return {
        "Packages": package_checks(),
        "Settings": setting_checks(),
        'Backend "auto"': backend_checks(),
        "Remembered plans": wisdom_checks(),
        "Self-tests": self_tests(),
        "NeuronCore": neuron,
    }


def notes_on_devices(checks: list[Check]) -> list[Check]:
    """What makes a NeuronCore slower than it could be; nothing without a Neuron driver."""
    return [check for check in checks if check.status == NOTE and neuron_devices()]


def screen(sections: dict[str, list[Check]]) -> Table:
    """One row a check, sections below each other."""
    colors = {"ok": "green", "note": "yellow", BROKEN: "bold red"}
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for title, checks in sections.items():
        table.add_row("", f"[bold]{escape(title)}", "")
        for check in checks:
            status = f"[{colors[check.status]}]{check.status}"
            table.add_row(status, escape(check.name), escape(check.detail))
    return table


def report(sections: dict[str, list[Check]]) -> dict[str, Any]:
    """As JSON types: the verdict, "ok" or "broken", and each section's checks."""
    statuses = {check.status for checks in sections.values() for check in checks}
    return {
        "verdict": BROKEN if BROKEN in statuses else OK,
        "sections": {title: list(map(asdict, checks)) for title, checks in sections.items()},
    }
