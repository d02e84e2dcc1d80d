"""Runs every kernel in trnfft's simulator and in AWS's `nki.simulate`, and compares the outputs.

    python scripts/compare_simulators.py --out comparison.json

The script needs trnfft (`pip install .`) and the real nki, and runs on any CPU. Where nki is
missing, the script prints how to install it.

A kernel uses the nki that was there at its import, so that each simulator needs a process of its
own; NKI_SIM_ALWAYS=1 selects trnfft's simulator. The Neuron documentation describes
`nki.simulate` in nki/guides/nki_simulator.rst. The exit code is 0 if all outputs agree, 1 if an
output differs by more than its tolerance or a simulator rejects a kernel, and 2 if there is no real
nki.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # finds the kernels of this checkout without an installation

from neuron_wheels import versions, why_no_nki  # noqa: E402
from nki_kernels.base.isa import nki  # noqa: E402
from nki_sim.base.installed_nki import SIMULATOR_VARIABLE  # noqa: E402
from nki_sim.base.whole_file import write_whole  # noqa: E402
from nki_sim.hardware import TARGET_VARIABLE, chip  # noqa: E402
from simulator_cases import Case, all_cases  # noqa: E402

SECONDS = 900  # time limit of a simulator for all cases

Outcome = list[np.ndarray] | str  # the outputs, or the reason why there are none


def main(given: list[str] | None = None) -> int:
    """Compares, prints a line for each case, writes the JSON, and returns the exit code."""
    options = parse(given)
    cases = [case for case in all_cases() if case.name in options.cases or not options.cases]
    if options.run_into is not None:
        run(cases, options.run_into)
        return 0
    if reason := why_no_nki():
        print(reason, file=sys.stderr)
        return 2
    names = [case.name for case in cases]
    with tempfile.TemporaryDirectory() as folder:
        ours = outcomes(names, Path(folder, "ours"), environment(options.target, "1"))
        theirs = outcomes(names, Path(folder, "theirs"), environment(options.target, "0"))
    rows = [compared(case, ours[case.name], theirs[case.name]) for case in cases]
    for row in rows:
        print(f"{row['case']:27}{row['status']:15}{row['detail']}")
    report = {"target": options.target, "versions": versions(), "cases": rows}
    write_whole(options.out, json.dumps(report, indent=1, allow_nan=False) + "\n")
    return 0 if all(row["status"] in ("bitwise equal", "close") for row in rows) else 1


def parse(given: list[str] | None) -> argparse.Namespace:
    """Parses the command line; ends the process with 2 where it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases; by default all")
    parser.add_argument("--target", default="trn1", help="chip: trn1, trn2 or trn3")
    parser.add_argument("--out", type=Path, default=Path("comparison.json"), help="JSON to write")
    parser.add_argument("--run-into", type=Path, help=argparse.SUPPRESS)  # for the two processes
    options = parser.parse_args(given)
    names = [case.name for case in all_cases()]
    for name in options.cases:
        if name not in names:
            parser.error(f"argument CASE is {name!r}, allowed are {', '.join(names)}")
    try:
        chip(options.target)
    except ValueError as error:
        parser.error(f"argument --target: {error}")
    if not options.out.absolute().parent.is_dir():
        parser.error(f"argument --out is {options.out}: there is no folder {options.out.parent}")
    return options


def environment(target: str, ours: str) -> dict[str, str]:
    """Returns the variables of a process that simulates a chip.

    ``ours`` is the value of NKI_SIM_ALWAYS: "1" for trnfft's simulator, "0" for the installed
    nki.
    """
    settings = {TARGET_VARIABLE: target, SIMULATOR_VARIABLE: ours, "NKI_PRECISE_FP": "1"}
    return os.environ | settings


def outcomes(names: list[str], folder: Path, variables: dict[str, str]) -> dict[str, Outcome]:
    """Runs the cases in a process with these variables, and returns their outcomes.

    After a crash another process runs the rest of the cases.
    """
    folder.mkdir()
    found: dict[str, Outcome] = {}
    while pending := [name for name in names if name not in found]:
        command = [sys.executable, __file__, "--run-into", str(folder), *pending]
        try:
            done = subprocess.run(
                command, env=variables, capture_output=True, text=True, timeout=SECONDS
            )
            last_line = (done.stderr.strip().splitlines() or [""])[-1]
            end = f"the process ended with code {done.returncode}: {last_line}"
        except subprocess.TimeoutExpired:
            end = f"the process took more than {SECONDS} s"
        found |= {name: read(folder, name) for name in pending if is_done(folder, name)}
        crashed = [name for name in pending if name not in found]
        if crashed:
            found[crashed[0]] = end
    return found


def run(cases: list[Case], folder: Path) -> None:
    """Runs the cases with the nki of this process; writes NAME.npz, or NAME.txt with the error."""
    for case in cases:
        try:
            result = nki.simulate(case.kernel)(*case.arguments())
            outputs = result if isinstance(result, (tuple, list)) else [result]
            archive = io.BytesIO()
            np.savez(archive, *map(np.asarray, outputs))
            write_whole(folder / f"{case.name}.npz", archive.getvalue())
        except Exception as error:  # any error of a simulator is its answer
            write_whole(folder / f"{case.name}.txt", f"{type(error).__name__}: {error}")


def is_done(folder: Path, name: str) -> bool:
    return any((folder / f"{name}{ending}").exists() for ending in (".npz", ".txt"))


def read(folder: Path, name: str) -> Outcome:
    """Returns the outcome of a case that `run` wrote."""
    reason = folder / f"{name}.txt"
    if reason.exists():
        return reason.read_text("utf-8")
    with np.load(folder / f"{name}.npz") as arrays:
        return list(arrays.values())


def compared(case: Case, ours: Outcome, theirs: Outcome) -> dict[str, Any]:
    """Returns a row of the report: the status, and the relative L2 distance over all outputs."""
    row = {
        "case": case.name,
        "kernel": f"{case.kernel.__module__}.{case.kernel.__name__}",
        "relative_l2": None,
        "tolerance": case.tolerance,
    }
    if isinstance(ours, str):
        return row | {"status": "rejected", "detail": f"by trnfft's simulator: {ours}"}
    if isinstance(theirs, str):
        return row | {"status": "rejected", "detail": f"by AWS's simulator: {theirs}"}
    kinds = [
        [f"{array.dtype}{list(array.shape)}" for array in outputs] for outputs in (ours, theirs)
    ]
    if kinds[0] != kinds[1]:
        return row | {"status": "different", "detail": f"{kinds[0]} here, {kinds[1]} there"}
    if all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True)):
        return row | {"status": "bitwise equal", "detail": "", "relative_l2": 0.0}
    distance = relative_l2(*(np.concatenate([a.ravel() for a in side]) for side in (theirs, ours)))
    status = "close" if distance <= case.tolerance else "different"
    detail = f"relative L2 distance {distance:.1e}, tolerance {case.tolerance:.0e}"
    finite = distance if math.isfinite(distance) else None
    return row | {"status": status, "detail": detail, "relative_l2": finite}


def relative_l2(found: np.ndarray, reference: np.ndarray) -> float:
    """Returns the norm of the difference over that of the reference, in float64.

    The result is NaN where a NaN is.
    """
    difference = found.astype(np.float64) - reference
    return float(np.linalg.norm(difference) / np.linalg.norm(reference.astype(np.float64)))


if __name__ == "__main__":
    sys.exit(main())
