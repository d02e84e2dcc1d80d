"""Modelled values of the measurements in `autocomp_records`, by the names of the measurements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.model_check import autocomp_kernels as kernels
from bench.model_check.autocomp_records import AUTOCOMP
from bench.model_check.modelled_launch import Modelled, Value, continued, spec, total_us
from nki_sim import hardware

M, K, N = 4096, 8192, 8192  # of the matrix products
IMAGES, CHANNELS, WIDTH, TAPS, PADDING = 8, 512, 2048, 3, 1  # of the convolutions
STATES = 16  # of the Mamba layer


def matmul_us(kernel: Any, rows: int, *loaded: int) -> Value:
    """Returns the microseconds of a product, extrapolated from its first ``rows`` rows.

    There must be more rows than a load fetches; otherwise the loaded rows would follow each other
    in HBM.
    """

    def height(m: int) -> Modelled:
        operands = spec("bfloat16", K, m), spec("bfloat16", K, N)
        return {"": total_us(kernel, *operands, *loaded)}

    return continued(height, rows, M)[""]


def convolution_us(kernel: Any) -> Value:
    """Returns the microseconds of a convolution, extrapolated from its first images."""
    filters = spec("float32", CHANNELS, TAPS)

    def images(count: int) -> Modelled:
        given = spec("float32", count, CHANNELS, WIDTH)
        return {"": total_us(kernel, given, filters, PADDING)}

    return continued(images, 1, IMAGES)[""]


def mamba_us(channels: int, length: int) -> Value:
    """Returns the microseconds of a Mamba layer of ``length`` points."""
    points, weights = spec("float32", channels, length), spec("float32", channels, STATES)
    inputs = spec("float32", STATES, length)
    return total_us(kernels.mamba_hoisted, points, points, weights, inputs, inputs)


def attention_us(positions: int) -> Value:
    """Returns the microseconds of one head of attention."""
    x = spec("bfloat16", 128, positions)
    return total_us(kernels.attention, x, x, x)


def autocomp() -> Modelled:
    """Returns the times of the seven kernels in microseconds."""
    with hardware.select(hardware.TRN1):
        return {
            "matmul, blocks of 1, 2": matmul_us(kernels.matmul_one_by_two, 256),
            "matmul, blocks of 4, 2": matmul_us(kernels.matmul_four_by_two, 512, 1),
            "matmul, blocks of 4, 2, pairs": matmul_us(kernels.matmul_four_by_two, 512, 2),
            "convolution": convolution_us(kernels.convolve),
            "convolution, filter in PSUM": convolution_us(kernels.convolve_from_psum),
            "Mamba, 256 x 2048, hoisted": mamba_us(256, 2048),
            "attention, 4096 positions": attention_us(4096),
        }


GROUPS: dict[str, Callable[[], Modelled]] = {AUTOCOMP: autocomp}
