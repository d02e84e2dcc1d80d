"""`trnfft doctor`: what is installed, which backend runs and why, and whether it works."""

from __future__ import annotations

from dataclasses import replace

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trnfft.cli.health_checks import (
    BROKEN,
    NOTE,
    Check,
    backend_checks,
    neuron_checks,
    neuron_devices,
    package_checks,
    self_tests,
    setting_checks,
    wisdom_checks,
)


def doctor() -> None:
    """What is installed, which backend runs and why; ends with 1 if something is broken."""
    sections = examine()
    Console().print(screen(sections))
    broken = [check for checks in sections.values() for check in checks if check.status == BROKEN]
    for name, advice in dict.fromkeys((check.name, check.advice) for check in broken):
        typer.echo(f"{name}: {advice}", err=True)
    if broken:
        raise typer.Exit(1)
    typer.echo("nothing is broken")


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
