"""The benchmark of searches counts dry runs, and finds the best of all candidates."""

import sys
from dataclasses import replace

import pytest

from bench import planning
from trnfft.planner import planner


def test_searches_and_regrets(monkeypatch, capsys):
    monkeypatch.setattr(planning, "LENGTHS", (94, 97))
    monkeypatch.setattr(sys, "argv", ["planning", "--chips", "trn1", "--problems", "1"])
    planning.main()
    lines = capsys.readouterr().out.splitlines()
    plan = planner.plan(94, batch=planning.BATCH, target="trn1")
    assert lines[0].startswith("trn1      94") and lines[0].endswith(f": {plan.recipe}")
    assert lines[2].endswith("of 2 searches") and lines[-1].startswith("1 problems with ")


def test_the_best_candidate_is_found_though_the_search_has_rejected_it():
    plan = planner.search(planner.plan(94, batch=2, target="trn1", cores=1).problem)
    slowest = max(plan.candidates, key=lambda each: each.predicted_ns or 0.0)
    best, count = planning._brute_force(plan.problem, replace(plan, candidates=(slowest,)))
    assert best == pytest.approx(plan.predicted_ns, rel=0.03) and count > len(plan.candidates) / 2
