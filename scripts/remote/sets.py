"""The sets that can run on the instance, each with its commands and the files that they write."""

from __future__ import annotations

from typing import Any, NamedTuple

from remote.failure import Failure, Kind

STATE = "state.json"


class JobSet(NamedTuple):
    """Commands, which run one after another in the checkout, and their result files there.

    `simulated_minutes` is how long the commands lasted in the simulator on two processors, in
    November 2026. For the tests it is the limit that CONTRIBUTING.md sets.
    """

    commands: tuple[str, ...]
    results: tuple[str, ...]
    simulated_minutes: float


SETS = {
    "tests": JobSet(
        ("python -m pytest tests -q -n auto --junitxml=tests.xml",), ("tests.xml",), 5.0
    ),
    "parity": JobSet(
        ("python -m bench.parity --backend nki --out parity.json",), ("parity.json",), 1.1
    ),
    "probes": JobSet(("python -m bench.probes run --out probes.json",), ("probes.json",), 0.6),
    "benchmarks": JobSet(
        ("python -m bench.run --backend nki --out benchmarks.json",), ("benchmarks.json",), 5.2
    ),
    "accuracy": JobSet(
        ("python -m bench.accuracy --backend nki --out accuracy.json",), ("accuracy.json",), 0.4
    ),
}


def plan(name: str) -> dict[str, Any]:
    """Returns what the instance has to know of a set. `log` gets what the commands print."""
    one = SETS[name]
    commands = [line.split() for line in one.commands]
    return {"name": name, "commands": commands, "results": one.results, "log": f"{name}.log"}


def files(name: str) -> set[str]:
    """Returns the files that come back of a set: results, what was printed, and the state."""
    return {*SETS[name].results, f"{name}.log", STATE}


def chosen(names: str) -> list[str]:
    """Returns the names of sets in "tests,parity" or "all", in the order of SETS."""
    wanted = set(SETS) if names == "all" else {name.strip() for name in names.split(",")}
    unknown = wanted - set(SETS)
    if unknown:
        raise Failure(
            Kind.BAD_REQUEST,
            f"argument '--sets' names {', '.join(map(repr, sorted(unknown)))}, "
            f"allowed are {', '.join(SETS)} and all",
        )
    return [name for name in SETS if name in wanted]
