"""The table of modelled times relative to their floors."""

import pytest
from typer.testing import CliRunner

import trnfft
from bench import floors


def test_counts_are_those_of_the_plan():
    case = floors.Case((64,), (1.0, 2.0, 3.0), batch=512)
    found = floors.measured(case, "trn2")
    plan = trnfft.plan(64, batch=512, target="trn2", cores=1)
    assert found.algorithm.startswith(plan.algorithm)
    assert found.modelled_us == pytest.approx(plan.predicted_ns / 1e3, rel=0.05)
    assert found.ratio == pytest.approx(1e3 * found.modelled_us / plan.dma_floor_ns)
    assert found.hbm_megabytes >= 512 * 64 * 16 / 1e6  # input and result


def test_a_batch_between_two_powers_has_its_own_floor():
    more = floors.measured(floors.Case((64,), batch=513), "trn1")
    less = floors.measured(floors.Case((64,), batch=512), "trn1")
    assert more.ratio == pytest.approx(less.ratio, rel=0.3)


def test_cases_have_about_as_many_points():
    short = [case for case in floors.CASES if case.points <= 2 * floors.POINTS]
    assert all(0.4 < case.count * case.points / floors.POINTS < 4.1 for case in short)
    assert all(case.count == 1 for case in floors.CASES if case not in short)


def test_the_table_marks_what_misses_its_goal(monkeypatch):
    goals = {64: (0.1, 9.0, 9.0), 128: ()}
    cases = tuple(floors.Case((n,), goals[n], batch=128) for n in goals)
    monkeypatch.setattr(floors, "CASES", cases)
    text = CliRunner().invoke(floors.app, ["trn1"], env={"COLUMNS": "160"}).stdout
    first, second = (line for line in text.splitlines() if ", batch 128" in line)
    assert "*" in first and "*" not in second
    refused = CliRunner().invoke(floors.app, ["trn9"])
    assert refused.exit_code == 2
