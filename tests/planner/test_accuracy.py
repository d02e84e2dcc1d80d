"""Predicted errors grow as expected, and those of bfloat16 agree with the simulator."""

import numpy as np
import pytest

import nki_sim
import trnfft
from trnfft.planner.algorithms import ALGORITHMS


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
