"""What the tests may cost, in a unit that a slow machine does not change.

The unit is the CPU time of a fixed piece of work: some Python, some NumPy and some torch, which
take about 0.3 s. Each process of pytest does this work at its beginning and at its end. The cost of
a test is the CPU time of its process and of the processes that it started, over the mean of the
times of that work. The last line of a run prints the costs beside the budgets. With `--budgets
LANE`, a run fails where a folder exceeds its budget.

A budget has a margin of a fifth over the cost for which it was made. A commit of its own raises a
budget, and its message gives the reason.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.scheduling import starts_processes

# Units for the tests in each folder, without those in a folder below it that has a row of its own.
# "collection" is the import of all test files. Other lanes of .ci/run have one budget each, and so
# has the workflow `weekly`.
BUDGETS: dict[str, dict[str, float]] = {
    "default": {
        "collection": 185,
        "tests/": 45,
        "tests/bench/": 66,
        "tests/docs/": 118,
        "tests/examples/": 48,
        "tests/fuzz/": 64,
        "tests/kernels/": 530,
        "tests/lint/": 26,
        "tests/planner/": 270,
        "tests/scripts/": 72,
        "tests/simulator/": 150,
        "tests/trnfft/": 745,
        "tests/trnfft/complex/": 128,
        "tests/trnfft/distributed/": 250,
        "tests/trnfft_demo/": 26,
    },
    "sweeps": {"": 1320},
    "weekly": {"": 5200},
    "neuron": {"": 700},
    "xla": {"": 480},
    "processors": {"": 760},
}
RUN_PROGRAMS = ("tests/docs/", "tests/examples/", "tests/scripts/test_hugging_face_kernel.py")


@dataclass
class Costs:
    """CPU seconds of the tests of one or several processes, and those of the piece of work."""

    seconds: Counter[str] = field(default_factory=Counter)  # by the name of a test
    protects: dict[str, str] = field(default_factory=dict)  # the first line of its docstring
    units: list[float] = field(default_factory=list)

    def add(self, other: dict[str, Any]) -> None:
        """Adds the attributes of the costs of another process."""
        self.seconds.update(other["seconds"])
        self.protects.update(other["protects"])
        self.units += other["units"]

    @property
    def unit(self) -> float:
        """CPU seconds of the piece of work, the mean over all processes."""
        return sum(self.units) / len(self.units)

    def by_folder(self, folders: list[str]) -> dict[str, float]:
        """Returns the cost below each folder, in units; the longest name counts."""
        found = dict.fromkeys(folders, 0.0)
        for test, seconds in self.seconds.items():
            found[folder_of(test, folders)] += seconds / self.unit
        return found

    def dearest(self, folder: str, folders: list[str], count: int = 10) -> list[str]:
        """Returns the dearest tests of a folder: their cost, and what they protect."""
        inside = [test for test in self.seconds if folder_of(test, folders) == folder]
        inside.sort(key=self.seconds.__getitem__, reverse=True)
        return [
            f"{self.seconds[test] / self.unit:6.1f}  {test}\n        {self.protects.get(test, '')}"
            for test in inside[:count]
        ]


def folder_of(test: str, folders: list[str]) -> str:
    """Returns the folder of `folders` with the longest name that contains a test."""
    inside = [folder for folder in folders if test.startswith(folder)]
    return max(inside, key=len, default="")


def piece_of_work() -> float:
    """Returns the CPU seconds of the unit of all costs, in one thread whatever the settings."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.fft.rfft(torch.ones(2, 2)).abs()  # loads libraries
    start = time.process_time()
    table: dict[int, list[int]] = {}
    for number in range(400_000):
        table.setdefault(number % 997, []).append(number * number)
    matrix = np.random.default_rng(0).standard_normal((32, 32), np.float32)  # too small for threads
    for _ in range(6000):
        matrix = np.tanh(matrix @ matrix.T / 32)[::-1].copy()
    tensor = torch.ones(64, 64)
    for _ in range(8000):  # no derivative: it would fix which devices autograd knows
        torch.fft.rfft(tensor).abs().sum()
    seconds = time.process_time() - start
    torch.set_num_threads(threads)
    return seconds


def cpu_seconds(nodeid: str) -> float:
    """Returns the CPU seconds of this process and of the processes that it has started.

    Processes that still run count where the test may have started some.
    """
    times = os.times()
    found = sum(times[:4])
    if starts_processes(nodeid) or nodeid.startswith(RUN_PROGRAMS):
        import psutil

        for process in psutil.Process().children(recursive=True):
            try:
                found += sum(process.cpu_times()[:4])
            except psutil.NoSuchProcess:
                continue
    return found


class Accountant:
    """The plugin of pytest that measures the costs and compares them with the budgets."""

    def __init__(self, config: pytest.Config):
        self.costs, self.lane = Costs(), config.getoption("budgets")
        if self.lane and self.lane not in BUDGETS:
            allowed = ", ".join(BUDGETS)
            raise pytest.UsageError(f"option '--budgets' is {self.lane!r}, allowed are {allowed}")
        self.is_worker = hasattr(config, "workerinput")
        self.runs_tests = self.is_worker or config.getoption("numprocesses", None) in (None, 0)
        self.over: list[str] = []

    def pytest_sessionstart(self) -> None:
        if self.runs_tests:
            self.costs.units.append(piece_of_work())

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Any:
        before = sum(os.times()[:4])
        result = yield
        self.costs.seconds["collection"] += sum(os.times()[:4]) - before
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        before = cpu_seconds(item.nodeid)
        result = yield
        self.costs.seconds[item.nodeid] += max(0.0, cpu_seconds(item.nodeid) - before)
        self.costs.protects[item.nodeid] = first_line(item)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.runs_tests:
            self.costs.units.append(piece_of_work())
        if self.is_worker:
            # pytest-xdist sends plain types only.
            plain = vars(self.costs) | {"seconds": dict(self.costs.seconds)}
            session.config.workeroutput["costs"] = plain
        elif self.lane and self.costs.units:
            self.over = [name for name, cost, budget in self.table(self.lane) if cost > budget]
            if self.over and not session.exitstatus:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if costs := getattr(node, "workeroutput", {}).get("costs"):
            self.costs.add(costs)

    def table(self, lane: str) -> list[tuple[str, float, float]]:
        """Returns each folder of a lane with its cost and its budget."""
        budgets = BUDGETS[lane]
        costs = self.costs.by_folder(list(budgets))
        return [(folder, costs[folder], budget) for folder, budget in budgets.items()]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for folder in self.over:
            terminalreporter.section(f"{folder} exceeds its budget; its dearest tests")
            for line in self.costs.dearest(folder, list(BUDGETS[self.lane])):
                terminalreporter.write_line(line)

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Prints the costs as the last line, below pytest's own."""
        if self.is_worker or not self.costs.units:
            return
        rows = [row for row in self.table(self.lane or "default") if row[1] >= 0.5]
        rows.append(("total", sum(row[1] for row in rows), sum(row[2] for row in rows)))
        print(
            f"cost/budget in units of {self.costs.unit:.2f} CPU seconds:",
            ", ".join(f"{name} {cost:.0f}/{budget:.0f}" for name, cost, budget in rows),
        )


def first_line(item: pytest.Item) -> str:
    """Returns what a test protects: the first line of its docstring, or of its file."""
    function, module = getattr(item, "obj", None), getattr(item, "module", None)
    text = getattr(function, "__doc__", None) or getattr(module, "__doc__", None) or ""
    return text.strip().partition("\n")[0]
