"""The DFT-GEMM kernel in the simulator against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from nki_kernels import hardware, simulator
from nki_kernels.kernels.dft_gemm import dft_gemm, dft_gemm_matrix, transforms_per_slab
from nki_kernels.lint import lint

RNG = np.random.default_rng(20)
# Table options, and bounds of the relative L2 error.
BF16 = ({"dtype": "bfloat16"}, 1e-3, 5e-3)
REFINED = ({"dtype": "bfloat16", "refined": True}, 0.0, 1e-5)
PRECISIONS = pytest.mark.parametrize(
    ("options", "least", "most"), [BF16, REFINED], ids=["bf16", "refined"]
)


def transform(x, inverse=False, **options):
    """Result, timeline and float64 reference of one launch on the rows of complex ``x``."""
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    n = x.shape[-1]
    matrix = dft_gemm_matrix(n, inverse, 1 / n if inverse else 1.0, **options)
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


@PRECISIONS
@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("n", [1, 2, 3, 31, 64, 65, 128, 129, 200, 256])
def test_bfloat16_on_every_chip(monkeypatch, chip, n, options, least, most):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for batch, inverse in ((1, False), (150, False), (150, True)):
        result, timeline, x = transform(normal(batch, n), inverse, **options)
        assert timeline.launches == 1
        found = error(result, np.fft.ifft(x) if inverse else np.fft.fft(x))
        assert found <= most
        assert found >= least or n * batch < 1000  # coarse, or it was not bfloat16


@PRECISIONS
def test_bfloat16_large_ragged_batch(options, least, most):
    result, _, x = transform(normal(2500, 60), **options)
    assert least <= error(result, np.fft.fft(x)) <= most


def test_modelled_time_is_near_the_dma_floor():
    x = normal(8192, 128)
    result, timeline, exact = transform(x)
    assert error(result, np.fft.fft(exact)) <= 5e-7
    assert timeline.total_ns <= 1.4 * hardware.chip("trn1").dma_floor_ns(8192 * 128)


def test_bfloat16_is_faster_where_the_tensor_engine_binds():
    def modelled(**options):
        spec = ((4096, 256), "float32")
        return simulator.dry_run(dft_gemm, spec, spec, dft_gemm_matrix(256, **options)).total_ns

    exact, refined, coarse = modelled(), modelled(**REFINED[0]), modelled(**BF16[0])
    assert coarse < refined < 0.9 * exact
    assert coarse <= 1.3 * hardware.chip("trn1").dma_floor_ns(4096 * 256)


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


def test_a_refined_matrix_adds_up():
    high, low = dft_gemm_matrix(12, **REFINED[0]).astype(np.float64)
    np.testing.assert_array_equal(high, dft_gemm_matrix(12, **BF16[0]).astype(np.float64))
    np.testing.assert_allclose(high + low, dft_gemm_matrix(12), atol=2.0**-17)


@pytest.mark.parametrize(("dtype", "refined"), [("float16", False), ("float32", True)])
def test_unknown_precisions_are_refused(dtype, refined):
    with pytest.raises(ValueError, match=f"dtype '{dtype}': float32 or bfloat16"):
        dft_gemm_matrix(8, dtype=dtype, refined=refined)


@pytest.mark.parametrize("n", [0, 257, -1])
def test_lengths_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match=f"n = {n}.*1 to 256"):
        dft_gemm_matrix(n)
