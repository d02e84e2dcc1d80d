"""Runs AWS's public kernels in the simulator, and writes their table into docs/aws_kernels.md.

    python scripts/aws_kernels.py NKI_LIBRARY NKI_SAMPLES SDK
    python scripts/aws_kernels.py NKI_LIBRARY NKI_SAMPLES SDK cumsum rope   # cases of these names
    python scripts/aws_kernels.py --page-only                               # from stored results

The arguments are checkouts of nki-library, nki-samples and aws-neuron-sdk of github.com/aws-neuron.
The script downloads nothing, and stores nothing of these checkouts. It runs every case of
scripts/aws_cases in a process of its own with a time limit, and stores the results in
scripts/aws_kernels.json. The exit code is 0 if all cases match or are refused as expected, 1 if a
case differs or fails in another way, and 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from aws_cases import CASES  # noqa: E402
from aws_cases.case import Case  # noqa: E402
from aws_cases.page import page  # noqa: E402
from nki_sim.base.installed_nki import SIMULATOR_VARIABLE  # noqa: E402
from nki_sim.base.releases import VARIABLE as RELEASE_VARIABLE  # noqa: E402
from nki_sim.base.whole_file import write_whole  # noqa: E402
from nki_sim.hardware import TARGET_VARIABLE  # noqa: E402

RESULTS = ROOT / "scripts" / "aws_kernels.json"
PAGE = ROOT / "docs" / "aws_kernels.md"
SECONDS = 600  # time limit of a case
PROCESSES = 2
LIBRARY_ROOT = Path("src", "nkilib_src")  # of the package nkilib
FOLDERS = {  # a folder of each checkout, by which it is recognised
    "nki-library": LIBRARY_ROOT,
    "nki-samples": Path("src"),
    "aws-neuron-sdk": Path("nki", "examples"),
}


def main() -> int:
    """Runs cases, writes results and page, and returns the exit code."""
    options = parse()
    if options.run is not None:
        print(json.dumps(in_this_process(options)))
        return 0
    if not options.page_only:
        found = everything(options)
        if options.cases:
            for row in found["cases"]:
                print(json.dumps(row))
            return exit_code(found)
        write_whole(RESULTS, json.dumps(found, indent=1, allow_nan=False) + "\n")
    results = json.loads(RESULTS.read_text("utf-8"))
    write_whole(PAGE, page(results))
    return exit_code(results)


def parse() -> argparse.Namespace:
    """Parses the command line; ends the process with 2 where it is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="?", type=Path, help="checkout of nki-library")
    parser.add_argument("samples", nargs="?", type=Path, help="checkout of nki-samples")
    parser.add_argument("sdk", nargs="?", type=Path, help="checkout of aws-neuron-sdk")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="run only these; print their rows")
    parser.add_argument("--page-only", action="store_true", help="only write the page again")
    parser.add_argument("--run", help=argparse.SUPPRESS)  # for the process of a case
    options = parser.parse_args()
    if options.page_only:
        return options
    for name, folder in zip(("library", "samples", "sdk"), FOLDERS.values(), strict=True):
        given = getattr(options, name)
        if given is None or not (given / folder).is_dir():
            parser.error(f"argument {name} is {given}: no checkout, as it has no folder {folder}")
    known = [case.name for case in CASES]
    if wrong := [name for name in options.cases if name not in known]:
        parser.error(f"argument CASE is {wrong[0]!r}, allowed are {', '.join(known)}")
    return options


def exit_code(results: dict[str, Any]) -> int:
    """Returns 1 if a case neither matches nor is refused as expected, and 0 otherwise."""
    return int(any(row["status"] in ("differs", "fails") for row in results["cases"]))


# The main process.


def everything(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the results of all cases, or only of the named ones."""
    cases = [case for case in CASES if case.name in options.cases or not options.cases]
    with ThreadPoolExecutor(PROCESSES) as pool:
        ran = list(pool.map(lambda case: case_row(options, case), cases))
    commits = {name: commit_of(folder) for name, folder in checkouts(options).items()}
    return {"commits": commits, "cases": ran}


def checkouts(options: argparse.Namespace) -> dict[str, Path]:
    """Returns the folders of the repositories, by their names."""
    return dict(zip(FOLDERS, (options.library, options.samples, options.sdk), strict=True))


def commit_of(checkout: Path) -> str:
    """Returns the commit of a checkout, or "unknown" where it is no git repository."""
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def case_row(options: argparse.Namespace, case: Case) -> dict[str, Any]:
    """Returns the row of a case: its status, its largest error and modelled time, or a reason."""
    answer = in_another_process(options, case)
    row = {
        "name": case.name,
        "module": case.module,
        "kernel": case.kernel,
        "shows": case.shows,
        "chip": case.chip,
        "cores": case.cores,
        "waives": list(case.waives),
        "names_modes": case.names_modes,
        "release": case.release,
        "tolerance": case.tolerance,
        "largest_error": answer.get("largest_error"),
        "modelled_us": answer.get("modelled_us"),
        "reason": answer.get("error", ""),
    }
    if not row["reason"]:
        error = row["largest_error"]
        matches = error is not None and error <= case.tolerance
        return row | {"status": "matches" if matches else "differs"}
    if case.refused and re.search(case.refused, row["reason"]):
        return row | {"status": "refused", "reason": case.because}
    return row | {"status": "fails"}


def in_another_process(options: argparse.Namespace, case: Case) -> dict[str, Any]:
    """Returns the answer of `in_this_process` in a process that simulates chip and release."""
    folders = [str(folder.resolve()) for folder in checkouts(options).values()]
    # With several threads, the sums of torch's references vary from run to run.
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    variables = os.environ | one | {TARGET_VARIABLE: case.chip, SIMULATOR_VARIABLE: "1"}
    variables[RELEASE_VARIABLE] = case.release
    variables.pop("NKI_PRECISE_FP", None)
    command = [sys.executable, "-B", __file__, *folders, "--run", case.name]
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"takes more than {SECONDS} s"}
    try:
        return dict(json.loads(done.stdout.strip().splitlines()[-1]))
    except (IndexError, json.JSONDecodeError):
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"error": f"the process ended with code {done.returncode}: {last}"}


# The process of a case.


def in_this_process(options: argparse.Namespace) -> dict[str, Any]:
    """Runs a case; returns the error as text, or the numbers."""
    from aws_cases.running import answer_imports, run_case

    answer_imports(options.library / LIBRARY_ROOT)
    try:
        case = next(case for case in CASES if case.name == options.run)
        return run_case(case, [options.samples, options.sdk])
    except BaseException as error:  # any error of a module or a kernel is an answer
        if os.environ.get("AWS_KERNELS_TRACEBACK"):
            raise
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}


if __name__ == "__main__":
    sys.exit(main())
