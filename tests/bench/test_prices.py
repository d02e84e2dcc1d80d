"""The prices that README.md states are those of the planner."""

from pathlib import Path

import pytest

from bench import prices
from nki_sim.measured_times import about

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.sweep
def test_the_table_of_the_readme_is_what_the_planner_says():
    """By `python -m bench.prices`, between the two marks; docs/planner.md includes it."""
    _, marked = README.read_text("utf-8").split("<!-- --8<-- [start:prices] -->\n")
    stated, _ = marked.split("\n<!-- --8<-- [end:prices] -->")
    assert stated == prices.table()


def test_both_times_stand_in_a_row():
    plans = [prices.planned((64,), chip) for chip in ("trn1", "trn2")]
    assert [plan.batch for plan in plans] == [2**14, 2**14]
    cells = [cell.strip() for cell in prices.row(plans).strip("|").split("|")]
    assert cells[0] == "64, 16384"
    kernels = [round((plan.predicted_ns or 0) / 1e3) for plan in plans]
    assert [cells[2], cells[5]] == [f"{us} us" for us in kernels]
    launched = [
        about(plan.predicted_ns + 1e3 * us) for plan, us in zip(plans, (420, 60), strict=True)
    ]
    assert [cells[4], cells[7]] == launched
