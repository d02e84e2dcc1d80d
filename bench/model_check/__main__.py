"""Compares published hardware measurements with the simulator's times.

Run: python -m bench.model_check

The program rebuilds kernels whose times on Trainium are published, models them, and prints the
modelled and the measured value of each point, the spread of each group, and how far the goal is
reached. Spread and goal count only the points that were held out: points to which no constant was
fitted and from which no cost of the simulator comes. The program runs for half a minute.
"""

from __future__ import annotations

from rich.console import Console

from bench.model_check.points import check
from bench.model_check.report import show

if __name__ == "__main__":
    console = Console(width=110)
    console.print("Measured by others, modelled by this project.")
    show(check(), console)
