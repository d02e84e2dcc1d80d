"""Tests launch kernels with the arguments that the planner passes."""

import numpy as np
import pytest

from tests.registry import REGISTRY
from trnfft.planner.algorithms.algorithm import LengthAlgorithm

from .launched import MODULES, Launched, arguments

OF_KERNELS = {}
for each in REGISTRY.values():
    if isinstance(each, LengthAlgorithm) and each.kernel.__name__ in MODULES:
        OF_KERNELS.setdefault(each.kernel.__name__, []).append(each)


def test_every_kernel_is_one_of_the_planners():
    assert OF_KERNELS.keys() == MODULES.keys()
    for name, algorithms in OF_KERNELS.items():
        assert all(algorithm.kernel is Launched(name).kernel for algorithm in algorithms)


@pytest.mark.parametrize("name", MODULES)
def test_arguments_are_those_of_the_planner(name):
    for algorithm in OF_KERNELS[name]:
        n = next(n for n in (12, 16, 64, 130, 257, 4096, 600000) if not algorithm.why_not(n))
        recipe = (algorithm.short or algorithm.recipes(n))[0]
        radices = recipe.inner.radices if recipe.inner else recipe.radices
        options = {
            option: value
            for option, default in (
                ("dtype", "float32"),
                ("refined", False),
                ("compensated", False),
            )
            if (value := getattr(algorithm, option, default)) != default
        }
        specs = arguments(name, recipe.n, radices, specs_only=True, **options)
        assert specs == algorithm.specs(recipe)
        found = arguments(name, recipe.n, radices, True, 0.25, **options)
        for one, other in zip(found, algorithm.arguments(recipe, True, 0.25), strict=True):
            if isinstance(one, np.ndarray):
                np.testing.assert_array_equal(one, other)
            else:
                assert one == other
