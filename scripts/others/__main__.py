"""Fetches and runs suites: python -m others [--mode MODE] [SUITE ...] [argument of pytest ...]"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from others.suite import FETCHED, MODES, Suite, suites

ROOT = Path(__file__).parent.parent.parent
AT_ONCE = 2  # each suite takes up to 4 GB


def fetch(suite: Suite) -> None:
    """Checks out a suite's files at its commit, unless this was done before."""
    stamp = suite.folder / ".git" / "fetched"
    wanted = f"{suite.commit} {suite.files}"
    if stamp.is_file() and stamp.read_text("utf-8") == wanted:
        return
    suite.folder.mkdir(parents=True, exist_ok=True)
    url = f"https://github.com/{suite.repository}"
    for arguments in (
        ["init", "--quiet"],
        ["config", "remote.origin.url", url],
        ["fetch", "--quiet", "--depth", "1", "--filter", "blob:none", "origin", suite.commit],
        ["sparse-checkout", "set", "--no-cone", *suite.files],
        ["checkout", "--quiet", "--force", "--detach", suite.commit],
    ):
        subprocess.run(["git", "-C", str(suite.folder), *arguments], check=True)
    stamp.write_text(wanted, "utf-8")


def run(suite: Suite, mode: str, arguments: list[str]) -> tuple[int, str]:
    """Runs a suite in a process of its own. Returns pytest's exit status and what it printed."""
    every = suites()
    needed = [suite, *(every[name] for name in suite.needs)]
    paths = [ROOT / "scripts", *(one.folder / one.imports for one in needed if one.repository)]
    variables = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "TRNFFT_BACKEND": "matmul",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
    }
    command = [sys.executable, "-m", "pytest", "-p", "others.plugin", "-p", "no:cacheprovider"]
    command += ["--others-suite", suite.name, "--others-mode", mode, "--override-ini=addopts="]
    command += ["-q", "-rfE", "--tb=short", "--disable-warnings", f"--rootdir={suite.folder}"]
    command += [str(suite.folder / test) for test in suite.tests]
    cwd = suite.folder if suite.repository else FETCHED
    done = subprocess.run(
        [*command, *arguments], cwd=cwd, env=variables, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def report(suite: Suite, mode: str, arguments: list[str]) -> bool:
    """Runs a suite and prints its outcome. Returns whether all tests ended as expected."""
    start = time.monotonic()
    status, output = run(suite, mode, arguments)
    (FETCHED / f"{suite.name}-{mode}.log").write_text(output, "utf-8")
    lines = output.strip().splitlines()
    if status not in (0, 5):  # 5: -k selects no test of this suite
        print("\n".join(lines[-200:]))
    print(f"{suite.name}, {mode}, {time.monotonic() - start:.0f} s: {lines[-1]}", flush=True)
    return status in (0, 5)


def main() -> int:
    every = suites()
    parser = argparse.ArgumentParser(
        prog="./scripts/test.sh --others", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("--mode", choices=MODES, default="patched")
    chosen, rest = parser.parse_known_args()
    names = []
    while rest and not rest[0].startswith("-"):
        names.append(rest.pop(0))
    if unknown := set(names) - set(every):
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    wanted = [every[name] for name in names or every if chosen.mode in every[name].modes]
    for name in sorted({one for suite in wanted for one in (suite.name, *suite.needs)}):
        if every[name].repository:
            fetch(every[name])
    FETCHED.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        passed = list(pool.map(lambda suite: report(suite, chosen.mode, rest), wanted))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
