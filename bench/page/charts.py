"""The lines of a page's charts: time against N and error against N, measured beside modelled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.files import File, choice_of, errors_of, is_large, is_single, kind_of, origin, times_of
from bench.page.contents import Contents
from bench.results import Row
from bench.seed_article import figures as seed_figures
from nki_sim import hardware

# What a time is. The style of a line follows the kind, its colour the algorithm.
KINDS = {
    "measured": "kernel alone, measured on the device",
    "host": "whole call, measured by the host's clock",
    "modelled": "kernel alone, modelled",
    "launched": "kernel modelled, plus launches as others measured them",
    "predicted": "kernel alone, modelled by the planner",
}
COLOURS = 6  # of algorithms and precision modes, in the style sheet


@dataclass(frozen=True)
class Line:
    """One line of a chart: a value for each N.

    `kind` chooses the style, `colour` a variable of the style sheet. A line that is not `shown`
    appears when the reader ticks its name.
    """

    label: str
    kind: str
    colour: str
    shown: bool
    points: dict[int, float]


@dataclass(frozen=True)
class Chart:
    """A chart with logarithmic axes, N to the right."""

    name: str
    title: str
    about: str
    quantity: str
    lines: list[Line]

    @property
    def data(self) -> dict[str, Any]:
        """The chart as data for the script of the page.

        `values` are those at powers of two, which a line joins. `others` are markers alone.
        """
        lengths = sorted({n for line in self.lines for n in line.points})
        return {
            "name": self.name,
            "quantity": self.quantity,
            "lengths": lengths,
            "lines": [
                {
                    "label": line.label,
                    "kind": line.kind,
                    "colour": line.colour,
                    "shown": line.shown,
                    "values": [line.points.get(n) if is_power(n) else None for n in lengths],
                    "others": [None if is_power(n) else line.points.get(n) for n in lengths],
                }
                for line in self.lines
            ],
        }


def is_power(n: int) -> bool:
    """Returns whether a length is a power of two."""
    return n & (n - 1) == 0


def charts(contents: Contents) -> list[Chart]:
    """Returns the charts that there is something for."""
    single = time_chart(
        contents,
        "single",
        "Time of one transform against N",
        "One complex transform of length N.",
        is_single,
    )
    many = time_chart(
        contents,
        "many",
        "Time of about 2²⁰ points against N",
        "A batch of complex transforms of length N that holds about 2²⁰ points.",
        is_large,
    )
    return [chart for chart in (single, many, error_chart(contents)) if chart.lines]


def time_chart(
    contents: Contents, name: str, title: str, about: str, wanted: Callable[[Row], bool]
) -> Chart:
    """Returns a chart of the times of complex transforms of one dimension."""
    measured, modelled = contents.measured("run"), contents.modelled("run")
    files = [*measured, *modelled]
    rows = {file.label: [r for r in times_of(file) if wanted(r)] for file in files}
    found = [row for file in files for row in rows[file.label]]
    colours = colours_of(row.algorithm for row in found if row.algorithm)
    whole_calls = any(row.time_source == "host" for file in measured for row in rows[file.label])
    lines = []
    for file in files:
        prefix = f"{file.name}, " if len(measured) > 1 or len(modelled) > 1 else ""
        for algorithm in dict.fromkeys(row.algorithm for row in rows[file.label]):
            chosen = [row for row in rows[file.label] if row.algorithm == algorithm]
            name_of = f"{prefix}{algorithm or choice_of(file)}"
            for kind, points in kinds_of(chosen, with_prediction=not modelled).items():
                lines.append(
                    Line(
                        label=f"{name_of}: {KINDS[kind]}",
                        kind=kind,
                        colour=colours.get(algorithm, "choice"),
                        shown=not algorithm and is_shown(kind, chosen, whole_calls),
                        points=points,
                    )
                )
    lines += floors(found, shown=name != "single")  # far below one transform's time
    if found and name == "single":
        for way, times in seed_figures.TIMES_US.items():
            lines.append(
                Line(f"seed article, {way}: with launches, trn1", "seed", "quiet", True, times)
            )
    about += (
        " Ticked names are drawn. Hollow markers are lengths that are no power of two. "
        "The DMA floor is the least time that reading and writing every point once takes."
    )
    return Chart(name, title, about, "time, µs", lines)


def kinds_of(rows: Sequence[Row], with_prediction: bool) -> dict[str, dict[int, float]]:
    """Returns the times (µs) of rows by what they are, each by N."""
    found: dict[str, dict[int, float]] = {}

    def add(kind: str, row: Row, time: float | None) -> None:
        if time is not None:
            found.setdefault(kind, {})[row.shape[0]] = time

    for row in rows:
        add(row.kernel_time_source, row, row.kernel_us)
        add("host", row, None if row.latency is None else row.latency.p50_us)
        add("launched", row, row.with_launches_us)
        if with_prediction:
            add("predicted", row, row.predicted_us)
    return found


def is_shown(kind: str, rows: Sequence[Row], whole_calls: bool) -> bool:
    """Returns whether a line is drawn at first: kernels beside kernels, whole calls beside those.

    whole_calls: what was measured are times of whole calls only.
    """
    if kind == "host":
        return any(row.kernel_us is None for row in rows)
    return kind != "launched" or whole_calls


def floors(rows: Iterable[Row], shown: bool) -> list[Line]:
    """Returns a line for each chip and degree of LNC: the least time of the DMA traffic."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.dma_floor_us is not None and is_power(row.shape[0]):
            rate = 1 / hardware.chip(row.target).dma_floor_ns(1, 1, row.cores)
            label = f"DMA floor of {row.where}, {rate:.0f} GB/s, modelled"
            found.setdefault(label, {})[row.shape[0]] = row.dma_floor_us
    return [Line(label, "floor", "heat", shown, points) for label, points in found.items()]


