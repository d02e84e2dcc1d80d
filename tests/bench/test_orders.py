"""Both orders of shipped plans' kernels are shown, the extremes by name."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from bench import orders  # noqa: E402
from nki_sim import hardware  # noqa: E402
from trnfft.planner import cost, wisdom  # noqa: E402
from trnfft.planner.plan import Plan  # noqa: E402


def test_a_plan_has_both_times():
    plans = [Plan.from_row(row) for row in wisdom.shipped("trn2").values()]
    plan = next(plan for plan in plans if plan.n == 1024 and plan.batch == 128)
    found = orders.orders(plan)
    timeline = cost.timeline(plan.recipe, plan.batch, hardware.chip(plan.target), plan.cores)
    assert (found.written_ns, found.reordered_ns) == (timeline.written_ns, timeline.reordered_ns)
    assert min(found.written_ns, found.reordered_ns) == timeline.total_ns
    assert plan.predicted_ns == pytest.approx(timeline.total_ns, abs=0.1)


def test_the_extremes_are_named(capsys):
    found = [
        orders.Orders("a", "trn1", "c2c", 100.0, 80.0),
        orders.Orders("b", "trn1", "c2c", 100.0, 125.0),
        orders.Orders("c", "trn1", "r2c", 100.0, 100.0),
    ]
    orders.show(found, 1)
    kinds, slower, faster = capsys.readouterr().out.split("\n\n")
    assert "2 plans  1.000  0.800 to 1.250" in kinds
    assert slower.startswith("slower") and slower.endswith("1.250  b")
    assert faster.startswith("faster") and faster.strip().endswith("0.800  a")
