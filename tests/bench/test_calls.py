"""Calls per second are measured for both ways to call a transform, in one run."""

import pytest

from bench import calls


@pytest.mark.parametrize("backend", calls.BACKENDS)
def test_both_are_measured(backend):
    speed = calls.measured(backend, 8, rounds=20)
    assert (speed.backend, speed.n) == (backend, 8)
    assert speed.function > 0 and speed.plan > 0
    assert speed.ratio == speed.plan / speed.function


def test_it_prints_a_line_each(capsys, monkeypatch):
    monkeypatch.setattr(calls, "LENGTHS", (8,))
    monkeypatch.setattr(calls, "ROUNDS", 2)
    calls.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[2:]] == [["torch", "8"], ["matmul", "8"]]
