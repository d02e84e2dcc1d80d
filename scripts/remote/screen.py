"""What the user sees while a job runs and at its end."""

from __future__ import annotations

import time
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from remote.cost import Estimate
from remote.record import Record
from remote.states import COMPLETE, FINISHED

if TYPE_CHECKING:
    from trnfft.cli.health_checks import Check

COLORS = {"finished": "green", "failed": "red", "running": "cyan", "time limit": "red"}


class Screen:
    """Lines with the time, the log of the job, and tables."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.shown: dict[str, str] = {}

    def say(self, sentence: str) -> None:
        """One line with the time."""
        self.console.print(
            f"[dim]{time.strftime('%H:%M:%S')}[/] {escape(sentence)}", soft_wrap=True
        )

    def checks(self, checks: list[Check]) -> None:
        """What the doctor found, and below what is broken, what to do."""
        for check in checks:
            color = "green" if check.status == "ok" else "red"
            line = f"[{color}]{check.status:<8}[/]{check.name:<18}{escape(check.detail)}"
            self.console.print(line, soft_wrap=True)
            if check.status != "ok":
                self.console.print(f"        {escape(check.advice)}", soft_wrap=True)

    def log(self, text: str, skipped: int) -> None:
        """What the job printed since the last time."""
        if skipped:
            self.say(f"{skipped} bytes of log not shown; they come with the results")
        for line in text.splitlines():
            # Without control characters: the log is not ours to move the cursor with.
            clean = "".join(c if c.isprintable() else " " for c in line)
            self.console.print(f"[dim]         | {escape(clean)}[/]", soft_wrap=True)

    def call(self, text: str) -> None:
        """A call of AWS: service.operation and its parameters."""
        name, _, parameters = text.partition(" ")
        self.console.print(f"[bold]{name}[/] {escape(parameters)}", soft_wrap=True)

    def states(self, sets: dict[str, dict[str, Any]]) -> None:
        """A line for every set that has begun or ended."""
        for name, one in sets.items():
            if one["state"] != self.shown.get(name, "waiting") and not one.get("fetched"):
                self.say(f"{name}: {one['state']}")
            self.shown[name] = one["state"]

    def estimate(self, record: Record, estimate: Estimate, keep: bool) -> None:
        """What will run, and what it costs at most."""
        price = estimate.price
        if price is None or estimate.dollars is None:
            cost = f"unknown: there is no price of {estimate.instance_type} here"
        else:
            hours = estimate.seconds / 3600
            cost = f"${estimate.dollars:.2f}: {hours:.2f} h at ${price.hourly:g}"
        rows = {
            "sets": ", ".join(record.missing),
            "commit": record.commit[:12],
            "instance": f"{record.kind} {record.target}, {estimate.instance_type}",
            "time limit": f"{record.seconds / 3600:g} h",
            "results through": f"S3 bucket {record.bucket}" if record.bucket else "command output",
            "price": str(price or "unknown"),
            "cost at most": cost + (", and more for as long as you keep it" if keep else ""),
        }
        self.table("Cost estimate", rows)

    def table(self, title: str, rows: dict[str, str]) -> None:
        """Names and values."""
        table = Table(title=title, show_header=False)
        for name, value in rows.items():
            table.add_row(name, escape(value))
        self.console.print(table)

    def summary(self, record: Record) -> None:
        """Every set, and how to go on."""
        table = Table(title=f"Job {record.job}, results in {escape(str(record.folder))}")
        for column in ("set", "state", "time", "results"):
            table.add_column(column, justify="right" if column == "time" else "left")
        for name, one in record.sets.items():
            state, seconds = one["state"], one.get("seconds")
            table.add_row(
                name,
                f"[{COLORS.get(state, 'default')}]{state}[/]",
                "" if seconds is None else f"{seconds:.0f} s",
                escape(self.results(one)),
            )
        self.console.print(table)
        self.next_steps(record)

    def results(self, one: dict[str, Any]) -> str:
        """What went wrong, and the names of the results."""
        error = f"{one['error']}; " if one.get("error") else ""
        if not one.get("files"):
            return error + ("still on the instance" if one["state"] in COMPLETE else "none yet")
        return error + ", ".join(one["files"])

    def next_steps(self, record: Record) -> None:
        """The command that plots, and the one that goes on."""
        found = record.folder / "benchmarks.json"
        if record.sets.get("benchmarks", {}).get("state") == FINISHED and found.exists():
            self.command("compare and plot", "-m", "bench.compare", str(found), "--out", "plots/")
        probes = record.folder / "probes.json"
        if record.sets.get("probes", {}).get("state") == FINISHED and probes.exists():
            self.command("changes to propose", "-m", "bench.probes", "propose", str(probes))
        if record.missing:
            script = "scripts/hw_bench.py"
            self.command("go on", script, "run", "--resume", "--out", str(record.folder))
        if record.instance and record.kind == "template":
            self.say(f"{record.instance} still exists; its disk costs money until it is deleted")
            self.command("delete it", "scripts/hw_bench.py", "stop", "--out", str(record.folder))

    def command(self, purpose: str, *arguments: str) -> None:
        """A command to copy."""
        line = " ".join(["python", *map(quote, arguments)])
        self.console.print(f"{purpose}: {escape(line)}", soft_wrap=True, highlight=False)
