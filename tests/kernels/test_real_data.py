"""The kernels of real data and their inverses, simulated and compared with NumPy in float64.

The tests protect right numbers for every length or radices, batch and chip, in both directions,
with either sign and any scale, and for padded and cropped rows.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nki, nl
from nki_kernels.base.launch import HbmRows
from nki_kernels.fft.dft_gemm import dft_gemm_rows
from nki_kernels.real.real_dft_gemm import (
    inverse_real_dft_gemm_matrix,
    real_dft_gemm_matrix,
)
from nki_kernels.real.real_four_step_tables import MAX_INVERSE_LENGTH
from nki_sim import hardware
from tests import sweeps
from tests.tolerances import near, transforms

from .real_launches import BothWays
from .samples import fits, normal, real
from .turns import on_chips

GEMM = BothWays("real_dft_gemm")
STOCKHAM = BothWays("real_stockham")
FOUR_STEP = BothWays("real_four_step")

# Lengths around which rows of a slab, pieces and row tiles change in number.
BORDERS = [*range(1, 18), 20, 21, 31, 32, 33, 42, 43, 60, 63, 64, 65, 66, 85, 97, 127, 128, 129]
BORDERS += [130, 178, 191, 192, 193, 253, 254, 255, 256]


@sweeps.some("n", range(1, 257), BORDERS)
def test_every_length_of_dft_gemm(n):
    for batch in (2, 300):
        GEMM.check(batch, [n])


SMALL = list(itertools.product((2, 3, 4, 5, 8, 15), repeat=2))
FEW = [*itertools.product((2, 3, 8), repeat=2), (4, 5), (15, 4)]
# Extremes of either radix, odd and even, and what 64 and 128 numbers a product leave unused.
LARGE_FEW = [(2, 64), (33, 2), (127, 3), (32, 32), (43, 22), (65, 33), (128, 64)]
LARGE = [(2, 63), (3, 64), (128, 2), (127, 2), (16, 16), (8, 32), (64, 32), (21, 21)]
LARGE += [(50, 60), (64, 64), (127, 61)]


@sweeps.some("radices", SMALL + LARGE_FEW + LARGE, FEW + LARGE_FEW).with_args(ids=str)
def test_radices_of_stockham(radices):
    n = math.prod(radices)
    for batch in (2, 300) if n < 300 else (130,) if n < 4000 else (3,):
        STOCKHAM.check(batch, radices)


SEVERAL = [(GEMM, (n,), batch) for n, batch in ((1, 40000), (2, 20001), (5, 9001), (60, 2500))]
SEVERAL += [(GEMM, (99,), 1153)]
SEVERAL += [
    (STOCKHAM, radices, batch)
    for radices in ((2, 2), (5, 3), (8, 15), (15, 8), (32, 30))
    for batch in (257, 1500)
]


@sweeps.some("both, radices, batch", SEVERAL, [SEVERAL[0], SEVERAL[3], *SEVERAL[5:11]]).with_args(
    ids=str
)
def test_several_transforms_a_partition(both, radices, batch):
    both.check(batch, radices)


# Two radices and three; an odd number of slots and one between; slots that nobody reads; a row in
# several parts, in loads and in what is closed at once.
THERE = [(4, 34), (4, 64), (22, 38), (4, 9, 34), (16, 4, 40), (10, 7, 36), (6, 64, 34)]
THERE += [(26, 33, 50)]
BOTH = [(98, 66), (128, 128), (100, 3, 100), (128, 10, 34), (128, 17, 128)]
BACK = [(34, 34), (34, 5, 36), (36, 64, 34)]  # whose first radix is larger


@on_chips(
    "place, radices",
    [*((0, each) for each in THERE + BOTH), *((1, each) for each in BOTH + BACK)],
    ("trn1", "trn2"),
    also=[("trn2", 0, (4, 34)), ("trn1", 0, (4, 9, 34))],
)
def test_radices_of_four_step(strict_chip, place, radices):
    n = math.prod(radices)
    kernel = BothWays("real_four_step", strict_chip).kernels[place]
    for batch in (3,) if n > 10000 else (1, 37):
        kernel.check(normal(batch, n // 2 + 1) if place else real(batch, n), radices)


SCALED = [(GEMM, (n,)) for n in range(1, 257, 3)]
SCALED += [(STOCKHAM, radices) for radices in (*SMALL, (16, 20), (43, 22), (50, 60))]
SCALED += [(FOUR_STEP, radices) for radices in ((34, 38), (36, 4, 40))]
SCALED_FEW = [(GEMM, (n,)) for n in (1, 4, 31, 64, 127, 130, 256)]
SCALED_FEW += [(STOCKHAM, radices) for radices in ((2, 2), (3, 8), (5, 2), (16, 20))]
SCALED_FEW += SCALED[-2:]


@sweeps.some("both, radices", SCALED, SCALED_FEW).with_args(ids=str)
def test_the_other_sign_and_a_scale(both, radices):
    there, back = both.kernels
    n = math.prod(radices)
    there.check(real(3, n), radices, inverse=True, scale=1 / n)
    back.check(normal(3, n // 2 + 1), radices, inverse=False, scale=-0.3)


@pytest.mark.parametrize(
    ("both", "radices"),
    [
        *((GEMM, (n,)) for n in (1, 2, 3, 8, 63, 127, 128, 129, 256)),
        *((STOCKHAM, each) for each in ((2, 2), (2, 5), (5, 2), (4, 6), (7, 9), (64, 3))),
        (FOUR_STEP, (34, 38)),
        (FOUR_STEP, (36, 4, 40)),
    ],
    ids=str,
)
def test_imaginary_parts_that_real_data_has_not_are_ignored(both, radices):
    both.check_ignores(radices)


@pytest.mark.parametrize("radices", [(34, 38), (36, 4, 40)], ids=str)
def test_imaginary_parts_that_real_data_has_not_are_zero(radices):
    result, _, _ = FOUR_STEP.kernels[0].transform(real(3, math.prod(radices)), radices)
    np.testing.assert_array_equal(result[:, [0, -1]].imag, 0)


LONGEST = [("real_stockham", 300, radices) for radices in ((128, 64), (127, 64), (2, 64))]
LONGEST += [
    ("real_four_step", 3, radices)
    for radices in ((128, 64, 128), (128, 32, 128), (34, 64, 34), (128, 2, 34))
]


@on_chips(
    "algorithm, batch, radices",
    LONGEST,
    whole=[
        ("real_stockham", 300, (128, 63)),
        ("real_stockham", 300, (128, 2)),
        ("real_four_step", 3, (64, 64, 128)),
    ],
)
def test_the_longest_transforms_fit(strict_chip, algorithm, batch, radices):
    shape = batch, math.prod(radices)
    kernels = BothWays(algorithm, strict_chip).kernels
    for kernel in kernels if shape[1] <= MAX_INVERSE_LENGTH else kernels[:1]:
        assert fits(kernel.dry_run(shape, radices))


@nki.jit
def padded(x, matrix, n, kept):
    """The first ``kept`` numbers of half spectra of rows and zeros, N numbers together."""
    source = HbmRows(x, x.shape[1])
    y_re = nl.ndarray((x.shape[0], kept), dtype=nl.float32, buffer=nl.shared_hbm)
    y_im = nl.ndarray((x.shape[0], kept), dtype=nl.float32, buffer=nl.shared_hbm)
    dft_gemm_rows([source], [HbmRows(y_re, kept), HbmRows(y_im, kept)], n, matrix)
    return y_re, y_im


@nki.jit
def cropped(x_re, x_im, matrix, n, held, kept):
    """The first ``kept`` numbers of rows of N from ``held`` numbers of their half spectra."""
    y = nl.ndarray((x_re.shape[0], kept), dtype=nl.float32, buffer=nl.shared_hbm)
    source = [HbmRows(x_re, held), HbmRows(x_im, held)]
    dft_gemm_rows(source, [HbmRows(y, kept)], n, matrix)
    return y


@pytest.mark.usefixtures("short_loops")
@on_chips(
    "n, held, kept", [(12, 5, 3), (12, 1, 6), (60, 31, 29), (200, 80, 7)], ("trn1", "trn2", "trn3")
)
def test_short_rows_are_padded_and_results_cropped(strict_chip, n, held, kept):
    batch = 3 * 128 * max(1, 1024 // n) + 5
    cores = hardware.chip(strict_chip).programs_per_launch
    x, z = real(batch, held), normal(batch, n // 2 + 1).astype(np.complex64)
    parts = np.ascontiguousarray(z.real), np.ascontiguousarray(z.imag)
    re, im = nki_sim.simulate(padded)[cores](x, real_dft_gemm_matrix(n), n, kept)
    near(re + 1j * im, np.fft.rfft(x.astype(float), n)[:, :kept], transforms(n))
    matrix = inverse_real_dft_gemm_matrix(n)
    y = nki_sim.simulate(cropped)[cores](*parts, matrix, n, held, kept)
    z[:, held:] = 0
    near(y, n * np.fft.irfft(z.astype(complex), n)[:, :kept], transforms(n))
