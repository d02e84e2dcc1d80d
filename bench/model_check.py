"""Published hardware measurements against the simulator: python bench/model_check.py [--out PNG]

Rebuilds kernels whose times on Trainium are published, models them, and prints modelled against
measured: per point, and the spread of each group. The spread counts points that were held out:
not those that constants were fitted to, nor those that costs of the simulator come from. Draws one
picture. Takes half a minute; needs `pip install ".[demo]"`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import launch_overhead
import numpy as np
import typer
from modelled_measurements import GROUPS
from published_measurements import (
    ABOUT,
    FITTED,
    HELD_OUT,
    LEFT_OUT,
    PAYLOAD,
    PUBLISHED,
    SEED,
    Measurement,
)
from rich.console import Console
from rich.table import Table
from seed_figures import TRANSFORM_US

from trnfft.cli.output_file import write_png

SEED_SOURCE = 'the article "trnfft: FFT is a GEMM, and then it isn\'t", section "Numbers"'


@dataclass(frozen=True)
class Point:
    """A measurement and what the model says, in the same unit."""

    measurement: Measurement
    modelled: float

    @property
    def ratio(self) -> float:
        """Modelled over measured."""
        return self.modelled / self.measurement.value


def seed_overhead() -> launch_overhead.Overhead:
    """The overhead of the seed's launches, from the points named for the fit and no others."""
    return launch_overhead.fit({key: TRANSFORM_US[key] for key in launch_overhead.FITTED})


def seed_points() -> list[Point]:
    """The seed's transforms, predicted with the overhead of the fitted ones."""
    overhead = seed_overhead()
    points = []
    for (algorithm, n), measured in TRANSFORM_US.items():
        use = FITTED if (algorithm, n) in launch_overhead.FITTED else HELD_OUT
        name = f"{algorithm}, N = {n}"
        measurement = Measurement(SEED, name, "trn1", measured, "us", SEED_SOURCE, use)
        points.append(Point(measurement, overhead.predict((algorithm, n))))
    return points


def check() -> list[Point]:
    """Every published measurement with its modelled value."""
    points = []
    for group, model in GROUPS.items():
        modelled = model()
        for measurement in PUBLISHED:
            if measurement.group == group:
                points.append(Point(measurement, modelled[measurement.name]))
    return points + seed_points()


# Output.


def number(value: float) -> str:
    """Three digits, or all of them before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def group_table(group: str, points: Iterable[Point]) -> Table:
    """One row a point."""
    table = Table(title=f"{group}: {ABOUT[group]}", title_justify="left")
    for heading in ("", "chip", "measured", "modelled", "ratio", "use"):
        is_number = heading in ("measured", "modelled", "ratio")
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    for point in points:
        m = point.measurement
        values = [f"{number(value)} {m.unit}" for value in (m.value, point.modelled)]
        table.add_row(m.name, m.chip, *values, f"{point.ratio:.2f}", m.use)
    return table


def spread_table(points: list[Point]) -> Table:
    """Modelled over measured of the points held out: per group and in all."""
    table = Table(title="modelled over measured, points held out", title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("points", "geometric mean", "least", "most", "within 25%", "within 2x"):
        table.add_column(heading, justify="right")
    held_out = [point for point in points if point.measurement.use == HELD_OUT]
    groups = list(dict.fromkeys(point.measurement.group for point in held_out))
    for group in (*groups, "all"):
        members = [p for p in held_out if group in ("all", p.measurement.group)]
        if group == "all":
            table.add_section()
        table.add_row(group, *spread([point.ratio for point in members]))
    return table


def spread(ratios: list[float]) -> list[str]:
    """Count, geometric mean, least, most, and how many are within 25 percent and a factor of 2."""
    logs = np.log(ratios)
    near = [int((np.abs(logs) <= np.log(limit) + 1e-9).sum()) for limit in (1.25, 2)]
    values = [np.exp(logs.mean()), min(ratios), max(ratios)]
    return [str(len(ratios)), *[f"{value:.2f}" for value in values], *map(str, near)]


def left_out_table() -> Table:
    """Published figures that are not compared, and why."""
    table = Table(title="left out", title_justify="left", show_header=False)
    for what, why in LEFT_OUT.items():
        table.add_row(what, why)
    return table


def draw(points: list[Point], path: Path) -> None:
    """Modelled against measured times, and the payload curve, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6), layout="constrained")
    times, curve = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_times(times, [p for p in points if p.measurement.unit == "us"])
    draw_payload(curve, [p for p in points if p.measurement.group == PAYLOAD])
    write_png(figure, path)


def draw_times(axes: Any, points: list[Point]) -> None:
    """A dot a point, coloured by group, hollow where it was not held out."""
    for index, group in enumerate(dict.fromkeys(p.measurement.group for p in points)):
        members = [p for p in points if p.measurement.group == group]
        colour = f"C{index}"
        axes.scatter(
            [p.measurement.value for p in members],
            [p.modelled for p in members],
            s=45,
            edgecolors=colour,
            facecolors=[colour if p.measurement.use == HELD_OUT else "white" for p in members],
            zorder=3,
        )
        axes.scatter([], [], s=45, color=colour, label=group)
    axes.scatter([], [], s=45, edgecolors="0.3", facecolors="white", label="fitted or input")
    ends = np.array([0.05, 1e5])
    axes.plot(ends, ends, color="0.3", linewidth=1)
    axes.fill_between(ends, ends / 2, ends * 2, color="0.92", label="within a factor of 2")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set(xlabel="measured, µs", ylabel="modelled, µs", title="Times of kernels and transforms")
    axes.legend(loc="upper left", fontsize=9)


def draw_payload(axes: Any, points: list[Point]) -> None:
    """Throughput of DMA by bytes a partition, as a share of that at 32768 bytes."""
    sizes = [int(p.measurement.name.split()[0]) for p in points] + [32768]
    measured = [1 / p.measurement.value for p in points] + [1.0]
    modelled = [1 / p.modelled for p in points] + [1.0]
    axes.plot(sizes, measured, "o-", label="measured (Neuron documentation)")
    axes.plot(sizes, modelled, "s--", label="modelled, trn2")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes[::2], [str(size) for size in sizes[::2]])
    axes.set(ylim=(0, 1.05), xlabel="bytes a partition", title="DMA payload")
    axes.set(ylabel="throughput, as a share of that at 32768 bytes")
    axes.legend(loc="upper left", fontsize=9)


def show(points: list[Point], console: Console) -> None:
    """Print every point, the overhead of the seed's launches, what is left out, and the spread."""
    for group in dict.fromkeys(point.measurement.group for point in points):
        members = [point for point in points if point.measurement.group == group]
        console.print(group_table(group, members))
        for source in dict.fromkeys(point.measurement.source for point in members):
            console.print(f"  {source}", style="dim", highlight=False)
    overhead = seed_overhead()
    console.print(
        f"seed article: {overhead.per_transform_us:.0f} us a transform and "
        f"{overhead.per_launch_us:.0f} us a launch are fitted, the time on the chip is modelled"
    )
    console.print(left_out_table())
    console.print(spread_table(points))


def main(out: Path = Path("model_check.png")) -> None:
    """Print modelled against measured, and save the picture."""
    points = check()
    console = Console(width=110)
    show(points, console)
    draw(points, out)
    console.print(f"Measured by the sources above, modelled by this project. Picture: {out}")


if __name__ == "__main__":
    typer.run(main)
