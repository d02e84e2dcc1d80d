"""Wrong arguments of kernels: the error names the argument, its value and what is allowed."""

from __future__ import annotations

import numpy as np
import pytest

import nki_sim
from nki_kernels.base.packing import pack
from nki_kernels.convolution.block_circulant import block_circulant
from nki_kernels.fft.bluestein import bluestein, bluestein_tables
from nki_kernels.fft.dft_gemm import dft_gemm, dft_gemm_matrix
from nki_kernels.fft.split_bluestein import split_bluestein
from nki_kernels.fft.stockham import stockham, stockham_tables
from nki_kernels.nd.axes import STOCKHAM, transform_axes
from nki_kernels.nd.strided_stockham import strided_stockham, strided_stockham_tables
from nki_kernels.real.real_dft_gemm import (
    inverse_real_dft_gemm,
    inverse_real_dft_gemm_matrix,
    real_dft_gemm,
    real_dft_gemm_matrix,
)
from nki_kernels.real.real_stockham import inverse_real_stockham
from nki_kernels.real.real_stockham_tables import real_stockham_tables
from nki_kernels.spectral.frames import frame_spectra
from nki_kernels.spectral.real_planes import real_planes
from nki_kernels.spectral.spectral_convolution import spectral_convolution

X = np.zeros((2, 6), np.float32)
CUBE = np.zeros((2, 6, 3), np.float32)
WIDE = np.zeros((2, 200), np.float32)
TABLE = dft_gemm_matrix(6)  # [120, 120]: ten copies of [12, 12]
TABLES, PLACES = pack(stockham_tables(6, (2, 3)))
CHIRP = pack(bluestein_tables(6, 12, (3, 4)))
COLUMNS = pack(strided_stockham_tables(6, (2, 3)))
REAL = pack(real_stockham_tables(6, (3, 2)))

WRONG = {
    "short table": (dft_gemm, (X, X, TABLE[:11]), "'matrix' has shape (11, 120), allowed"),
    "narrow table": (dft_gemm, (X, X, TABLE[:, :60]), "(12 g, 12 g) with g up to 10"),
    "table of another length": (dft_gemm, (X, X, dft_gemm_matrix(7)), "'matrix' has shape (126, "),
    "long table": (dft_gemm, (WIDE, WIDE, TABLE), "(400 g, 400 g) with g up to 1, or a pair"),
    "three tables": (dft_gemm, (X, X, np.stack([TABLE] * 3)), "'matrix' has shape (3, 120, 120)"),
    "flat table": (dft_gemm, (X, X, TABLE.reshape(-1)), "'matrix' has shape (14400,)"),
    "real table": (real_dft_gemm, (X, real_dft_gemm_matrix(4)), "is (6 g, 8 g) with g up to 21"),
    "flat rows": (dft_gemm, (X[0], X[0], TABLE), "'x_re' has shape (6,), allowed is [B, N]"),
    "other part": (dft_gemm, (X, X[:1], TABLE), "'x_im' has shape (1, 6), allowed is [B, N], the"),
    "other axes": (dft_gemm, (CUBE, CUBE, TABLE), "(36 g, 36 g) with g up to 3, or a pair"),
    "another plane": (dft_gemm, (CUBE, CUBE[0], TABLE), "has shape (6, 3), allowed is [B, n1, n2]"),
    "fewer lengths": (
        dft_gemm,
        (CUBE, CUBE, dft_gemm_matrix((6, 3)), (18,)),
        "'lengths' is (18,), allowed is a tuple of a positive int for each of 2 axes",
    ),
    "a length of 0": (
        real_dft_gemm,
        (CUBE, real_dft_gemm_matrix((6, 3)), (6, 0)),
        "is (6, 0), all",
    ),
    "lengths that are more": (
        real_dft_gemm,
        (CUBE, real_dft_gemm_matrix((6, 3)), (6, 5)),
        "is (18 g, 36 g) with g up to 7",
    ),
    "fewer results": (
        inverse_real_dft_gemm,
        (CUBE, CUBE, inverse_real_dft_gemm_matrix((6, 4)), (24,)),
        "'n' is (24,), allowed is a tuple of a positive int for each of 2 axes",
    ),
    "radices of 0": (stockham, (X, X, TABLES, PLACES, (0, 3)), "'radices' is (0, 3), allowed is"),
    "no radices": (stockham, (X, X, TABLES, PLACES, ()), "'radices' is (), allowed is a tuple"),
    "other radices": (stockham, (X, X, TABLES, PLACES, (2, 5)), "product is 10, but the rows have"),
    "a place": (stockham, (X, X, TABLES, 3, (2, 3)), "argument 'places' is 3, allowed are"),
    "fewer places": (stockham, (X, X, TABLES, PLACES[:1], (2, 3)), "has 1 tables, allowed are 2"),
    "no places": (stockham, (X, X, TABLES, None, (2, 3)), "'places' is None, allowed are 1 or"),
    "a shape": (
        stockham,
        (X, X, TABLES, ((0, (0, 3), 3),), (2, 3)),
        "contains (0, (0, 3), 3), all",
    ),
    "a pitch": (stockham, (X, X, TABLES, ((0, (4, 4), 0),), (2, 3)), "of offset, shape and pitch"),
    "no tables": (stockham, (X, X, None, PLACES, (2, 3)), "argument 'tables' is None, allowed is"),
    "chirp": (bluestein, (X, X, *CHIRP, (2, 3)), "of length 6 are products of at least 11"),
    "columns": (strided_stockham, (X, X, *COLUMNS, (2, 3)), "(2, 6), allowed is [A, N, C]"),
    "three radices": (strided_stockham, (CUBE, CUBE, *COLUMNS, (1, 2, 3)), "are one or two up to"),
    "huge radices": (split_bluestein, (X, X, *CHIRP, (10**6, 8, 8)), "positive ints up to 128"),
    "no passes": (transform_axes, (CUBE, CUBE, *COLUMNS, None), "'passes' has None, allowed are"),
    "an axis": (
        transform_axes,
        (CUBE, CUBE, *COLUMNS, ((STOCKHAM, 3, 6, 6, (2, 3)),)),
        "axis from 1 to 2",
    ),
    "flat planes": (real_planes, (X, *COLUMNS), "'x' has shape (2, 6), allowed is [B, S, H]"),
    "a layout": (
        block_circulant,
        (CUBE, CUBE, CUBE[:1], *COLUMNS, (0, 4, 1, 1, 1)),
        "'layout' is (0, 4, 1, 1, 1), allowed for a weight of 2 x 6 blocks of 3",
    ),
    "a layer": (
        spectral_convolution,
        (CUBE, CUBE, CUBE, *COLUMNS, ((6,), (7,), False, False)),
        "allowed are counts up to the lengths (6,)",
    ),
    "one radix": (inverse_real_stockham, (X, X, *REAL, (6,)), "allowed are two positive ints"),
    "samples": (frame_spectra, (X[:1, :2], X[:1], *REAL, (3, 2)), "allowed are at least 6 samples"),
}


@pytest.mark.parametrize(("kernel", "arguments", "said"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_named(kernel, arguments, said):
    with pytest.raises((TypeError, ValueError)) as caught:
        nki_sim.simulate(kernel)(*arguments)
    text = str(caught.value)
    assert text.startswith("argument '") and said in text
