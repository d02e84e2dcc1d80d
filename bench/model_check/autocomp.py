"""Kernels that Autocomp's search produced on trn1: their times, and how they are modelled.

`autocomp_kernels` rebuilds them. Each kernel is one candidate of a trace, which has its code and
its time. The times are 99th percentiles on the NeuronCore, without what the host does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.model_check import autocomp_kernels as kernels
from bench.model_check.measured import Group, Measured, Value
from bench.model_check.modelled_launch import continued, spec, total_us

AUTOCOMP = Group(
    "Autocomp, trn1", "matmul and attention in bfloat16, convolutions and Mamba in float32"
)

_COMMIT = "github.com/ucb-bar/autocomp dd26a565 (2026-06-29), examples"
_GEMM = f"{_COMMIT}/trn-tutorial/2_gemm_trace.py"
_CONVOLUTION = f"{_COMMIT}/trn-advanced/4_conv1d_trace.py"
_MAMBA = f"{_COMMIT}/trn-tutorial/3_mamba_trace.py, candidate 3"
_ATTENTION = f"{_COMMIT}/trn-tutorial/4_attention_trace.py, candidate 9"

M, K, N = 4096, 8192, 8192  # of the matrix products
IMAGES, CHANNELS, WIDTH, TAPS, PADDING = 8, 512, 2048, 3, 1  # of the convolutions
STATES = 16  # of the Mamba layer


def matmul_us(kernel: Any, rows: int, *loaded: int) -> Value:
    """Returns the microseconds of a product, extrapolated from its first ``rows`` rows.

    There must be more rows than a load fetches; otherwise the loaded rows would follow each other
    in HBM.
    """

    def height(m: int) -> Value:
        return total_us(kernel, spec("bfloat16", K, m), spec("bfloat16", K, N), *loaded)

    return continued(height, rows, M)


def convolution_us(kernel: Any) -> Value:
    """Returns the microseconds of a convolution, extrapolated from its first images."""
    filters = spec("float32", CHANNELS, TAPS)

    def images(count: int) -> Value:
        return total_us(kernel, spec("float32", count, CHANNELS, WIDTH), filters, PADDING)

    return continued(images, 1, IMAGES)


def mamba_us(channels: int, length: int) -> Value:
    """Returns the microseconds of a Mamba layer of ``length`` points."""
    points, weights = spec("float32", channels, length), spec("float32", channels, STATES)
    inputs = spec("float32", STATES, length)
    return total_us(kernels.mamba_hoisted, points, points, weights, inputs, inputs)


def attention_us(positions: int) -> Value:
    """Returns the microseconds of one head of attention."""
    x = spec("bfloat16", 128, positions)
    return total_us(kernels.attention, x, x, x)


_of = partial(Measured, AUTOCOMP, "trn1", is_whole_kernel=True)

# Candidates are counted from 1, the code that the search starts from. Their sizes are those of
# harnesses/trn-tutorial-nki1 and harnesses/trn-advanced-nki1. A block of the products is m by n
# tiles. Attention would be modelled with 1134 us if it negated the maxima before every exp, as its
# source does.
RECORDS = (
    _of(
        f"{_GEMM}, candidate 2",
        "matmul, blocks of 1, 2",
        28_680,
        lambda: matmul_us(kernels.matmul_one_by_two, 256),
    ),
    _of(
        f"{_GEMM}, candidate 4",
        "matmul, blocks of 4, 2",
        8070,
        lambda: matmul_us(kernels.matmul_four_by_two, 512, 1),
    ),
    _of(
        f"{_GEMM}, candidate 5",
        "matmul, blocks of 4, 2, pairs",
        7620,
        lambda: matmul_us(kernels.matmul_four_by_two, 512, 2),
    ),
    _of(
        f"{_CONVOLUTION}, candidate 4",
        "convolution",
        7934,
        lambda: convolution_us(kernels.convolve),
    ),
    _of(
        f"{_CONVOLUTION}, candidate 6",
        "convolution, filter in PSUM",
        4955,
        lambda: convolution_us(kernels.convolve_from_psum),
    ),
    _of(_MAMBA, "Mamba, 256 x 2048, hoisted", 539, lambda: mamba_us(256, 2048)),
    _of(_ATTENTION, "attention, 4096 positions", 411, lambda: attention_us(4096)),
)

LEFT_OUT = {"Autocomp: other candidates of these kernels": "not rebuilt"}
