"""What a page is made of: the result files of a run, its record, its logs, and its tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bench.results import Key, Missing, Results, ResultsError, Row, load

MODEL = "nki-sim"  # the backend whose times are modelled
MODELLED = "modelled.json"  # by bench.run with the backend "nki-sim", beside what was measured
MODELLED_ACCURACY = "modelled-accuracy.json"
RESULTS = ("benchmarks.json", "accuracy.json", "parity.json", MODELLED, MODELLED_ACCURACY)
RUN_LOG = "run.log"  # what scripts/hw_bench.py printed
LOG_LIMIT = 200_000  # characters of one log


@dataclass(frozen=True)
class File:
    """Results with a short name."""

    name: str
    results: Results

    @cached_property
    def rows(self) -> dict[Key, Row]:
        return {row.key: row for row in self.results.rows}

    @cached_property
    def missing(self) -> dict[Key, Missing]:
        return {each.key: each for each in self.results.missing}


@dataclass(frozen=True)
class Log:
    """The end of a log file. `skipped` characters come before it."""

    name: str
    text: str
    skipped: int


@dataclass(frozen=True)
class Outcome:
    """Numbers of test cases by their outcome."""

    passed: int
    failed: int
    skipped: int


@dataclass
class Contents:
    """Everything that a page shows, before it becomes charts and tables."""

    files: list[File] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # files that could not be read, and why
    job: dict[str, Any] = field(default_factory=dict)  # job.json of scripts/hw_bench.py
    tests: Outcome | None = None
    logs: list[Log] = field(default_factory=list)

    def measured(self, program: str = "") -> list[File]:
        """Returns the files whose backend is not the simulator, of one program or of all."""
        return [file for file in self.of(program) if file.results.backend != MODEL]

    def modelled(self, program: str = "") -> list[File]:
        """Returns the files whose backend is the simulator, of one program or of all."""
        return [file for file in self.of(program) if file.results.backend == MODEL]

    def of(self, program: str) -> list[File]:
        """Returns the files of one program or of all."""
        return [file for file in self.files if program in ("", file.results.program)]


def read(paths: Sequence[Path]) -> Contents:
    """Reads result files, and folders that scripts/hw_bench.py has filled.

    A folder may lack any of its files, and a damaged one becomes a sentence in `problems`.

    Raises:
        ResultsError: a path that is no folder holds no results, or there are no results at all.
    """
    contents = Contents()
    results = []
    for path in paths:
        if not path.is_dir():
            results.append((path, load(path)))
            continue
        for file in (path / name for name in RESULTS):
            try:
                results += [(file, load(file))] if file.exists() else []
            except ResultsError as error:
                contents.problems.append(str(error))
        read_surroundings(path, contents)
    if not results:
        names = ", ".join(map(str, paths))
        raise ResultsError(" ".join([*contents.problems, f"there are no results in {names}"]))
    chips = {found.where: path.name for path, found in results}
    if len(chips) > 1:
        listed = "; ".join(f"{name}: {where}" for where, name in chips.items())
        raise ResultsError(
            f"the results are for several chips or degrees of LNC ({listed}); make a page for "
            f"each, and model cases anew with python -m bench.run --target CHIP"
        )
    stems = [path.stem for path, _ in results]
    for path, found in results:
        name = path.stem if stems.count(path.stem) == 1 else str(path)
        contents.files.append(File(name, found))
    return contents


def read_surroundings(folder: Path, contents: Contents) -> None:
    """Adds the record of the job, the outcome of the tests, and the logs of a folder."""
    record = folder / "job.json"
    if record.exists():
        try:
            contents.job = json.loads(record.read_text("utf-8"))
        except (OSError, ValueError) as error:
            contents.problems.append(f"cannot read {record}: {error}")
    report = folder / "tests.xml"
    if report.exists():
        try:
            contents.tests = outcome(report)
        except (OSError, ValueError, ElementTree.ParseError) as error:
            contents.problems.append(f"cannot read {report}: {error}")
    found = sorted(folder.glob("*.log"), key=lambda path: (path.name != RUN_LOG, path.name))
    contents.logs += [log_of(path) for path in found if path.is_file()]


def outcome(report: Path) -> Outcome:
    """Counts the test cases of a JUnit report, as pytest writes it."""
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))

    def total(name: str) -> int:
        return sum(int(suite.get(name, 0)) for suite in suites)

    failed, skipped = total("failures") + total("errors"), total("skipped")
    return Outcome(total("tests") - failed - skipped, failed, skipped)


def log_of(path: Path) -> Log:
    """Reads the end of a log, without the control characters that move a terminal's cursor."""
    text = path.read_text("utf-8", errors="replace")
    kept = "".join(c if c.isprintable() or c in "\n\t" else " " for c in text[-LOG_LIMIT:])
    return Log(path.name, kept, max(len(text) - LOG_LIMIT, 0))
