"""Predicted errors: of the host, of bfloat16, which agree with the simulator, and of layers."""

import math

import numpy as np
import pytest

import nki_sim
import trnfft
from trnfft.planner import planner
from trnfft.planner.accuracy import matrix_error
from trnfft.planner.algorithms import ALGORITHMS
from trnfft.planner.kinds import RealPlanes, SpectralLayer
from trnfft.planner.separate import SEPARATE


def test_on_the_host_rounding_of_float64_grows_with_the_logarithm():
    found = [trnfft.plan(n, precision="double").predicted_error for n in (1, 2, 2**16)]
    assert found == [2.0**-53, 2.0**-53, 4 * 2.0**-53]


@pytest.mark.parametrize(
    "name", ["dft_gemm_bf16", "dft_gemm_bf16_refined", "stockham_bf16", "stockham_bf16_refined"]
)
def test_errors_of_bfloat16_are_within_a_fifth(name):
    n, algorithm = 256, ALGORITHMS[name]
    recipe = algorithm.recipes(n)[0]
    real, imag = np.random.default_rng(n).standard_normal((2, 64, n)).astype(np.float32)
    y = nki_sim.simulate(algorithm.kernel)(real, imag, *algorithm.arguments(recipe))
    expected = np.fft.fft(real + 1j * imag.astype(float))
    difference = np.linalg.norm(y[0] + 1j * y[1].astype(float) - expected)
    # Operands of bfloat16 are rounded by far more than their sums, whose order may differ.
    measured, predicted = difference / np.linalg.norm(expected), algorithm.error(recipe)
    assert measured == pytest.approx(predicted, rel=0.2)


# Separate launches, of which layers consist where no kernel takes them


def error_of(plan):
    """The error of the separate launches of a plan, whatever was chosen."""
    found = {one.recipe.algorithm: one.predicted_error for one in plan.candidates}
    return found[SEPARATE]


def test_mirrors_add_no_error():
    planes = planner.plan_for(RealPlanes(20, 30), batch=4, target="trn1")
    whole = trnfft.plan(shape=(20, 30), batch=4, target="trn1")
    assert error_of(planes) == whole.predicted_error


def test_products_with_weights_add_that_of_a_matrix():
    forward = trnfft.plan(64, real=True, batch=12, target="trn1")
    back = trnfft.plan(64, real=True, inverse=True, batch=20, target="trn1")
    layer = planner.plan_for(SpectralLayer(3, 5, (64,), (9,)), batch=4, target="trn1")
    errors = forward.predicted_error, back.predicted_error, matrix_error(2 * 3)
    assert error_of(layer) == pytest.approx(math.hypot(*errors), rel=0.01)  # as it is rounded
