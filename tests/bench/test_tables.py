"""Tables of modelled times: what a row says, and that the pages state what they print."""

from pathlib import Path

import pytest
import typer

from bench.tables import __main__ as program
from bench.tables import bloom, prices, row_guard
from bench.tables.planned import planned
from nki_sim.measured_times import about
from tests import sweeps
from trnfft.functions.bloom import axis_order

README = Path(__file__).parents[2] / "README.md"


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


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["row-guard", "bloom"])
def test_tables_are_printed(name, capsys):
    program.main(name)
    lines = capsys.readouterr().out.splitlines()
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) > 3 and tables[1].startswith("|---|---|")


def test_names_of_tables_are_checked(capsys):
    with pytest.raises(typer.Exit):
        program.main("floors")
    assert "is 'floors', allowed are prices, how-fast" in capsys.readouterr().err
