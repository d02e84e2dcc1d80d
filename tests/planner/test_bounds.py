"""Lower bounds of times, with which searches avoid dry runs, never exceed the time of a dry run.

The factors in the algorithms' bounds are a little below the least ratios in the recipes of shipped
plans. The tests compare the bounds with the prices of shipped plans, and with recipes, batches and
chips to which no factor was fitted.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from nki_sim import hardware
from trnfft.planner import accuracy, bounds, cost, wisdom
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Plan
from trnfft.planner.problem import Problem

LINES = [each for each in ALGORITHMS.values() if not each.takes_shapes]


@pytest.mark.parametrize("chip", hardware.NAMES)
def test_no_price_of_a_shipped_plan_is_below_its_bound(chip):
    plans = [Plan.from_row(row) for row in wisdom.shipped(chip).values()]
    ratios = [
        candidate.predicted_ns / bounds.least_ns(candidate.recipe, plan)
        for plan in plans
        for candidate in plan.candidates
        if candidate.predicted_ns is not None and candidate.recipe.algorithm in ALGORITHMS
    ]
    assert len(ratios) > 500
    assert min(ratios) >= 1


@st.composite
def problems(draw, most_points):
    """A recipe for rows, and a problem that it solves."""
    algorithm = draw(st.sampled_from(LINES))
    n = draw(st.integers(1, 17).flatmap(lambda bits: st.integers(2 ** (bits - 1), 2**bits)))
    while algorithm.why_not(n):  # to the longest, and on from the shortest
        n = n + 1 if n < algorithm.longest else algorithm.shortest
    batch = draw(st.integers(1, max(1, min(2048, most_points // n))))
    chip = draw(st.sampled_from(hardware.NAMES))
    cores = draw(st.integers(1, hardware.chip(chip).programs_per_launch))
    budget = accuracy.MAX_ERRORS["fast"]
    problem = Problem(
        kind=algorithm.rows(n),
        batch=batch,
        cores=cores,
        precision="fast",
        target=chip,
        max_error=budget,
    )
    return draw(st.sampled_from(algorithm.recipes(n))), problem


def check(drawn):
    recipe, problem = drawn
    try:
        chip = hardware.chip(problem.target)
        price = cost.price(recipe, problem.batch, chip, problem.cores)
    except cost.CannotRun:
        return
    assert price.predicted_ns >= bounds.least_ns(recipe, problem)


@given(problems(2**17))
@settings(deadline=None, max_examples=25, derandomize=True)
def test_no_dry_run_takes_less_than_its_bound(drawn):
    check(drawn)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if "dft_gemm_axes" in name])
@pytest.mark.parametrize("batch", [1, 300, 2**13])
def test_no_product_over_axes_takes_less_than_its_bound(name, batch):
    for number, kind in enumerate(ALGORITHMS[name].samples):
        (recipe,) = ALGORITHMS[name].recipes_for(kind)
        chip = hardware.NAMES[number % len(hardware.NAMES)]
        budget = accuracy.MAX_ERRORS["fast"]
        problem = Problem(
            kind=kind, batch=batch, precision="fast", target=chip, max_error=budget, cores=1
        )
        check((recipe, problem))


@pytest.mark.weekly
@pytest.mark.sweep
@given(problems(2**20))
@settings(deadline=None, max_examples=200, phases=[Phase.explicit, Phase.generate])
def test_no_dry_run_of_many_takes_less_than_its_bound(drawn):
    check(drawn)
