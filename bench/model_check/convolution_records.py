"""Times of a transpose and of convolutions on trn2; `convolution_kernels` rebuilds the kernels.

They belong to the same solution as the vector adds on trn2 in `small_copies_records`, and contain a
launch like these.
"""

from __future__ import annotations

from bench.model_check.measurement import INPUT, Measurement, whole_kernels

COURSE = "github.com/xaviergonzalez/asst4-trainium2 d155261 (2025-11-18), writeup.md"
TRANSPOSED = f"{COURSE} and part1/kernels.py: p99 of a launch"
CONVOLVED = f"{COURSE}, part2/conv2d.py and part2/test_harness.py: p99 of a launch without DGE"

ASSIGNMENT = "CS149 assignment, trn2"

ABOUT = {ASSIGNMENT: "convolution of an image [256, 224, 224] with [256, 256, 3, 3]"}

# The source loads all rows of the image into one tile. 2,664 loads that wait for each other would
# take 2.8 ms at least, so the time in float16 shows that the compiler gives loads tiles of their
# own, and the rebuilt kernel does so. dma_copy_ns of trn2 comes from the time in float16, and
# misaligned_moving_factor from that in float32.
RECORDS = whole_kernels(
    Measurement(ASSIGNMENT, "transpose, float32, 1024 x 1024", "trn2", 86, "us", TRANSPOSED),
    Measurement(ASSIGNMENT, "convolution, float32", "trn2", 3832, "us", CONVOLVED, INPUT),
    Measurement(ASSIGNMENT, "convolution, float16", "trn2", 824, "us", CONVOLVED, INPUT),
)
