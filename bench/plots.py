"""Plots of benchmark results: time against N and error against N, beside the seed's figures.

Every legend says whether a time is modelled, measured on a device or the host's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.cases.case import KERNEL_BACKENDS
from bench.results import Key, Missing, Results, Row
from bench.seed_article import figures as seed_figures
from nki_sim import hardware

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MANY_POINTS = 2**19  # from this many on a batch counts as large
MARKERS = "osD^v<>P"  # a file each
DASHES = ("-", "--", "-.", (0, (5, 1, 1, 1)))
DOTS = (0, (1, 2))
FLOOR_COLORS = ("crimson", "deeppink", "maroon", "tomato", "orchid")  # a chip and degree each
SEED_MARKERS = "sD^v"
SOURCES = {
    "modelled": "modelled, without launches",
    "measured": "measured, without launches",
    "host": "whole calls by the host's clock",
}


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


def draw_times(files: Sequence[File]) -> Figure:
    """Above one transform, with the seed's points; below about 2^20 points."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 11), layout="constrained")
    one, many = figure.subplots(2, 1)
    rows = [row for file in files for row in times_of(file)]
    colors = colors_of(row.algorithm for row in rows if row.algorithm)
    kinds = "\n".join(SOURCES[source] for source in sorted({row.time_source for row in rows}))
    for axes, wanted in ((one, is_single), (many, is_large)):
        for index, file in enumerate(files):
            for algorithm in dict.fromkeys(row.algorithm for row in times_of(file)):
                chosen = [r for r in times_of(file) if wanted(r) and r.algorithm == algorithm]
                sources = ", ".join(sorted({row.time_source for row in chosen}))
                label = f"{prefix(file, files)}{algorithm or choice_of(file)}, {sources}"
                points = {row.shape[0]: row.time_us or 0.0 for row in chosen}
                color = colors.get(algorithm, "black")
                draw_line(axes, points, index, color, label, 1.2 if algorithm else 2.5)
        draw_floors(axes, list(filter(wanted, rows)))
    draw_seed(one, seed_figures.TIMES_US, "with launches")
    alone = f": {files[0].label}" if len(files) == 1 else ""
    finish(one, f"One transform{alone}", f"time, us: {kinds}\nseed: measured, with launches")
    finish(many, f"About 2$^{{20}}$ points{alone}", f"time, us: {kinds}")
    return figure


def colors_of(names: Iterable[object]) -> dict[object, str]:
    """A colour for each name, the same in all files."""
    return {name: f"C{index}" for index, name in enumerate(dict.fromkeys(names))}


def prefix(file: File, files: Sequence[File]) -> str:
    """What tells the lines of several files apart."""
    return f"{file.label}: " if len(files) > 1 else ""


def choice_of(file: File) -> str:
    """What computes a transform for which no algorithm was asked."""
    backend = file.results.backend
    return "planner's choice" if backend in KERNEL_BACKENDS else f'backend "{backend}"'


def draw_line(
    axes: Axes,
    points: dict[int, float],
    index: int,
    color: str,
    label: str,
    width: float = 1.2,
) -> None:
    """A line through the powers of two, hollow markers for other N, in the style of a file."""
    if not points:
        return
    powers = sorted(n for n in points if n & (n - 1) == 0)
    others = sorted(set(points) - set(powers))
    marker = MARKERS[index % len(MARKERS)]
    axes.plot(
        powers,
        [points[n] for n in powers],
        color=color,
        linewidth=width,
        linestyle=DASHES[index % len(DASHES)],
        marker=marker,
        markersize=5,
        label=label,
    )
    hollow: dict[str, Any] = {
        "linestyle": "",
        "marker": marker,
        "markersize": 6,
        "markerfacecolor": "none",
    }
    axes.plot(others, [points[n] for n in others], color=color, **hollow)


def draw_floors(axes: Axes, rows: Sequence[Row]) -> None:
    """The least time to read and write the points once, for each chip and degree of LNC."""
    floors: dict[str, dict[int, float]] = {}
    for row in rows:
        n = row.shape[0]
        if row.dma_floor_us is not None and n & (n - 1) == 0:
            rate = 1 / hardware.chip(row.target).dma_floor_ns(1, 1, row.cores)
            label = f"DMA floor of {row.where}, {rate:.0f} GB/s"
            floors.setdefault(label, {})[n] = row.dma_floor_us
    for (label, points), color in zip(floors.items(), FLOOR_COLORS, strict=False):
        line = zip(*sorted(points.items()), strict=True)
        axes.plot(*line, linestyle=":", color=color, label=label)


def draw_seed(axes: Axes, lines: dict[str, dict[int, float]], more: str) -> None:
    """The seed's published points."""
    for marker, (name, points) in zip(SEED_MARKERS, lines.items(), strict=False):
        style: dict[str, Any] = {"marker": marker, "markerfacecolor": "none", "color": "0.55"}
        label = f"seed, {name}: measured on trn1, {more}"
        axes.plot(*zip(*points.items(), strict=True), linestyle=":", label=label, **style)


def draw_errors(files: Sequence[File]) -> Figure:
    """Errors, forward, by precision mode, the planner's predictions and the seed's."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8), layout="constrained")
    has_double = any(row.precision == "double" for file in files for row in errors_of(file))
    panels = figure.subplots(
        1 + has_double, 1, squeeze=False, height_ratios=(4, 1)[: 1 + has_double]
    )
    axes, below = panels[0, 0], panels[-1, 0]
    colors = colors_of(kind_of(row) for file in files for row in errors_of(file))
    for index, file in enumerate(files):
        for kind in dict.fromkeys(map(kind_of, errors_of(file))):
            rows = [row for row in errors_of(file) if kind_of(row) == kind]
            label = f"{prefix(file, files)}{kind}, {origin(file, rows[0])}"
            panel = below if rows[0].precision == "double" else axes
            points = {row.shape[0]: row.relative_error or 0.0 for row in rows}
            draw_line(panel, points, index, colors[kind], label)
            known = sorted(
                (row.shape[0], row.predicted_error) for row in rows if row.predicted_error
            )
            panel.plot(*zip(*known, strict=True), color=colors[kind], linestyle=DOTS, linewidth=1)
    draw_seed(axes, seed_figures.ERRORS, "its butterfly")
    axes.plot([], [], color="0.4", linestyle=DOTS, linewidth=1, label="predicted by the planner")
    alone = f": {files[0].label}" if len(files) == 1 else ""
    if has_double:
        finish(below, "Precision double", "relative L2 error")
    finish(axes, f"Forward transforms{alone}", "relative L2 error against float64 NumPy")
    return figure


def kind_of(row: Row) -> str:
    """Precision mode and, where one was asked for, the kernel."""
    return row.precision + (f" by {row.algorithm}" if row.algorithm else "")


def origin(file: File, row: Row) -> str:
    """Where errors come from."""
    if row.precision == "double":
        return "on the host"
    names = {"nki-sim": "simulated", "nki": "measured on the chip"}
    return names.get(file.results.backend, f"{file.results.backend} on the host")


def finish(axes: Axes, title: str, ylabel: str) -> None:
    """Scales, names and the legend, beside the lines."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(title)
    axes.set_xlabel("N; hollow markers: no power of two")
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
