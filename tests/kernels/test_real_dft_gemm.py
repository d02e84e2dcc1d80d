"""The real DFT-GEMM kernels in the simulator against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from nki_kernels import hardware, simulator
from nki_kernels.kernels.real_dft_gemm import (
    inverse_real_dft_gemm,
    inverse_real_dft_gemm_matrix,
    real_dft_gemm,
    real_dft_gemm_matrix,
    transforms_per_slab,
)
from nki_kernels.lint import lint

RNG = np.random.default_rng(70)
CHIPS = pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])


def forward(x, inverse=False, scale=1.0):
    """Spectrum, timeline and exact result of one launch on the rows of ``x``."""
    x = x.astype(np.float32)
    matrix = real_dft_gemm_matrix(x.shape[1], inverse, scale)
    with simulator.strict(), simulator.record() as timeline:
        y_re, y_im = simulator.simulate(real_dft_gemm)(x, matrix)
    exact = scale * np.fft.rfft(x.astype(np.float64))
    return y_re + 1j * y_im.astype(np.float64), timeline, exact.conj() if inverse else exact


def backward(z, n, inverse=True, scale=1.0):
    """Real rows, timeline and exact result of one launch on the half spectra ``z``."""
    re, im = z.real.astype(np.float32), z.imag.astype(np.float32)
    matrix = inverse_real_dft_gemm_matrix(n, inverse, scale)
    with simulator.strict(), simulator.record() as timeline:
        y = simulator.simulate(inverse_real_dft_gemm)(re, im, matrix, n)
    z = re + 1j * im.astype(np.float64)
    return y, timeline, scale * n * np.fft.irfft(z if inverse else z.conj(), n)


def error(result, reference):
    return np.linalg.norm(result - reference) / np.linalg.norm(reference)


def real(*shape):
    return RNG.standard_normal(shape)


def spectra(batch, n):
    """Half spectra, with imaginary parts everywhere."""
    return real(batch, n // 2 + 1) + 1j * real(batch, n // 2 + 1)


def modelled(n, batch):
    """Modelled nanoseconds, forward and backward."""
    x, z = ((batch, n), "float32"), ((batch, n // 2 + 1), "float32")
    there = simulator.dry_run(real_dft_gemm, x, real_dft_gemm_matrix(n))
    back = simulator.dry_run(inverse_real_dft_gemm, z, z, inverse_real_dft_gemm_matrix(n), n)
    return there.total_ns, back.total_ns


@pytest.mark.parametrize("n", range(1, 257))
def test_every_length_and_batch_both_ways(n):
    for batch in (1, 2, 130, 300):
        result, timeline, exact = forward(real(batch, n))
        assert timeline.launches == 1
        assert error(result, exact) <= 5e-7
        result, timeline, exact = backward(spectra(batch, n), n)
        assert timeline.launches == 1
        assert error(result, exact) <= 5e-7


@pytest.mark.parametrize("n", range(1, 257, 3))
def test_the_other_sign_and_a_scale(n):
    result, _, exact = forward(real(3, n), inverse=True, scale=1 / n)
    assert error(result, exact) <= 5e-7
    result, _, exact = backward(spectra(3, n), n, inverse=False, scale=-0.3)
    assert error(result, exact) <= 5e-7


@CHIPS
@pytest.mark.parametrize("n", [1, 2, 3, 31, 64, 65, 127, 128, 129, 200, 256])
def test_every_chip_computes_the_same(monkeypatch, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    result, _, exact = forward(real(150, n))
    assert error(result, exact) <= 5e-7
    result, _, exact = backward(spectra(150, n), n)
    assert error(result, exact) <= 5e-7


@pytest.mark.parametrize(
    ("n", "batch"), [(1, 70000), (2, 20001), (5, 9001), (60, 2500), (99, 1153)]
)
def test_large_ragged_batches(n, batch):
    result, _, exact = forward(real(batch, n))
    assert max(map(error, result, exact)) <= 3e-6  # no row is another one's
    result, _, exact = backward(spectra(batch, n), n)
    assert error(result, exact) <= 5e-7


@pytest.mark.parametrize("n", [1, 2, 3, 8, 63, 127, 128, 129, 256])
def test_imaginary_parts_that_real_data_has_not_are_ignored(n):
    z = spectra(4, n)
    other = z.copy()
    own = [0, n // 2] if n % 2 == 0 else [0]
    other[:, own] = z[:, own].real + 1e6j
    np.testing.assert_array_equal(backward(z, n)[0], backward(other, n)[0])


@CHIPS
@pytest.mark.parametrize("n", [64, 128, 256])
def test_modelled_time_is_little_over_half_of_a_complex_transforms(chip, n):
    pytest.importorskip("torch")
    from trnfft.planner.planner import plan

    batch = 2**20 // n
    with hardware.select(hardware.chip(chip)), simulator.strict():
        # Descriptors bind at 64 points on trn3.
        most = {256: 0.6, 128: 0.65, 64: 0.75 if chip == "trn3" else 0.65}[n]
        limit = most * plan(n, batch=batch, target=chip).predicted_ns
        assert max(modelled(n, batch)) <= limit


def test_dry_run_is_the_real_timeline():
    there, back = forward(real(500, 96))[1], backward(spectra(500, 96), 96)[1]
    assert modelled(96, 500) == (there.total_ns, back.total_ns)


def test_the_kernels_stay_inside_the_compilers_subset():
    assert lint(real_dft_gemm) == []
    assert lint(inverse_real_dft_gemm) == []


def test_matrices_are_the_dft_on_the_diagonal():
    n = 12
    copies = transforms_per_slab(n)
    assert copies == 10
    w = 0.5 * np.fft.rfft(np.eye(n))
    matrix = real_dft_gemm_matrix(n, scale=0.5)
    one = np.hstack([w.real, w.imag])
    np.testing.assert_allclose(matrix, np.kron(np.eye(copies), one), atol=1e-7)
    # Backward the Nyquist number takes the place of the imaginary part of X[0].
    half = np.vstack([np.eye(7)[:6], np.eye(7)[6], 1j * np.eye(7)[1:6]])
    one = 0.5 * n * np.fft.irfft(half, n)
    matrix = inverse_real_dft_gemm_matrix(n, scale=0.5)
    np.testing.assert_allclose(matrix, np.kron(np.eye(copies), one), atol=1e-6)


@pytest.mark.parametrize("make", [real_dft_gemm_matrix, inverse_real_dft_gemm_matrix])
@pytest.mark.parametrize("n", [0, 257, -1])
def test_lengths_out_of_range_are_refused(make, n):
    with pytest.raises(ValueError, match=f"n = {n}.*1 to 256"):
        make(n)


def test_shapes_that_do_not_fit_are_refused():
    matrix = inverse_real_dft_gemm_matrix(12)
    x = np.zeros((2, 7), np.float32)
    with pytest.raises(AssertionError, match="differs from x_re"):
        simulator.simulate(inverse_real_dft_gemm)(x, x[:, :6], matrix, 12)
    with pytest.raises(AssertionError, match="half spectra of 6 numbers for N = 12"):
        simulator.simulate(inverse_real_dft_gemm)(x[:, :6], x[:, :6], matrix, 12)
