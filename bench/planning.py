"""Time and choices of the planner's searches, without remembered plans, on this CPU.

Run: python -m bench.planning [--chips trn1 trn2] [--problems 200] [--seed 1]

The program searches for plans of lengths that are not shipped, for a batch of 64, and prints the
CPU seconds and the dry runs of each search. With `--problems` it makes so many random problems,
prices all their candidates by dry runs, and compares each choice with the cheapest candidate.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import platformdirs

from nki_sim import hardware
from trnfft.planner import accuracy, cost, kinds, planner
from trnfft.planner.plan import Plan
from trnfft.planner.problem import Problem

LENGTHS = (
    *(97, 331, 777, 1001, 1019, 1234, 2310, 3001, 3600, 5000, 5003, 6561, 9973, 12345, 20000),
    *(30011, 40000, 50000, 99991, 263168),
)
BATCH = 64
MOST_NUMBERS = 2**23  # of a random problem's data


@contextmanager
def without_cache() -> Iterator[None]:
    """Lets searches find no plans of the user's, and keeps theirs from the user."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(platformdirs, "user_cache_dir", lambda name: folder),
    ):
        planner.forget()
        yield
    planner.forget()


@contextmanager
def counted() -> Iterator[list[int]]:
    """Yields a list to which each dry run of a search adds its number of instructions."""
    found: list[int] = []
    price = cost.price

    def counting(*arguments: object) -> cost.Price:
        found.append(0)
        result = price(*arguments)  # type: ignore[arg-type]
        found[-1] = result.instructions
        return result

    with patch.object(cost, "price", counting):
        yield found


def times_of(chip: str) -> None:
    """Prints the CPU seconds and the dry runs of a search for each length."""
    planner.plan(LENGTHS[0], batch=1, target=chip)  # imports what searches need
    seconds = []
    for n in LENGTHS:
        with counted() as runs:
            start = time.process_time()
            plan = planner.plan(n, batch=BATCH, target=chip)
            seconds.append(time.process_time() - start)
        text = f"{len(runs)} dry runs of {sum(runs)} instructions"
        print(f"{chip} {n:7d} {seconds[-1]:6.2f} s, {text}: {plan.recipe}", flush=True)
    median, longest = statistics.median(seconds), max(seconds)
    print(f"{chip}: median {median:.2f} s, longest {longest:.2f} s of {len(seconds)} searches\n")


def random_problem(source: random.Random) -> Problem:
    """Returns a problem of a random kind, size, batch, chip and degree of LNC."""
    chip = source.choice(hardware.NAMES)
    most = hardware.chip(chip).programs_per_launch
    kind = _random_kind(source)
    batch = min(source.choice((1, 4, 16, 64, 300)), max(1, MOST_NUMBERS // kind.points))
    return Problem(
        kind=kind,
        batch=batch,
        precision="fast",
        target=chip,
        max_error=accuracy.MAX_ERRORS["fast"],
        cores=source.choice((1, most, most)),
    )


def _random_kind(source: random.Random) -> kinds.Kind:
    length = round(2 ** source.uniform(3, 17))
    length = source.choice((length, 1 << length.bit_length() - 1, length // 60 * 60 or 60))
    sides = tuple(round(2 ** source.uniform(2, 8)) for _ in range(2))
    parts = (kinds.C2C, kinds.C2C, kinds.R2C, kinds.C2R)
    ways = (
        lambda: kinds.Transform((length,), part=source.choice(parts)),
        lambda: kinds.Transform((length,)),
        lambda: kinds.Transform(sides, part=source.choice(parts)),
        lambda: kinds.Convolution((min(length, 4096),)),
        lambda: kinds.SpectralLayer(8, 8, (64, 64), (source.choice((8, 16, 24)), 8)),
        lambda: kinds.Frames(min(length, 2048), source.choice((64, 128)), bands=40),
    )
    return source.choices(ways, (3, 5, 2, 1, 1, 1))[0]()


def regrets_of(count: int, seed: int) -> None:
    """Prints how much longer than the best candidates the choices for random problems take."""
    source = random.Random(seed)
    regrets: list[float] = []
    searched = priced = 0
    while len(regrets) < count:
        problem = random_problem(source)
        try:
            with counted() as runs:
                plan = planner.search(problem)
        except NotImplementedError:
            continue
        best, candidates = _brute_force(problem, plan)
        regrets.append((plan.predicted_ns or math.inf) / best - 1)
        searched += len(runs)
        priced += candidates
        if regrets[-1] > planner.NEAR - 1:
            print(f"{100 * regrets[-1]:.1f}% longer: {plan!r}", flush=True)
    far = sum(regret > planner.NEAR - 1 for regret in regrets)
    print(
        f"{count} problems with {priced} candidates, of which searches priced {searched}: choices "
        f"take {100 * statistics.mean(regrets):.3f}% longer than the best, {far} of them over "
        f"{100 * (planner.NEAR - 1):.0f}%, at most {100 * max(regrets):.1f}%"
    )


def _brute_force(problem: Problem, plan: Plan) -> tuple[float, int]:
    """Returns the lowest price of all candidates, and their number."""
    _, recipes = planner._recipes(problem, None)
    found = [each.predicted_ns or math.inf for each in plan.candidates]  # separate launches, too
    for recipe in recipes:
        if planner._error(recipe, problem) <= problem.max_error:
            chip = hardware.chip(problem.target)
            try:
                found.append(cost.price(recipe, problem.batch, chip, problem.cores).predicted_ns)
            except cost.CannotRun:
                continue
    return min(found), len(recipes)


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chips", nargs="*", default=["trn1", "trn2"], choices=hardware.NAMES)
    parser.add_argument("--problems", type=int, default=0, help="random problems to compare")
    parser.add_argument("--seed", type=int, default=1, help="of the random problems")
    options = parser.parse_args()
    with without_cache():
        for chip in options.chips:
            times_of(chip)
        if options.problems:
            regrets_of(options.problems, options.seed)


if __name__ == "__main__":
    main()
