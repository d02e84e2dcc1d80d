"""The tables of a page, as text: times, errors, parity, missing cases, and environments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from bench.page.contents import Contents, File
from bench.parity import differs
from bench.program import title_of
from bench.results import Asked, Key, Row
from nki_sim.measured_times import about


@dataclass(frozen=True)
class Table:
    """A table with the names of its columns. The first cells of a line say what it is about."""

    columns: list[str]
    lines: list[list[str]]


@dataclass(frozen=True)
class Columns:
    """What a table shows of each of some files: headings, and the cells of a row below them."""

    files: list[File]
    headings: tuple[str, ...]
    cells: Callable[[Row], list[str]]

    @property
    def titles(self) -> list[str]:
        """The headings, with the names of the files where there are several."""
        names = [f"{file.name}: " if len(self.files) > 1 else "" for file in self.files]
        return [f"{name}{heading}" for name in names for heading in self.headings]

    def of(self, key: Key) -> list[str]:
        """Returns the cells of a case; a file without it has a word in place of the first."""
        found = []
        for file in self.files:
            if (row := file.rows.get(key)) is not None:
                found += self.cells(row)
            else:
                absent = file.missing.get(key)
                word = "failed" if absent is not None and absent.is_failure else "missing"
                found += [word, *[""] * (len(self.headings) - 1)]
        return found


def by_case(groups: list[Columns], last: dict[str, Callable[[Key], str]]) -> Table | None:
    """Returns a table with a line for every case of any file, operation by operation.

    last: the columns behind those of the files: a heading, and the cell of a case.
    """
    files = [file for group in groups for file in group.files]
    cases: dict[Key, Asked] = {}
    for file in files:
        for asked in (*file.rows.values(), *file.missing.values()):
            cases.setdefault(asked.key, asked)
    operations = list(dict.fromkeys(asked.operation for asked in cases.values()))
    lines = [
        [
            asked.operation,
            title_of(asked),
            *(cell for group in groups for cell in group.of(key)),
            *(cell(key) for cell in last.values()),
        ]
        for key, asked in sorted(cases.items(), key=lambda one: operations.index(one[0][0]))
    ]
    titles = [title for group in groups for title in group.titles]
    return Table(["operation", "case", *titles, *last], lines) if files else None


def shown(value: float | None, form: str = ".2g") -> str:
    """Returns a number as text, or "" for None."""
    return "" if value is None else format(value, form)


def known(files: list[File], key: Key, name: str, form: str) -> str:
    """Returns a value of the first file whose row of a case has it."""
    rows = [file.rows[key] for file in files if key in file.rows]
    values = [value for row in rows if (value := getattr(row, name)) is not None]
    return shown(values[0], form) if values else ""


def what(row: Row) -> str:
    """Returns what `time_us` of a row is the time of."""
    return {"host": "whole call", "": ""}.get(row.time_source, "kernel")


def ratio(measured: Row | None, modelled: Row | None) -> float | None:
    """Returns a measured time over the modelled one of the same extent.

    The time of a kernel alone is compared with the modelled kernel. The time of a whole call is
    compared with the modelled kernel plus its launches.
    """
    if measured is None or measured.time_us is None or modelled is None:
        return None
    is_whole = what(measured) == "whole call"
    expected = modelled.with_launches_us if is_whole else modelled.kernel_us
    return measured.time_us / expected if expected else None


def ratios(contents: Contents) -> dict[Key, float]:
    """Returns measured over modelled time for every case that the first file of each kind has."""
    measured, modelled = contents.measured("run")[:1], contents.modelled("run")[:1]
    found = {
        key: ratio(row, theirs.rows.get(key))
        for ours, theirs in zip(measured, modelled, strict=False)
        for key, row in ours.rows.items()
    }
    return {key: value for key, value in found.items() if value is not None}


def shown_ratio(ratio: float) -> str:
    """Three digits, or all that an integer has."""
    return f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"


def median_ratio(contents: Contents) -> str:
    """Returns the median of `ratios` as text; "" where there is none."""
    found = ratios(contents)
    return shown_ratio(median(found.values())) if found else ""


def times(contents: Contents) -> Table | None:
    """Returns the table of times: measured, modelled, and the one over the other."""

    def model(row: Row) -> list[str]:
        launched = row.with_launches_us
        words = "" if launched is None else about(1e3 * launched).replace(" us", " µs")
        return [shown(row.kernel_us, ",.1f"), words]

    measured, modelled = contents.measured("run"), contents.modelled("run")
    found = ratios(contents)
    last: dict[str, Callable[[Key], str]] = {}
    if measured and modelled:
        last["measured / modelled"] = lambda key: shown_ratio(found[key]) if key in found else ""
    files = [*measured, *modelled]
    last["DMA floor, modelled, µs"] = lambda key: known(files, key, "dma_floor_us", ".3g")
    groups = [
        Columns(
            measured,
            ("measured, µs", "of"),
            lambda row: [shown(row.time_us, ",.1f"), what(row)],
        ),
        Columns(modelled, ("kernel, modelled, µs", "with launches, about"), model),
    ]
    return by_case(groups, last)


def errors(contents: Contents) -> Table | None:
    """Returns the table of errors: of bench.accuracy, and of bench.run where that is absent."""
    files = contents.of("accuracy") or contents.of("run")
    columns = Columns(
        files,
        ("forward", "and back"),
        lambda row: [shown(row.relative_error), shown(row.round_trip_error)],
    )
    return by_case([columns], {"predicted": lambda k: known(files, k, "predicted_error", ".2g")})


def parity(contents: Contents) -> Table | None:
    """Returns the table of differences from the simulator."""

    def cells(row: Row) -> list[str]:
        verdict = "differs" if differs(row) else "agrees"
        return [shown(row.relative_difference), shown(row.tolerance), verdict]

    headings = ("difference", "allowed", "verdict")
    return by_case([Columns(contents.of("parity"), headings, cells)], {})


def agreeing(contents: Contents) -> tuple[int, int] | None:
    """Returns how many cases of the parity files agree, and how many there are."""
    rows = [row for file in contents.of("parity") for row in file.results.rows]
    return (sum(not differs(row) for row in rows), len(rows)) if rows else None


def missing(contents: Contents) -> Table | None:
    """Returns the table of cases without a row, each with its file and the reason."""
    lines = [
        [file.name, title_of(each), "failed" if each.is_failure else "missing", each.reason]
        for file in contents.files
        for each in file.results.missing
    ]
    return Table(["file", "case", "", "reason"], lines) if lines else None


def environments(contents: Contents) -> Table:
    """Returns the table of environments: a column for each file, equal columns once."""
    found = {file.name: environment_of(file) for file in contents.files}
    names = list(dict.fromkeys(name for values in found.values() for name in values))
    columns: dict[tuple[str, ...], list[str]] = {}
    for file, values in found.items():
        columns.setdefault(tuple(values.get(name, "") for name in names), []).append(file)
    lines = [
        [name, *(cell or "—" for cell in cells)]
        for name, *cells in zip(names, *columns, strict=True)
        if any(cells)
    ]
    return Table(["", *map(", ".join, columns.values())], lines)


def environment_of(file: File) -> dict[str, str]:
    """Returns what a file says about where it was made, by name, without the time of day."""
    fields = file.results.environment.model_dump()
    packages = fields.pop("packages") | fields.pop("system_packages")
    fields |= {"date": fields["date"].partition("T")[0]}
    facts = {name.replace("_", " "): str(value) for name, value in (fields | packages).items()}
    return {"backend": file.results.backend, "chip, degree of LNC": file.results.where, **facts}
