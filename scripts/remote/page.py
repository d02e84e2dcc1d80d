"""The page of results beside the JSON of a run, by `bench.page`.

The modelled times beside the measured ones come from the same cases in the simulator, which runs on
this machine after the instance has ended, so that it costs nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import quote

NAME = "page.html"
ROOT = Path(__file__).resolve().parents[2]  # of the programs in bench, whatever revision ran
FORMAT = "trnfft benchmark"  # of the results of those programs
# For each file of measured results: the program that models the same cases, and its file.
MODELS = {
    "benchmarks.json": ("bench.run", "modelled.json"),
    "accuracy.json": ("bench.accuracy", "modelled-accuracy.json"),
}
RESULTS = (*MODELS, "parity.json")


def write_page(folder: Path, say: Callable[[str], None], with_model: bool = True) -> None:
    """Writes the page of the results in a folder, if there are any.

    A page that cannot be made is no failure of the run: one sentence says why.

    with_model: runs the simulator first, unless its results are there.
    """
    chips = {name: chip_of(folder / name) for name in RESULTS}
    if not any(chips.values()):
        return
    for name, (program, modelled) in MODELS.items() if with_model else ():
        chip = chips[name]
        if chip and chip != chip_of(folder / modelled):
            model(program, *chip, folder / modelled, say)
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    page = folder / NAME
    try:
        from bench.page.html import write  # imports torch, which few commands need

        write([folder], page)
    except Exception as error:  # results of a device may hold anything
        again = f"python -m bench.page {quote(str(folder))} --out {quote(str(page))}"
        say(f"there is no page of the results: {error}. To try again: {again}")


def chip_of(path: Path) -> tuple[str, str] | None:
    """Returns the chip and its degree of LNC by a file of results; None where it holds none."""
    try:
        content = json.loads(path.read_bytes())
        is_ours = content["format"] == FORMAT
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return (str(content.get("target")), str(content.get("cores"))) if is_ours else None


def model(program: str, target: str, cores: str, out: Path, say: Callable[[str], None]) -> None:
    """Runs the cases of a program in the simulator, for the chip that was measured."""
    from nki_sim.hardware import LNC_VARIABLE  # not needed before there are results

    say(
        f"modelling the cases of {program} for {target}, LNC={cores} on this machine, which takes "
        "about a minute if the machine is idle; Ctrl-C leaves that out"
    )
    words = ["-m", program, "--backend", "nki-sim", "--target", target, "--out", str(out.resolve())]
    environment = {**os.environ, LNC_VARIABLE: cores}
    try:
        ended = subprocess.run(
            [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True
        )
    except KeyboardInterrupt:
        say(f"{program} was interrupted; the page has no modelled times of its cases")
        return
    if not out.exists():
        lines = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        say(f"{program} could not model the cases: {lines[-1]}")
