"""The sets that can run on the instance, each with its commands and the files that they write."""

from __future__ import annotations

from dataclasses import dataclass

from remote.failure import BadRequest

STATE = "state.json"


@dataclass(frozen=True)
class JobSet:
    """Commands, which run one after another in the checkout, and their result files there.

    `simulated_minutes` is how long the commands lasted in the simulator on two processors, in
    November 2026. For the tests it is the limit that CONTRIBUTING.md sets.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    results: tuple[str, ...]
    simulated_minutes: float

    @property
    def files(self) -> set[str]:
        """Returns the files that come back: results, what the commands printed, and the state."""
        return {*self.results, self.log, STATE}

    @property
    def log(self) -> str:
        """Returns the name of the file with what the commands printed."""
        return f"{self.name}.log"

    @property
    def plan(self) -> dict[str, object]:
        """Returns what the instance has to know."""
        return {
            "name": self.name,
            "commands": self.commands,
            "results": self.results,
            "log": self.log,
        }


def command(line: str) -> tuple[str, ...]:
    """Returns a command as its arguments."""
    return tuple(line.split())


SETS = {
    one.name: one
    for one in (
        JobSet(
            "tests",
            (command("python -m pytest tests -q -n auto --junitxml=tests.xml"),),
            ("tests.xml",),
            5.0,
        ),
        JobSet(
            "parity",
            (command("python -m bench.parity --backend nki --out parity.json"),),
            ("parity.json",),
            1.1,
        ),
        JobSet(
            "probes",
            (command("python -m bench.probes run --out probes.json"),),
            ("probes.json",),
            0.6,
        ),
        JobSet(
            "benchmarks",
            (command("python -m bench.run --backend nki --out benchmarks.json"),),
            ("benchmarks.json",),
            5.2,
        ),
        JobSet(
            "accuracy",
            (command("python -m bench.accuracy --backend nki --out accuracy.json"),),
            ("accuracy.json",),
            0.4,
        ),
    )
}


def chosen(names: str) -> list[str]:
    """Returns the names of sets in "tests,parity" or "all", in the order of SETS."""
    wanted = set(SETS) if names == "all" else {name.strip() for name in names.split(",")}
    unknown = wanted - set(SETS)
    if unknown:
        raise BadRequest(
            f"argument '--sets' names {', '.join(map(repr, sorted(unknown)))}, "
            f"allowed are {', '.join(SETS)} and all"
        )
    return [name for name in SETS if name in wanted]
