"""The tables of a page, as text: times, errors, parity, and environments."""

from __future__ import annotations

from statistics import median

from bench.files import File, Reasons, Section, Table, sections_of, shown_ratio
from bench.page.contents import Contents
from bench.parity import differs
from bench.program import title_of
from bench.results import Row
from nki_sim.measured_times import about


def compared_us(row: Row | None) -> tuple[float | None, str]:
    """Returns the time of a row (µs) that is compared with the model's, and what it is."""
    if row is None:
        return None, ""
    return row.time_us, {"host": "whole call", "": ""}.get(row.time_source, "kernel")


def ratio(measured: Row | None, modelled: Row | None) -> float | None:
    """Returns a measured time over the modelled one of the same extent.

    The time of a kernel alone is compared with the modelled kernel. The time of a whole call is
    compared with the modelled kernel plus its launches.
    """
    time, what = compared_us(measured)
    if time is None or modelled is None:
        return None
    expected = modelled.with_launches_us if what == "whole call" else modelled.kernel_us
    return time / expected if expected else None


def ratios(contents: Contents) -> list[float]:
    """Returns measured over modelled time for every case that the first file of each kind has."""
    measured, modelled = contents.measured("run"), contents.modelled("run")
    if not measured or not modelled:
        return []
    found = (ratio(row, modelled[0].rows.get(key)) for key, row in measured[0].rows.items())
    return [each for each in found if each is not None]


def median_ratio(contents: Contents) -> str:
    """Returns the median of `ratios` as text; "" where there is none."""
    found = ratios(contents)
    return shown_ratio(median(found)) if found else ""


def times(contents: Contents, reasons: Reasons) -> Table | None:
    """Returns the table of times: measured, modelled, and the one over the other."""
    measured, modelled = contents.measured("run"), contents.modelled("run")
    files = [*measured, *modelled]
    if not files:
        return None
    columns = ["Case"]
    for file in measured:
        name = f"{file.name}: " if len(measured) > 1 else ""
        columns += [f"{name}measured, µs", "of"]
    for file in modelled:
        name = f"{file.name}: " if len(modelled) > 1 else ""
        columns += [f"{name}kernel, modelled, µs", "with launches, about"]
    both = bool(measured and modelled)
    columns += ["measured / modelled"] * both + ["DMA floor, modelled, µs"]

    def cells(rows: list[Row | None], absent: list[str]) -> list[str]:
        line: list[str] = []
        for row, instead in zip(rows[: len(measured)], absent, strict=False):
            time, what = compared_us(row)
            line += [instead or ("" if time is None else f"{time:,.1f}"), what]
        for row, instead in zip(rows[len(measured) :], absent[len(measured) :], strict=True):
            time, launched = (row.kernel_us, row.with_launches_us) if row else (None, None)
            line.append(instead or ("" if time is None else f"{time:,.1f}"))
            line.append("" if launched is None else about(1e3 * launched).replace(" us", " µs"))
        if both:
            found = ratio(rows[0], rows[len(measured)])
            line.append("" if found is None else shown_ratio(found))
        known = [row.dma_floor_us for row in rows if row and row.dma_floor_us is not None]
        return [*line, f"{known[0]:.3g}" if known else ""]

    return Table(columns, sections_of(files, cells, reasons))


def errors(contents: Contents, reasons: Reasons) -> Table | None:
    """Returns the table of errors: of bench.accuracy, and of bench.run where that is absent."""
    files = contents.of("accuracy") or contents.of("run")
    if not files:
        return None
    columns = ["Case"]
    for file in files:
        name = f"{file.name}: " if len(files) > 1 else ""
        columns += [f"{name}forward", f"{name}and back"]

    def cells(rows: list[Row | None], absent: list[str]) -> list[str]:
        line: list[str] = []
        for row, instead in zip(rows, absent, strict=True):
            values = (row.relative_error, row.round_trip_error) if row else (None, None)
            forward, back = ("" if value is None else f"{value:.2g}" for value in values)
            line += [instead or forward, back]
        known = [row.predicted_error for row in rows if row and row.predicted_error is not None]
        return [*line, f"{known[0]:.2g}" if known else ""]

    return Table([*columns, "predicted"], sections_of(files, cells, reasons))


def parity(contents: Contents, reasons: Reasons) -> Table | None:
    """Returns the table of differences from the simulator."""
    files = contents.of("parity")
    if not files:
        return None
    columns = ["Case"]
    for file in files:
        name = f"{file.name}: " if len(files) > 1 else ""
        columns += [f"{name}difference", f"{name}allowed", f"{name}verdict"]

    def cells(rows: list[Row | None], absent: list[str]) -> list[str]:
        line: list[str] = []
        for row, instead in zip(rows, absent, strict=True):
            values = (row.relative_difference, row.tolerance) if row else (None, None)
            difference, allowed = ("" if value is None else f"{value:.2g}" for value in values)
            verdict = "" if row is None else "differs" if differs(row) else "agrees"
            line += [instead or difference, allowed, verdict]
        return line

    return Table(columns, sections_of(files, cells, reasons))


def agreeing(contents: Contents) -> tuple[int, int] | None:
    """Returns how many cases of the parity files agree, and how many there are."""
    rows = [row for file in contents.of("parity") for row in file.results.rows]
    return (sum(not differs(row) for row in rows), len(rows)) if rows else None


def missing(contents: Contents) -> Table | None:
    """Returns the table of cases without a row, each with its file and the reason."""
    sections = [
        Section(
            file.label,
            [
                [title_of(each), "failed" if each.is_failure else "missing", each.reason]
                for each in file.results.missing
            ],
        )
        for file in contents.files
        if file.results.missing
    ]
    return Table(["Case", "", "Reason"], sections) if sections else None


def environments(contents: Contents) -> Table:
    """Returns the table of environments: a column for each file, equal columns once."""
    found: dict[tuple[str, ...], list[str]] = {}
    names: list[str] = []
    for file in contents.files:
        values = environment_of(file)
        names += [name for name in values if name not in names]
    for file in contents.files:
        values = environment_of(file)
        column = tuple(values.get(name, "") for name in names)
        found.setdefault(column, []).append(file.name)
    lines = [
        [name, *(column[i] or "—" for column in found)]
        for i, name in enumerate(names)
        if any(column[i] for column in found)
    ]
    return Table(["", *map(", ".join, found.values())], [Section("", lines)])


def environment_of(file: File) -> dict[str, str]:
    """Returns what a file says about where it was made, by name, without the time of day."""
    e = file.results.environment
    changed = {True: ", with changes", False: "", None: ""}[e.git_is_dirty]
    return {
        "backend": file.results.backend,
        "chip, degree of LNC": file.results.where,
        "device": e.device,
        "instance": e.instance,
        "date": e.date.partition("T")[0],
        "revision": f"{e.git_revision[:12]}{changed}" if e.git_revision else "",
        "Neuron SDK": e.sdk,
        "NKI": e.nki,
        "Neuron driver": e.driver,
        "Python": e.python,
        "system": e.system,
        "CPU": f"{e.cpu}, {e.cpu_count} processors",
        **e.packages,
        **e.system_packages,
    }
