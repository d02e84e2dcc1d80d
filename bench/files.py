"""Files of results with their names and labels, and the rows of them that are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.cases.case import KERNEL_BACKENDS
from bench.results import Key, Missing, Results, Row

MANY_POINTS = 2**19  # from this many on a batch counts as large


@dataclass(frozen=True)
class File:
    """Results with their names: the short one is for tables, the label for legends."""

    name: str
    label: str
    results: Results

    @cached_property
    def rows(self) -> dict[Key, Row]:
        return {row.key: row for row in self.results.rows}

    @cached_property
    def missing(self) -> dict[Key, Missing]:
        return {each.key: each for each in self.results.missing}

    @property
    def description(self) -> str:
        """Backend, chip, degree of LNC, versions, date and revision."""
        e = self.results.environment
        runs = f"backend {self.results.backend}, {self.results.where}"
        device = f", on {e.device} {e.instance}".rstrip() if e.device else f", on {e.cpu}"
        sdk = f" of SDK {e.sdk}" if e.sdk else ""
        dirty = {True: " with changes", False: "", None: ""}[e.git_is_dirty]
        revision = f", revision {e.git_revision[:10]}{dirty}" if e.git_revision else ""
        return f"{runs}{device}, NKI {e.nki}{sdk}, {e.date}{revision}"


def labelled(found: Sequence[tuple[Path, Results]]) -> list[File]:
    """Files by name, backend, chip and degree, and by revision where not all have the same.

    Names are those without folder and ending, or whole paths where these are equal.
    """
    stems = [path.stem for path, _ in found]
    revisions = {results.environment.git_revision for _, results in found}
    files = []
    for path, results in found:
        name = path.stem if stems.count(path.stem) == 1 else str(path)
        revision = f", {results.environment.git_revision[:7]}" if len(revisions) > 1 else ""
        label = f"{name} ({results.backend}, {results.where}{revision})"
        files.append(File(name, label, results))
    return files


def times_of(file: File) -> list[Row]:
    """The rows of complex transforms of one dimension that have a time."""
    rows = file.results.rows
    return [row for row in rows if row.operation == "transforms_1d" and row.time_us is not None]


def errors_of(file: File) -> list[Row]:
    """The rows whose errors are drawn: of the program accuracy, else the planner's choices."""
    rows = [row for row in file.results.rows if row.relative_error is not None]
    if file.results.program == "accuracy":
        return rows
    return [row for row in rows if is_large(row) and not row.algorithm]


def is_single(row: Row) -> bool:
    return row.batch == 1


def is_large(row: Row) -> bool:
    return row.operation == "transforms_1d" and row.shape[0] * row.batch >= MANY_POINTS


def choice_of(file: File) -> str:
    """What computes a transform for which no algorithm was asked."""
    backend = file.results.backend
    return "planner's choice" if backend in KERNEL_BACKENDS else f'backend "{backend}"'


def kind_of(row: Row) -> str:
    """Precision mode and, where one was asked for, the kernel."""
    return row.precision + (f" by {row.algorithm}" if row.algorithm else "")


def origin(file: File, row: Row) -> str:
    """Where errors come from."""
    if row.precision == "double":
        return "on the host"
    names = {"nki-sim": "simulated", "nki": "measured on the chip"}
    return names.get(file.results.backend, f"{file.results.backend} on the host")
