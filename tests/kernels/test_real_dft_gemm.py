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
    inverse_real_dft_gemm_matrix,
    inverse_real_dft_gemm_rows,
    real_dft_gemm_matrix,
    real_dft_gemm_rows,
    transforms_per_slab,
)
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps
from tests.tolerances import near, transforms, unit

from .launched import Launched
from .real_launches import BothWays
from .samples import normal, real
from .turns import on_chips


def on(chip="trn1", cores=1):
    return BothWays("real_dft_gemm", chip, cores)


def most_cores(chip):
    return hardware.chip(chip).programs_per_launch


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
    for batch in (2, 300):
        on().check(batch, [n])


@sweeps.some("n", range(1, 257, 3), [1, 4, 31, 64, 127, 130, 256])
def test_the_other_sign_and_a_scale(n):
    there, back = on().kernels
    there.check(real(3, n), [n], inverse=True, scale=1 / n)
    back.check(normal(3, n // 2 + 1), [n], inverse=False, scale=-0.3)


@on_chips("n", [1, 2, 3, 31, 64, 65, 127, 128, 129, 200, 256], ("trn2", "trn3", "trn1"))
def test_every_chip_computes_the_same(strict_chip, n):
    on(strict_chip, most_cores(strict_chip)).check(150, [n])


@pytest.mark.weekly
@sweeps.some(
    "n, chip",
    itertools.product([3, 24, 64, 100, 256], ["trn1", "trn2", "trn3"]),
    [(64, "trn1"), (256, "trn2")],
)
def test_batches_around_the_borders_of_blocks_and_loops(short_loops, chip, n):
    block = 128 * max(1, 1024 // n)
    for batch in (3 * block - 1, 4 * block, 4 * block + 129):
        on(chip, most_cores(chip)).check(batch, [n])


@pytest.mark.weekly
@pytest.mark.parametrize(("chip", "n"), [("trn1", 64), sweeps.whole("trn3", 256)])
def test_any_batch_is_a_launch_of_few_instructions(monkeypatch, chip, n):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", launch.LAUNCH_INSTRUCTIONS)
    batch = hardware.HBM_TENSOR_BYTES // 4 // n
    assert min(on(chip, most_cores(chip)).dry_times(batch, [n])) > 1e6


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
def test_two_programs_take_half_the_time_or_what_hbm_allows(chip):
    n = 128
    hbm = 2**21 * 8 / hardware.chip(chip).hbm_stack_bytes_per_ns
    one, two = (on(chip, cores).dry_times(2**21 // n, [n]) for cores in (1, 2))
    assert max(two) <= max(0.58 * min(one), 1.28 * hbm)


@on_chips("n", [7, 24, 60, 100, 200], ("trn1", "trn2", "trn3"), also=[("trn1", 24), ("trn1", 60)])
def test_rows_are_independent(strict_chip, n):
    on(strict_chip).check_independent(140, [n])


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


@pytest.mark.usefixtures("short_loops")
@on_chips(
    "n, held, kept", [(12, 5, 3), (12, 1, 6), (60, 31, 29), (200, 80, 7)], ("trn1", "trn2", "trn3")
)
def test_short_rows_are_padded_and_results_cropped(strict_chip, n, held, kept):
    batch, cores = 3 * 128 * max(1, 1024 // n) + 5, most_cores(strict_chip)
    x, z = real(batch, held), normal(batch, n // 2 + 1).astype(np.complex64)
    parts = np.ascontiguousarray(z.real), np.ascontiguousarray(z.imag)
    re, im = nki_sim.simulate(padded)[cores](x, real_dft_gemm_matrix(n), n, kept)
    near(re + 1j * im, np.fft.rfft(x.astype(float), n)[:, :kept], transforms(n))
    matrix = inverse_real_dft_gemm_matrix(n)
    y = nki_sim.simulate(cropped)[cores](*parts, matrix, n, held, kept)
    z[:, held:] = 0
    near(y, n * np.fft.irfft(z.astype(complex), n)[:, :kept], transforms(n))


@pytest.mark.parametrize(
    ("n", "batch"),
    [(1, 40000), sweeps.whole(2, 20001), sweeps.whole(5, 9001), (60, 2500), sweeps.whole(99, 1153)],
)
def test_large_ragged_batches(n, batch):
    on().check(batch, [n])


@pytest.mark.parametrize("n", [1, 2, 3, 8, 63, 127, 128, 129, 256])
def test_imaginary_parts_that_real_data_has_not_are_ignored(n):
    on().check_ignores([n])


@sweeps.some(
    "n, chip",
    itertools.product([64, 128, 256], ["trn1", "trn2", "trn3"]),
    [(128, "trn2"), (256, "trn2")],
)
def test_modelled_time_is_little_over_half_of_a_complex_transforms(chip, n):
    batch = 2**20 // n
    # At 64 points descriptors bind on trn3, and setting rows aside does on trn1.
    most = {256: 0.62, 128: 0.7, 64: 0.65 if chip == "trn2" else 0.75}[n]
    limit = most * Launched("dft_gemm", chip).dry_run((batch, n)).total_ns
    assert max(on(chip).dry_times(batch, [n])) <= limit


def test_dry_run_is_the_real_timeline():
    assert on().dry_times(500, [96]) == on().times(500, [96])


def test_matrices_are_the_dft_on_the_diagonal():
    n = 12
    copies = transforms_per_slab(n)
    assert copies == 10
    w = 0.5 * np.fft.rfft(np.eye(n))
    matrix = real_dft_gemm_matrix(n, scale=0.5)
    one = np.hstack([w.real, w.imag])
    near(matrix, np.kron(np.eye(copies), one), unit("float32"))
    # Backward the Nyquist number takes the place of the imaginary part of X[0].
    half = np.vstack([np.eye(7)[:6], np.eye(7)[6], 1j * np.eye(7)[1:6]])
    one = 0.5 * n * np.fft.irfft(half, n)
    matrix = inverse_real_dft_gemm_matrix(n, scale=0.5)
    near(matrix, np.kron(np.eye(copies), one), unit("float32"))


@pytest.mark.parametrize("make", [real_dft_gemm_matrix, inverse_real_dft_gemm_matrix])
@pytest.mark.parametrize("n", [0, 257, -1])
def test_lengths_out_of_range_are_refused(make, n):
    with pytest.raises(ValueError, match=f"n = {n}.*1 to 256"):
        make(n)
