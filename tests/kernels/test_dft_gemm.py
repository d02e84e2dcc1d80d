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
from nki_kernels.fft.dft_gemm import dft_gemm_matrix, dft_gemm_rows, transforms_per_slab
from nki_kernels.isa import nki, nl
from nki_kernels.launch import HbmRows
from nki_sim import hardware
from nki_sim.rules import device_rules
from tests import sweeps
from tests.tolerances import near, relative_error, transforms, unit

from .launched import BF16, ON_CHIPS, REFINED, Launched
from .samples import normal

GEMM = Launched("dft_gemm")

# By default those around which rows of a slab, pieces and row tiles change in number.
BORDERS = [*range(1, 18), 20, 21, 31, 32, 33, 42, 43, 60, 63, 64, 65, 66, 85, 97, 127, 128, 129]
BORDERS += [130, 178, 191, 192, 193, 253, 254, 255, 256]


@sweeps.some("n", range(1, 257), BORDERS)
def test_every_length_and_batch_both_ways(n):
    for batch, inverse in ((3, n % 2 == 1), (300, n % 2 == 0)):
        GEMM.check(normal(batch, n), inverse=inverse)


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("n", [1, 3, 31, 64, 65, 128, 129, 200, 256])
def test_other_chips_compute_the_same(chip, n):
    for batch, cores in ((1, 2), (150, 1), (151, 2)):
        Launched("dft_gemm", chip, cores).check(normal(batch, n))


@sweeps.some(
    "n, chip",
    itertools.product([3, 24, 64, 100, 256], hardware.NAMES),
    [(3, "trn1"), (24, "trn2"), (64, "trn1"), (100, "trn2"), (256, "trn1")],
)
def test_batches_around_the_borders_of_blocks_and_loops(short_loops, chip, n):
    block = 128 * max(1, 512 // n)
    cores = hardware.chip(chip).programs_per_launch
    for batch in (4 * block - 1, 5 * block + 129):
        Launched("dft_gemm", chip, cores).check(normal(batch, n))


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("chip", "n"), [("trn1", 4), sweeps.whole("trn2", 64), sweeps.whole("trn3", 256)]
)
def test_any_batch_is_a_launch_of_few_instructions(monkeypatch, chip, n):
    monkeypatch.setattr(device_rules, "MANY_INSTRUCTIONS", launch.LAUNCH_INSTRUCTIONS)
    cores = hardware.chip(chip).programs_per_launch
    shape = hardware.HBM_TENSOR_BYTES // 4 // n, n
    timeline = Launched("dft_gemm", chip, cores).dry_run(shape)
    assert timeline.instructions > launch.LAUNCH_INSTRUCTIONS  # with those of all iterations


