"""A check that a backend computes the same results as the simulator.

Run: python -m bench.parity --backend nki

Every case runs on the backend and on "nki-sim". The relative L2 distance of the two results has to
stay below a tolerance: twice the error that the precision mode allows a transform, and four times
as much for operations that consist of several transforms.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench import program
from bench.cases import cases_of
from bench.cases.case import Case, relative_error
from bench.measurement import described, result_of
from bench.results import Row
from trnfft.planner.accuracy import MAX_ERRORS


def tolerance_of(case: Case) -> float:
    """Returns the largest difference that is allowed for a case."""
    return 2 * MAX_ERRORS[case.precision] * (1 if "transforms" in case.operation else 4)


def compared(case: Case, backend: str, target: str, tolerance: float | None) -> Row:
    """Returns the row of a case.

    Raises:
        ArithmeticError: a result has numbers that are not finite.
    """
    expected = result_of(case, "nki-sim", target)
    difference = relative_error(result_of(case, backend, target), expected)
    allowed = tolerance_of(case) if tolerance is None else tolerance
    return described(case, backend, target, relative_difference=difference, tolerance=allowed)


def differs(row: Row) -> bool:
    """Returns whether the difference is larger than allowed."""
    difference, allowed = row.relative_difference, row.tolerance
    return difference is None or allowed is None or difference > allowed


def main(
    operations: program.OperationsArgument = None,
    backend: program.BackendOption = "nki",
    target: program.TargetOption = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="Largest difference. Default: by precision mode.", min=0),
    ] = None,
    out: program.OutOption = Path("parity.json"),
) -> None:
    """Compare the results of a backend with those of the simulator."""
    target = program.check(backend, target, out)
    try:
        cases = cases_of(operations or ())
    except ValueError as error:
        program.stop(str(error), 2)
    rows, missing = program.rows_of(
        cases, backend, lambda case: compared(case, backend, target, tolerance)
    )
    program.write("parity", backend, target, rows, missing, out)
    different = [row for row in rows if differs(row)]
    if different:
        worst = max(different, key=lambda row: row.relative_difference or 0.0)
        program.stop(
            f"{len(different)} of {len(rows)} cases differ by more than allowed, most: "
            f"{program.line_of(worst)}",
            1,
        )
    if not rows:
        program.stop("no case ran, so that nothing was compared", 1)
    typer.echo(f"{len(rows)} cases agree")


if __name__ == "__main__":
    typer.run(main)
