"""The kernels of shipped plans in two orders: python -m bench.orders [--most 12]

For each chip and each kind of problem the program prints how the modelled time of the kernels
changes if the compiler orders the instructions, relative to their order as written, and the median
of all. Then it lists the plans that become slower by most, and those that become faster by most.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from nki_sim import hardware
from trnfft.planner import cost, wisdom
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Plan


@dataclass(frozen=True)
class Orders:
    """A plan's title, chip and kind, and the modelled ns of its kernel in both orders."""

    title: str
    chip: str
    kind: str
    written_ns: float
    reordered_ns: float

    @property
    def ratio(self) -> float:
        """The time as the compiler may order it, relative to that as written."""
        return self.reordered_ns / self.written_ns


def orders(plan: Plan) -> Orders:
    """Returns both times of a plan's kernel, from one dry run."""
    found = cost.timeline(plan.recipe, plan.batch, hardware.chip(plan.target), plan.cores)
    return Orders(plan.title, plan.target, plan.kind.name, found.written_ns, found.reordered_ns)


def show(found: list[Orders], most: int) -> None:
    """Prints the geometric mean, the least and the most ratio of each kind, and the extremes."""
    for (chip, kind), group in itertools.groupby(found, key=lambda one: (one.chip, one.kind)):
        ratios = [one.ratio for one in group]
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        row = f"{len(ratios):4} plans  {mean:.3f}  {min(ratios):.3f} to {max(ratios):.3f}"
        print(f"{chip}  {kind:28} {row}")
    ratios = [one.ratio for one in found]
    near = sum(0.98 <= ratio <= 1.02 for ratio in ratios)
    print(f"median {statistics.median(ratios):.3f}; {near} of {len(ratios)} within 2%")
    ordered = sorted(found, key=lambda one: -one.ratio)
    for heading, chosen in (("slower", ordered[:most]), ("faster", ordered[: -most - 1 : -1])):
        print(f"\n{heading} in the compiler's order: as written, reordered, ratio")
        for one in chosen:
            times = f"{one.written_ns / 1e3:9.1f} us {one.reordered_ns / 1e3:9.1f} us"
            print(f"{times}  {one.ratio:.3f}  {one.title}")


def main() -> None:
    """Prints the comparison of all shipped plans."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=12, help="plans to list at both ends")
    options = parser.parse_args()
    rows = [row for chip in hardware.NAMES for row in wisdom.shipped(chip).values()]
    plans = [plan for row in rows if (plan := Plan.from_row(row)).algorithm in ALGORITHMS]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(orders, plans, chunksize=16))
    show(sorted(found, key=lambda one: (one.chip, one.kind)), options.most)


if __name__ == "__main__":
    main()
