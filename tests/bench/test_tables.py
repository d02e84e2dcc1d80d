"""Tables of modelled times: what a row says, and that the pages state what they print."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import trnfft
from bench.tables import __main__ as program
from bench.tables import article, bloom, floors, prices, row_guard
from bench.tables.planned import POINTS, planned
from nki_sim.measured_times import about
from tests import sweeps
from trnfft.functions.bloom import axis_order

README = Path(__file__).parents[2] / "README.md"


# Floors.


def test_a_row_is_that_of_the_plan_on_one_core():
    case = floors.Case((64,), (1.0, 2.0, 3.0), batch=512)
    plan = trnfft.plan(64, batch=512, target="trn2", cores=1)
    found = dict(zip(floors.HEADINGS, floors.row(case, "trn2"), strict=True))
    assert found["algorithm"].startswith(plan.algorithm)
    us = float(found["kernel us"])
    assert us == pytest.approx(plan.predicted_ns / 1e3, rel=0.05)
    ratio = float(found["over floor"].rstrip("*"))
    assert ratio == pytest.approx(1e3 * us / plan.dma_floor_ns, rel=0.05)
    assert float(found["HBM MB"]) >= 512 * 64 * 16 / 1e6 - 0.05  # input and result


def test_a_batch_between_two_powers_has_its_own_floor():
    ratios = []
    for batch in (512, 513):
        plan, timeline = floors.priced(floors.Case((64,), batch=batch), "trn1")
        ratios.append(timeline.total_ns / plan.dma_floor_ns)
    assert ratios[1] == pytest.approx(ratios[0], rel=0.3)


def test_cases_have_about_as_many_points():
    short = [case for case in floors.CASES if case.points <= 2 * POINTS]
    assert all(0.4 < case.count * case.points / POINTS < 4.1 for case in short)
    assert all(case.count == 1 for case in floors.CASES if case not in short)


def test_the_table_marks_what_misses_its_goal(monkeypatch):
    goals = {64: (0.1, 9.0, 9.0), 128: ()}
    cases = tuple(floors.Case((n,), goals[n], batch=128) for n in goals)
    monkeypatch.setattr(floors, "CASES", cases)
    text = CliRunner().invoke(program.app, ["floors", "trn1"]).stdout
    first, second = (line for line in text.splitlines() if ", 128 |" in line)
    assert "*" in first and "*" not in second
    for words in (["trn9"], ["--only", "absent"]):
        assert CliRunner().invoke(program.app, ["floors", *words]).exit_code == 2


# Prices.


@pytest.mark.sweep
def test_the_table_of_the_readme_is_what_the_planner_says():
    """Between the two marks; docs/planner.md includes it."""
    _, marked = README.read_text("utf-8").split("<!-- --8<-- [start:prices] -->\n")
    stated, _ = marked.split("\n<!-- --8<-- [end:prices] -->")
    assert stated == prices.table()


def test_both_times_stand_in_a_row():
    plans = [planned((64,), chip) for chip in ("trn1", "trn2")]
    assert [plan.batch for plan in plans] == [2**14, 2**14]
    cells = prices.row(plans)
    assert cells[0] == "64, 16384"
    kernels = [round((plan.predicted_ns or 0) / 1e3) for plan in plans]
    assert [cells[2], cells[5]] == [f"{us} us" for us in kernels]
    launched = [
        about(plan.predicted_ns + 1e3 * us) for plan, us in zip(plans, (420, 60), strict=True)
    ]
    assert [cells[4], cells[7]] == launched


# The guard of rows.


@sweeps.some("case", [c for c in row_guard.CASES if max(c[1:]) <= 1024], [row_guard.CASES[2]])
def test_the_guard_is_a_part_of_the_time(case):
    plain, guarded = row_guard.modelled_ns(*case)
    # Another order of the same instructions may save more than the guard costs.
    assert 0.9 * plain < guarded < 1.6 * plain


# Bloom.


@pytest.mark.sweep
@pytest.mark.parametrize("chip", bloom.CHIPS)
@pytest.mark.parametrize("case", bloom.CASES, ids=str)
def test_the_first_axis_that_the_filter_chooses_is_the_faster_one(chip, case):
    """The choice compares work, so that it may be as fast instead of faster.

    At 1920x1080 with the small point spread function both orders need 1.4 ms.
    """
    found = {order: bloom.ours(chip, case, order) for order in bloom.ORDERS}
    fastest = min(found.values())[0]
    for order in bloom.ORDERS:
        chosen = axis_order(case.size, bloom.padded(found[order][1], order))
        assert found[chosen][0] <= 1.03 * fastest
    if case is bloom.CASES[0]:
        assert bloom.naive(chip, case) >= 1.5 * fastest


# The article's chain of launches.


@sweeps.some("n, radix", [(4096, 4), (4096, 8), (64, 4)], [(64, 4)])
def test_one_launch_is_faster_than_the_chain(n, radix):
    chain, (ours, _) = sum(article.chain_ns(n, radix).values()), article.one_launch_ns(n)
    assert chain >= (10 if n == 4096 else 1) * ours


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["row-guard", "bloom", "article"])
def test_tables_are_printed(name):
    lines = CliRunner().invoke(program.app, [name]).stdout.splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) > 3 and tables[1].startswith("|---|---|")
