"""Tables of plans that a kernel cannot run are refused, with what is wrong and what is allowed."""

from __future__ import annotations

import math
import re

import pytest

from nki_kernels.convolution.block_circulant import block_circulant_tables
from nki_kernels.convolution.convolution import convolution_tables
from nki_kernels.convolution.image_convolution import column_tables
from nki_kernels.fft.bluestein import bluestein_tables, convolution_lengths
from nki_kernels.fft.butterfly_tables import butterfly_tables
from nki_kernels.fft.dft_gemm import dft_gemm_matrix
from nki_kernels.fft.folded_dft import folded_dft_tables
from nki_kernels.fft.four_step_tables import four_step_tables
from nki_kernels.fft.long_bluestein import long_bluestein_tables
from nki_kernels.fft.split_bluestein import split_bluestein_tables
from nki_kernels.fft.split_four_step import split_four_step_tables
from nki_kernels.fft.stockham import stockham_tables
from nki_kernels.nd.resident_planes import resident_planes_tables
from nki_kernels.nd.resident_volumes import resident_volumes_tables
from nki_kernels.nd.strided_stockham import strided_stockham_tables
from nki_kernels.real.real_dft_gemm import inverse_real_dft_gemm_matrix, real_dft_gemm_matrix
from nki_kernels.real.real_four_step_tables import (
    inverse_real_four_step_tables,
    real_four_step_tables,
)
from nki_kernels.real.real_stockham_tables import (
    inverse_real_stockham_tables,
    real_stockham_tables,
)
from nki_kernels.spectral.real_planes import real_planes_tables

