"""Prints tables of modelled times in Markdown: python -m bench.tables NAME

The tables of `prices` stand in README.md and docs/planner.md, those of `how-fast` in
docs/how_fast.md; the last of these is measured on this CPU. That of `shapes` stands in
docs/planner.md.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bench import program
from bench.tables import bloom, how_fast, prices, row_guard, shapes

TABLES = {
    "prices": prices.tables,
    "how-fast": how_fast.tables,
    "row-guard": row_guard.tables,
    "bloom": bloom.tables,
    "shapes": shapes.tables,
}


def main(
    name: Annotated[str, typer.Argument(help=f"Among {', '.join(TABLES)}.", show_default=False)],
) -> None:
    """Print tables of modelled times, each as soon as it is there."""
    if name not in TABLES:
        program.stop(f"argument 'NAME' is {name!r}, allowed are {', '.join(TABLES)}", 2)
    for table in TABLES[name]():
        print(f"{table}\n", flush=True)


if __name__ == "__main__":
    typer.run(main)
