"""The planner's choices, prices and predicted errors against the kernels themselves."""

import numpy as np
import pytest
import torch

import trnfft
from nki_kernels import hardware, simulator
from trnfft.planner import cost, planner
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.plan import Plan, Recipe


def request(n, batch=1, precision="fast", target="trn1", max_error=1e-6):
    return Plan(n, batch, False, precision, target, max_error, ())


# Algorithms


@pytest.mark.parametrize("n", [1, 2, 8, 100, 128, 131, 256, 257, 1000, 1024, 4096, 10007, 65536])
def test_predicted_errors_are_within_a_factor_of_three(n):
    rng = np.random.default_rng(n)
    re, im = rng.standard_normal((2, 4, n)).astype(np.float32)
    expected = np.fft.fft(re.astype(float) + 1j * im)
    checked = 0
    for algorithm in ALGORITHMS.values():
        if algorithm.why_not(n):
            continue
        recipes = algorithm.recipes(n)
        for recipe in {recipes[0], recipes[-1]}:
            y = simulator.simulate(algorithm.kernel)(re, im, *algorithm.arguments(recipe))
            error = np.linalg.norm(y[0] + 1j * y[1].astype(float) - expected)
            error /= np.linalg.norm(expected)
            predicted = algorithm.error(recipe)
            assert error <= 3 * predicted
            assert n <= 2 or predicted <= 3 * error  # the tiniest may be exact
            checked += 1
    assert checked


@pytest.mark.parametrize("n", [1, 2, 64, 100, 256, 257, 1000, 2048, 4096, 4099, 16384, 600000])
def test_specs_are_shapes_and_dtypes_of_the_tables(n):
    for algorithm in ALGORITHMS.values():
        if not algorithm.why_not(n):
            for recipe in algorithm.recipes(n):
                assert shapes(algorithm.specs(recipe)) == shapes(algorithm.arguments(recipe))


def shapes(value):
    if hasattr(value, "shape"):
        return value.shape, value.dtype.name
    if isinstance(value, tuple) and not (len(value) == 2 and isinstance(value[1], str)):
        return tuple(map(shapes, value))
    return value


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("n", [16, 1000, 257, 4099])
def test_arguments_have_direction_and_scale(n, inverse):
    rng = np.random.default_rng(n)
    re, im = rng.standard_normal((2, 2, n)).astype(np.float32)
    transform = np.fft.ifft if inverse else np.fft.fft
    expected = transform(re.astype(float) + 1j * im, norm="forward" if inverse else None) * -0.5
    for algorithm in ALGORITHMS.values():
        if not algorithm.why_not(n):
            recipe = algorithm.recipes(n)[0]
            arguments = algorithm.arguments(recipe, inverse, -0.5)
            y = simulator.simulate(algorithm.kernel)(re, im, *arguments)
            difference = np.linalg.norm(y[0] + 1j * y[1] - expected)
            assert difference < 3 * algorithm.error(recipe) * np.linalg.norm(expected)


# Prices

LARGE = [
    (Recipe("dft_gemm", 64), 2**15, 0.02),
    (Recipe("dft_gemm", 100), 2**14, 0.05),
    (Recipe("stockham", 1000, (25, 40)), 2**12, 0.02),
    (Recipe("stockham", 4096, (64, 64)), 2**11, 0.02),
    (Recipe("butterfly", 64), 2**15, 0.02),
    (Recipe("butterfly_kahan", 1024), 2**11, 0.03),
    (Recipe("bluestein", 257, inner=Recipe("stockham", 540, (10, 54))), 2**13, 0.05),
    (Recipe("four_step", 16384, (64, 2, 128)), 2**7, 0.02),
]


@pytest.mark.parametrize("recipe, batch, tolerance", LARGE, ids=str)
def test_prices_of_large_batches_are_those_of_whole_dry_runs(recipe, batch, tolerance):
    chip = hardware.TRN1
    price = cost.price(recipe, batch, chip)
    whole = cost.timeline(recipe, batch, chip)
    assert price.predicted_ns == pytest.approx(whole.total_ns, rel=tolerance)
    assert price.launches == whole.launches == 1


def test_prices_are_those_of_the_real_run():
    recipe = Recipe("stockham", 256, (16, 16))
    zeros = np.zeros((3, 256), np.float32)
    arguments = ALGORITHMS["stockham"].arguments(recipe)
    with hardware.select(hardware.TRN2), simulator.record() as timeline:
        simulator.simulate(ALGORITHMS["stockham"].kernel)(zeros, zeros, *arguments)
    price = cost.price(recipe, 3, hardware.TRN2)
    assert price.predicted_ns == round(timeline.total_ns, 1)