DFT_GEMM = (0, 257, -1, (), (8, 0), (-2, -3), (16, 17))
LENGTHS = {  # lengths out of range, and the message
    convolution_lengths: ((0, -3, 5121), "n = {}.*1 to 5120"),
    dft_gemm_matrix: (DFT_GEMM, "n = {}.*1 to 256"),
    real_dft_gemm_matrix: (DFT_GEMM, "n = {}.*1 to 256"),
    inverse_real_dft_gemm_matrix: (DFT_GEMM, "n = {}.*1 to 256"),
    folded_dft_tables: ((0, 128, 2048), "n = {}.*129 to 2047"),
    butterfly_tables: (
        (0, 1, 3, 96, -2, 32768),
        "n = {}: the butterfly accepts powers .* 2 to 16384",
    ),
    block_circulant_tables: ((0, 257), "k = {}.*1 to 256"),
}
REAL_STOCKHAM = [
    ((12, (3, 5)), r"radices \(3, 5\): must be two with the product n = 12"),
    ((12, (12,)), "must be two with the product n = 12"),
    ((12, (2, 2, 3)), "must be two with the product n = 12"),
    ((12, (12, 1)), "the first must be 2 to 128, the second 2 to 64"),
    ((12, (1, 12)), "the first must be 2 to 128"),
    ((258, (129, 2)), "the first must be 2 to 128"),
    ((130, (2, 65)), "the second 2 to 64"),
]
REAL_FOUR_STEP = [
    ((8192, (64, 64)), r"radices \(64, 64\): there must be two or three"),
    ((128, (128,)), "two or three, with the product n = 128"),
    ((63 * 64, (63, 64)), "the first must be even, 4 to 128"),
    ((130 * 64, (130, 64)), "the first must be even, 4 to 128"),
    ((2 * 64, (2, 64)), "the first must be even, 4 to 128"),
    ((64 * 65, (64, 65)), "the last must be even, 34 to 128"),
    ((64 * 32, (64, 32)), "the last must be even, 34 to 128"),
    ((64 * 65 * 64, (64, 65, 64)), "the middle one must be 1 to 64"),
    ((4 * 2 * 64, (4, 2, 64)), "the first or the middle one is too small"),
]
PLANS = {
    stockham_tables: [
        ((12, (3, 5)), "product must be n = 12"),
        ((12, ()), "product must be n = 12"),
        ((12, (1, 12)), "each must be 2 to 128"),
        ((258, (2, 129)), "each must be 2 to 128"),
        ((16384, (128, 128)), "lengths up to 10240"),
    ],
    bluestein_tables: [
        ((0, 4, (4,)), "n >= 1"),
        ((3, 4, (4,)), "m >= 2 n - 1"),
        ((3, 8, (4,)), "product must be"),
        ((3, 8, (8, 1)), "each must be 2 to 128"),
        ((997, 2049, (3, 683)), "each must be 2 to 128"),
        ((2049, 16384, (128, 128)), "up to 10240"),
    ],
    four_step_tables: [
        ((12, (3, 5)), "product n = 12"),
        ((12, (12,)), "two or more"),
        ((258, (2, 129)), "each must be 2 to 128"),
        ((2**21, (128, 128, 128)), "lengths up to 1048576"),
    ],
    split_four_step_tables: [
        *(
            ((2080, radices), "three or more, with the product n = 2080, and the first")
            for radices in ((130, 4, 4), (40, 52), (2, 3, 7))
        ),
        *(
            ((math.prod(radices), radices), "use another first radix")
            for radices in ((2, 4, 4), (13, 13, 13), (2, 3, 31))
        ),
    ],
    long_bluestein_tables: [
        ((0, (70, 2)), "n >= 1"),
        ((100, (66, 3)), "M = 198 >= 2 n - 1"),
        ((10, (64, 2)), "the first must be 65 to 128"),
    ],
    split_bluestein_tables: [
        ((0, (65, 3, 14)), "n >= 1"),
        ((1366, (65, 3, 14)), "M = 2730 >= 2 n - 1"),
        ((10, (64, 3, 14)), "the first must be 65 to 128"),
        ((10, (65, 3, 10)), "use another first radix"),
    ],
    real_stockham_tables: REAL_STOCKHAM,
    inverse_real_stockham_tables: REAL_STOCKHAM,
    real_four_step_tables: REAL_FOUR_STEP,
    inverse_real_four_step_tables: [
        *REAL_FOUR_STEP,
        ((2048, (32, 64)), r"radices \(32, 64\): the first must be 34 to 128"),
        ((2**20, (128, 64, 128)), "accepts lengths up to 524288"),
    ],
    strided_stockham_tables: [
        ((12, (3, 5)), r"radices \(3, 5\): must be one or two with the product n = 12"),
        ((12, ()), "must be one or two with the product n = 12"),
        ((12, (2, 2, 3)), "must be one or two with the product n = 12"),
        ((12, (12, 1)), r"radices \(12, 1\): each must be 2 to 64"),
        ((65, (65,)), "each must be 2 to 64"),
        ((130, (2, 65)), "each must be 2 to 64"),
    ],
    column_tables: [
        ((12, (3, 5)), r"radices \(3, 5\): must be one or two with the product n = 12"),
        ((12, (12,)), r"radices \(12,\): must be two with the product m = 12"),
        ((12, (2, 2, 3)), "must be two with the product m = 12"),
        ((12, (12, 1)), "each must be 2 to 64"),
        ((130, (65, 2)), "each must be 2 to 64"),
    ],
    convolution_tables: [
        ((8192, (128, 64)), "n = 8192: convolutions in SBUF accept lengths up to 5120"),
        ((12, (3, 5)), "must be two with the product n = 12"),
        ((12, (12,)), "must be two with the product n = 12"),
        ((258, (129, 2)), "the first must be 2 to 128"),
        ((130, (2, 65)), "the second 2 to 64"),
    ],
    resident_planes_tables: [
        ((128, 256), "powers of two from 256 to 4096 as rows"),
        ((300, 256), "powers of two from 256 to 4096 as rows"),
        ((256, 4096), "powers of two from 128 to 2048 as columns"),
        ((2048, 1024), "up to 1048576 points"),
    ],
    resident_volumes_tables: [
        (((64, 64), True), "takes 3 axes, not 2"),
        (((64, 32, 64), True), "takes axes of 64 or 128"),
        (((64, 128, 128), False), "takes up to 8320 outputs"),
    ],
    real_planes_tables: [
        ((65, 66), "the kernel takes 66 rows or more"),
        ((66, 65), "the kernel takes 66 columns or more"),
        ((1024, 66), "takes up to 1022 rows, and up to 511 for odd numbers"),
        ((513, 66), "takes up to 1022 rows, and up to 511 for odd numbers"),
        ((66, 1026), "takes up to 1024 columns, and up to 511 for odd numbers"),
        ((66, 513), "takes up to 1024 columns, and up to 511 for odd numbers"),
    ],
}
REFUSED = [
    *(
        (make, (n,), said.format(re.escape(str(n))))
        for make, (lengths, said) in LENGTHS.items()
        for n in lengths
    ),
    *((make, *plan) for make, plans in PLANS.items() for plan in plans),
]


@pytest.mark.parametrize(("make", "arguments", "message"), REFUSED)
def test_a_plan_that_the_kernel_cannot_run(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(*arguments)


@pytest.mark.parametrize("held", [(6,), (6, 9), (0, 8), (6, 8, 1)])
def test_more_data_than_an_axis_has_is_refused(held):
    for make, name in (
        (dft_gemm_matrix, "data"),
        (real_dft_gemm_matrix, "data"),
        (inverse_real_dft_gemm_matrix, "kept"),
    ):
        with pytest.raises(ValueError, match=rf"{name} = .*: must be sizes from 1 up to \(6, 8\)"):
            make((6, 8), **{name: held})


@pytest.mark.parametrize("n", [1, 12, 8192])
def test_a_length_that_only_compensated_butterflies_refuse(n):
    with pytest.raises(ValueError, match=f"n = {n}: the compensated .* 2 to 4096"):
        butterfly_tables(n, compensated=True)


@pytest.mark.parametrize(("dtype", "refined"), [("float16", False), ("float32", True)])
def test_unknown_precisions_are_refused(dtype, refined):
    with pytest.raises(ValueError, match=f"dtype '{dtype}': use 'float32' or 'bfloat16'"):
        dft_gemm_matrix(8, dtype=dtype, refined=refined)