def error_chart(contents: Contents) -> Chart:
    """Returns the chart of errors: by bench.accuracy where it ran, else by bench.run."""
    lines: list[Line] = []
    groups = [group("accuracy") or group("run") for group in (contents.measured, contents.modelled)]
    files = [file for group in groups for file in group]
    kinds = list(dict.fromkeys(kind_of(row) for file in files for row in rows_of(file)))
    colours = colours_of(kinds[1:])
    for file in files:
        prefix = f"{file.name}, " if any(len(group) > 1 for group in groups) else ""
        for kind in dict.fromkeys(map(kind_of, rows_of(file))):
            rows = [row for row in rows_of(file) if kind_of(row) == kind]
            style = "modelled" if file in groups[1] else "measured"
            errors = {row.shape[0]: row.relative_error for row in rows if row.relative_error}
            known = {row.shape[0]: row.predicted_error for row in rows if row.predicted_error}
            colour = colours.get(kind, "choice")
            # Modes with double precision run on the host, and single kernels crowd the chart.
            is_first = rows[0].precision != "double" and not rows[0].algorithm
            label = f"{prefix}{kind}: {origin(file, rows[0])}"
            lines.append(Line(label, style, colour, is_first, errors))
            if known and file in groups[0 if groups[0] else 1]:
                label = f"{prefix}{kind}: predicted by the planner"
                lines.append(Line(label, "predicted", colour, False, known))
    if lines:
        for mode, errors in seed_figures.ERRORS.items():
            lines.append(
                Line(f"seed article, {mode}: its butterfly, trn1", "seed", "quiet", False, errors)
            )
    about = (
        "Relative L2 error of forward transforms against NumPy in float64, by precision mode. "
        "Ticked names are drawn."
    )
    return Chart("error", "Error against N", about, "relative L2 error", lines)


def rows_of(file: File) -> list[Row]:
    """Returns the rows of a file whose errors are drawn."""
    return [row for row in errors_of(file) if row.relative_error]


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Returns a variable of the style sheet for each name."""
    return {name: f"line-{i % COLOURS}" for i, name in enumerate(dict.fromkeys(names))}
