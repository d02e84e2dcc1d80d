"""Which candidates of a search are priced by a dry run, and in which order.

The first recipe of each algorithm and number of stages comes first, those with the lowest bounds
before the others. Their prices are estimates of all other recipes (`bounds.Estimates`), which
follow by estimate. A recipe that hardly can take less time than the cheapest price so far has no
dry run. Of recipes of several passes, the cheapest one then gets another pass for each of its own.
For the prices that are near the cheapest one, the search finds the range.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from nki_sim import hardware
from trnfft.planner import cost
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.bounds import Estimates, family_of
from trnfft.planner.plan import Candidate, Recipe
from trnfft.planner.problem import Problem

NEAR = 1.03  # prices up to this ratio apart are alike: the dearest reading of records decides
VARIED = 1.3  # up to this ratio to the cheapest price, the passes of a recipe are replaced
UNLIKELY = 1.1  # from this ratio to the recipe that they vary, further passes are left out
INSTRUCTIONS = 20_000  # once so many are simulated, a search prices untried algorithms only
MANY_AXES = 5  # from so many on, the order of the axes changes the time by some percent at most
MANY_AXES_INSTRUCTIONS = 1500  # INSTRUCTIONS for many axes, about 0.05 s


class DryRuns:
    """The dry runs of a search for one problem.

    Attributes:
        problem: the problem.
        cheapest: the lowest price in ns so far; infinity without one.
    """

    def __init__(
        self,
        problem: Problem,
        cheapest: float,
        rival: Callable[[float], float] | None = None,
    ) -> None:
        """rival: returns what other launches take at most, once one of these has a price."""
        self.problem, self.cheapest, self._rival = problem, cheapest, rival
        self._estimates = Estimates(problem)
        self._judged: dict[Recipe, Candidate] = {}
        self._prices: dict[Recipe, cost.Price] = {}  # with timelines, of those near the cheapest
        self._tried: set[str] = set()
        self._left = MANY_AXES_INSTRUCTIONS if _has_many_axes(problem) else INSTRUCTIONS

    def priced(self, recipes: Iterable[Recipe]) -> list[Candidate]:
        """Returns the candidates of recipes that need a price, and one for an algorithm without.

        Every algorithm gets one dry run, and more until the dry runs took too long.
        """
        by_bound = sorted(recipes, key=self._estimates.bound)
        first = {family_of(recipe): recipe for recipe in reversed(by_bound)}
        leading = [recipe for recipe in by_bound if first[family_of(recipe)] is recipe]
        for recipe in leading:
            self._try(recipe)
            if self._rival is not None and self._prices:
                self.cheapest = min(self.cheapest, self._rival(self.cheapest))
                self._rival = None
        others = [recipe for recipe in by_bound if first[family_of(recipe)] is not recipe]
        for recipe in sorted(others, key=self._estimates.about):
            self._try(recipe)
        self._vary_passes()
        beaten = {r.algorithm: r for r in reversed(leading) if r.algorithm not in self._tried}
        return [*map(self._beaten, beaten.values()), *self._with_ranges()]

    def _try(self, recipe: Recipe) -> None:
        """Prices a recipe that may be cheaper than all others so far."""
        is_first = recipe.algorithm not in self._tried
        if self._estimates.least(recipe) >= self.cheapest or not (is_first or self._left >= 0):
            return
        self._tried.add(recipe.algorithm)
        problem, chip = self.problem, hardware.chip(self.problem.target)
        try:
            price = cost.price(recipe, problem.batch, chip, problem.cores)
        except cost.CannotRun as reason:
            self._judged[recipe] = Candidate(recipe, rejected=str(reason))
            return
        ns = price.predicted_ns
        self._left -= price.instructions
        self._estimates.note(recipe, ns)
        error = ALGORITHMS[recipe.algorithm].stated_error(recipe)
        self._judged[recipe] = Candidate(recipe, ns, error, price.bound, price.launches)
        self.cheapest = min(self.cheapest, ns)
        self._prices[recipe] = price
        near = {key: one for key, one in self._prices.items() if self._is_near(one.predicted_ns)}
        self._prices = near  # timelines are large

    def _vary_passes(self) -> None:
        """Prices the cheapest recipe of several passes with others in their place, pass by pass.

        The others are the likeliest first. After one that is dearer by far, the rest is left out.
        """
        best = self._best_of_passes()
        for index in range(len(best.passes) if best else 0):
            least = self._price_of(best)
            for other in ALGORITHMS[best.algorithm].variants(best, index) if best else ():
                self._try(other)
                if self._price_of(other) > UNLIKELY * least:
                    break
            best = self._best_of_passes()

    def _price_of(self, recipe: Recipe | None) -> float:
        """Returns the price of a recipe in ns; infinity where it has none."""
        judged = None if recipe is None else self._judged.get(recipe)
        ns = None if judged is None else judged.predicted_ns
        return math.inf if ns is None else ns

    def _best_of_passes(self) -> Recipe | None:
        """Returns the cheapest recipe of several passes, or None where it is much too dear."""
        several = [recipe for recipe in self._judged if recipe.passes]
        best = min(several, key=self._price_of, default=None)
        return None if self._price_of(best) > VARIED * self.cheapest else best

    def _is_near(self, ns: float) -> bool:
        return ns <= NEAR * self.cheapest

    def _with_ranges(self) -> list[Candidate]:
        """Returns the judged candidates, with ranges where several may be the choice."""
        for recipe, price in self._prices.items():
            ranged = price.with_range()
            candidate = self._judged[recipe]
            candidate = replace(candidate, low_ns=ranged.low_ns, high_ns=ranged.high_ns)
            self._judged[recipe] = candidate
        return list(self._judged.values())

    def _beaten(self, recipe: Recipe) -> Candidate:
        """Returns the candidate of an algorithm whose bounds exceed the cheapest price."""
        least = self._estimates.bound(recipe)
        error = ALGORITHMS[recipe.algorithm].stated_error(recipe)
        text = f"takes {least / self.cheapest:.3g} times as long or more"
        return Candidate(recipe, None, error, least_ns=round(least, 1), rejected=text)


def _has_many_axes(problem: Problem) -> bool:
    return len(problem.kind.sizes) >= MANY_AXES