@pytest.mark.parametrize("chip", ["trn2", sweeps.whole("trn3")])
@pytest.mark.parametrize("n", [16, 64, 128])
def test_two_programs_take_half_the_time_or_what_hbm_allows(chip, n):
    once, twice = (
        Launched("dft_gemm", chip, cores).dry_run((2**21 // n, n)).total_ns for cores in (1, 2)
    )
    hbm = 2**21 * 16 / hardware.chip(chip).hbm_stack_bytes_per_ns
    assert twice <= max(0.58 * once, 1.1 * hbm)


@ON_CHIPS
@pytest.mark.parametrize(
    ("n", "options"),
    [*((n, {}) for n in (5, 24, 60, 100, 200)), (24, BF16), (60, REFINED)],
    ids=str,
)
def test_rows_are_independent(chip, n, options):
    Launched("dft_gemm", chip).check_independent(normal(140, n), **options)


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


@sweeps.some(
    "chip, cores",
    [("trn1", 1), ("trn2", 1), ("trn2", 2), ("trn3", 1), ("trn3", 2)],
    [("trn1", 1), ("trn2", 2)],
)
@pytest.mark.parametrize(
    ("n", "held", "kept"), [(12, 5, 12), (12, 12, 1), (60, 31, 59), (200, 150, 3), (200, 1, 200)]
)
def test_short_rows_are_padded_and_results_cropped(short_loops, chip, cores, n, held, kept):
    batch = 3 * 128 * max(1, 512 // n) + 5
    x = normal(batch, n).astype(np.complex64)
    parts = np.ascontiguousarray(x.real), np.ascontiguousarray(x.imag)
    with hardware.select(hardware.chip(chip)), nki_sim.strict():
        y_re, y_im = nki_sim.simulate(cropped)[cores](*parts, dft_gemm_matrix(n), n, held, kept)
    exact = np.fft.fft(x[:, :held].astype(complex), n)[:, :kept]
    near(y_re + 1j * y_im, exact, transforms(n))


@pytest.mark.parametrize(("n", "batch"), [(1, 70000), (5, 9001), (60, 2500), (100, 1153)])
def test_large_ragged_batches(n, batch):
    GEMM.check(normal(batch, n))


LENGTHS = [1, 2, 3, 31, 64, 65, 128, 129, 200, 256]


# By turns on one chip or the other.
@sweeps.some(
    "n, chip",
    itertools.product(LENGTHS, hardware.NAMES),
    [(n, hardware.NAMES[place % 2]) for place, n in enumerate(LENGTHS)] + [(65, "trn1")],
)
@pytest.mark.parametrize("options", [BF16, REFINED], ids=["bf16", "refined"])
def test_bfloat16_on_every_chip(chip, n, options):
    for batch, inverse in ((1, False), (150, True)):
        Launched("dft_gemm", chip).check(normal(batch, n), inverse=inverse, **options)


@pytest.mark.parametrize(
    ("options", "finer"), [(BF16, REFINED), (REFINED, {})], ids=["bf16", "refined"]
)
def test_bfloat16_large_ragged_batch(options, finer):
    """Products have the precision of their matrix, and no higher one."""
    result, _, exact = GEMM.transform(normal(2500, 60), **options)
    near(result, exact, GEMM.tolerance(60, **options))
    error = relative_error(result, exact)
    assert error > 2 * GEMM.tolerance(60, **finer)


def test_modelled_time_is_near_the_dma_floor():
    timeline = GEMM.dry_run((8192, 128))
    assert timeline.total_ns <= 1.4 * hardware.TRN1.dma_floor_ns(8192 * 128)


def test_bfloat16_is_faster_where_the_tensor_engine_binds():
    exact, refined, coarse = (
        GEMM.dry_run((4096, 256), **options).total_ns for options in ({}, REFINED, BF16)
    )
    assert coarse < refined < 0.9 * exact
    assert coarse <= 1.3 * hardware.TRN1.dma_floor_ns(4096 * 256)


def test_matrix_is_the_split_dft_on_the_diagonal():
    n = 12
    copies = transforms_per_slab(n)
    matrix = dft_gemm_matrix(n, scale=0.5)
    w = 0.5 * np.fft.fft(np.eye(n))
    one = np.block([[w.real, w.imag], [-w.imag, w.real]])
    near(matrix, np.kron(np.eye(copies), one), unit("float32"))


def test_a_refined_matrix_adds_up():
    high, low = dft_gemm_matrix(12, **REFINED).astype(np.float64)
    np.testing.assert_array_equal(high, dft_gemm_matrix(12, **BF16).astype(np.float64))
    near(high + low, dft_gemm_matrix(12), unit("bfloat16") ** 2)


@pytest.mark.parametrize(("dtype", "refined"), [("float16", False), ("float32", True)])
def test_unknown_precisions_are_refused(dtype, refined):
    with pytest.raises(ValueError, match=f"dtype '{dtype}': use 'float32' or 'bfloat16'"):
        dft_gemm_matrix(8, dtype=dtype, refined=refined)


@pytest.mark.parametrize("n", [0, 257, -1])
def test_lengths_out_of_range_are_refused(n):
    with pytest.raises(ValueError, match=f"n = {n}.*1 to 256"):
        dft_gemm_matrix(n)
