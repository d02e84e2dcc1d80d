"""Modelled and measured times as dots, and the throughput of DMA over the payload as curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.model_check.documentation import PAYLOAD
from bench.model_check.measured import HELD_OUT
from bench.model_check.points import Point
from trnfft.cli.output_file import write_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(points: list[Point], path: Path) -> None:
    """Draws the times and the curve of the payload, and writes a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6), layout="constrained")
    times, curve = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_times(times, [p for p in points if p.measurement.unit == "us"])
    draw_payload(curve, [p for p in points if p.measurement.group == PAYLOAD])
    write_png(figure, path)


def draw_times(axes: Axes, points: list[Point]) -> None:
    """Draws a dot for each point, coloured by group, and hollow if the point was not held out."""
    from matplotlib import colormaps

    for index, group in enumerate(dict.fromkeys(p.measurement.group for p in points)):
        members = [p for p in points if p.measurement.group == group]
        colour = colormaps["tab20"](index)
        axes.scatter(
            [p.measurement.value for p in members],
            [p.modelled for p in members],
            s=45,
            edgecolors=[colour],
            facecolors=[colour if p.measurement.use == HELD_OUT else "white" for p in members],
            zorder=3,
        )
        axes.scatter([], [], s=45, color=[colour], label=group.title)
    axes.scatter([], [], s=45, edgecolors="0.3", facecolors="white", label="fitted or input")
    ends = np.array([0.05, 1e5])
    axes.plot(ends, ends, color="0.3", linewidth=1)
    axes.fill_between(ends, ends / 2, ends * 2, color="0.92", label="within a factor of 2")
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set(xlabel="measured, µs", ylabel="modelled, µs", title="Times of kernels and transforms")
    axes.legend(loc="upper left", fontsize=8)


def draw_payload(axes: Axes, points: list[Point]) -> None:
    """Draws the throughput of DMA over bytes a partition, relative to that at 32768 bytes."""
    sizes = [int(p.measurement.name.split()[0]) for p in points] + [32768]
    measured = [1 / p.measurement.value for p in points] + [1.0]
    modelled = [1 / p.modelled for p in points] + [1.0]
    axes.plot(sizes, measured, "o-", label="measured (Neuron documentation)")
    axes.plot(sizes, modelled, "s--", label="modelled, trn2, LNC=1")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes[::2], [str(size) for size in sizes[::2]])
    axes.set(ylim=(0, 1.05), xlabel="bytes a partition", title="DMA payload")
    axes.set(ylabel="throughput, as a share of that at 32768 bytes")
    axes.legend(loc="lower right", fontsize=9)
