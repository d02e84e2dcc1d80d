"""The charts of a page: time against N and error against N, measured beside modelled.

matplotlib draws them as SVG. Lines join powers of two, and other lengths have hollow markers.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.page.contents import Contents, File
from bench.results import Row
from bench.seed_article import figures as seed_figures
from nki_sim import hardware

INK = "#010203"  # becomes the colour of the page's text, in its light and its dark scheme
MANY_POINTS = 2**19  # from this many on a batch counts as large
# What a line shows, and its style.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "measured": ("kernel alone, measured on the device", {"marker": "o", "linewidth": 2.5}),
    "host": ("whole call, measured by the host's clock", {"marker": "o", "linewidth": 2.5}),
    "modelled": ("kernel alone, modelled", {"marker": ".", "linestyle": "--"}),
    "launched": ("kernel modelled, plus launches as others measured them", {"linestyle": "-."}),
    "predicted": ("kernel alone, modelled by the planner", {"linestyle": ":"}),
    "floor": ("", {"linestyle": (0, (1, 2))}),
    "seed": ("", {"marker": "x", "linestyle": ":", "color": "#8b949e"}),
}


@dataclass(frozen=True)
class Line:
    """One line of a chart: a value for each N. `kind` chooses its style."""

    label: str
    kind: str
    points: dict[int, float]


@dataclass(frozen=True)
class Chart:
    """A chart with logarithmic axes, N to the right."""

    name: str
    title: str
    about: str
    quantity: str
    lines: list[Line] = field(default_factory=list)

    def svg(self) -> str:
        """Returns the picture, which stands in a page beside others.

        Raises:
            ImportError: matplotlib is not installed.
        """
        try:
            from matplotlib import rc_context
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("the charts need matplotlib: pip install 'matplotlib<4'") from error
        inked = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color")
        settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "", **dict.fromkeys(inked, INK)}
        picture = io.StringIO()
        with rc_context(settings):
            figure = Figure(figsize=(9, 5), layout="constrained")
            axes = figure.subplots()
            for line in self.lines:
                powers = [n for n in sorted(line.points) if is_power(n)]
                others = [n for n in line.points if not is_power(n)]
                values = [line.points[n] for n in powers]
                (drawn,) = axes.plot(powers, values, label=line.label, **KINDS[line.kind][1])
                values, color = [line.points[n] for n in others], drawn.get_color()
                axes.plot(others, values, "o", color=color, markerfacecolor="none")
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set(xlabel="N", ylabel=self.quantity)
            axes.grid(alpha=0.3)
            figure.legend(loc="outside lower left", frameon=False)
            figure.savefig(picture, format="svg", transparent=True, metadata={"Date": None})
        text = picture.getvalue().replace(INK, "currentColor")
        # Several pictures in a page must not have the same identifiers.
        named = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{self.name}-", text)
        return named[named.index("<svg") :]


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
        lambda row: row.batch == 1,
    )
    many = time_chart(
        contents,
        "many",
        "Time of about 2²⁰ points against N",
        "A batch of complex transforms of length N that holds about 2²⁰ points.",
        lambda row: row.shape[0] * row.batch >= MANY_POINTS,
    )
    return [chart for chart in (single, many, error_chart(contents)) if chart.lines]


def time_chart(
    contents: Contents, name: str, title: str, about: str, wanted: Callable[[Row], bool]
) -> Chart:
    """Returns a chart of the times of transforms of one dimension, by the planner's choices.

    Where whole calls were measured alone, modelled kernels stand there with their launches, too.
    """
    measured, modelled = contents.measured("run"), contents.modelled("run")
    several = len(measured) > 1 or len(modelled) > 1
    rows = {
        file.name: [
            row
            for row in file.results.rows
            if row.operation == "transforms_1d" and not row.algorithm and wanted(row)
        ]
        for file in (*measured, *modelled)
    }
    is_whole = any(row.time_source == "host" for file in measured for row in rows[file.name])
    about += (
        " Hollow markers are lengths that are no power of two. The DMA floor is the least time "
        "that reading and writing every point once takes."
    )
    chart = Chart(name, title, about, "time, µs")
    for file, found in rows.items():
        points: dict[str, dict[int, float]] = {}
        for row in found:
            times = {row.time_source: row.time_us}
            times |= {"launched": row.with_launches_us} if is_whole else {}
            times |= {} if modelled else {"predicted": row.predicted_us}
            for kind, time in times.items():
                if time is not None:
                    points.setdefault(kind, {})[row.shape[0]] = time
        prefix = f"{file}: " if several else ""
        for kind, values in points.items():
            chart.lines.append(Line(prefix + KINDS[kind][0], kind, values))
    if name == "single" and chart.lines:
        for way, values in seed_figures.TIMES_US.items():
            label = f"seed article, {way}: with launches, trn1"
            chart.lines.append(Line(label, "seed", values))
    elif chart.lines:  # floors are far below one transform's time
        chart.lines.extend(floors(row for found in rows.values() for row in found))
    return chart


def floors(rows: Iterable[Row]) -> list[Line]:
    """Returns a line for each chip and degree of LNC: the least time of the DMA traffic."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row.dma_floor_us is not None and is_power(row.shape[0]):
            rate = 1 / hardware.chip(row.target).dma_floor_ns(1, 1, row.cores)
            label = f"DMA floor of {row.where}, {rate:.0f} GB/s, modelled"
            found.setdefault(label, {})[row.shape[0]] = row.dma_floor_us
    return [Line(label, "floor", points) for label, points in found.items()]


def error_chart(contents: Contents) -> Chart:
    """Returns the chart of errors: by bench.accuracy where it ran, else by bench.run."""
    chart = Chart(
        "error",
        "Error against N",
        "Relative L2 error of forward transforms against NumPy in float64, by precision mode.",
        "relative L2 error",
    )
    groups = [group("accuracy") or group("run") for group in (contents.measured, contents.modelled)]
    several = any(len(group) > 1 for group in groups)
    names = {"nki-sim": "simulated", "nki": "measured on the chip"}
    for kind, group in zip(("measured", "modelled"), groups, strict=True):
        for file in group:
            backend = file.results.backend
            where = names.get(backend, f"{backend} on the host")
            for mode, errors in errors_of(file).items():
                prefix = f"{file.name}, " if several else ""
                chart.lines.append(Line(f"{prefix}{mode}: {where}", kind, errors))
    if chart.lines:
        for mode, errors in seed_figures.ERRORS.items():
            label = f"seed article, {mode}: its butterfly, trn1"
            chart.lines.append(Line(label, "seed", errors))
    return chart


def errors_of(file: File) -> dict[str, dict[int, float]]:
    """Returns errors by precision mode and length: of the planner's choices, not on the host."""
    found: dict[str, dict[int, float]] = {}
    for row in file.results.rows:
        is_large = row.operation == "transforms_1d" and row.shape[0] * row.batch >= MANY_POINTS
        is_drawn = file.results.program == "accuracy" or is_large
        if is_drawn and row.relative_error and not row.algorithm and row.precision != "double":
            found.setdefault(row.precision, {})[row.shape[0]] = row.relative_error
    return found
