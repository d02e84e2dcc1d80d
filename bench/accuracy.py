"""Errors over N in every precision mode.

Run: python -m bench.accuracy --backend nki

The program computes relative L2 errors against NumPy in float64, for random normal input: of the
forward transform, and of the forward transform followed by its inverse. Beside each error stands
the error that the planner predicts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import typer

from bench import program
from bench.cases import transforms_1d
from bench.cases.case import Case, on_device, on_host, relative_error
from bench.measurement import described, device_of, predicted, settings
from bench.results import Row
from trnfft.base.config import PRECISIONS

LENGTHS = (16, 64, 128, 256, 512, 997, 1000, 1024, 2048, 4096, 16384, 65536, 2**20)
BATCH = 4
# The modes with bfloat16 allow these kernels, but the planner chooses them only where they are
# faster. These cases name the kernels, so that their errors are measured in any case.
KERNELS = {"bf16": "stockham_bf16", "bf16_refined": "stockham_bf16_refined"}
KERNEL_LENGTHS = (64, 256, 1024, 4096)


def case_of(n: int, precision: str, algorithm: str = "") -> Case:
    return replace(transforms_1d.case(n, BATCH, algorithm, precision), operation="accuracy")


CASES = (
    *(case_of(n, precision) for precision in PRECISIONS for n in LENGTHS),
    *(case_of(n, mode, kernel) for mode, kernel in KERNELS.items() for n in KERNEL_LENGTHS),
)


def errors(case: Case, backend: str, target: str) -> Row:
    """Returns the row of a case.

    Raises:
        NotImplementedError: the precision mode has no kernel for the length.
    """
    arrays, device = case.arrays(), device_of(backend)
    if case.precision == "double" and device == "cpu":  # other devices may have no float64
        arrays = tuple(array.astype(np.complex128) for array in arrays)
    with settings(backend, target, case.precision):
        (x,) = (on_device(array, device) for array in arrays)
        spectrum = case.call(x)
        again = transforms_1d.call(case.shape[0], case.algorithm, spectrum, inverse=True)
        prediction = predicted(case, backend)
        return described(
            case,
            backend,
            target,
            recipe=prediction.get("recipe", ""),
            predicted_error=prediction.get("predicted_error"),
            relative_error=relative_error(on_host(spectrum), case.exact(arrays)),
            round_trip_error=relative_error(on_host(again), arrays[0].astype(np.complex128)),
        )


def main(
    backend: program.BackendOption = "nki",
    target: program.TargetOption = None,
    out: program.OutOption = Path("accuracy.json"),
) -> None:
    """Measure the errors of one-dimensional transforms in all precision modes."""
    target = program.check(backend, target, out)
    rows, missing = program.rows_of(CASES, backend, lambda case: errors(case, backend, target))
    program.write("accuracy", backend, target, rows, missing, out)


if __name__ == "__main__":
    typer.run(main)
