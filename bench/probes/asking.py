"""Asks a probe: runs its kernel and its twin, and compares and times them.

On a chip every probe runs in a process of its own: a kernel that is refused, hangs or crashes must
not disturb the others, and a runtime has only one degree of LNC. Modelled times come from another
process, in which the simulator replaces the installed nki.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np

from bench.measurement import repeated
from bench.probes import modelled
from bench.probes.launcher import SIMULATOR, launch, on_host
from bench.probes.probe import Array, Probe
from bench.probes.report import (
    REFUSED,
    RIGHT,
    UNANSWERED,
    WRONG,
    Answer,
    Report,
    Tried,
    Verdict,
)
from bench.results import Checked, ResultsError, load_as
from nki_sim import hardware
from nki_sim.base.installed_nki import SIMULATOR_VARIABLE

SEEDS = (0, 1, 2)  # several, as a chip may be right by chance, or because of its schedule
TOLERANCE = 1e-5  # relative L2; float32 products reach 2e-7, a lost term costs 0.1 or more
NOT_FINITE = 1e30  # the error of results that are not finite; JSON has no infinity
SECONDS = 900.0  # longest time of a probe, with all compilations
SHOWN = 400  # characters of a refusal that are kept


def ask(probe: Probe, framework: str) -> Answer:
    """Asks the current chip the probe's question in this process, and returns the answer."""
    kernel, results = tried(probe, framework, 0)
    twin, others = tried(probe, framework, 1)
    difference = None
    if results and others:
        difference = max(map(relative, results, others))
    verdict, reason = judged(kernel, twin, difference)
    if not kernel.refusal and not twin.refusal:
        kernel, twin = timed(probe, framework, kernel, twin)
    answer = unanswered(probe, framework, reason)
    return answer.model_copy(
        update={
            "verdict": verdict,
            "kernel": kernel,
            "twin": twin,
            "difference": difference,
            "reading": reading_of(probe, results) if verdict in (RIGHT, WRONG) else "",
        }
    )


def unanswered(probe: Probe, framework: str, reason: str) -> Answer:
    """Returns an answer that contains only the reason why there is none."""
    return Answer(
        probe=probe.name,
        question=probe.question,
        record=probe.record,
        settles=probe.settles_on(hardware.current()),
        framework=framework,
        lnc=probe.lnc,
        counts=probe.counts,
        verdict=UNANSWERED,
        reason=reason,
    )


def tried(probe: Probe, framework: str, which: Literal[0, 1]) -> tuple[Tried, list[Array]]:
    """Runs the kernel (0) or its twin (1) with several draws; returns largest error and results.

    Where the compiler, the runtime or the framework refuses the kernel, there are no results, and
    the first value contains the refusal.
    """
    results, errors = [], []
    for seed in SEEDS:
        arguments = probe.drawn(seed)
        kernel, given = probe.both(arguments)[which]
        try:
            result = on_host(launch(framework, kernel, probe.lnc, given)())
        except Exception as problem:  # the compiler, the runtime or the framework refuses
            complaint = f"{type(problem).__name__}: {problem}"
            return Tried(refusal=complaint[:SHOWN]), []
        results.append(result)
        errors.append(relative(result, probe.exact(*arguments)))
    return Tried(relative_error=max(errors)), results


def relative(result: Array, exact: Array) -> float:
    """Returns the relative L2 distance; NOT_FINITE where it is not finite or the shapes differ."""
    if result.shape != exact.shape:
        return NOT_FINITE
    wide = exact.astype(np.float64)
    with np.errstate(all="ignore"):
        distance = np.linalg.norm(result.astype(np.float64) - wide) / np.linalg.norm(wide)
    return float(distance) if np.isfinite(distance) else NOT_FINITE


def reading_of(probe: Probe, results: list[Array]) -> str:
    """Returns the name of the reading with which all results of the kernel agree, or ""."""
    for reading in probe.readings:
        exact = [reading.exact(*probe.drawn(seed)) for seed in SEEDS]
        if max(map(relative, results, exact)) <= TOLERANCE:
            return reading.name
    return ""


