"""What the user sees while a job runs, and at its end."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from remote import pace
from remote.cost import Estimate
from remote.job import size_of
from remote.page import NAME as PAGE
from remote.record import Record
from remote.states import COMPLETE, FINISHED

if TYPE_CHECKING:
    from trnfft.cli.health_checks import Check

LOG = "run.log"  # in the folder of the results: what `say` and `log` showed
COLORS = {"finished": "green", "failed": "red", "running": "cyan", "time limit": "red"}


class Screen:
    """Shows lines with the time, the log of the job, and tables.

    `file`: a file to which the lines and the log are appended, too; None for none.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.shown: dict[str, str] = {}
        self.file: Path | None = None

    def say(self, sentence: str) -> None:
        """Shows one line with the time."""
        self.note(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {sentence}")
        self.console.print(
            f"[dim]{time.strftime('%H:%M:%S')}[/] {escape(sentence)}", soft_wrap=True
        )

    def note(self, line: str) -> None:
        """Appends a line to the file, if there is one and it can be written."""
        if self.file is not None:
            with suppress(OSError), self.file.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    def checks(self, checks: list[Check]) -> None:
        """Shows what the doctor found, and what to do about each check that is not ok."""
        for check in checks:
            color = "green" if check.status == "ok" else "red"
            line = f"[{color}]{check.status:<8}[/]{check.name:<18}{escape(check.detail)}"
            self.console.print(line, soft_wrap=True)
            if check.status != "ok":
                self.console.print(f"        {escape(check.advice)}", soft_wrap=True)

    def log(self, text: str, skipped: int) -> None:
        """Shows what the job printed since the last time."""
        if skipped:
            self.say(f"{skipped} bytes of log not shown; the results will contain them")
        for line in text.splitlines():
            # Control characters are left out: the log must not move the cursor.
            clean = "".join(c if c.isprintable() else " " for c in line)
            self.note(f"| {clean}")
            self.console.print(f"[dim]         | {escape(clean)}[/]", soft_wrap=True)

    def call(self, text: str) -> None:
        """Shows a call to AWS: service.Operation and its parameters."""
        name, _, parameters = text.partition(" ")
        self.console.print(f"[bold]{name}[/] {escape(parameters)}", soft_wrap=True)

    def states(self, sets: dict[str, dict[str, Any]]) -> None:
        """Shows a line for every set that has begun or ended."""
        for name, one in sets.items():
            if one["state"] != self.shown.get(name, "waiting") and not one.get("fetched"):
                self.say(f"{name}: {one['state']}")
            self.shown[name] = one["state"]

    def estimate(self, record: Record, estimate: Estimate, keep: bool, size: int) -> None:
        """Shows what will run, and what it costs at most.

        size: bytes of the revision, as they travel to the instance.
        """
        price = estimate.price
        if price is None or estimate.dollars is None:
            cost = f"unknown: there is no price of {estimate.instance_type} here"
        else:
            hours = estimate.seconds / 3600
            cost = (
                f"${estimate.dollars:.2f}: {hours:.2f} h at ${price.hourly:g}. The time is the "
                f"limit, up to {pace.START / 60:.0f} min for the start, and "
                f"{pace.GRACE / 60:.0f} min until the instance ends by itself"
            )
        rows = {
            "sets": ", ".join(record.missing),
            "revision": f"commit {record.commit[:12]}, {size_of(size)} to upload",
            "instance": f"{record.kind} {record.target}, {estimate.instance_type}",
            "time limit": f"{record.seconds / 3600:g} h",
            "results through": f"S3 bucket {record.bucket}" if record.bucket else "command output",
            "price": str(price or "unknown"),
            "cost at most": cost
            + (". With --keep, the instance costs more for as long as it runs" if keep else ""),
        }
        self.table("Cost estimate", rows)

    def table(self, title: str, rows: dict[str, str], show_lines: bool = False) -> None:
        """Shows names and values, with lines between them where these are asked for."""
        table = Table(title=title, show_header=False, show_lines=show_lines)
        for _ in ("name", "value"):
            table.add_column(overflow="fold")  # long paths are not cut
        for name, value in rows.items():
            table.add_row(name, escape(value))
        self.console.print(table)

    def summary(self, record: Record) -> None:
        """Shows every set, and the commands to go on."""
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
        """Returns what went wrong, and the names of the results."""
        error = f"{one['error']}; " if one.get("error") else ""
        if not one.get("files"):
            return error + ("still on the instance" if one["state"] in COMPLETE else "none yet")
        return error + ", ".join(one["files"])

    def next_steps(self, record: Record) -> None:
        """Shows where the page is, and the commands that plot and that go on."""
        page = record.folder / PAGE
        if page.exists():
            self.console.print(f"page of results: {escape(str(page))}", soft_wrap=True)
        found = record.folder / "benchmarks.json"
        if record.sets.get("benchmarks", {}).get("state") == FINISHED and found.exists():
            self.command("compare", "-m", "bench.compare", str(found))
        probes = record.folder / "probes.json"
        if record.sets.get("probes", {}).get("state") == FINISHED and probes.exists():
            self.command("changes to propose", "-m", "bench.probes", "propose", str(probes))
        if record.missing:
            script = "scripts/hw_bench.py"
            self.command("go on", script, "run", "--resume", "--out", str(record.folder))
        if record.instance and record.kind == "template":
            self.say(
                f"{record.instance} still exists, and its disk costs money until you delete the "
                "instance"
            )
            self.command("delete it", "scripts/hw_bench.py", "stop", "--out", str(record.folder))

    def command(self, purpose: str, *arguments: str) -> None:
        """Shows a command to copy."""
        line = " ".join(["python", *map(quote, arguments)])
        self.console.print(f"{purpose}: {escape(line)}", soft_wrap=True, highlight=False)
