"""The price of what one launch computes by separate launches, and what torch does around them.

What torch moves between the launches is counted once for each operation, at the rate of all DMA
engines or of HBM, and each operation waits for a load and for a store. Of which transforms and
operations a kind consists, the record of the kind says: see `trnfft.planner.kinds`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from nki_sim import hardware
from trnfft.planner import accuracy
from trnfft.planner.kinds import Separate, Transform
from trnfft.planner.plan import Candidate, Plan, Recipe, cost_ns
from trnfft.planner.problem import Problem

SEPARATE = "separate_launches"  # no kernel, but the transforms of which a kind consists
# Of an estimate by one dry run, the planner's choices take this part at least: 0.595 or more in 140
# random searches, and 0.65 or more in all of them but one.
LEAST_OF_ESTIMATE = 0.65

Solve = Callable[[Problem], Plan]


def separate_candidate(problem: Problem, solve: Solve) -> list[Candidate]:
    """Returns the candidate of separate launches, if the problem has one.

    solve: returns the plan for a transform; it may raise NotImplementedError.
    """
    separate = problem.kind.separate(problem.batch)
    if separate is None:
        return []
    recipe = Recipe(SEPARATE, problem.kind)
    try:
        plans = [solve(each) for each in transforms(problem)]
    except NotImplementedError as reason:
        return [Candidate(recipe, rejected=str(reason))]
    between = between_ns(separate, problem)
    ns, low, high = (
        round(between + sum(times), 1) for times in zip(*map(_times, plans), strict=True)
    )
    mixing = plans[0].predicted_error if separate.squares else separate.error
    error = accuracy.root_of_squares(*(plan.predicted_error for plan in plans), mixing)
    error = float(f"{error:.2e}")
    if error > problem.max_error:
        text = f"its error exceeds {problem.max_error:.2g}"
        return [Candidate(recipe, predicted_error=error, rejected=text)]
    return [
        Candidate(
            recipe,
            ns,
            error,
            bound="dma",
            launches=sum(plan.launches for plan in plans),
            operators=separate.operators + sum(plan.operators for plan in plans),
            low_ns=low,
            high_ns=high,
        )
    ]


def between_ns(separate: Separate, problem: Problem) -> float:
    """Returns the nanoseconds that torch's operators take around the transforms."""
    chip = hardware.chip(problem.target)
    dependent = separate.operators - separate.constants
    waits = 2 * dependent * (chip.dma_start_ns + chip.dma_finish_ns)
    return chip.dma_floor_ns(1, 4 * separate.numbers, problem.cores) + waits


def dearer_candidate(
    problem: Problem, cheapest: float, about: Callable[[Problem], float]
) -> list[Candidate]:
    """Returns the candidate of separate launches if they hardly cost less than one launch.

    They then need no plans, whose searches take longer than that for one launch. First the floors
    of the transforms decide, then estimates.

    Args:
        problem: the problem.
        cheapest: the lowest cost in ns of one launch.
        about: returns about the nanoseconds of a transform.
    """
    separate = problem.kind.separate(problem.batch)
    if separate is None or math.isinf(cheapest):
        return []
    between, launches = between_ns(separate, problem), transforms(problem)

    def ratio(ns: float) -> float:
        """Returns the cost, with transforms of so many ns, in relation to the cheapest one."""
        of_all = round(between + ns, 1)
        counts = {"launches": len(launches), "operators": separate.operators}
        return cost_ns(Candidate(recipe, of_all, **counts), problem) / cheapest

    recipe = Recipe(SEPARATE, problem.kind)
    floors = sum(map(_floor_ns, launches))
    if (times := ratio(floors)) >= 1:
        text = f"takes {times:.3g} times as long or more"
        return [Candidate(recipe, least_ns=round(between + floors, 1), rejected=text)]
    estimates = {each: about(each) for each in set(launches)}
    estimate = sum(estimates[each] for each in launches)
    if ratio(LEAST_OF_ESTIMATE * estimate) >= 1:
        return [Candidate(recipe, rejected=f"takes about {ratio(estimate):.3g} times as long")]
    return []


def most_ns(problem: Problem, cheapest: float, about: Callable[[Problem], float]) -> float:
    """Returns what separate launches of arrays take at most, or infinity where nothing is known.

    The floors of the transforms decide first, whether an estimate is worth its dry runs.

    Args:
        problem, cheapest: as for `dearer_candidate`.
        about: returns the price of a recipe of a transform, or 0 without one.
    """
    separate = problem.kind.separate(problem.batch)
    if separate is None:
        return math.inf
    between, launches = between_ns(separate, problem), transforms(problem)
    if between + sum(map(_floor_ns, launches)) >= cheapest:
        return math.inf
    estimates = [about(each) for each in launches]
    return between + sum(estimates) if all(estimates) else math.inf


def _floor_ns(problem: Problem) -> float:
    """Returns the nanoseconds of a launch that loads and stores, and does nothing else."""
    chip = hardware.chip(problem.target)
    return problem.dma_floor_ns + chip.dma_start_ns + chip.dma_finish_ns


def as_complex(problem: Problem, solve: Solve) -> Plan[Transform]:
    """Returns the plan of complex rows for a transform of, or to, real rows.

    solve: as for `separate_candidate`.
    """
    separate = problem.kind.as_complex(problem.batch)
    (rows,) = separate.transforms
    plan = solve(replace(problem, kind=rows.transform))
    between = between_ns(separate, problem)

    def whole(candidate: Candidate) -> Candidate:
        """Returns a candidate with its price and that of the operators."""
        times = {
            name: round(between + time, 1)
            for name in ("predicted_ns", "low_ns", "high_ns", "least_ns")
            if (time := getattr(candidate, name)) is not None
        }
        return replace(candidate, **times, operators=separate.operators) if times else candidate

    return replace(plan, kind=problem.kind, candidates=tuple(map(whole, plan.candidates)))


def _times(plan: Plan) -> tuple[float, float, float]:
    ns = plan.predicted_ns or 0.0
    return ns, plan.low_ns or ns, plan.high_ns or ns


def transforms(problem: Problem) -> list[Problem]:
    """Returns the transforms of which a problem's separate launches consist, none without any.

    An error budget that is a number is divided among them, because their errors add up.
    """
    separate = problem.kind.separate(problem.batch)
    if separate is None:
        return []
    budget = problem.max_error
    if not problem.is_usual:
        budget /= math.sqrt(len(separate.transforms))
    whole = replace(problem, max_error=budget)
    return [
        replace(whole, kind=each.transform, batch=each.batch, inverse=each.inverse)
        for each in separate.transforms
    ]
