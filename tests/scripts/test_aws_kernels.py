"""scripts/aws_kernels.py: the page agrees with the stored results, and runs report on kernels.

The tests make the checkouts themselves, with kernels of this project under the names of AWS's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aws_kernels
from aws_cases import CASES
from aws_cases.page import page
from aws_cases.running import largest_error

SCRIPT = Path(aws_kernels.__file__)
RESULTS: dict[str, Any] = json.loads(aws_kernels.RESULTS.read_text("utf-8"))

CUMSUM = """
import nki
import nki.isa as nisa
import nki.language as nl
from neuronxcc.nki.typing import mutable_tensor

@nki.jit(mode="trace", debug_kernel=True)
def cumsum(x: mutable_tensor, axis=-1):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0]):
        tile, ones = nl.load(x[i]), nl.ones(x.shape[1:], nl.float32)
        sums = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor_scan(sums, ones, tile, START, nl.multiply, nl.add)
        nl.store(out[i], sums)
    return out
"""


def test_the_page_is_that_of_the_stored_results() -> None:
    """Else run scripts/aws_kernels.py --page-only."""
    assert aws_kernels.PAGE.read_text("utf-8") == page(RESULTS)


def test_every_case_has_a_result_that_it_expects() -> None:
    """Else run scripts/aws_kernels.py with checkouts of AWS's repositories."""
    rows = {row["name"]: row for row in RESULTS["cases"]}
    assert list(rows) == [case.name for case in CASES]
    assert len(rows) == len(RESULTS["cases"])
    for case in CASES:
        row = rows[case.name]
        assert row["status"] == ("refused" if case.refused else "matches"), case.name
        if case.refused:
            assert row["reason"] == case.because != ""
        else:
            assert row["largest_error"] <= case.tolerance == row["tolerance"]
            assert row["modelled_us"] > 0 and row["cores"] == case.cores
    assert aws_kernels.exit_code(RESULTS) == 0


@pytest.fixture
def checkouts(tmp_path: Path) -> list[Path]:
    """Of three repositories, with one kernel in nki-library."""
    library, samples, sdk = (tmp_path / name for name in ("library", "samples", "sdk"))
    folder = library / "src" / "nkilib_src" / "nkilib" / "core" / "cumsum"
    folder.mkdir(parents=True)
    for parent in (folder, folder.parent, folder.parent.parent):
        (parent / "__init__.py").touch()
    (folder / "cumsum.py").write_text(CUMSUM.replace("START", "0.0"))
    (samples / "src").mkdir(parents=True)
    (sdk / "nki" / "examples").mkdir(parents=True)
    return [library, samples, sdk]


def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env=dict(os.environ), check=False
    )


def test_a_case_that_matches(checkouts: list[Path]) -> None:
    done = run(*checkouts, "cumsum")
    row = json.loads(done.stdout)
    assert (done.returncode, row["status"], row["chip"]) == (0, "matches", "trn2")
    assert row["modelled_us"] > 1


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("start", "status", "reason"),
    [("7.0", "differs", ""), ("nowhere", "fails", "NameError: name 'nowhere' is not defined")],
)
def test_cases_that_do_not(checkouts: list[Path], start: str, status: str, reason: str) -> None:
    file = checkouts[0] / "src" / "nkilib_src" / "nkilib" / "core" / "cumsum" / "cumsum.py"
    file.write_text(CUMSUM.replace("START", start))
    done = run(*checkouts, "cumsum")
    row = json.loads(done.stdout)
    assert (done.returncode, row["status"], row["reason"]) == (1, status, reason)


@pytest.mark.sweep
def test_wrong_arguments(checkouts: list[Path], tmp_path: Path) -> None:
    done = run(*checkouts[:2], tmp_path)
    assert done.returncode == 2 and "no checkout" in done.stderr
    done = run(*checkouts, "no such case")
    assert done.returncode == 2 and "'no such case', allowed are" in done.stderr


def test_largest_error() -> None:
    assert largest_error(np.array([1.0, 2.5]), np.array([1.0, 2.0])) == 0.25
    assert largest_error(np.array([0, 3]), np.zeros(2)) == 3
    with pytest.raises(AssertionError, match="shape"):
        largest_error(np.zeros(2), np.zeros(3))
    with pytest.raises(AssertionError, match="1 elements are not finite"):
        largest_error(np.array([np.nan, 0]), np.zeros(2))
