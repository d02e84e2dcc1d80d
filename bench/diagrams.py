"""Diagrams of the documentation: how slabs and pencils are exchanged.

`python -m bench.pictures` draws them. Cubes are arrays [n0, n1, n2]. Axis 0 goes up, axis 1 to the
back, axis 2 to the right; a colour is a device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = np.array(["#3f7fe8", "#e8710a", "#1a9e77", "#b04fc4"])  # of devices 0 to 3
SIZE = 4  # points of each axis
AXES = "axis 0 \N{UPWARDS ARROW}   axis 1 \N{NORTH EAST ARROW}   axis 2 \N{RIGHTWARDS ARROW}"


def slab() -> Figure:
    """Draws a transform of three axes over four devices, with one exchange."""
    return steps(
        {
            "1. Axes 1 and 2 are whole:\neach device transforms both.": lambda i: i[0],
            "2. Axis 0 is whole:\neach device transforms it.": lambda i: i[1],
        },
        ["all-to-all\namong all devices"],
    )


def pencil() -> Figure:
    """Draws a transform of three axes over 2 x 2 devices, with two exchanges in half of them."""

    def quarters(first: int, second: int) -> Callable[[Any], Any]:
        return lambda i: i[first] // 2 * 2 + i[second] // 2

    captions = [
        f"{3 - axis}. Axis {axis} is whole:\neach device transforms it." for axis in (2, 1, 0)
    ]
    owners = (quarters(0, 1), quarters(0, 2), quarters(1, 2))
    return steps(
        dict(zip(captions, owners, strict=True)),
        ["all-to-all\nin each row\nof the mesh", "all-to-all\nin each column\nof the mesh"],
    )


def steps(arrays: dict[str, Callable[[Any], Any]], exchanges: list[str]) -> Figure:
    """Draws arrays from left to right, with arrows for the exchanges between them.

    arrays: for each caption a function from the three indices of a number to its device.
    """
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(arrays), 3.6))
    figure.subplots_adjust(left=0, right=1, bottom=0.15, top=1, wspace=0.5)
    for place, (caption, owner) in enumerate(arrays.items()):
        axes = figure.add_subplot(1, len(arrays), place + 1, projection="3d")
        devices = owner(np.indices((SIZE,) * 3)).transpose(2, 1, 0)  # to the right, back and up
        axes.voxels(np.ones_like(devices), facecolors=COLORS[devices], edgecolor="white")
        axes.set_axis_off()
        axes.view_init(elev=24, azim=-66)
        axes.set_title(caption, y=-0.12, fontsize=11)
    style = {"arrowstyle": "-|>", "linewidth": 1.5, "color": rcParams["text.color"]}
    for place, text in enumerate(exchanges, 1):
        middle = place / len(arrays)
        figure.text(middle, 0.56, text, ha="center", va="bottom", fontsize=10)
        width = 0.16 / len(arrays)
        ends = ((middle + width, 0.53), (middle - width, 0.53))
        axes.annotate("", *ends, "figure fraction", "figure fraction", arrowprops=style)
    figure.text(0.5, 0.0, AXES + "   a colour: a device", ha="center", va="bottom", fontsize=9)
    return figure
