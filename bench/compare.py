"""Results side by side: python -m bench.compare A.json [B.json ...]

Prints tables of times, errors and differences, case by case, also of files for several chips. A
case that a file lacks is shown as missing, with the reason if the file has one. `bench.page` draws
time and error against N.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench import program
from bench.files import File, labelled
from bench.results import Key, Missing, ResultsError, Row, load
from nki_sim.measured_times import about


class Reasons:
    """Reasons why rows are missing, numbered."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def cell(self, missing: Missing | None) -> str:
        """What a table shows in place of a row."""
        if missing is None:
            return "missing"
        number = self.numbers.setdefault(missing.reason, len(self.numbers) + 1)
        return f"{'failed' if missing.is_failure else 'missing'} ({number})"

    def lines(self) -> list[str]:
        """The footnotes."""
        return [f"({number}) {reason}" for reason, number in self.numbers.items()]


def keys_of(files: Sequence[File]) -> list[Key]:
    """Every case of any file, in the order of the first file that has it."""
    found: dict[Key, None] = {}
    for file in files:
        found.update(dict.fromkeys([*file.rows, *file.missing]))
    order = {operation: index for index, operation in enumerate(dict.fromkeys(k[0] for k in found))}
    return sorted(found, key=lambda key: order[key[0]])


def table_of(
    title: str,
    files: Sequence[File],
    columns: Callable[[Sequence[File]], list[str]],
    cells: Callable[[Sequence[File], list[Row | None], list[str]], list[str]],
    reasons: Reasons,
) -> Table:
    """A line for each case. `cells` takes each file's row, and what stands in for a missing one."""
    table = Table(title=title)
    table.add_column("case", overflow="fold")
    table.add_column("batch", justify="right")
    for column in columns(files):
        table.add_column(column, justify="right", overflow="fold")
    keys = keys_of(files)
    for index, key in enumerate(keys):
        rows = [file.rows.get(key) for file in files]
        absent = [
            reasons.cell(file.missing.get(key)) if key not in file.rows else "" for file in files
        ]
        operation, case, algorithm, _, batch, precision = key
        name = case + (f" by {algorithm}" if algorithm else "")
        name += "" if precision == "fast" else f", {precision}"
        table.add_row(escape(name), str(batch), *map(escape, cells(files, rows, absent)))
        if index + 1 < len(keys) and keys[index + 1][0] != operation:
            table.add_section()
    return table


def time_columns(files: Sequence[File]) -> list[str]:
    ratios = [f"{file.name} / {files[0].name}" for file in files[1:]]
    times = [f"{file.name} ({file.results.where}), us" for file in files]
    over = [f"{file.name} over floor" for file in files if has_floors(file)]
    launched = [f"{file.name} with a launch, about" for file in files if has_launches(file)]
    return [*times, *launched, *ratios, *over, "DMA floor, us"]


def has_floors(file: File) -> bool:
    """Whether times of a kernel alone are in it, which its DMA floor is a part of."""
    return any(row.kernel_us and row.dma_floor_us for row in file.rows.values())


def has_launches(file: File) -> bool:
    """Whether times in it are modelled, without launches."""
    return any(row.with_launches_us for row in file.rows.values())


def shown_ratio(ratio: float) -> str:
    """Three digits, or all that an integer has."""
    return f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"


def time_cells(files: Sequence[File], rows: list[Row | None], absent: list[str]) -> list[str]:
    """Times with what they are, ratios to the first file and of a kernel's to its floor."""
    times = [row.time_us if row is not None else None for row in rows]
    shown = [
        instead if row is None or row.time_us is None else f"{row.time_us:,.1f} {row.time_source}"
        for row, instead in zip(rows, absent, strict=True)
    ]
    launched = [
        about(1e3 * row.with_launches_us) if row is not None and row.with_launches_us else ""
        for file, row in zip(files, rows, strict=True)
        if has_launches(file)
    ]
    ratios = [shown_ratio(time / times[0]) if time and times[0] else "" for time in times[1:]]
    floors = [row.dma_floor_us for row in rows if row is not None and row.dma_floor_us is not None]
    over = [
        shown_ratio(row.kernel_us / row.dma_floor_us)
        if row is not None and row.kernel_us and row.dma_floor_us
        else ""
        for file, row in zip(files, rows, strict=True)
        if has_floors(file)
    ]
    return [*shown, *launched, *ratios, *over, f"{floors[0]:.3g}" if floors else ""]


def error_columns(files: Sequence[File]) -> list[str]:
    return [
        f"{file.name}: {name}" for file in files for name in ("forward", "and back", "predicted")
    ]


def error_cells(files: Sequence[File], rows: list[Row | None], absent: list[str]) -> list[str]:
    cells: list[str] = []
    for row, instead in zip(rows, absent, strict=True):
        if row is None:
            cells += [instead, "", ""]
        else:
            errors = row.relative_error, row.round_trip_error, row.predicted_error
            cells += ["" if error is None else f"{error:.2g}" for error in errors]
    return cells


def parity_columns(files: Sequence[File]) -> list[str]:
    return [f"{file.name}: {name}" for file in files for name in ("difference", "allowed")]


def parity_cells(files: Sequence[File], rows: list[Row | None], absent: list[str]) -> list[str]:
    cells: list[str] = []
    for row, instead in zip(rows, absent, strict=True):
        values = (None, None) if row is None else (row.relative_difference, row.tolerance)
        shown = ["" if value is None else f"{value:.2g}" for value in values]
        cells += [instead, ""] if row is None else shown
    return cells


TABLES = (
    (("run",), "Times; the ratio is to the first file", time_columns, time_cells),
    (("run", "accuracy"), "Relative L2 errors against float64 NumPy", error_columns, error_cells),
    (("parity",), "Relative L2 differences from the simulator", parity_columns, parity_cells),
)


def show(files: Sequence[File], console: Console) -> None:
    """Prints what each file is, the tables that there is something for, and footnotes."""
    for file in files:
        console.print(escape(f"{file.label}: {file.description}"), highlight=False, soft_wrap=True)
    reasons = Reasons()
    for programs, title, columns, cells in TABLES:
        for one in programs:  # a table each, as their cases are not the same
            chosen = [file for file in files if file.results.program == one]
            if chosen:
                console.print(table_of(title, chosen, columns, cells, reasons))
    for line in reasons.lines():
        console.print(escape(line), highlight=False, soft_wrap=True)


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
