"""Results side by side: python -m bench.compare A.json [B.json ...]

Prints tables of times, errors and differences, case by case, also of files for several chips. A
case that a file lacks is shown as missing, with the reason if the file has one. `bench.page` draws
time and error against N.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import rich.table
import typer
from rich.console import Console
from rich.markup import escape

from bench import program
from bench.files import File, Reasons, Table, labelled, sections_of, shown_ratio
from bench.page.contents import Contents
from bench.page.tables import errors, parity
from bench.results import ResultsError, Row, load
from nki_sim.measured_times import about


def times(contents: Contents, reasons: Reasons) -> Table:
    """Returns the table of times with what they are, and their ratios to those of the first file.

    Times of kernels alone also have a ratio to their DMA floor, and modelled ones stand beside the
    time with launches.
    """
    files = contents.files
    floors = [any(row.kernel_us and row.dma_floor_us for row in f.rows.values()) for f in files]
    launches = [any(row.with_launches_us for row in file.rows.values()) for file in files]
    columns = [f"{file.name} ({file.results.where}), us" for file in files]
    columns += [
        f"{f.name} with a launch, about" for f, has in zip(files, launches, strict=True) if has
    ]
    columns += [f"{file.name} / {files[0].name}" for file in files[1:]]
    columns += [f"{f.name} over floor" for f, has in zip(files, floors, strict=True) if has]

    def cells(rows: list[Row | None], absent: list[str]) -> list[str]:
        found = [row.time_us if row else None for row in rows]
        line = [
            instead
            if row is None or row.time_us is None
            else f"{row.time_us:,.1f} {row.time_source}"
            for row, instead in zip(rows, absent, strict=True)
        ]
        for row, has in zip(rows, launches, strict=True):
            if has:
                launched = row.with_launches_us if row else None
                line.append(about(1e3 * launched) if launched else "")
        line += [shown_ratio(time / found[0]) if time and found[0] else "" for time in found[1:]]
        for row, has in zip(rows, floors, strict=True):
            if has:
                kernel, floor = (row.kernel_us, row.dma_floor_us) if row else (None, None)
                line.append(shown_ratio(kernel / floor) if kernel and floor else "")
        known = [row.dma_floor_us for row in rows if row and row.dma_floor_us is not None]
        return [*line, f"{known[0]:.3g}" if known else ""]

    return Table(["Case", *columns, "DMA floor, us"], sections_of(files, cells, reasons))


TABLES = (
    ("run", "Times; the ratio is to the first file", times),
    ("run", "Relative L2 errors against float64 NumPy", errors),
    ("accuracy", "Relative L2 errors against float64 NumPy", errors),
    ("parity", "Relative L2 differences from the simulator", parity),
)


def show(files: Sequence[File], console: Console) -> None:
    """Prints what each file is, the tables that there is something for, and footnotes."""
    for file in files:
        console.print(escape(f"{file.label}: {file.description}"), highlight=False, soft_wrap=True)
    reasons = Reasons()
    for name, title, table in TABLES:
        chosen = Contents([file for file in files if file.results.program == name])
        if chosen.files and (found := table(chosen, reasons)):
            console.print(drawn(title, found))
    for line in reasons.lines():
        console.print(escape(line), highlight=False, soft_wrap=True)


def drawn(title: str, table: Table) -> rich.table.Table:
    """Returns a table for the terminal, with a line between operations."""
    found = rich.table.Table(title=title)
    for index, column in enumerate(table.columns):
        found.add_column(column, justify="right" if index else "left", overflow="fold")
    for section in table.sections:
        for line in section.lines:
            found.add_row(*map(escape, line))
        found.add_section()
    return found


def main(
    names: Annotated[list[Path], typer.Argument(metavar="FILE", help="Results, as JSON.")],
) -> None:
    """Compare results in tables."""
    try:
        files = labelled([(name, load(name)) for name in names])
    except ResultsError as error:
        program.stop(str(error), 2)
    show(files, Console())


if __name__ == "__main__":
    typer.run(main)
