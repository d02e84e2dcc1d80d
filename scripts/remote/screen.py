"""What the user sees while a job runs, and at its end."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from remote import cost
from remote.job import size_of
from remote.page import NAME as PAGE
from remote.record import Record
from remote.states import COMPLETE, FINISHED

LOG = "run.log"  # in the folder of the results: what `say` and `log` showed
COLORS = {"finished": "green", "failed": "red", "running": "cyan", "time limit": "red"}


class Screen:
    """Shows lines with the time, the log of the job, and tables.

    `file`: a file to which the lines and the log are appended, too; None for none.
    """

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.shown: dict[str, str] = {}
        self.file: Path | None = None

    def line(self, text: str) -> None:
        """Shows one line, whose words in brackets are styles of rich."""
        self.console.print(text, soft_wrap=True)

    def say(self, sentence: str) -> None:
        """Shows one line with the time."""
        self.note(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {sentence}")
        self.line(f"[dim]{time.strftime('%H:%M:%S')}[/] {escape(sentence)}")

    def note(self, line: str) -> None:
        """Appends a line to the file, if there is one and it can be written."""
        if self.file is not None:
            with suppress(OSError), self.file.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    def log(self, text: str, skipped: int) -> None:
        """Shows what the job printed since the last time."""
        if skipped:
            self.say(f"{skipped} bytes of log not shown; the results will contain them")
        for line in text.splitlines():
            # Control characters are left out: the log must not move the cursor.
            clean = "".join(c if c.isprintable() else " " for c in line)
            self.note(f"| {clean}")
            self.line(f"[dim]         | {escape(clean)}[/]")

    def states(self, sets: dict[str, dict[str, Any]]) -> None:
        """Shows a line for every set that has begun or ended."""
        for name, one in sets.items():
            if one["state"] != self.shown.get(name, "waiting") and not one.get("fetched"):
                self.say(f"{name}: {one['state']}")
            self.shown[name] = one["state"]

    def table(self, title: str, rows: dict[str, str], show_lines: bool = False) -> None:
        """Shows names and values, with lines between them where these are asked for."""
        table = Table(title=title, show_header=False, show_lines=show_lines)
        for _ in ("name", "value"):
            table.add_column(overflow="fold")  # long paths are not cut
        for name, value in rows.items():
            table.add_row(name, escape(value))
        self.console.print(table)

    def estimate(self, record: Record, keep: bool, size: int) -> None:
        """Shows what will run, and what it costs at most.

        size: bytes of the revision, as they travel to the instance.
        """
        kept = ". With --keep, the instance costs more for as long as it runs" if keep else ""
        rows = {
            "sets": ", ".join(record.missing),
            "revision": f"commit {record.commit[:12]}, {size_of(size)} to upload",
            "instance": f"{record.kind} {record.target}, {record.instance_type}",
            "time limit": f"{record.seconds / 3600:g} h",
            **cost.rows(record.instance_type, record.seconds),
        }
        rows["cost at most"] += kept
        self.table("Cost estimate", rows)

    def summary(self, record: Record) -> None:
        """Shows every set, and the commands to go on."""
        table = Table(title=f"Job {record.job}, results in {escape(str(record.folder))}")
        for column in ("set", "state", "time", "results"):
            table.add_column(column, justify="right" if column == "time" else "left")
        for name, one in record.sets.items():
            state, seconds = one["state"], one.get("seconds")
            color = COLORS.get(state, "default")
            lasted = "" if seconds is None else f"{seconds:.0f} s"
            table.add_row(name, f"[{color}]{state}[/]", lasted, escape(results_of(one)))
        self.console.print(table)
        self.next_steps(record)

    def next_steps(self, record: Record) -> None:
        """Shows where the page is, and the commands that plot and that go on."""

        def finished(name: str) -> Path | None:
            path = record.folder / f"{name}.json"
            is_finished = record.sets.get(name, {}).get("state") == FINISHED
            return path if is_finished and path.exists() else None

        script, folder = "scripts/hw_bench.py", str(record.folder)
        if (record.folder / PAGE).exists():
            self.line(f"page of results: {escape(str(record.folder / PAGE))}")
        if path := finished("probes"):
            self.command("changes to propose", "-m", "bench.probes", "propose", str(path))
        if record.missing:
            self.command("go on", script, "run", "--resume", "--out", folder)
        if record.instance and record.kind == "template":
            self.say(
                f"{record.instance} still exists, and its disk costs money until you delete the "
                "instance"
            )
            self.command("delete it", script, "stop", "--out", folder)

    def command(self, purpose: str, *arguments: str) -> None:
        """Shows a command to copy."""
        self.line(f"{purpose}: {escape(' '.join(['python', *map(quote, arguments)]))}")


def results_of(one: dict[str, Any]) -> str:
    """Returns what went wrong with a set, and the names of its results."""
    error = f"{one['error']}; " if one.get("error") else ""
    if not one.get("files"):
        return error + ("still on the instance" if one["state"] in COMPLETE else "none yet")
    return error + ", ".join(one["files"])
