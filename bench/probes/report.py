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
COMPLEX: Final = "complex-tensors"  # the probe of tensors, which is no kernel
DECOMPOSE: Final = "TORCH_NEURONX_COMPLEX_DECOMPOSE"
Mode = Literal["eager", "compiled"]
Setting = Literal["0", "1"]  # of that variable
MODES: Final[tuple[Mode, ...]] = ("eager", "compiled")
SETTINGS: Final[tuple[Setting, ...]] = ("0", "1")
COLORS = {RIGHT: "green", WRONG: "red", REFUSED: "red", UNANSWERED: "yellow"}


class Tried(Strict):
    """What came of one of the two kernels; microseconds, one for each number of repetitions.

    `refusal` says why there is no result; `relative_error` is against NumPy in float64, the largest
    of several draws. `measured_us` are whole launches by the host's clock; none in the simulator.
    """

    relative_error: FiniteFloat | None = None
    refusal: str = ""
    measured_us: tuple[FiniteFloat, ...] = ()
    modelled_us: tuple[FiniteFloat, ...] = ()


class Answer(Strict):
    """What one framework said to one probe.

    `difference` is the relative one between the results of kernel and twin. `reading` names that of
    the probe's readings which the kernel's results agree with, where it has some. "unanswered":
    even the twin failed, or the process ended without a word: nothing is known of the construct.
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
        """Nanoseconds that the kernel is longer than its twin with each repetition, measured."""
        return per_repetition_ns(self.counts, self.kernel.measured_us, self.twin.measured_us)

    @property
    def modelled_ns(self) -> float | None:
        """The same of the model."""
        return per_repetition_ns(self.counts, self.kernel.modelled_us, self.twin.modelled_us)


class TensorAnswer(Strict):
    """What PyTorch on the device "neuron" said to one operation on complex tensors.

    `fell_back`: the result is not on the device, or a warning or a log says that the CPU computed;
    a fallback that nothing tells of is not seen. `reason` has these words, or the error's.
    """

    operation: str
    mode: Mode
    setting: Setting
    verdict: Verdict
    reason: str = ""
    relative_error: FiniteFloat | None = None
    fell_back: bool = False

    @property
    def is_of_device(self) -> bool:
        """Whether it is right, and the device computed it as far as can be seen."""
        return self.verdict == RIGHT and not self.fell_back

    @property
    def in_words(self) -> str:
        """The answer in one line."""
        by = " by the CPU" if self.fell_back else ""
        what = f"{self.operation} {self.mode}, {DECOMPOSE}={self.setting}: {self.verdict}{by}"
        return what + (f" ({' '.join(self.reason.split())})" if self.reason else "")


class Unasked(Strict):
    """A probe that the chip cannot be asked."""

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
    tensors: list[TensorAnswer] = []  # to COMPLEX

    @property
    def is_modelled(self) -> bool:
        """Whether the simulator answered, of which nothing about a chip can be learned."""
        return any(answer.framework == SIMULATOR for answer in self.answers)


def per_repetition_ns(
    counts: tuple[int, ...], kernel_us: tuple[float, ...], twin_us: tuple[float, ...]
) -> float | None:
    """Slope of the difference over the counts, by least squares; None without two times."""
    if len(counts) < 2 or not len(counts) == len(kernel_us) == len(twin_us):
        return None
    extra = np.subtract(kernel_us, twin_us)
    return 1e3 * float(np.polyfit(counts, extra, 1)[0])


def load(path: Path) -> Report:
    """The report in a file; ResultsError where it holds none."""
    return load_as(Report, path, f"{FORMAT} version {VERSION}")


def table(report: Report) -> Table:
    """A row for every answer: right or wrong, the time against the model, what it settles."""
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
    for tensor in report.tensors:
        error = tensor.relative_error
        shown.add_row(
            f"{COMPLEX}: {tensor.operation}",
            f"{tensor.mode}, decompose={tensor.setting}",
            f"[{COLORS[tensor.verdict]}]{tensor.verdict}[/]" + " by the CPU" * tensor.fell_back,
            "" if error is None else f"{error:.1e}",
            *("", "", ""),
            escape(tensor.reason),
        )
    for unasked in report.unasked:
        shown.add_row(unasked.probe, "", "not asked", "", "", "", "", escape(unasked.reason))
    return shown


def error_in_words(tried: Tried) -> str:
    """The relative error; nothing where there was no result."""
    return "" if tried.relative_error is None else f"{tried.relative_error:.1e}"


def launch_us(report: Report, framework: str) -> float:
    """What a framework takes for a launch, 0 where nobody asked it."""
    for answer in report.answers:
        if (answer.probe, answer.framework) == (LAUNCH, framework) and answer.kernel.measured_us:
            return answer.kernel.measured_us[0]
    return 0.0


def times_in_words(answer: Answer, launch: float) -> tuple[str, str]:
    """Measured and modelled: of a repetition, or of one launch without what any launch takes."""
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
