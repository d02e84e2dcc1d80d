"""Prints tables of modelled times in Markdown: python -m bench.tables --help"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from bench import program
from bench.tables import article, bloom, floors, how_fast, prices, row_guard
from nki_sim import hardware

app = typer.Typer(add_completion=False, no_args_is_help=True)


def show(tables: Iterable[str]) -> None:
    """Prints tables, each as soon as it is there."""
    for table in tables:
        print(f"{table}\n", flush=True)


@app.command("prices")
def show_prices() -> None:
    """Print the tables of README.md and docs/planner.md."""
    show(prices.tables())


@app.command("how-fast")
def show_how_fast() -> None:
    """Print the tables of docs/how_fast.md; the last is measured on this CPU."""
    show(how_fast.tables())


@app.command("floors")
def show_floors(
    targets: program.TargetsArgument = None,
    only: Annotated[str, typer.Option(help="Run only cases whose titles contain this.")] = "",
) -> None:
    """Print modelled times over the DMA floor, a table for each chip."""
    cases = tuple(case for case in floors.CASES if only in case.title)
    if not cases:
        titles = "; ".join(case.title for case in floors.CASES)
        program.stop(f"argument '--only' is {only!r}, which is part of none of: {titles}", 2)
    for target in targets or hardware.NAMES:
        show([f"modelled on one core of {target}", floors.table(target, cases)])


@app.command("row-guard")
def show_row_guard() -> None:
    """Print what keeping rows independent costs on trn1."""
    show(row_guard.tables())


@app.command("bloom")
def show_bloom() -> None:
    """Print how long bloom takes, beside the times of an article."""
    show(bloom.tables())


@app.command("article")
def show_article() -> None:
    """Print the chain of launches of the article "FFT is a GEMM", beside one launch."""
    show(article.tables())


if __name__ == "__main__":
    app()
