"""Speed of the planner, one plan at a time in one process: pytest bench --benchmark-only.

A search should end within two seconds, and a plan in memory should be found within 50 us. A plan
from a file that this process has read before is checked against its problem first, and should be
found within 50 ms.
"""

from __future__ import annotations

import itertools

import pytest

from trnfft.planner import accuracy, planner, wisdom
from trnfft.planner.problem import Problem

LONGEST = [(4096, 2**20), (64, 2**20), (2, 2**20), (1536, 1024), (65521, 128)]


@pytest.mark.benchmark(group="search")
@pytest.mark.parametrize("n, batch", LONGEST)
def test_search(benchmark, n, batch):
    budget = accuracy.MAX_ERRORS["fast"]
    problem = Problem(n=n, batch=batch, precision="fast", target="trn1", max_error=budget)
    benchmark.pedantic(planner.search, [problem], rounds=3)


@pytest.mark.benchmark(group="remembered")
def test_from_memory(benchmark):
    planner.plan(1000, target="trn1")
    benchmark(planner.plan, 1000, target="trn1")


@pytest.mark.benchmark(group="remembered")
def test_from_a_file(benchmark):
    keys = itertools.cycle(wisdom.shipped("trn1"))

    def another():
        planner.solved.cache_clear()  # the contents of files stay in memory
        n, batch, precision, *_ = next(keys)
        return (n,), {"batch": batch, "precision": precision, "target": "trn1"}

    benchmark.pedantic(planner.plan, setup=another, rounds=1000)
