"""The DFT-GEMM kernel in the simulator against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from nki_kernels import hardware, simulator
from nki_kernels.dft_gemm import dft_gemm, dft_gemm_matrix, transforms_per_slab
from nki_kernels.lint import lint

RNG = np.random.default_rng(20)


def transform(x, inverse=False):
    """Result, timeline and float64 reference of one launch on the rows of complex ``x``."""
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    n = x.shape[-1]
    matrix = dft_gemm_matrix(n, inverse, 1 / n if inverse else 1.0)
    with simulator.strict(), simulator.record() as timeline:
        y_re, y_im = simulator.simulate(dft_gemm)(re, im, matrix)
    exact = re + 1j * im.astype(np.float64)
    return y_re + 1j * y_im.astype(np.float64), timeline, exact


def error(result, reference):
    return np.linalg.norm(result - reference) / np.linalg.norm(reference)


def normal(*shape):
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


@pytest.mark.parametrize("n", range(1, 257))
def test_every_length_and_batch_both_ways(n):
    for batch in (1, 3, 128, 300):
        forward, timeline, x = transform(normal(batch, n))
        assert timeline.launches == 1
        assert error(forward, np.fft.fft(x)) <= 5e-7
        backward, timeline, x = transform(normal(batch, n), inverse=True)
        assert timeline.launches == 1
        assert error(backward, np.fft.ifft(x)) <= 5e-7


@pytest.mark.parametrize("chip", ["trn2", "trn3"])
@pytest.mark.parametrize("n", [1, 3, 31, 64, 65, 128, 129, 200, 256])
def test_other_chips_compute_the_same(monkeypatch, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    result, _, x = transform(normal(150, n))
    assert error(result, np.fft.fft(x)) <= 5e-7


@pytest.mark.parametrize(("n", "batch"), [(1, 70000), (5, 9001), (60, 2500), (100, 1153)])
def test_large_ragged_batches(n, batch):
    result, _, x = transform(normal(batch, n))
    assert error(result, np.fft.fft(x)) <= 5e-7


def test_modelled_time_is_near_the_dma_floor():
    x = normal(8192, 128)
    result, timeline, exact = transform(x)
    assert error(result, np.fft.fft(exact)) <= 5e-7
    assert timeline.total_ns <= 1.3 * hardware.chip("trn1").dma_floor_ns(8192 * 128)


def test_dry_run_is_the_real_timeline():
    _, timeline, _ = transform(normal(500, 96))
    spec, matrix = ((500, 96), "float32"), dft_gemm_matrix(96)
    assert simulator.dry_run(dft_gemm, spec, spec, matrix).total_ns == timeline.total_ns


def test_the_kernel_stays_inside_the_compilers_subset():
    assert lint(dft_gemm) == []


def test_matrix_is_the_split_dft_on_the_diagonal():
    n = 12
    copies = transforms_per_slab(n)
    matrix = dft_gemm_matrix(n, scale=0.5)
    assert matrix.shape == (2 * n * copies, 2 * n * copies)
    w = 0.5 * np.fft.fft(np.eye(n))
    one = np.block([[w.real, w.imag], [-w.imag, w.real]])
    np.testing.assert_allclose(matrix, np.kron(np.eye(copies), one), atol=1e-7)


@pytest.mark.parametrize("n", [0, 257, -1])
def test_lengths_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match=f"n = {n}.*1 to 256"):
        dft_gemm_matrix(n)
