"""Runs the tests that a change can break, so that a contributor waits for a minute.

    python scripts/changed.py [ARGUMENT OF PYTEST ...]
    python scripts/changed.py --record

The first run, and `--record`, run all tests and record which functions each test calls; this takes
twice as long as the tests alone. Later runs select the tests that call a function which has
changed since a test last ran, by pytest-testmon. It sees Python that runs in the process of a test.
`ELSEWHERE` maps other files to their tests: plans, pages, templates, and programs that tests start.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
RECORD, COMMIT = ROOT / ".testmondata", ROOT / ".testmondata-commit"
NOTHING_RAN = 5  # pytest's exit status where it has selected no test

PAGES = ["tests/docs"]
# Beginnings of paths, and the tests that read such files or run them in other processes.
ELSEWHERE: dict[str, list[str]] = {
    ".ci/": ["tests/test_workflows.py"],
    ".github/": ["tests/test_workflows.py", "tests/docs"],
    "CHANGELOG.md": PAGES,
    "CONTRIBUTING.md": PAGES,
    "README.md": PAGES,
    "bench/": ["tests/bench"],
    "docs/": PAGES,
    "examples/": ["tests/examples", "tests/docs"],
    "mkdocs.yml": PAGES,
    "nki_sim/commands/": ["tests/simulator/commands"],
    "nki_sim/pytest_plugin.py": ["tests/test_pytest_plugin.py"],
    "nki_sim/report/": ["tests/simulator/report"],
    "packages/": ["tests/test_packaging.py", "tests/test_distributions.py"],
    "plans/": ["tests/planner", "tests/docs/test_modelled_numbers.py"],
    "pyproject.toml": ["tests/test_packaging.py", "tests/test_licences.py"],
    "scripts/": ["tests/scripts", "tests/test_neuron_packages.py"],
    "trnfft/cli/": ["tests/trnfft/cli"],
    "trnfft/distributed/": ["tests/trnfft/distributed"],
    "trnfft_demo/": ["tests/trnfft_demo"],
}


def changed_files() -> list[str]:
    """Returns the paths of files that differ from the last commit that passed, committed or not."""
    base = COMMIT.read_text("utf-8").strip()
    different = git("diff", "--name-only", base)
    return sorted({*different, *git("ls-files", "--others", "--exclude-standard")})


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def tests_of(files: list[str]) -> list[str]:
    """Returns the tests by `ELSEWHERE` that files touch, without those inside of others."""
    found = {
        test
        for file in files
        for beginning, tests in ELSEWHERE.items()
        if file.startswith(beginning)
        for test in tests
    }
    return sorted(one for one in found if not any(one.startswith(f"{other}/") for other in found))


def pytest(*arguments: str) -> tuple[int, int]:
    """Runs pytest, and returns its exit status and how many tests have run."""
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        status = subprocess.run([*command, f"--junit-xml={results}"], cwd=ROOT).returncode
        # Files that need packages of another environment are in no record, and are always skipped.
        suite = ElementTree.parse(results).find("testsuite") if results.exists() else None
        ran = 0 if suite is None else int(suite.attrib["tests"]) - int(suite.attrib["skipped"])
    return status, ran


def record(*arguments: str) -> int:
    """Runs all tests and records what they call, together with the commit."""
    commit = git("rev-parse", "HEAD")[0]
    RECORD.unlink(missing_ok=True)
    status, _ = pytest("--testmon", "--testmon-noselect", *arguments)
    COMMIT.write_text(commit, "utf-8")
    return status


def run_changed(*arguments: str) -> int:
    """Runs the tests that the change touches, and returns the first exit status of a failure."""
    commit = git("rev-parse", "HEAD")[0]
    # Without --testmon-forceselect, the -m of pyproject.toml would switch the selection off.
    runs = [pytest("--testmon", "--testmon-forceselect", *arguments)]
    if tests := tests_of(changed_files()):
        print(f"\nfiles that are no Python, and programs: {' '.join(tests)}", flush=True)
        runs.append(pytest(*tests, *arguments))
    failed = next((status for status, _ in runs if status not in (0, NOTHING_RAN)), 0)
    if not failed and not arguments:  # what is committed has passed
        COMMIT.write_text(commit, "utf-8")
    if not failed and not any(ran for _, ran in runs):
        print("no test depends on what has changed: nothing to run, which is a success")
    return failed


def main(arguments: list[str]) -> int:
    if "--record" in arguments:
        return record(*[argument for argument in arguments if argument != "--record"])
    if not RECORD.exists() or not COMMIT.exists():
        print("nothing is recorded yet: this run records which functions each test calls")
        return record(*arguments)
    return run_changed(*arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
