"""Modelled against measured in tables: every point, the spread, and what is left out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.model_check.points import Point, seed_overhead
from bench.model_check.published_measurements import ABOUT, HELD_OUT, LEFT_OUT


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
