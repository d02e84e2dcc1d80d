"""Findings of a command in a file: a line, a rule and a message, from any source."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nki_sim.errors import NkiValidationError
from nki_sim.instructions.instruction_notes import is_simulators
from nki_sim.lint import Violation
from nki_sim.report.timeline import Timeline

_LEVELS = {"error": "error", "deprecated": "warning", "warning": "warning", "contested": "note"}


@dataclass(frozen=True)
class Finding:
    """A place in a file, and what is wrong there.

    Attributes:
        file: the path of the file, or "" if no line is known.
        line: the line from 1 on, or 0 if no line is known.
        rule: a short name, such as "comprehension" or "hardware-rule".
        message: what is wrong, and what to write instead.
        level: "error", "warning" or "note", as in SARIF.
    """

    file: str
    line: int
    rule: str
    message: str
    level: str = "error"

    def __str__(self) -> str:
        place = f"{shown_path(self.file)}:{self.line}: " if self.file else ""
        return f"{place}{self.level}: {self.message} [{self.rule}]"


def of_violations(violations: Iterable[Violation]) -> list[Finding]:
    """Returns the findings of the lint. A contested rule is a note."""
    return [Finding(v.file, v.line, v.rule, v.message, _LEVELS[v.severity]) for v in violations]


def of_warnings(timeline: Timeline) -> list[Finding]:
    """Returns the simulator's warnings, without repetitions of a line and message."""
    found = [
        Finding(
            w.source.file if w.source else "",
            w.source.line if w.source else 0,
            w.rule if "-" in w.rule and " " not in w.rule else "simulator-warning",
            w.message,
            "warning",
        )
        for w in timeline.warnings
    ]
    return list(dict.fromkeys(found))


def of_error(error: BaseException) -> Finding:
    """Returns an error at the innermost line of the user's code.

    If no frame is outside of libraries, the line is one of a library.
    """
    rule = type(error).__name__
    message = f"{rule}: {_text_of(error)}"
    if isinstance(error, NkiValidationError):
        rule, message = error.name or "hardware-rule", str(error)
        if error.source:
            return Finding(error.source.file, error.source.line, rule, message)
    if isinstance(error, SyntaxError) and error.filename:
        return Finding(error.filename, error.lineno or 1, rule, f"{rule}: {error.msg}")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_users(f.filename)]
    if not frames:
        return Finding("", 0, rule, message)
    pythons = sysconfig.get_path("stdlib")  # beside what Python compiles from a text
    for frame in reversed(frames):
        path = Path(frame.filename)
        is_library = path.is_relative_to(pythons) or "site-packages" in path.parts
        if not is_library and frame.filename != "<string>":
            return Finding(frame.filename, frame.lineno or 0, rule, message)
    return Finding(frames[-1].filename, frames[-1].lineno or 0, rule, message)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # raised by the error's __str__
        return "an error without a text"


def is_users(file: str) -> bool:
    """Returns whether a file belongs neither to the simulator nor to Python's import system."""
    return not (is_simulators(file) or file.startswith("<frozen") or file.endswith("runpy.py"))


def shown_path(file: str) -> str:
    """Returns the path relative to the current folder, if the file is inside of that folder."""
    try:
        return str(Path(file).resolve().relative_to(Path.cwd()))
    except ValueError:
        return file