# Choices


@pytest.mark.parametrize("batch", [1, 64])
@pytest.mark.parametrize("n", [1, 2, 100, 127, 257, 509, 1000, 1024, 4096, 8192, 60000, 65521])
def test_the_choice_is_the_cheapest_that_fits(n, batch):
    plan = planner.search(request(n, batch))
    best, *others = plan.candidates
    assert best.rejected == "" and best.predicted_ns > 0 and best.predicted_error <= 1e-6
    assert all(other.rejected for other in others)
    for other in others:
        if other.predicted_ns is not None and other.predicted_error <= 1e-6:
            assert other.predicted_ns >= best.predicted_ns
    assert plan.predicted_ns >= plan.dma_floor_ns
    assert {c.recipe.algorithm for c in plan.candidates} == set(ALGORITHMS)


def test_the_seeds_table():
    assert trnfft.plan(200, algorithms="seed").algorithm == "dft_gemm"
    plan = trnfft.plan(1024, algorithms="seed")
    assert (plan.algorithm, plan.radices) == ("stockham", (8, 8, 4, 4))
    assert trnfft.plan(1000, algorithms="seed").algorithm == "bluestein"
    assert trnfft.plan(6000, algorithms="seed").algorithm == "long_bluestein"


def test_algorithms_by_name():
    plan = trnfft.plan(256, algorithms=["butterfly", "dft_gemm"])
    assert {c.recipe.algorithm for c in plan.candidates} == {"butterfly", "dft_gemm"}
    assert trnfft.plan(64, algorithms="butterfly_kahan").algorithm == "butterfly_kahan"
    with pytest.raises(ValueError, match="'rader'.*dft_gemm.*stockham.*seed"):
        trnfft.plan(256, algorithms=["rader"])
    with pytest.raises(NotImplementedError, match="N = 100.*powers of two"):
        trnfft.plan(100, algorithms="butterfly")


def test_batches_are_rounded_up_to_powers_of_two():
    assert trnfft.plan(64, batch=100).batch == 128
    assert trnfft.plan(64, batch=100) == trnfft.plan(64, batch=128)
    assert trnfft.plan(64, batch=1).batch == 1


def test_directions_cost_the_same():
    forward, inverse = trnfft.plan(96), trnfft.plan(96, inverse=True)
    assert (forward.inverse, inverse.inverse) == (False, True)
    assert forward.candidates == inverse.candidates


def test_targets():
    assert trnfft.plan(1024, target="inf2") == trnfft.plan(1024, target="trn1")
    fast, slow = (trnfft.plan(64, batch=8192, target=t).predicted_ns for t in ("trn3", "trn1"))
    assert fast < slow
    with hardware.select(hardware.TRN3):
        assert trnfft.plan(64).target == "trn3"


@pytest.mark.parametrize("dtype", [torch.float32, "float32", np.float32, np.dtype("f4")])
def test_dtypes(dtype):
    assert trnfft.plan(64, dtype=dtype).algorithm != "host"
    assert trnfft.plan(64, dtype=torch.bfloat16) == trnfft.plan(64)
    assert trnfft.plan(64, dtype=torch.float64).algorithm == "host"
    with pytest.raises(TypeError, match="complex64.*float32"):
        trnfft.plan(64, dtype=torch.complex64)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (dict(n=0), ValueError, "'n' is 0"),
        (dict(n=True), TypeError, "'n'.*bool"),
        (dict(n=[8]), TypeError, "'n'.*list"),
        (dict(n=2.0), TypeError, "'n'.*float"),
        (dict(n=8, batch=0), ValueError, "'batch' is 0"),
        (dict(n=8, target="trn9"), ValueError, "trn9.*trn1"),
        (dict(n=8, precision="best"), ValueError, "best.*fast.*kahan"),
        (dict(n=8, max_error=0), ValueError, "'max_error' is 0"),
        (dict(n=2**30 + 1), NotImplementedError, "N = 1073741825"),
        (dict(n=64, max_error=1e-12), NotImplementedError, "N = 64.*1e-12.*double"),
    ],
    ids=str,
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        trnfft.plan(**arguments)


def test_an_integer_like_length():
    assert trnfft.plan(np.int64(64)) == trnfft.plan(64)
