"""What algorithms have in common: arguments by default, the shortest and longest lengths."""

import numpy as np
import pytest

from nki_kernels.kernels import butterfly, convolution, dft_gemm, four_step, stockham
from trnfft.planner import planner
from trnfft.planner.algorithms import ALGORITHMS, STRIDED_STOCKHAM
from trnfft.planner.plan import Recipe

LENGTHS = {"four_step": 512, "long_bluestein": 257}
LINES = [
    algorithm
    for algorithm in (*ALGORITHMS.values(), STRIDED_STOCKHAM)
    if not algorithm.takes_shapes and not algorithm.name.startswith("split")
]
SHAPES = {
    "axes": dict(shape=(8, 12)),
    "real_axes": dict(shape=(8, 12), real=True),
    "axes_to_real": dict(shape=(8, 12), real=True, inverse=True),
}


def recipes():
    for algorithm in LINES:
        yield algorithm, algorithm.recipes(LENGTHS.get(algorithm.name, 64))[0]
    for name, arguments in SHAPES.items():
        yield ALGORITHMS[name], planner.plan(**arguments, target="trn1").recipe


def leaves(tables):
    return [tables] if isinstance(tables, np.ndarray) else sum(map(leaves, tables), [])


@pytest.mark.parametrize(
    "algorithm, recipe", list(recipes()), ids=lambda each: getattr(each, "name", "")
)
def test_forward_without_a_factor_by_default(algorithm, recipe):
    by_default, forward = algorithm.tables(recipe), algorithm.tables(recipe, False, 1.0)
    for one, other in zip(leaves(by_default), leaves(forward), strict=True):
        assert np.array_equal(one, other)
    assert algorithm.settings(recipe) == algorithm.settings(recipe, False)
    packed, *rest = algorithm.arguments(recipe)
    other, *others = algorithm.arguments(recipe, False, 1.0)
    assert packed is other and rest == others


@pytest.mark.parametrize(
    "name, shortest, longest",
    [
        ("dft_gemm", 1, dft_gemm.MAX_LENGTH),
        ("real_dft_gemm", 1, dft_gemm.MAX_LENGTH),
        ("butterfly", 2, butterfly.MAX_LENGTH),
        ("butterfly_kahan", 2, butterfly.MAX_COMPENSATED_LENGTH),
        ("stockham", 2, stockham.MAX_LENGTH),
        ("four_step", 256, four_step.MAX_LENGTH),
        ("convolve_rows", 4, convolution.MAX_LENGTH),
        ("long_bluestein", 256, 262144),
    ],
)
def test_the_shortest_and_longest_lengths(name, shortest, longest):
    algorithm = ALGORITHMS[name]
    for n in (shortest, longest):
        assert algorithm.why_not(n) == ""
        assert algorithm.recipes(n)[0].n == n
    assert shortest == 1 or algorithm.why_not(shortest - 1)
    assert algorithm.why_not(2 * longest)


def test_one_or_two_strided_stages():
    assert STRIDED_STOCKHAM.recipes(2) == [Recipe("strided_stockham", 2, (2,))]
    assert STRIDED_STOCKHAM.recipes(64) == [Recipe("strided_stockham", 64, (64,))]
    for n in (1, 67, 127):
        assert STRIDED_STOCKHAM.why_not(n) == "has no one or two radices up to 64"


def test_the_largest_radix_is_a_prime_that_is_taken():
    for name in ("stockham", "four_step"):
        assert ALGORITHMS[name].why_not(127 * 8) == ""
        assert ALGORITHMS[name].why_not(131 * 8) == "has no radix for the prime factor 131"


def test_shapes_that_are_refused_say_why():
    with pytest.raises(NotImplementedError, match="an image has 2 axes, not 3"):
        planner.plan_convolution((8, 8, 8))
    with pytest.raises(NotImplementedError, match="a weight has 3 axes, not 2"):
        planner.plan_block_circulant((8, 8))


def test_input_of_other_shapes_is_named():
    recipe = Recipe("dft_gemm", 8)
    ALGORITHMS["dft_gemm"].check_inputs(recipe, [(3, 8), (3, 8)])
    with pytest.raises(ValueError, match=r"of shapes \[\(3, 9\), \(3, 8\)\]: dft_gemm 8 takes \["):
        ALGORITHMS["dft_gemm"].check_inputs(recipe, [(3, 9), (3, 8)])
