"""Answers to probes: as JSON, checked when read, and as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import FiniteFloat
from rich.markup import escape
from rich.table import Table

from bench.probes.launcher import SIMULATOR
from bench.probes.launches import LAUNCH
from bench.results import Environment, Strict, load_as

FORMAT: Final = "trnfft probes"
VERSION: Final = 1
Verdict = Literal["right", "wrong", "refused", "unanswered"]
RIGHT: Final = "right"
WRONG: Final = "wrong"
REFUSED: Final = "refused"
UNANSWERED: Final = "unanswered"
COMPLEX: Final = "complex-tensors"  # name of the probe of complex tensors, which is no kernel
COLORS = {RIGHT: "green", WRONG: "red", REFUSED: "red", UNANSWERED: "yellow"}


class Tried(Strict):
    """The outcome of one of the two kernels, with microseconds for each number of repetitions.

    `refusal` says why there is no result. `relative_error` is the largest of several draws, against
    NumPy in float64. `measured_us` are times of whole launches by the host's clock; the simulator
    has none.
    """

    relative_error: FiniteFloat | None = None
    refusal: str = ""
    measured_us: tuple[FiniteFloat, ...] = ()
    modelled_us: tuple[FiniteFloat, ...] = ()


class Answer(Strict):
    """The answer of one framework to one probe.

    `difference` is the relative difference between the results of kernel and twin. `reading` is the
    name of the probe's reading with which the kernel's results agree. The verdict "unanswered"
    means that even the twin failed, or that the process ended without an answer, so that nothing is
    known about the construct.
    """

    probe: str
    question: str
    record: str
    settles: str
    framework: str
    lnc: int
    counts: tuple[int, ...]
    verdict: Verdict
    reason: str = ""
    kernel: Tried = Tried()
    twin: Tried = Tried()
    difference: FiniteFloat | None = None
    reading: str = ""

    @property
    def measured_ns(self) -> float | None:
        """Measured nanoseconds by which each repetition lengthens the kernel more than its twin."""
        return per_repetition_ns(self.counts, self.kernel.measured_us, self.twin.measured_us)

    @property
    def modelled_ns(self) -> float | None:
        """The modelled value of `measured_ns`."""
        return per_repetition_ns(self.counts, self.kernel.modelled_us, self.twin.modelled_us)


class Unasked(Strict):
    """A probe that cannot be asked of the chip."""

    probe: str
    reason: str


class Report(Strict):
    """All answers of one run."""

    format: Literal["trnfft probes"] = FORMAT
    version: Literal[1] = VERSION
    target: str
    environment: Environment
    answers: list[Answer]
    unasked: list[Unasked]

    @property
    def is_modelled(self) -> bool:
        """Whether the simulator answered, so that the report says nothing about a chip."""
        return any(answer.framework == SIMULATOR for answer in self.answers)


def per_repetition_ns(
    counts: tuple[int, ...], kernel_us: tuple[float, ...], twin_us: tuple[float, ...]
) -> float | None:
    """Returns the slope of the difference over the counts; None without two times."""
    if len(counts) < 2 or not len(counts) == len(kernel_us) == len(twin_us):
        return None
    extra = np.subtract(kernel_us, twin_us)
    return 1e3 * float(np.polyfit(counts, extra, 1)[0])


def load(path: Path) -> Report:
    """Returns the report in a file.

    Raises:
        ResultsError: the file holds no report that this version can read.
    """
    return load_as(Report, path, f"{FORMAT} version {VERSION}")


def table(report: Report) -> Table:
    """Returns a table with a row for every answer: its verdict, its times, and what it settles."""
    by = "the simulator, which settles nothing" if report.is_modelled else "the chip"
    shown = Table(title=f"Probes of {report.target}, answered by {by}", title_justify="left")
    for heading in ("probe", "by", "answer", "error", "twin's", "measured", "modelled", "settles"):
        is_number = heading in ("error", "twin's", "measured", "modelled")
        shown.add_column(heading, justify="right" if is_number else "left")
    for answer in report.answers:
        measured, modelled = times_in_words(answer, launch_us(report, answer.framework))
        shown.add_row(
            answer.probe,
            answer.framework,
            f"[{COLORS[answer.verdict]}]{answer.verdict}[/]",
            error_in_words(answer.kernel),
            error_in_words(answer.twin),
            measured,
            modelled,
            escape(answer.settles),
        )
    for unasked in report.unasked:
        shown.add_row(unasked.probe, "", "not asked", "", "", "", "", escape(unasked.reason))
    return shown


def error_in_words(tried: Tried) -> str:
    """Returns the relative error, or "" where there was no result."""
    return "" if tried.relative_error is None else f"{tried.relative_error:.1e}"


def launch_us(report: Report, framework: str) -> float:
    """Returns the microseconds of a launch by a framework, or 0 where they were not measured."""
    for answer in report.answers:
        if (answer.probe, answer.framework) == (LAUNCH, framework) and answer.kernel.measured_us:
            return answer.kernel.measured_us[0]
    return 0.0


def times_in_words(answer: Answer, launch: float) -> tuple[str, str]:
    """Returns the measured and the modelled time.

    The times are those of a repetition, or of one launch; a measured launch is given without the
    time of an almost empty launch.
    """
    if answer.modelled_ns is not None:
        pair = answer.measured_ns, answer.modelled_ns
        measured, modelled = ("" if ns is None else f"{ns:,.0f} ns each" for ns in pair)
        return measured, modelled
    less = 0.0 if answer.probe == LAUNCH else launch
    taken, model = answer.kernel.measured_us, answer.kernel.modelled_us
    return (
        f"{taken[0] - less:,.1f} us" if taken else "",
        f"{model[0]:,.1f} us" if model else "",
    )
