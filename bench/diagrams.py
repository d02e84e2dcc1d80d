"""Diagrams of the documentation: how slabs and pencils are exchanged.

`python -m bench.pictures` draws them. Cubes are arrays [n0, n1, n2]. Axis 0 goes up, axis 1 to the
back, axis 2 to the right; a colour is a device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = np.array(["#3f7fe8", "#e8710a", "#1a9e77", "#b04fc4"])  # of devices 0 to 3
AXES = "axis 0 \N{UPWARDS ARROW}   axis 1 \N{NORTH EAST ARROW}   axis 2 \N{RIGHTWARDS ARROW}"


def slab() -> Figure:
    """Draws a transform of three axes over four devices, with one exchange."""
    arrays = {
        "1. Axes 1 and 2 are whole:\neach device transforms both.": (4, 1, 1),
        "2. Axis 0 is whole:\neach device transforms it.": (1, 4, 1),
    }
    return steps(arrays, ["all-to-all\namong all devices"])


def pencil() -> Figure:
    """Draws a transform of three axes over 2 x 2 devices, with two exchanges in half of them."""
    arrays = {
        "1. Axis 2 is whole:\neach device transforms it.": (2, 2, 1),
        "2. Axis 1 is whole:\neach device transforms it.": (2, 1, 2),
        "3. Axis 0 is whole:\neach device transforms it.": (1, 2, 2),
    }
    exchanges = ["all-to-all\nin each row\nof the mesh", "all-to-all\nin each column\nof the mesh"]
    return steps(arrays, exchanges)


def steps(arrays: dict[str, tuple[int, int, int]], exchanges: list[str]) -> Figure:
    """Draws arrays from left to right, with arrows for the exchanges between them.

    arrays: for each caption the number of blocks along each axis; a device has one block.
    """
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(arrays), 3.6))
    figure.subplots_adjust(left=0, right=1, bottom=0.15, top=1, wspace=0.5)
    for place, (caption, blocks) in enumerate(arrays.items()):
        axes = figure.add_subplot(1, len(arrays), place + 1, projection="3d")
        devices = np.arange(4).reshape(blocks).transpose(2, 1, 0)  # to the right, back and up
        axes.voxels(np.ones_like(devices), facecolors=COLORS[devices], edgecolor="white")
        axes.set_box_aspect((1, 1, 1))
        axes.set_axis_off()
        axes.view_init(elev=24, azim=-66)
        axes.set_title(caption, y=-0.12, fontsize=11)
    style = {"arrowstyle": "-|>", "linewidth": 1.5, "color": rcParams["text.color"]}
    for place, text in enumerate(exchanges, 1):
        middle, width = place / len(arrays), 0.16 / len(arrays)
        figure.text(middle, 0.56, text, ha="center", va="bottom", fontsize=10)
        ends = ((middle + width, 0.53), (middle - width, 0.53))
        axes.annotate("", *ends, "figure fraction", "figure fraction", arrowprops=style)
    figure.text(0.5, 0.0, AXES + "   a colour: a device", ha="center", va="bottom", fontsize=9)
    return figure
