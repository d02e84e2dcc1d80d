"""Compares published hardware measurements with the simulator's times.

Run: python -m bench.model_check [--out PNG]

The program rebuilds kernels whose times on Trainium are published, models them, and prints the
modelled and the measured value of each point, the spread of each group, and how far the goal is
reached. Spread and goal count only the points that were held out: points to which no constant was
fitted and from which no cost of the simulator comes. The program also draws a picture. It runs for
half a minute and needs `pip install ".[demo]"`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.model_check.picture import draw
from bench.model_check.points import check
from bench.model_check.report import show


def main(
    out: Annotated[Path, typer.Option(help="Picture to write, as a PNG.")] = Path(
        "model_check.png"
    ),
) -> None:
    """Print modelled against measured, and save the picture."""
    points = check()
    console = Console(width=110)
    draw(points, out)
    console.print(f"Measured by others, modelled by this project. Picture: {out}")
    show(points, console)


if __name__ == "__main__":
    typer.run(main)
