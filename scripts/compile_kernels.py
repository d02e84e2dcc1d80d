"""Compiles the kernels by NKI's front end and neuronx-cc, on any computer without a NeuronCore.

    python scripts/compile_kernels.py --jobs 2    # a plan of each kernel, for each chip
    python scripts/compile_kernels.py --kernel stockham --json compiled.json

This program has never run against the real compiler. It calls `StandaloneKernel` of NKI 0.6 with an
executor that runs nothing, as public programs do to compile; its tests use a stand-in for that
class.

The program needs trnfft (`pip install .`) and the wheels nki and neuronx-cc. Where the wheels are
missing, it prints how to install them. Each launch is compiled in a process of its own, in an empty
folder, with zeros for data. A refusal, a crash or a process that runs too long becomes a row of the
table, and the other launches go on. The exit code is 0 if all launches were compiled, 1 if some
were not, and 2 if there is nothing to compile with.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # finds the kernels of this checkout without an installation

from neuron_wheels import INSTALL, versions, why_no_nki  # noqa: E402
from nki_sim import hardware  # noqa: E402
from nki_sim.base.installed_nki import SIMULATOR_VARIABLE  # noqa: E402
from nki_sim.base.whole_file import write_whole  # noqa: E402
from trnfft.planner import wisdom  # noqa: E402
from trnfft.planner.algorithms import ALGORITHMS  # noqa: E402
from trnfft.planner.plan import Plan, Recipe  # noqa: E402

NEVER_RUN = "This program has never run against the real compiler: check what it says."
SECONDS = 1800  # time limit of a launch; the largest kernels of others needed 560
COMPILER = "neuronx-cc"
OUTCOME = "outcome.json"  # file of a launch's row, in the folder of its process
# NKI_ARTIFACTS_DIR would have to be an empty folder
NOT_FOR_THE_COMPILER = ("NKI_SIMULATOR", "NKI_ARTIFACTS_DIR")
SHOWN = 160  # characters of a refusal in the table


@dataclass(frozen=True)
class Launch:
    """A kernel to compile: a recipe for a number of transforms, on a chip and a degree of LNC."""

    chip: str
    cores: int
    batch: int
    recipe: Recipe

    def to_dict(self) -> dict[str, Any]:
        """Returns the launch as JSON types."""
        return {**vars(self), "recipe": self.recipe.to_dict()}

    @classmethod
    def from_dict(cls, entry: dict[str, Any]) -> Launch:
        """The inverse of `to_dict`."""
        return cls(**{**entry, "recipe": Recipe.from_dict(entry["recipe"])})

    def arguments(self) -> tuple[Any, ...]:
        """Returns the kernel's arguments: zeros for the data, then tables and settings."""
        algorithm = ALGORITHMS[self.recipe.algorithm]
        shapes = algorithm.inputs(self.recipe, self.batch)
        data = [np.zeros(shape, np.float32) for shape in shapes]
        return *data, *algorithm.arguments(self.recipe)


def main(given: list[str] | None = None) -> int:
    """Compiles, prints a line for each launch, writes the JSON, and returns the exit code."""
    options = parse(given)
    if options.one is not None:
        row = compile_here(Launch.from_dict(json.loads(options.one)))
        write_whole(Path(OUTCOME), json.dumps(row))
        return 0
    reason = why_no_nki()
    if not reason and shutil.which(COMPILER, path=search_path()) is None:
        reason = f"{COMPILER} is not on PATH; {INSTALL}"
    if reason:
        print(reason, file=sys.stderr)
        return 2
    launches = [
        launch
        for chip in ([options.target] if options.target else hardware.NAMES)
        for launch in launches_for(chip, options.kernel)
    ]
    print(NEVER_RUN)
    print(line("kernel", "chip", "LNC", "N", "batch", "seconds", "instructions", "result"))
    rows = []
    for row in compiled_all(launches, options.jobs):
        rows.append(row)
        print(shown(row), flush=True)
    refused = sum(row["status"] != "compiled" for row in rows)
    print(f"compiled: {len(rows) - refused}, refused: {refused}")
    if options.json is not None:
        report = {"note": NEVER_RUN, "versions": versions(), "launches": rows}
        write_whole(options.json, json.dumps(report, indent=1) + "\n")
    return 1 if refused else 0


