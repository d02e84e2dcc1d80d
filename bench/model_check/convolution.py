"""A transpose and convolutions on trn2, rebuilt with the structure of their code, and their times.

The course is CS149 of Stanford, as in `small_copies`; these kernels belong to the same solution as
the vector adds on trn2 there, and contain a launch like these. Loops, tiles and copies are those of
a public solution, which names no engine; the code is written for this project. The convolution was
compiled without DGE, so that the host has written its descriptors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.model_check.measured import INPUT, Group, Measured, Value
from bench.model_check.modelled_launch import spec, total_us
from bench.model_check.tiles import TILE, copied, load, load_by, part, transposed
from nki_kernels.base.isa import nisa, nki, nl

HOST = nisa.dge_mode.none  # who writes the descriptors of the convolution


@nki.jit
def transpose_tiles(x):
    """Returns the transpose of x [M, N], with a load and a store for each tile [128, 128]."""
    out = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.shared_hbm)
    for m in range(x.shape[0] // TILE):
        for n in range(x.shape[1] // TILE):
            rows, columns = part(m, TILE), part(n, TILE)
            nisa.dma_copy(dst=out[columns, rows], src=turned(load(x[rows, columns])))
    return out


def turned(tile: Any) -> Any:
    """Returns a new SBUF tile with the transpose of an SBUF tile."""
    return copied(transposed(tile), tile.dtype)


@nki.jit
def convolve(images, filters, bias):
    """Returns the valid convolution of images [B, I, H, W] with filters [O, I, h, w], plus a bias.

    I and O are multiples of 128; the bias is [O]. A row of the output is a sum of products of
    transposed filters, which stay in SBUF, with rows of an image. A row of an image is loaded again
    for every row and every 128 channels of the output that need it. Each load has a tile of its
    own; `convolution` says why.
    """
    (batch, _, height, width), (channels, _, taps, across) = images.shape, filters.shape
    rows, columns = height - taps + 1, width - across + 1
    out = nl.ndarray((batch, channels, rows, columns), dtype=images.dtype, buffer=nl.shared_hbm)
    unpooled = nl.ndarray((TILE, 1, columns), dtype=images.dtype, buffer=nl.sbuf)
    weights = load_filters(filters)
    for b in range(batch):
        for o in range(channels // TILE):
            for row in range(rows):
                sums = summed_products(images[b], weights, o, row)
                nisa.tensor_copy(dst=unpooled[:, 0, :], src=sums)
                shift = load_by(bias[part(o, TILE)].reshape((TILE, 1)), HOST)
                store_row(out[b, part(o, TILE), row, :], unpooled, shift)
    return out


def load_filters(filters: Any) -> Any:
    """Returns the filters in one SBUF tile [128 inputs, 128 outputs, O tiles, I tiles, h, w]."""
    outputs, inputs, taps = filters.shape[0] // TILE, filters.shape[1] // TILE, filters.shape[2:]
    shape = (TILE, TILE, outputs, inputs, *taps)
    weights = nl.ndarray(shape, dtype=filters.dtype, buffer=nl.sbuf)
    for o in range(outputs):
        for i in range(inputs):
            source = filters[part(o, TILE), part(i, TILE), :, :]
            nisa.dma_copy(dst=weights[:, :, o, i, :, :], src=source, dge_mode=HOST)
            for y in range(taps[0]):
                for x in range(taps[1]):
                    tap = weights[:, :, o, i, y, x]
                    nisa.tensor_copy(dst=tap, src=turned(tap))
    return weights


def summed_products(image: Any, weights: Any, o: int, row: int) -> Any:
    """Returns a row of the output for 128 of its channels, [128, columns] in PSUM."""
    _, _, _, inputs, taps, across = weights.shape
    columns = image.shape[2] - across + 1
    bank = nl.ndarray((TILE, columns), dtype=nl.float32, buffer=nl.psum)
    for i in range(inputs):
        for y in range(taps):
            line = load_by(image[part(i, TILE), row + y, :], HOST)
            for x in range(across):
                moving = line[:, slice(x, x + columns)]
                nisa.nc_matmul(dst=bank, stationary=weights[:, :, o, i, y, x], moving=moving)
    return bank


def store_row(destination: Any, unpooled: Any, shift: Any) -> None:
    """Stores unpooled [128, 1, columns] plus shift [128, 1].

    As in the source, a reduction computes the maximum of windows, which have one number here.
    """
    columns = unpooled.shape[2]
    pooled = nl.ndarray((TILE, columns), dtype=unpooled.dtype, buffer=nl.sbuf)
    windows = unpooled.reshape((TILE, columns, 1, 1))
    nisa.tensor_reduce(dst=pooled, op=nl.maximum, data=windows, axis=(2, 3))
    result = nl.ndarray((TILE, columns), dtype=unpooled.dtype, buffer=nl.sbuf)
    repeated = shift.ap(pattern=[[1, TILE], [0, columns]])
    nisa.tensor_tensor(dst=result, data1=pooled, data2=repeated, op=nl.add)
    nisa.dma_copy(dst=destination, src=result, dge_mode=HOST)


# The figures, and how they are modelled.

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
