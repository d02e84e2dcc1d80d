"""The page of results beside the JSON of a run: measured times and errors beside modelled ones.

`bench.page` makes the page. The modelled times come from the same cases in the simulator, which
runs on this machine after the instance has ended, so that it costs nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

NAME = "page.html"
ROOT = Path(__file__).resolve().parents[2]  # of the programs in bench, whatever revision ran
FORMAT = "trnfft benchmark"  # of the results of those programs
# For each file of measured results: the program that models the same cases, and its file.
MODELS = {
    "benchmarks.json": ("bench.run", "modelled.json"),
    "accuracy.json": ("bench.accuracy", "modelled-accuracy.json"),
}
RESULTS = (*MODELS, "parity.json")


def write_page(folder: Path, say: Callable[[str], None], with_model: bool = True) -> Path | None:
    """Writes the page of the results in a folder; returns None where there is nothing to show.

    A page that cannot be made is no failure of the run: one sentence says why.

    with_model: runs the simulator first, unless its results are there.
    """
    found = {name: header(folder / name) for name in RESULTS}
    if not any(found.values()):
        return None
    if with_model:
        for name, (program, modelled) in MODELS.items():
            measured = found[name]
            if measured and not describes_same_chip(measured, header(folder / modelled)):
                model(program, measured, folder / modelled, say)
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    page = folder / NAME
    try:
        from bench.page.html import write  # imports torch, which few commands need

        write([folder], page)
    except Exception as error:  # results of a device may hold anything
        again = f"python -m bench.page {quote(str(folder))} --out {quote(str(page))}"
        say(f"there is no page of the results: {error}. To try again: {again}")
        return None
    return page


def header(path: Path) -> dict[str, Any]:
    """Reads what a file of results says about itself; returns {} where it holds none."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    is_ours = isinstance(content, dict) and content.get("format") == FORMAT
    return {name: content.get(name) for name in ("target", "cores")} if is_ours else {}


def describes_same_chip(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Returns whether two files of results are of one chip at one degree of LNC."""
    return one == other


def model(program: str, measured: dict[str, Any], out: Path, say: Callable[[str], None]) -> None:
    """Runs the cases of a program in the simulator, for the chip that was measured."""
    from nki_sim.hardware import LNC_VARIABLE  # not needed before there are results

    target, cores = str(measured["target"]), str(measured["cores"])
    say(
        f"modelling the cases of {program} for {target}, LNC={cores} on this machine, which takes "
        "about a minute if the machine is idle; Ctrl-C leaves that out"
    )
    command = [sys.executable, "-m", program, "--backend", "nki-sim", "--target", target]
    environment = {**os.environ, LNC_VARIABLE: cores}
    try:
        ended = subprocess.run(
            [*command, "--out", str(out.resolve())],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
        )
    except KeyboardInterrupt:
        say(f"{program} was interrupted; the page has no modelled times of its cases")
        return
    if not out.exists():
        lines = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        say(f"{program} could not model the cases: {lines[-1]}")
