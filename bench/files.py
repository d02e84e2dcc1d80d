"""Files of results side by side: their names and labels, their cases, and the rows to draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

from bench.cases.case import KERNEL_BACKENDS
from bench.program import title_of
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


class Reasons:
    """Reasons why rows are missing, numbered."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def cell(self, missing: Missing | None) -> str:
        """What a table shows in place of a row."""
        if missing is None:
            return "missing"
        number = self.numbers.setdefault(missing.reason, len(self.numbers) + 1)
        return f"{'failed' if missing.is_failure else 'missing'} ({number})"

    def lines(self) -> list[str]:
        """The footnotes."""
        return [f"({number}) {reason}" for reason, number in self.numbers.items()]


def keys_of(files: Sequence[File]) -> list[Key]:
    """Every case of any file, in the order of the first file that has it."""
    found: dict[Key, None] = {}
    for file in files:
        found.update(dict.fromkeys([*file.rows, *file.missing]))
    order = {operation: index for index, operation in enumerate(dict.fromkeys(k[0] for k in found))}
    return sorted(found, key=lambda key: order[key[0]])


@dataclass(frozen=True)
class Section:
    """The lines of one operation. The first cell of a line is its case."""

    title: str
    lines: list[list[str]]


@dataclass(frozen=True)
class Table:
    """A table with the names of its columns."""

    columns: list[str]
    sections: list[Section]


def sections_of(
    files: Sequence[File],
    cells: Callable[[list[Row | None], list[str]], list[str]],
    reasons: Reasons,
) -> list[Section]:
    """Returns a line for every case of any file, operation by operation.

    cells: makes a line from the row of each file and from what stands in for a missing one.
    """
    found = []
    for operation, keys in groupby(keys_of(files), key=lambda key: key[0]):
        lines = []
        for key in keys:
            rows = [file.rows.get(key) for file in files]
            absent = [
                "" if key in file.rows else reasons.cell(file.missing.get(key)) for file in files
            ]
            lines.append([case_of(files, key), *cells(rows, absent)])
        found.append(Section(operation, lines))
    return found


def case_of(files: Sequence[File], key: Key) -> str:
    """Returns a case in words."""
    for file in files:
        if (asked := file.rows.get(key) or file.missing.get(key)) is not None:
            return title_of(asked)
    raise KeyError(key)


def shown_ratio(ratio: float) -> str:
    """Three digits, or all that an integer has."""
    return f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"
