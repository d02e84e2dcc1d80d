"""The DFT-GEMM kernel, run in the simulator and compared with NumPy in float64.

The tests protect right numbers for every length, precision and batch, and for padded and cropped
rows.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nki, nl
from nki_kernels.base.launch import HbmRows
from nki_kernels.fft.dft_gemm import dft_gemm_matrix, dft_gemm_rows
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import near, relative_error, transforms

from .launched import BF16, REFINED, Launched
from .samples import normal

GEMM = Launched("dft_gemm")

# By default those around which rows of a slab, pieces and row tiles change in number.
BORDERS = [*range(1, 18), 20, 21, 31, 32, 33, 42, 43, 60, 63, 64, 65, 66, 85, 97, 127, 128, 129]
BORDERS += [130, 178, 191, 192, 193, 253, 254, 255, 256]


@sweeps.some("n", range(1, 257), BORDERS)
def test_every_length_and_batch_both_ways(n):
    for batch, inverse in ((3, n % 2 == 1), (300, n % 2 == 0)):
        GEMM.check(normal(batch, n), inverse=inverse)


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
