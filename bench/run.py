"""Time and error of every operation.

Run: python -m bench.run [OPERATION ...] --backend nki-sim

The same cases run on every backend. Times of "nki-sim" are modelled for the chip and its degree of
LNC. Times of "torch" and "matmul" are measured on the host. Times of "nki" are measured on a
NeuronCore, with the kernel separated from the launch overhead (bench/measurement.py). The program
needs `pip install ".[bench]"`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench import program
from bench.cases import cases_of
from bench.measurement import measure


def main(
    operations: program.OperationsArgument = None,
    backend: program.BackendOption = "nki-sim",
    target: program.TargetOption = None,
    out: program.OutOption = Path("benchmarks.json"),
    listed: Annotated[bool, typer.Option("--list", help="Only list the operations.")] = False,
) -> None:
    """Measure operations on a backend and write the results as JSON."""
    if listed:
        program.list_operations()
        return
    target = program.check(backend, target, out)
    try:
        cases = cases_of(operations or ())
    except ValueError as error:
        program.stop(str(error), 2)
    rows, missing = program.rows_of(cases, backend, lambda case: measure(case, backend, target))
    program.write("run", backend, target, rows, missing, out)


if __name__ == "__main__":
    typer.run(main)
