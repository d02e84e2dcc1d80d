"""Calls are timed in every way, and the shortest round counts."""

import pytest
import typer
from typer.testing import CliRunner

from bench import calls
from tests import sweeps


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setattr(calls, "SECONDS", 0.0)
    monkeypatch.setattr(calls, "ROUNDS", (1, 1))
    monkeypatch.setattr(calls, "ROUND_SECONDS", 0.0)
    app = typer.Typer()
    app.command()(calls.main)
    return lambda *words: CliRunner().invoke(app, words)


# A call of each subject, and its ways.
ROWS = {
    "plans": ("torch, 8 rows of 16", 2),
    "patching": ("1j * x", 3),
    "transforms": ("backward (8,)", 3),
    "complex_tensors": ("z * w, 8 numbers", 2),
    "convolutions": ("ifft by matmul (4096,)", 2),
    "planning": ("from ", 1),
}


@sweeps.some("subject", ROWS, ["patching"])
def test_every_way_is_timed(invoke, subject):
    title, ways = ROWS[subject]
    result = invoke(subject, "--only", title)
    assert result.exit_code == 0, result.output
    line = next(line for line in result.stdout.splitlines() if title in line)
    cells = [cell.strip() for cell in line.split("│")[2:-1] if cell.strip()]
    times = [float(cell.split()[0].replace(",", "")) for cell in cells]
    assert len(times) >= ways and min(times) > 0
    assert cells[0].endswith("(1.00)")


def test_every_subject_has_a_row_here():
    assert set(ROWS) == set(calls.SUBJECTS)


def test_subjects_are_checked(invoke):
    result = invoke("speed")
    assert result.exit_code == 2 and "'speed', allowed are plans, patching" in result.output


def test_a_time_is_that_of_the_shortest_round(monkeypatch):
    seconds = iter([1.0, 1e-3, 8e-3, 2e-3, 4e-3])  # the first two find the calls of a round
    monkeypatch.setattr(calls, "round_of", lambda way, count: next(seconds))
    monkeypatch.setattr(calls, "ROUNDS", (3, 3))
    (found,) = calls.shortest_us((calls.Way("a", list),))
    assert found == pytest.approx(1e6 * 2e-3 / 5)
