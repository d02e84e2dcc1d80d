"""Published hardware measurements against the simulator: python -m bench.model_check [--out PNG]

Rebuilds kernels whose times on Trainium are published, models them, and prints modelled against
measured: per point, the spread of each group, and how far the goal is reached. Both count points
that were held out: not those that constants were fitted to, nor those that costs of the simulator
come from. Draws one picture. Takes half a minute; needs `pip install ".[demo]"`.
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
