"""Kernels break no device rule, in strict mode, on every chip, on one core or two."""

from __future__ import annotations

import itertools
import math

import pytest

import nki_sim
from nki_kernels.base.launch import LAUNCH_INSTRUCTIONS
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps
from tests.registry import REGISTRY
from trnfft.planner.algorithms import STRIDED_STOCKHAM

# Lengths at which kernels broke rules before they were made for these; shapes are the algorithms'.
LENGTHS = (7, 12, 64, 100, 200, 257, 1000, 1009, 4096, 6208, 8192, 65536, 600000, 1048576)
COUNTED = (64, 1000, 4096)  # lengths whose instructions are counted
BATCHES = (1, 5, 130)
POINTS = 2**16  # of a batch, and one transform alone
HBM_NUMBERS = hardware.HBM_TENSOR_BYTES // 4

KERNELS = {}
for each in REGISTRY.values():
    KERNELS.setdefault(each.kernel.__name__, []).append(each)


def recipes(algorithm, places=(0, -1), lengths=LENGTHS):
    """The likeliest recipe of every size above, and the last one."""
    if not algorithm.takes_shapes:
        found = [algorithm.recipes(n) for n in lengths if not algorithm.why_not(n)]
    else:
        found = [algorithm.recipes_for(kind)[:1] for kind in algorithm.samples]
    chosen = [recipe for each in found for recipe in {each[place] for place in places}]
    return [*chosen, *algorithm.short]


def dry_run(algorithm, recipe, batch, cores=1):
    shapes = algorithm.inputs(recipe, batch)
    if algorithm is STRIDED_STOCKHAM:
        shapes = [(2, recipe.n, batch)] * 2
    inputs = [(shape, "float32") for shape in shapes]
    kernel = algorithm.kernel[cores] if cores > 1 else algorithm.kernel
    with nki_sim.strict():
        return nki_sim.dry_run(kernel, *inputs, *algorithm.specs(recipe))


def most_rows(algorithm, recipe):
    """Of an input, or of a transform's output, that just fits into HBM."""
    members = 2 if algorithm is STRIDED_STOCKHAM else 1  # as in dry_run
    numbers = max(math.prod(algorithm.inputs(recipe, 1)[0][1:]), recipe.n)
    return HBM_NUMBERS // (members * numbers)


def counted_recipe(algorithm):
    """The recipe whose instructions are counted."""
    found = {recipe.n: recipe for recipe in recipes(algorithm)}
    return next((found[n] for n in COUNTED if n in found), next(iter(found.values())))


@pytest.mark.parametrize("name", REGISTRY)
def test_every_algorithm_has_sizes_here(name):
    algorithm = REGISTRY[name]
    if algorithm.takes_shapes:
        assert algorithm.samples
    else:
        assert algorithm.short or any(not algorithm.why_not(n) for n in LENGTHS)


@pytest.mark.parametrize("name", KERNELS)
def test_no_likeliest_recipe_breaks_a_rule(name):
    """Of sizes below 2^19 with a batch each by turns, and of the smallest in each precision."""
    first, *others = KERNELS[name]
    cases = [(first, recipe) for recipe in recipes(first, [0], LENGTHS[:-2])]
    cases += [(other, recipes(other, [0], LENGTHS[:-2])[0]) for other in others]
    for number, (algorithm, recipe) in enumerate(cases):
        batch = BATCHES[number % 3] if recipe.n * BATCHES[number % 3] <= POINTS else 1
        assert dry_run(algorithm, recipe, batch).launches == 1


@pytest.mark.weekly
@pytest.mark.sweep
@pytest.mark.parametrize(("chip", "cores"), [("trn1", 1), ("trn2", 2), ("trn3", 1)])
@pytest.mark.parametrize("place", [0, -1], ids=["likeliest", "last"])
@pytest.mark.parametrize("name", KERNELS)
def test_no_recipe_breaks_a_rule(monkeypatch, name, place, chip, cores):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for algorithm in KERNELS[name]:
        for recipe in recipes(algorithm, [place]):
            for batch in BATCHES if chip == "trn1" else BATCHES[1:2]:
                if batch == 1 or recipe.n * batch <= POINTS:
                    assert dry_run(algorithm, recipe, batch, cores).launches == 1


@sweeps.some(
    "name, place",
    itertools.product(REGISTRY, [0, 1]),
    [(algorithms[0].name, 0) for algorithms in KERNELS.values()],
)
def test_loads_do_not_run_too_far_ahead(monkeypatch, name, place):
    algorithm = REGISTRY[name]
    size, batch = algorithm.ahead.size, algorithm.ahead.batch
    monkeypatch.setenv(hardware.TARGET_VARIABLE, algorithm.ahead.target)
    found = algorithm.recipes_for(size) if algorithm.takes_shapes else algorithm.recipes(size)
    for recipe in found[place : place + 1]:
        assert dry_run(algorithm, recipe, batch).launches == 1


# By default those kernels whose own tests do not count the instructions of such batches; of the
# three kernels for several axes and of the two for volumes, one.
NOT_COUNTED = {
    "bluestein",
    "convolve_images",
    "convolve_rows",
    "resident_planes",
    "resident_real_volumes",
    "transform_real_axes",
}


@pytest.mark.weekly
@pytest.mark.parametrize(("chip", "cores"), [("trn1", 1), sweeps.whole("trn2", 2)])
@sweeps.some("name", KERNELS, NOT_COUNTED)
def test_the_largest_batch_compiles(monkeypatch, name, chip, cores):
    """A launch has at most 30,000 instructions at the batch that just fits into HBM."""
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", LAUNCH_INSTRUCTIONS)
    for algorithm in KERNELS[name]:
        recipe = counted_recipe(algorithm)
        assert dry_run(algorithm, recipe, most_rows(algorithm, recipe), cores).launches == 1
