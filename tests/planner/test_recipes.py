"""No recipe that kernels take is cheaper by more than what counts as alike."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

import trnfft
from nki_kernels.nd.strided_stockham import radix_pairs
from nki_sim import hardware
from trnfft.planner import cost
from trnfft.planner.algorithms import ALGORITHMS, PASSES, REAL_STOCKHAM
from trnfft.planner.dry_runs import NEAR
from trnfft.planner.kinds import Convolution, Transform
from trnfft.planner.plan import Recipe
from trnfft.planner.planner import plan_for


def price(recipe, plan):
    """The price of a recipe for the problem of a plan; infinity where it cannot run."""
    try:
        chip = hardware.chip(plan.target)
        return cost.price(recipe, plan.batch, chip, plan.cores).predicted_ns
    except cost.CannotRun:
        return math.inf


def pairs(n):
    """All radices that the kernels for real rows take."""
    return [(n // m, m) for m in range(2, 65) if n % m == 0 and 2 <= n // m <= 128]


@pytest.mark.parametrize(
    "n, batch, target",
    [
        (276, 300, "trn3"),  # 23 x 12: an odd first radix, whose slots fill products
        (928, 64, "trn1"),  # 29 x 32
        (464, 500, "trn2"),  # 29 x 16
        (380, 300, "trn2"),  # 19 x 20
        (1152, 1, "trn1"),  # 36 x 32, whose slots are paired
        (372, 64, "trn2"),
        (624, 128, "trn3"),
    ],
)
@pytest.mark.parametrize("inverse", [False, True])
def test_real_rows(n, batch, target, inverse):
    plan = trnfft.plan(n, real=True, inverse=inverse, batch=batch, target=target)
    name = "inverse_real_stockham" if inverse else "real_stockham"
    ways = [ALGORITHMS[name].recipe(n, radices) for radices in pairs(n)]
    assert len(ways) > 4
    assert plan.predicted_ns <= NEAR * min(price(way, plan) for way in ways)


def ways_of(plan, axis):
    """All recipes for an axis, of each algorithm that the kernel takes there."""
    n, part = plan.kind.lengths[axis], plan.kind.part
    if axis < len(plan.kind.lengths) - 1:
        columns = PASSES["strided_stockham"]
        return [columns.recipe(n, radices) for radices in [(n,)] * (n <= 64) + radix_pairs(n)]
    names = {
        "c2c": ("dft_gemm", "stockham"),
        "r2c": ("real_dft_gemm", "real_stockham"),
        "c2r": ("inverse_real_dft_gemm", "inverse_real_stockham"),
    }[part]
    algorithms = [ALGORITHMS[name] for name in names if not ALGORITHMS[name].why_not(n)]
    return [way for algorithm in algorithms for way in algorithm.recipes(n)]


@pytest.mark.parametrize(
    "shape, batch, target, part",
    [
        ((10, 11), 4, "trn1", "c2c"),  # rows as one stage, and not as a product
        ((84, 372), 1, "trn3", "c2c"),  # rows as 12 x 31
        ((64, 119, 11), 1, "trn1", "c2c"),  # the middle axis as 17 x 7
        ((756, 20), 3, "trn3", "r2c"),
        ((12, 12), 4, "trn3", "c2r"),
    ],
)
def test_passes_of_several_axes(shape, batch, target, part):
    arguments = {"real": part != "c2c", "inverse": part == "c2r", "target": target}
    plan = trnfft.plan(shape=shape, batch=batch, **arguments)
    orders = {
        tuple(item.axis for item in each.recipe.passes): each.recipe
        for each in plan.candidates
        if each.recipe.passes
    }
    every = [ways_of(plan, axis) for axis in range(len(shape))]
    assert math.prod(map(len, every)) > 1
    for recipe in itertools.islice(orders.values(), 2):
        for ways in itertools.islice(itertools.product(*every), 30):
            passes = tuple(replace(item, recipe=ways[item.axis]) for item in recipe.passes)
            other = price(replace(recipe, passes=passes), plan)
            assert plan.predicted_ns <= NEAR * other


def test_a_recipe_with_other_passes_solves_its_kind():
    algorithm = ALGORITHMS["axes"]
    kind = Transform((84, 372))
    likeliest = algorithm.recipes_for(kind)[0]
    others = [each for index in range(2) for each in algorithm.variants(likeliest, index)]
    assert len(others) >= 4 and likeliest not in others
    assert all(algorithm.solves(each, kind) for each in others)
    assert not algorithm.solves(others[0], Transform((84, 370)))
    assert not algorithm.solves(others[0], Transform((84, 372), part="r2c"))
    assert not algorithm.solves(replace(others[0], passes=others[0].passes[:1]), kind)
    wrong = replace(others[0].passes[0], recipe=Recipe("stockham", Transform((84,)), (2, 42)))
    assert not algorithm.solves(replace(others[0], passes=(wrong, *others[0].passes[1:])), kind)


def test_both_passes_along_rows_of_images_share_their_radices():
    algorithm, kind = ALGORITHMS["convolve_images"], Convolution((64, 928))
    likeliest = algorithm.recipes_for(kind)[0]
    others = algorithm.variants(likeliest, 0)
    assert others and algorithm.variants(likeliest, 1) == []
    for recipe in (likeliest, *others):
        rows, columns, back = (item.recipe for item in recipe.passes)
        assert rows.radices == back.radices in pairs(928)
        assert columns == likeliest.passes[1].recipe  # whose order spectra of filters have
        assert algorithm.solves(recipe, kind)
    plan = plan_for(kind, target="trn1")
    assert plan.predicted_ns <= NEAR * min(price(each, plan) for each in (likeliest, *others))


def test_columns_rank_pairs_of_radices():
    ways = REAL_STOCKHAM.recipes(960)
    assert sorted(ways, key=REAL_STOCKHAM.columns) == ways