def parse(given: list[str] | None) -> argparse.Namespace:
    """Parses the command line; ends the process with 2 where it is wrong."""
    parser = argparse.ArgumentParser(description=f"{__doc__.splitlines()[0]} {NEVER_RUN}")
    parser.add_argument("--target", choices=hardware.NAMES, help="a chip; by default all of them")
    parser.add_argument(
        "--kernel",
        action="append",
        choices=ALGORITHMS,
        metavar="NAME",
        help=f"a kernel, may be repeated; by default all: {', '.join(ALGORITHMS)}",
    )
    parser.add_argument("--jobs", type=int, default=1, help="launches compiled at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # for the process that compiles
    options = parser.parse_args(given)
    if options.jobs < 1:
        parser.error(f"argument --jobs is {options.jobs}, allowed is 1 or more")
    if options.json is not None and not options.json.absolute().parent.is_dir():
        parser.error(f"argument --json is {options.json}: there is no folder {options.json.parent}")
    return options


# The launches that are compiled


def launches_for(chip: str, kernels: list[str] | None) -> list[Launch]:
    """Returns a launch for each kernel, from the shipped plans for a chip.

    It is the one of middling price at the chip's own degree of LNC. A kernel that no plan chose
    gets a launch that plans considered and rejected, for example as too inexact.
    """
    chosen: dict[str, list[tuple[float, Launch]]] = {name: [] for name in kernels or ALGORITHMS}
    rejected: dict[str, list[tuple[float, Launch]]] = {name: [] for name in chosen}
    for plan in map(Plan.from_row, wisdom.shipped(chip).values()):
        for candidate in plan.candidates:
            name = candidate.recipe.algorithm
            if name not in chosen or candidate.predicted_error is None:
                continue
            launch = Launch(chip, plan.cores, plan.batch, candidate.recipe)
            if candidate.rejected:
                rejected[name].append((plan.n * plan.batch, launch))
            else:
                chosen[name].append((candidate.predicted_ns or 0.0, launch))
    cores = hardware.chip(chip).programs_per_launch
    every = [offers or rejected[name] for name, offers in chosen.items()]
    return [middling(offers, cores) for offers in every if offers]


def middling(offers: list[tuple[float, Launch]], cores: int) -> Launch:
    """Returns the launch whose price is in the middle of those on ``cores`` cores."""
    offers = [one for one in offers if one[1].cores == cores] or offers
    offers = sorted(offers, key=lambda one: one[0])
    return offers[(len(offers) - 1) // 2][1]


# Compiling


def compiled_all(launches: list[Launch], jobs: int) -> Iterator[dict[str, Any]]:
    """Yields the row of each launch in order; compiles in up to ``jobs`` processes at a time."""
    running: set[subprocess.Popen[bytes]] = set()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            yield from pool.map(lambda launch: compiled(launch, running), launches)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                kill(process)
            raise


def compiled(launch: Launch, running: set[subprocess.Popen[bytes]]) -> dict[str, Any]:
    """Returns the row of a launch, which another process compiles, because compilers may crash."""
    command = [sys.executable, str(Path(__file__).resolve()), "--one", json.dumps(launch.to_dict())]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(launch, folder),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that it can be ended with its own processes
        )
        running.add(process)
        try:
            code = process.wait(SECONDS)
            output.seek(0)
            last_line = (output.read().decode(errors="replace").strip().splitlines() or [""])[-1]
            end = f"the process ended with code {code}: {last_line}"
        except subprocess.TimeoutExpired:
            end = f"it took more than {SECONDS} s"
        finally:
            kill(process)
            running.discard(process)
        outcome = Path(folder, OUTCOME)
        if outcome.exists():
            return json.loads(outcome.read_text("utf-8"))
    return row_of(launch, time.perf_counter() - start, refusal=end)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def search_path() -> str:
    """Returns PATH with the folder of this Python first, where pip installs the compiler."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def environment(launch: Launch, folder: str) -> dict[str, str]:
    """Returns the variables of the process that compiles.

    They select the real nki, the launch's chip, and its degree of LNC.
    """
    kept = {name: value for name, value in os.environ.items() if name not in NOT_FOR_THE_COMPILER}
    return kept | {
        hardware.TARGET_VARIABLE: launch.chip,
        hardware.LNC_VARIABLE: str(launch.cores),
        SIMULATOR_VARIABLE: "0",
        "PATH": search_path(),
        "TMPDIR": folder,
    }


def compile_here(launch: Launch) -> dict[str, Any]:
    """Compiles a launch in this process, and returns its row; an error of NKI is its refusal."""
    from nki.framework.compiled import StandaloneKernel

    built: dict[str, Any] = {}

    def keep(compiled: Any, *_: Any, **__: Any) -> None:
        """Takes the place of the executor; the folder of the NEFF exists until this returns."""
        built["instructions"] = instructions_in(Path(compiled.neff_path).parent)
        built["compiler_seconds"] = getattr(compiled, "neuronx_cc_time", None)

    kernel = ALGORITHMS[launch.recipe.algorithm].kernel[launch.cores]
    start = time.perf_counter()
    try:
        kernel._to_subclass(StandaloneKernel, _executor=keep)(*launch.arguments())
        refusal = "" if built else "NKI returned without a NEFF"
    except Exception as error:  # any error of front end or compiler is a refusal
        refusal = f"{type(error).__name__}: {error}"
    return row_of(launch, time.perf_counter() - start, refusal, **built)


def instructions_in(folder: Path) -> int | None:
    """Returns the number of instructions in a folder of neuronx-cc, or None where it is unknown.

    neuronx-cc leaves a table `instruction_stats.txt` for each core, with lines `│ MATMUL │ 128 │`.
    The result is the sum over all tables.
    """
    counts = [
        int(count.replace(",", ""))
        for path in folder.rglob("instruction_stats.txt")
        for opcode, count in re.findall(
            r"^│\s*(\S+)\s*│\s*([\d,]+)\s*│$", path.read_text("utf-8"), re.MULTILINE
        )
        if opcode.upper() != "TOTAL"
    ]
    return sum(counts) if counts else None


# The table


def row_of(
    launch: Launch,
    seconds: float,
    refusal: str = "",
    instructions: int | None = None,
    compiler_seconds: float | None = None,
) -> dict[str, Any]:
    """Returns a row as JSON types.

    `seconds` is the whole waiting time, `compiler_seconds` the time of neuronx-cc.
    """
    return {
        "kernel": launch.recipe.algorithm,
        "chip": launch.chip,
        "lnc": launch.cores,
        "n": launch.recipe.n,
        "batch": launch.batch,
        "recipe": launch.recipe.to_dict(),
        "status": "refused" if refusal else "compiled",
        "seconds": round(seconds, 2),
        "compiler_seconds": compiler_seconds,
        "instructions": instructions,
        "refusal": refusal,
    }


def shown(row: dict[str, Any]) -> str:
    """Returns a row as a line of the table."""
    result = " ".join(f"{row['status']}: {row['refusal']}".split()).removesuffix(":")
    return line(
        row["kernel"],
        row["chip"],
        row["lnc"],
        row["n"],
        row["batch"],
        f"{row['seconds']:.1f}",
        "-" if row["instructions"] is None else row["instructions"],
        result[:SHOWN],
    )


def line(*cells: Any) -> str:
    kernel, chip, lnc, n, batch, seconds, instructions, result = map(str, cells)
    numbers = f"{lnc:>3} {n:>8} {batch:>6} {seconds:>8} {instructions:>13}"
    return f"{kernel:26}{chip:5}{numbers}  {result}"


if __name__ == "__main__":
    sys.exit(main())
