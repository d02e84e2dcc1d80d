"""The real DFT-GEMM kernels, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for every length, batch and chip, in both directions, also in loops,
and for padded and cropped rows. Rows must not mix. The kernels must need about half the time of a
complex transform.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nki_sim
from nki_kernels import launch
from nki_kernels.isa import nki, nl
from nki_kernels.launch import HbmRows
from nki_kernels.real.real_dft_gemm import (
    inverse_real_dft_gemm,
    inverse_real_dft_gemm_matrix,
    inverse_real_dft_gemm_rows,
    real_dft_gemm,
    real_dft_gemm_matrix,
    real_dft_gemm_rows,
    transforms_per_slab,
)
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, normal, real

# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
CHIPS = pytest.mark.parametrize("chip", ["trn1", "trn2", sweeps.whole("trn3")])


def forward(x, inverse=False, scale=1.0, programs=1):
    """Spectrum, timeline and exact result of one launch on the rows of ``x``."""
    x = x.astype(np.float32)
    matrix = real_dft_gemm_matrix(x.shape[1], inverse, scale)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(real_dft_gemm)[programs](x, matrix)
    exact = scale * np.fft.rfft(x.astype(np.float64))
    return y_re + 1j * y_im.astype(np.float64), timeline, exact.conj() if inverse else exact


def backward(z, n, inverse=True, scale=1.0, programs=1):
    """Real rows, timeline and exact result of one launch on the half spectra ``z``."""
    re, im = z.real.astype(np.float32), z.imag.astype(np.float32)
    matrix = inverse_real_dft_gemm_matrix(n, inverse, scale)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y = nki_sim.simulate(inverse_real_dft_gemm)[programs](re, im, matrix, n)
    z = re + 1j * im.astype(np.float64)
    return y, timeline, scale * n * np.fft.irfft(z if inverse else z.conj(), n)


def spectra(batch, n):
    """Half spectra, with imaginary parts everywhere."""
    return normal(batch, n // 2 + 1)


def degrees(chip):
    return range(1, hardware.chip(chip).programs_per_launch + 1)


def modelled(n, batch, programs=1):
    """Modelled nanoseconds, forward and backward."""
    x, z = ((batch, n), "float32"), ((batch, n // 2 + 1), "float32")
    there = nki_sim.dry_run(real_dft_gemm[programs], x, real_dft_gemm_matrix(n))
    matrix = inverse_real_dft_gemm_matrix(n)
    back = nki_sim.dry_run(inverse_real_dft_gemm[programs], z, z, matrix, n)
    return there.total_ns, back.total_ns


# By default those around which rows of a slab, pieces and row tiles change in number.
BORDERS = [
    *range(1, 18),
    20,
    21,
    31,
    32,
    33,
    42,
    43,
    60,
    63,
    64,
    65,
    66,
    85,
    97,
    127,
    128,
    129,
    130,
]
BORDERS += [178, 191, 192, 193, 253, 254, 255, 256]


@sweeps.some("n", range(1, 257), BORDERS)
def test_every_length_and_batch_both_ways(n):
    for batch in (1, 2, 130, 300):
        result, timeline, exact = forward(real(batch, n))
        assert timeline.launches == 1
        assert error(result, exact) <= 5e-7
        result, timeline, exact = backward(spectra(batch, n), n)
        assert timeline.launches == 1
        assert error(result, exact) <= 5e-7


@sweeps.some("n", range(1, 257, 3), [1, 4, 10, 16, 31, 64, 67, 127, 130, 193, 253, 256])
def test_the_other_sign_and_a_scale(n):
    result, _, exact = forward(real(3, n), inverse=True, scale=1 / n)
    assert error(result, exact) <= 5e-7
    result, _, exact = backward(spectra(3, n), n, inverse=False, scale=-0.3)
    assert error(result, exact) <= 5e-7


@CHIPS
@pytest.mark.parametrize("n", [1, 2, 3, 31, 64, 65, 127, 128, 129, 200, 256])
def test_every_chip_computes_the_same(monkeypatch, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for programs in degrees(chip):
        result, _, exact = forward(real(150, n), programs=programs)
        assert error(result, exact) <= 5e-7
        result, _, exact = backward(spectra(150, n), n, programs=programs)
        assert error(result, exact) <= 5e-7


@sweeps.some(
    "n, chip",
    itertools.product([3, 24, 64, 100, 256], ["trn1", "trn2", "trn3"]),
    [(3, "trn1"), (24, "trn1"), (24, "trn2"), (64, "trn1"), (100, "trn2"), (256, "trn2")],
)
def test_batches_around_the_borders_of_blocks_and_loops(monkeypatch, short_loops, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    block = 128 * max(1, 1024 // n)
    for batch in (3 * block - 1, 4 * block, 4 * block + 129):
        for programs in degrees(chip):
            result, _, exact = forward(real(batch, n), programs=programs)
            assert error(result, exact) <= 5e-7
            result, _, exact = backward(spectra(batch, n), n, programs=programs)
            assert error(result, exact) <= 5e-7


@pytest.mark.parametrize(("chip", "n"), [("trn1", 64), sweeps.whole("trn3", 256)])
def test_any_batch_is_a_launch_of_few_instructions(monkeypatch, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", launch.LAUNCH_INSTRUCTIONS)
    with nki_sim.strict():
        there, back = modelled(n, hardware.HBM_TENSOR_BYTES // 4 // n, len(degrees(chip)))
    assert min(there, back) > 1e6


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
def test_two_programs_take_half_the_time_or_what_hbm_allows(monkeypatch, chip):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    n = 128
    hbm = 2**21 * 8 / hardware.chip(chip).hbm_stack_bytes_per_ns
    limit = max(0.58 * min(modelled(n, 2**21 // n)), 1.28 * hbm)
    assert max(modelled(n, 2**21 // n, 2)) <= limit


@CHIPS
@pytest.mark.parametrize("n", [7, 24, 60, 100, 200])
def test_rows_are_independent(monkeypatch, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)

    def there(x):
        with np.errstate(all="ignore"):
            return forward(x)[0]

    def back(z):
        with np.errstate(all="ignore"):
            return backward(z, n)[0]

    x = real(140, n).astype(np.float32)
    check_rows_are_independent(there, x, np.fft.rfft(x.astype(float)), 1e-6)
    z = spectra(140, n).astype(np.complex64)
    exact = n * np.fft.irfft(z.astype(complex), n)
    check_rows_are_independent(back, z, exact, 1e-6)


@nki.jit
def padded(x, matrix, n, kept):
    """The first ``kept`` numbers of half spectra of rows and zeros, N numbers together."""
    source = HbmRows(x, x.shape[1])
    y_re = nl.ndarray((x.shape[0], kept), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((x.shape[0], kept), dtype=nl.float32, buffer=nl.shared_hbm)
    real_dft_gemm_rows(source, [HbmRows(y_re, kept), HbmRows(y_im, kept)], n, matrix)
    return y_re, y_im


@nki.jit
def cropped(x_re, x_im, matrix, n, held, kept):
    """The first ``kept`` numbers of rows of N from ``held`` numbers of their half spectra."""
    y = nl.ndarray((x_re.shape[0], kept), dtype=nl.float32, buffer=nl.shared_hbm)
    source = [HbmRows(x_re, held), HbmRows(x_im, held)]
    inverse_real_dft_gemm_rows(source, HbmRows(y, kept), n, matrix)
    return y


@CHIPS
@pytest.mark.parametrize(
    ("n", "held", "kept"), [(12, 5, 3), (12, 1, 6), (60, 31, 29), (200, 80, 7)]
)
def test_short_rows_are_padded_and_results_cropped(monkeypatch, short_loops, chip, n, held, kept):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    batch = 3 * 128 * max(1, 1024 // n) + 5
    x, z = real(batch, held).astype(np.float32), spectra(batch, n).astype(np.complex64)
    parts = np.ascontiguousarray(z.real), np.ascontiguousarray(z.imag)
    exact = np.fft.rfft(x.astype(float), n)[:, :kept]
    z[:, held:] = 0
    exact_back = n * np.fft.irfft(z.astype(complex), n)[:, :kept]
    for programs in degrees(chip):
        with nki_sim.strict():
            y_re, y_im = nki_sim.simulate(padded)[programs](x, real_dft_gemm_matrix(n), n, kept)
            assert error(y_re + 1j * y_im, exact) <= 6e-7
            matrix = inverse_real_dft_gemm_matrix(n)
            y = nki_sim.simulate(cropped)[programs](*parts, matrix, n, held, kept)
        assert error(y, exact_back) <= 6e-7


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


@sweeps.some(
    "n, chip",
    itertools.product([64, 128, 256], ["trn1", "trn2", "trn3"]),
    [(64, "trn1"), (128, "trn2"), (128, "trn3"), (256, "trn2")],
)
def test_modelled_time_is_little_over_half_of_a_complex_transforms(chip, n):
    pytest.importorskip("torch")
    from trnfft.planner.planner import plan

    batch = 2**20 // n
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        # At 64 points descriptors bind on trn3, and setting rows aside does on trn1.
        most = {256: 0.62, 128: 0.7, 64: 0.65 if chip == "trn2" else 0.75}[n]
        limit = most * plan(n, batch=batch, target=chip, cores=1).predicted_ns
        assert max(modelled(n, batch)) <= limit


def test_dry_run_is_the_real_timeline():
    there, back = forward(real(500, 96))[1], backward(spectra(500, 96), 96)[1]
    assert modelled(96, 500) == (there.total_ns, back.total_ns)


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
