"""Diagrams of the documentation: how slabs and pencils are exchanged.

`python -m bench.pictures` draws them. Cubes are arrays [n0, n1, n2]. Axis 0 goes up, axis 1 to the
back, axis 2 to the right; a colour is a device.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#3f7fe8", "#e8710a", "#1a9e77", "#b04fc4")  # of devices 0 to 3
DEPTH = (0.42, 0.3)  # where a step to the back goes on the paper
Corner = tuple[float, float, float]
AXES = "axis 0 \N{UPWARDS ARROW}   axis 1 \N{NORTH EAST ARROW}   axis 2 \N{RIGHTWARDS ARROW}"


def slab() -> Figure:
    """Draws a transform of three axes over four devices, with one exchange."""
    figure, axes = _paper(9.5, 4.1)
    size = 2.0
    _cube(axes, 0.0, [((part, 0, 0), (1, 4, 4), part) for part in range(4)], size)
    _cube(axes, 5.6, [((0, part, 0), (4, 1, 4), part) for part in range(4)], size)
    _arrow(axes, (3.25, 1.4), (5.25, 1.4), "all-to-all\namong all devices")
    _caption(axes, 1.4, "1. Axes 1 and 2 are whole:\neach device transforms both.")
    _caption(axes, 7.0, "2. Axis 0 is whole:\neach device transforms it.")
    axes.text(4.2, -1.35, AXES + "   a colour: a device", ha="center", fontsize=9)
    axes.set(xlim=(-0.6, 9.0), ylim=(-1.5, 3.0))
    return figure


def pencil() -> Figure:
    """Draws a transform of three axes over 2 x 2 devices, with two exchanges in half of them."""
    figure, axes = _paper(11.5, 3.9)
    size, cut = 2.0, tuple(product(range(2), range(2)))
    for left, whole in ((0.0, 2), (5.2, 1), (10.4, 0)):
        blocks = []
        for row, column in cut:
            corner, extent = [0, 0, 0], [2, 2, 2]  # a quarter
            first, second = [axis for axis in range(3) if axis != whole]
            corner[first], corner[second], extent[whole] = 2 * row, 2 * column, 4
            blocks.append((tuple(corner), tuple(extent), 2 * row + column))
        _cube(axes, left, blocks, size)
    _arrow(axes, (3.1, 1.4), (5.0, 1.4), "all-to-all\nin each row\nof the mesh")
    _arrow(axes, (8.3, 1.4), (10.2, 1.4), "all-to-all\nin each column\nof the mesh")
    for left, axis in ((1.4, 2), (6.6, 1), (11.8, 0)):
        number = 3 - axis
        _caption(axes, left, f"{number}. Axis {axis} is whole:\neach device transforms it.")
    axes.text(6.6, -1.35, AXES + "   a colour: a device", ha="center", fontsize=9)
    axes.set(xlim=(-0.6, 13.8), ylim=(-1.5, 3.0))
    return figure


def _paper(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_aspect("equal")
    return figure, axes


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], text: str) -> None:
    from matplotlib import rcParams

    style = {"arrowstyle": "-|>", "color": rcParams["text.color"], "linewidth": 1.5}
    axes.annotate("", end, start, arrowprops=style)
    middle = (start[0] + end[0]) / 2
    axes.text(middle, start[1] + 0.12, text, ha="center", va="bottom", fontsize=10)


def _caption(axes: Axes, middle: float, text: str) -> None:
    axes.text(middle, -0.25, text, ha="center", va="top", fontsize=11)


def _cube(
    axes: Axes,
    left: float,
    blocks: Iterable[tuple[tuple[int, ...], tuple[int, ...], int]],
    size: float,
) -> None:
    """Draws blocks of a 4 x 4 x 4 array: corner, extent and device of each, those behind first."""
    scale = size / 4
    for corner, extent, device in sorted(
        blocks, key=lambda one: (-one[0][1], one[0][0], one[0][2])
    ):
        (z, y, x), (dz, dy, dx) = corner, extent
        faces: tuple[tuple[float, list[Corner]], ...] = (
            (1.0, [(z, y, x), (z, y, x + dx), (z + dz, y, x + dx), (z + dz, y, x)]),
            (
                0.8,
                [
                    (z + dz, y, x),
                    (z + dz, y, x + dx),
                    (z + dz, y + dy, x + dx),
                    (z + dz, y + dy, x),
                ],
            ),
            (
                0.6,
                [
                    (z, y, x + dx),
                    (z, y + dy, x + dx),
                    (z + dz, y + dy, x + dx),
                    (z + dz, y, x + dx),
                ],
            ),
        )
        for light, face in faces:
            points = [
                (left + scale * (x + DEPTH[0] * y), scale * (z + DEPTH[1] * y)) for z, y, x in face
            ]
            _face(axes, points, COLORS[device], light)


def _face(axes: Axes, points: list[tuple[float, float]], color: str, light: float) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Polygon

    shade = tuple(light * part for part in to_rgb(color))
    axes.add_patch(Polygon(points, facecolor=shade, edgecolor="white", linewidth=1.2))
