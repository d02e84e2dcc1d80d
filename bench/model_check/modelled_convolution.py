"""Modelled values of the measurements in `convolution_records`, by their names.

A value is the modelled time on the chip plus a launch. The launch is that of the vector adds on
trn2, which were measured in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.model_check.convolution_kernels import convolve, transpose_tiles
from bench.model_check.convolution_records import ASSIGNMENT
from bench.model_check.modelled_launch import Modelled, Value, spec, total_us
from bench.model_check.modelled_small_copies import adds_on_chip, launch_us
from nki_sim import hardware

CHANNELS, SIZE, TAPS = 256, 224, 3


def assignment() -> Modelled:
    """Returns the times of the transpose and of the convolutions with their launches."""

    def convolution_us(dtype: str) -> Value:
        image = spec(dtype, 1, CHANNELS, SIZE, SIZE)
        filters = spec(dtype, CHANNELS, CHANNELS, TAPS, TAPS)
        return total_us(convolve, image, filters, spec(dtype, CHANNELS))

    with hardware.select(hardware.TRN2):
        on_chip = {
            "transpose, float32, 1024 x 1024": total_us(
                transpose_tiles, spec("float32", 1024, 1024)
            ),
            "convolution, float32": convolution_us("float32"),
            "convolution, float16": convolution_us("float16"),
        }
    launch = launch_us("trn2", adds_on_chip(hardware.TRN2))
    return {name: us + launch for name, us in on_chip.items()}


GROUPS: dict[str, Callable[[], Modelled]] = {ASSIGNMENT: assignment}
