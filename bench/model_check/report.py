"""Tables of the check: every point, the spread of the ratios, and the figures that are left out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.model_check import labs, launch_overhead
from bench.model_check.measured import HELD_OUT, Group
from bench.model_check.points import LEFT_OUT, Point, overhead

NEAR, FAR = 1.25, 2.0  # factors within which modelled and measured values should lie


def number(value: float) -> str:
    """Returns three digits, or all digits before the decimal point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def group_table(group: Group, points: Iterable[Point]) -> Table:
    """Returns a table with one row for each point."""
    table = Table(title=f"{group.title}: {group.about}", title_justify="left")
    for heading in ("", "chip", "measured", "modelled", "low to high", "ratio", "use"):
        is_number = heading not in ("", "chip", "use")
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    for point in points:
        m = point.measurement
        values = [f"{number(value)} {m.unit}" for value in (m.value, point.modelled)]
        values.append("" if point.low is None else f"{number(point.low)} to {number(point.high)}")
        table.add_row(m.name, f"{m.chip}, LNC={m.cores}", *values, f"{point.ratio:.2f}", m.use)
    return table


def spread_table(points: list[Point]) -> Table:
    """Returns the ratios of the points held out: for each group, for whole kernels, and for all."""
    table = Table(title="modelled over measured, points held out", title_justify="left")
    table.add_column("", no_wrap=True)
    for heading in ("points", "geometric mean", "least", "most", "within 25%", "within 2x"):
        table.add_column(heading, justify="right")
    held_out = held_out_of(points)
    for group in dict.fromkeys(point.measurement.group for point in held_out):
        members = [point for point in held_out if point.measurement.group == group]
        table.add_row(group.title, *spread([point.ratio for point in members]))
    table.add_section()
    whole = whole_kernels_of(held_out)
    if whole:
        table.add_row("whole kernels", *spread([point.ratio for point in whole]))
    table.add_row("all", *spread([point.ratio for point in held_out]))
    return table


def held_out_of(points: list[Point]) -> list[Point]:
    """Returns the points that the model does not use."""
    return [point for point in points if point.measurement.use == HELD_OUT]


def whole_kernels_of(points: list[Point]) -> list[Point]:
    """Returns the points that are times of whole kernels, on the chip."""
    return [point for point in points if point.measurement.is_whole_kernel]


def spread(ratios: list[float]) -> list[str]:
    """Returns the count, geometric mean, least, largest, and the counts within both factors."""
    logs = np.log(ratios)
    values = [np.exp(logs.mean()), min(ratios), max(ratios)]
    near = [count_within(ratios, limit) for limit in (NEAR, FAR)]
    return [str(len(ratios)), *[f"{value:.2f}" for value in values], *map(str, near)]


def count_within(ratios: list[float], factor: float) -> int:
    """Returns how many ratios are between 1 / factor and factor."""
    return int((np.abs(np.log(ratios)) <= np.log(factor) + 1e-9).sum())


def ranges(points: list[Point]) -> str:
    """Returns how many measured times of whole kernels lie between low and high, in words.

    They are points held out that have a range; the words have the median of high over low, too.
    """
    whole = [point for point in whole_kernels_of(held_out_of(points)) if point.low is not None]
    inside = sum(point.is_in_range for point in whole)
    width = statistics.median([point.high / point.low for point in whole if point.low])
    return (
        f"of {len(whole)} times of whole kernels {inside} lie between the low and the high one, "
        f"whose ratio has the median {width:.2f}"
    )


def goal(points: list[Point]) -> str:
    """Returns how far the goal is reached, in words.

    Of the points held out, four fifths should be within 25 percent, nineteen of twenty within a
    factor of 2, and all whole kernels within 25 percent.
    """
    held_out = held_out_of(points)
    every = [point.ratio for point in held_out]
    whole = [point.ratio for point in whole_kernels_of(held_out)]
    parts = (
        ("within 25%", count_within(every, NEAR), len(every), -(-len(every) * 4 // 5)),
        ("within 2x", count_within(every, FAR), len(every), -(-len(every) * 19 // 20)),
        ("whole kernels within 25%", count_within(whole, NEAR), len(whole), len(whole)),
    )
    words = [
        f"{name} {found} of {count}, {needed} {'reached' if found >= needed else 'not reached'}"
        for name, found, count, needed in parts
    ]
    return f"goal: {'; '.join(words)}"


def left_out_table() -> Table:
    """Returns the published figures that are not compared, with the reasons."""
    table = Table(title="left out", title_justify="left", show_header=False)
    for what, why in LEFT_OUT.items():
        table.add_row(what, why)
    return table


def show(points: list[Point], console: Console) -> None:
    """Prints every point, the overhead of launches, figures left out, the spread and the goal."""
    for group in dict.fromkeys(point.measurement.group for point in points):
        members = [point for point in points if point.measurement.group == group]
        console.print(group_table(group, members))
        for source in dict.fromkeys(point.measurement.source for point in members):
            console.print(f"  {source}", style="dim", highlight=False)
    seed, launch_us = overhead(launch_overhead.OVERHEAD), overhead(labs.OVERHEAD).per_launch
    console.print(
        f"seed article: {seed.once:.0f} us a transform and "
        f"{seed.per_launch:.0f} us a launch are fitted; the time on the chip is modelled"
    )
    console.print(f"labs: {launch_us:.1f} us a launch are fitted; the time on the chip is modelled")
    console.print(left_out_table())
    console.print(spread_table(points))
    console.print(ranges(points), highlight=False, soft_wrap=True)
    console.print(goal(points), highlight=False, soft_wrap=True)
