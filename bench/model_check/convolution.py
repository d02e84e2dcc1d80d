"""A transpose and convolutions on trn2: their times, and how they are modelled.

`convolution_kernels` rebuilds the kernels. They belong to the same solution as the vector adds on
trn2 in `small_copies`, and contain a launch like these.
"""

from __future__ import annotations

from functools import partial

from bench.model_check.convolution_kernels import convolve, transpose_tiles
from bench.model_check.measured import INPUT, Group, Measured, Value
from bench.model_check.modelled_launch import spec, total_us

COURSE = "github.com/xaviergonzalez/asst4-trainium2 d155261 (2025-11-18), writeup.md"
TRANSPOSED = f"{COURSE} and part1/kernels.py: p99 of a launch"
CONVOLVED = f"{COURSE}, part2/conv2d.py and part2/test_harness.py: p99 of a launch without DGE"
CHANNELS, SIZE, TAPS = 256, 224, 3

ASSIGNMENT = Group(
    "CS149 assignment, trn2", "convolution of an image [256, 224, 224] with [256, 256, 3, 3]"
)


def convolution_us(dtype: str) -> Value:
    """Returns the microseconds of the convolution on the chip."""
    image = spec(dtype, 1, CHANNELS, SIZE, SIZE)
    filters = spec(dtype, CHANNELS, CHANNELS, TAPS, TAPS)
    return total_us(convolve, image, filters, spec(dtype, CHANNELS))


_of = partial(
    Measured, ASSIGNMENT, "trn2", is_whole_kernel=True, overhead="course, trn2", launches=1
)

# The source loads all rows of the image into one tile. 2,664 loads that wait for each other would
# take 2.8 ms at least, so the time in float16 shows that the compiler gives loads tiles of their
# own, and the rebuilt kernel does so. dma_copy_ns of trn2 comes from the time in float16, and
# misaligned_moving_factor from that in float32.
RECORDS = (
    _of(
        TRANSPOSED,
        "transpose, float32, 1024 x 1024",
        86,
        lambda: total_us(transpose_tiles, spec("float32", 1024, 1024)),
    ),
    _of(CONVOLVED, "convolution, float32", 3832, lambda: convolution_us("float32"), INPUT),
    _of(CONVOLVED, "convolution, float16", 824, lambda: convolution_us("float16"), INPUT),
)

LEFT_OUT: dict[str, str] = {}