def judged(kernel: Tried, twin: Tried, difference: float | None) -> tuple[Verdict, str]:
    """Returns the verdict and its reason."""
    if twin.refusal:
        return UNANSWERED, f"the twin was refused, too: {twin.refusal}"
    if (twin.relative_error or 0.0) > TOLERANCE:
        return UNANSWERED, f"the twin is wrong, too: relative error {twin.relative_error:.1e}"
    if kernel.refusal:
        return REFUSED, kernel.refusal
    worst = max(kernel.relative_error or 0.0, difference or 0.0)
    if worst > TOLERANCE:
        return WRONG, f"relative error {kernel.relative_error:.1e}, {difference:.1e} from the twin"
    return RIGHT, ""


def timed(probe: Probe, framework: str, kernel: Tried, twin: Tried) -> tuple[Tried, Tried]:
    """Returns kernel and twin with their times.

    The times are modelled in the simulator; on a chip they are the least times of many launches.
    """
    if framework == SIMULATOR:
        core = hardware.current()
        pairs = [modelled.times_us(probe, core, count) for count in probe.counts]
        name = "modelled_us"
    else:
        pairs = [measured_us(probe, framework, count) for count in probe.counts]
        name = "measured_us"
    return (
        kernel.model_copy(update={name: tuple(pair[0] for pair in pairs)}),
        twin.model_copy(update={name: tuple(pair[1] for pair in pairs)}),
    )


def measured_us(probe: Probe, framework: str, count: int) -> tuple[float, float]:
    """Returns the least microseconds of a launch of the kernel, and of one of its twin."""
    launches = probe.both(probe.drawn(0, count))
    calls = [launch(framework, kernel, probe.lnc, given) for kernel, given in launches]
    for call in calls:
        call()  # the first call compiles
    kernel, twin = (min(repeated(call)) for call in calls)
    return kernel, twin


def ask_apart(probe: Probe, framework: str, seconds: float = SECONDS) -> Answer:
    """Asks a probe's question in a process of its own.

    The answer is "unanswered" where the process takes longer than ``seconds`` or fails.
    """
    words = ["one", probe.name, "--framework", framework]
    found, said = apart(Answer, words, seconds, {hardware.LNC_VARIABLE: str(probe.lnc)})
    return found or unanswered(probe, framework, said)


def apart(
    model: type[Checked], words: list[str], seconds: float, variables: dict[str, str]
) -> tuple[Checked | None, str]:
    """Runs a command of this program in a process of its own.

    Returns what the command wrote, with all that the process printed on stderr; or None, with the
    reason why there is nothing: the process took longer than ``seconds``, or failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "answer.json")
        try:
            done = in_a_process(words, out, seconds, variables)
        except subprocess.TimeoutExpired:
            return None, f"it did not end within {seconds:.0f} s"
        try:
            return load_as(model, out, "a probe"), done.stderr
        except ResultsError:
            last = " ".join(done.stderr.split())[-SHOWN:]
            return None, f"its process ended with exit code {done.returncode}: {last}"


def modelled_answers(probes: list[Probe], seconds: float = SECONDS) -> dict[str, Answer]:
    """Returns the simulator's answers by the name of the probe.

    The dictionary is empty where the simulator's process takes longer than ``seconds`` or fails.
    """
    words = ["run", *[probe.name for probe in probes]]
    found, _ = apart(Report, words, seconds, {SIMULATOR_VARIABLE: "1"})
    return {answer.probe: answer for answer in found.answers} if found else {}


def with_model(answer: Answer, found: Answer | None) -> Answer:
    """Returns an answer with the modelled times of the simulator's answer."""
    if found is None:
        return answer
    kernel = answer.kernel.model_copy(update={"modelled_us": found.kernel.modelled_us})
    twin = answer.twin.model_copy(update={"modelled_us": found.twin.modelled_us})
    return answer.model_copy(update={"kernel": kernel, "twin": twin})


def in_a_process(
    words: list[str], out: Path, seconds: float, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs a command of this program for the current chip; the command writes its result to a file.

    Raises:
        TimeoutExpired: the command takes longer than ``seconds``; it is ended.
    """
    command = [sys.executable, "-m", "bench.probes", *words, "--out", str(out)]
    target = {hardware.TARGET_VARIABLE: hardware.current().name}
    environment = {**os.environ, **target, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
