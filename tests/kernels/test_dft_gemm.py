"""The DFT-GEMM kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for every length, precision, batch and chip, also in loops, and for
padded and cropped rows. Rows must not mix. Times must stay near the DMA floor, and instructions
few.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nki_sim
from nki_kernels import launch
from nki_kernels.fft.dft_gemm import (
    dft_gemm,
    dft_gemm_matrix,
    dft_gemm_rows,
    transforms_per_slab,
)
from nki_kernels.isa import nki, nl
from nki_kernels.launch import HbmRows
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps

from .independence import check_rows_are_independent
from .samples import error, normal

# Table options, and bounds of the relative L2 error.
BF16 = ({"dtype": "bfloat16"}, 1e-3, 5e-3)
REFINED = ({"dtype": "bfloat16", "refined": True}, 1e-6, 1e-5)
PRECISIONS = pytest.mark.parametrize(
    ("options", "least", "most"), [BF16, REFINED], ids=["bf16", "refined"]
)

# Kernels know two kinds of chips: trn1, whose transposes mix rows, and the later ones.
CHIPS = pytest.mark.parametrize("chip", ["trn1", "trn2", sweeps.whole("trn3")])


def transform(x, inverse=False, programs=1, **options):
    """Result, timeline and float64 reference of one launch on the rows of complex ``x``."""
    re, im = x.real.astype(np.float32), x.imag.astype(np.float32)
    n = x.shape[-1]
    matrix = dft_gemm_matrix(n, inverse, 1 / n if inverse else 1.0, **options)
    with nki_sim.strict(), nki_sim.record() as timeline:
        y_re, y_im = nki_sim.simulate(dft_gemm)[programs](re, im, matrix)
    exact = re + 1j * im.astype(np.float64)
    return y_re + 1j * y_im.astype(np.float64), timeline, exact


# By default those around which rows of a slab, pieces and row tiles change in number.
BORDERS = [*range(1, 18), 20, 21, 31, 32, 33, 42, 43, 60, 63, 64, 65, 66, 85, 97, 127, 128, 129]
BORDERS += [130, 178, 191, 192, 193, 253, 254, 255, 256]


@sweeps.some("n", range(1, 257), BORDERS)
def test_every_length_and_batch_both_ways(n):
    for batch in (1, 3, 128, 300):
        forward, timeline, x = transform(normal(batch, n))
        assert timeline.launches == 1
        assert error(forward, np.fft.fft(x)) <= 5e-7
        backward, timeline, x = transform(normal(batch, n), inverse=True)
        assert timeline.launches == 1
        assert error(backward, np.fft.ifft(x)) <= 5e-7


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("n", [1, 3, 31, 64, 65, 128, 129, 200, 256])
def test_other_chips_compute_the_same(monkeypatch, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    for batch, programs in ((1, 2), (150, 1), (151, 2)):
        result, _, x = transform(normal(batch, n), programs=programs)
        assert error(result, np.fft.fft(x)) <= 5e-7


@sweeps.some(
    "n, chip",
    itertools.product([3, 24, 64, 100, 256], hardware.NAMES),
    [(3, "trn1"), (24, "trn1"), (24, "trn2"), (64, "trn1"), (100, "trn2"), (256, "trn2")],
)
def test_batches_around_the_borders_of_blocks_and_loops(monkeypatch, short_loops, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    block = 128 * max(1, 512 // n)
    for batch in (4 * block - 1, 4 * block, 5 * block + 129):
        for programs in range(1, hardware.chip(chip).programs_per_launch + 1):
            result, _, x = transform(normal(batch, n), programs=programs)
            assert error(result, np.fft.fft(x)) <= 5e-7


@pytest.mark.parametrize(("chip", "n"), [("trn1", 4), ("trn2", 64), sweeps.whole("trn3", 256)])
def test_any_batch_is_a_launch_of_few_instructions(monkeypatch, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", launch.LAUNCH_INSTRUCTIONS)
    spec = ((hardware.HBM_TENSOR_BYTES // 4 // n, n), "float32")
    programs = hardware.chip(chip).programs_per_launch
    with nki_sim.strict():
        timeline = nki_sim.dry_run(dft_gemm[programs], spec, spec, dft_gemm_matrix(n))
    assert timeline.instructions > launch.LAUNCH_INSTRUCTIONS  # with those of all iterations


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("n", [16, 64, 128])
def test_two_programs_take_half_the_time_or_what_hbm_allows(monkeypatch, chip, n):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    spec, matrix = ((2**21 // n, n), "float32"), dft_gemm_matrix(n)
    once, twice = (nki_sim.dry_run(dft_gemm[k], spec, spec, matrix).total_ns for k in (1, 2))
    hbm = 2**21 * 16 / hardware.chip(chip).hbm_stack_bytes_per_ns
    assert twice <= max(0.58 * once, 1.1 * hbm)


@CHIPS
@pytest.mark.parametrize(
    ("n", "options", "tolerance"),
    [
        (5, {}, 5e-7),
        (24, {}, 5e-7),
        (60, {}, 5e-7),
        (100, {}, 5e-7),
        (200, {}, 5e-7),
        (24, *BF16[::2]),
        (60, *REFINED[::2]),
    ],
)
def test_rows_are_independent(monkeypatch, chip, n, options, tolerance):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    x = normal(140, n).astype(np.complex64)

    def run(rows):
        with np.errstate(all="ignore"):
            return transform(rows, **options)[0]

    check_rows_are_independent(run, x, np.fft.fft(x.astype(complex)), 2 * tolerance)


@nki.jit
def cropped(x_re, x_im, matrix, n, held, kept):
    """The first ``kept`` numbers of transforms of the first ``held`` of rows, and zeros."""
    source, target, results = [], [], []
    for x in (x_re, x_im):
        y = nl.ndarray((x.shape[0], kept), dtype=nl.float32, buffer=nl.shared_hbm)
        source.append(HbmRows(x, held))
        target.append(HbmRows(y, kept))
        results.append(y)
    dft_gemm_rows(source, target, n, matrix)
    return results[0], results[1]


@CHIPS
@pytest.mark.parametrize("programs", [1, 2])
@pytest.mark.parametrize(
    ("n", "held", "kept"), [(12, 5, 12), (12, 12, 1), (60, 31, 59), (200, 150, 3), (200, 1, 200)]
)
def test_short_rows_are_padded_and_results_cropped(
    monkeypatch, short_loops, chip, programs, n, held, kept
):
    if programs > hardware.chip(chip).programs_per_launch:
        pytest.skip("one program a launch")
    monkeypatch.setenv(hardware.TARGET_VARIABLE, chip)
    batch = 3 * 128 * max(1, 512 // n) + 5
    x = normal(batch, n).astype(np.complex64)
    with nki_sim.strict():
        y_re, y_im = nki_sim.simulate(cropped)[programs](
            np.ascontiguousarray(x.real),
            np.ascontiguousarray(x.imag),
            dft_gemm_matrix(n),
            n,
            held,
            kept,
        )
    exact = np.fft.fft(x[:, :held].astype(complex), n)[:, :kept]
    assert error(y_re + 1j * y_im, exact) <= 6e-7


@pytest.mark.parametrize(("n", "batch"), [(1, 70000), (5, 9001), (60, 2500), (100, 1153)])
def test_large_ragged_batches(n, batch):
    result, _, x = transform(normal(batch, n))
    assert error(result, np.fft.fft(x)) <= 5e-7


@PRECISIONS
@CHIPS
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
        return nki_sim.dry_run(dft_gemm, spec, spec, dft_gemm_matrix(256, **options)).total_ns

    exact, refined, coarse = modelled(), modelled(**REFINED[0]), modelled(**BF16[0])
    assert coarse < refined < 0.9 * exact
    assert coarse <= 1.3 * hardware.chip("trn1").dma_floor_ns(4096 * 256)


def test_dry_run_is_the_real_timeline():
    _, timeline, _ = transform(normal(500, 96))
    spec, matrix = ((500, 96), "float32"), dft_gemm_matrix(96)
    assert nki_sim.dry_run(dft_gemm, spec, spec, matrix).total_ns == timeline.total_ns


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
    with pytest.raises(ValueError, match=f"dtype '{dtype}': use 'float32' or 'bfloat16'"):
        dft_gemm_matrix(8, dtype=dtype, refined=refined)


@pytest.mark.parametrize("n", [0, 257, -1])
def test_lengths_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match=f"n = {n}.*1 to 256"):
        dft_gemm_matrix(n)
