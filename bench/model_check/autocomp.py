"""Kernels that Autocomp's search produced on trn1, rebuilt like their sources, and their times.

Each kernel is one candidate of a trace, which has its code and its time. Loops, tiles, dtypes,
buffers and copies are those of the sources, and an engine is named where a source names it; the
code is written for this project. Where a source assigns the result of an instruction or a load to a
part of a tile, the instruction writes the part itself. Accumulators in PSUM need no zeros, because
the first product overwrites its bank. The times are 99th percentiles on the NeuronCore, without
what the host does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.model_check.measured import Group, Measured, Value
from bench.model_check.modelled_launch import continued, spec, total_us
from bench.model_check.published_kernels import on_all_partitions, ones_row
from bench.model_check.tiles import (
    TILE,
    WIDE,
    combined,
    copied,
    load,
    new_like,
    part,
    scaled,
    store,
    transposed,
)
from nki_kernels.base.isa import nisa, nki, nl

# Matrix products lhs_t.T @ rhs, [M, N], of lhs_t [K, M] and rhs [K, N]. A block of the result is
# accumulated in one bank for each tile, and its operands are loaded for every step of K.


@nki.jit
def matmul_one_by_two(lhs_t, rhs):
    """Computes blocks of 1 x 2 tiles, so that a left tile serves two products.

    N must be a multiple of 1024. Each right tile is loaded just before its product.
    """
    out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(lhs_t.shape[1] // TILE):
        for n in range(rhs.shape[1] // (2 * WIDE)):
            banks = new_banks(1, 2)
            for k in range(lhs_t.shape[0] // TILE):
                left = load(lhs_t[part(k, TILE), part(m, TILE)])
                for j in range(2):
                    right = load(rhs[part(k, TILE), part(2 * n + j, WIDE)])
                    nisa.nc_matmul(dst=banks[0][j], stationary=left, moving=right)
            store_block(out, banks, m, n)
    return out


@nki.jit
def matmul_four_by_two(lhs_t, rhs, loaded):
    """Computes blocks of 4 x 2 tiles, which fill all eight banks.

    M must be a multiple of 512 and N of 1024. One load fetches ``loaded`` left tiles, 1 or 2, just
    before their products.
    """
    out = nl.ndarray((lhs_t.shape[1], rhs.shape[1]), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(lhs_t.shape[1] // (4 * TILE)):
        for n in range(rhs.shape[1] // (2 * WIDE)):
            banks = new_banks(4, 2)
            for k in range(lhs_t.shape[0] // TILE):
                rows = part(k, TILE)
                right = [load(rhs[rows, part(2 * n + j, WIDE)]) for j in range(2)]
                for group in range(4 // loaded):
                    left = load(lhs_t[rows, part(m * 4 // loaded + group, loaded * TILE)])
                    for i in range(loaded):
                        for j in range(2):
                            nisa.nc_matmul(
                                dst=banks[group * loaded + i][j],
                                stationary=left[:, part(i, TILE)],
                                moving=right[j],
                            )
            store_block(out, banks, m, n)
    return out


def new_banks(m_tiles: int, n_tiles: int) -> list[list[Any]]:
    """Returns banks of PSUM [128, 512] in float32, by tile of M, then by tile of N."""
    banks = []
    for _ in range(m_tiles):
        row = []
        for _ in range(n_tiles):
            row.append(nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.psum))
        banks.append(row)
    return banks


def store_block(out: Any, banks: list[list[Any]], m: int, n: int) -> None:
    """Stores block (m, n) of the result: a copy to SBUF and a DMA for every bank."""
    for i in range(len(banks)):
        for j in range(len(banks[i])):
            rows, columns = part(m * len(banks) + i, TILE), part(n * len(banks[i]) + j, WIDE)
            store(out[rows, columns], copied(banks[i][j], out.dtype))


# Depthwise convolutions of images [images, channels, width] with filters [channels, taps], one for
# each channel, over images with ``padding`` zeros at both ends: [images, channels, width + 2 *
# padding - taps + 1]. The number of channels must be a multiple of 128.


@nki.jit
def convolve(images, filters, padding):
    """Loads the image and the filter of 128 channels for each image."""
    taps = filters.shape[1]
    out = new_output(images, taps, padding)
    for n in range(images.shape[0]):
        for c in range(images.shape[1] // TILE):
            channels = part(c, TILE)
            padded = zeros(images.shape[2] + 2 * padding, images.dtype)
            weights = zeros(taps, images.dtype)
            sums = zeros(out.shape[2], images.dtype)
            load_inside(padded, images[n, channels, :], padding)
            nisa.dma_copy(dst=weights, src=filters[channels, :])
            slide(sums, padded, weights)
            store(out[n, channels, :], sums)
    return out


@nki.jit
def convolve_from_psum(images, filters, padding):
    """Keeps the filter of 128 channels in PSUM for all images."""
    taps = filters.shape[1]
    out = new_output(images, taps, padding)
    for c in range(images.shape[1] // TILE):
        channels = part(c, TILE)
        staged = zeros(taps, images.dtype)
        nisa.dma_copy(dst=staged, src=filters[channels, :])
        weights = zeros(taps, images.dtype, nl.psum)
        nisa.tensor_copy(dst=weights, src=staged, engine=nisa.engine.vector)
        for n in range(images.shape[0]):
            padded = zeros(images.shape[2] + 2 * padding, images.dtype)
            load_inside(padded, images[n, channels, :], padding)
            sums = zeros(out.shape[2], images.dtype)
            slide(sums, padded, weights)
            store(out[n, channels, :], sums)
    return out


def new_output(images: Any, taps: int, padding: int) -> Any:
    """Returns the output of a convolution in HBM."""
    count, channels, width = images.shape
    shape = (count, channels, width + 2 * padding - taps + 1)
    return nl.ndarray(shape, dtype=images.dtype, buffer=nl.shared_hbm)


def zeros(length: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    """Returns a tile of zeros, [128, length]."""
    tile = nl.ndarray((TILE, length), dtype=dtype, buffer=buffer)
    nisa.memset(dst=tile, value=0.0)
    return tile


def load_inside(padded: Any, image: Any, padding: int) -> None:
    """Loads an image [128, width] between the zeros of a tile."""
    nisa.dma_copy(dst=padded[:, slice(padding, padding + image.shape[1])], src=image)


def slide(sums: Any, padded: Any, weights: Any) -> None:
    """Computes each column of the result by a product of few elements and their sum."""
    taps = weights.shape[1]
    for position in range(sums.shape[1]):
        products = nl.ndarray((TILE, taps), dtype=sums.dtype, buffer=nl.sbuf)
        window = padded[:, slice(position, position + taps)]
        nisa.tensor_tensor(dst=products, data1=window, data2=weights, op=nl.multiply)
        nisa.tensor_reduce(dst=sums[:, part(position, 1)], op=nl.add, data=products, axis=1)


@nki.jit
def mamba_hoisted(delta, u, a, b, c):
    """Computes the layer of `published_kernels`, [channels, length], in float32.

    The loop over channels is outside, and delta, u and their product are outside of the loop over
    states. The sequence is not cut. Rows of b and c are repeated by products with ones.
    """
    out = nl.ndarray(delta.shape, dtype=delta.dtype, buffer=nl.shared_hbm)
    ones = ones_row()
    for tile in range(delta.shape[0] // TILE):
        rows = part(tile, TILE)
        delta_tile, u_tile = load(delta[rows]), load(u[rows])
        drive = combined(delta_tile, u_tile, nl.multiply)
        total = zeros(delta.shape[1])
        for state in range(a.shape[1]):
            scale, decay = load(a[rows, part(state, 1)]), new_like(delta_tile)
            nisa.activation(dst=decay, op=nl.exp, data=delta_tile, scale=scale)
            b_row, c_row = load(b[part(state, 1)]), load(c[part(state, 1)])
            b_rows, c_rows = on_all_partitions(ones, b_row), on_all_partitions(ones, c_row)
            driven, values = combined(drive, b_rows, nl.multiply), new_like(delta_tile)
            nisa.tensor_tensor_scan(
                dst=values, data0=decay, data1=driven, initial=0.0, op0=nl.multiply, op1=nl.add
            )
            read = combined(values, c_rows, nl.multiply)
            nisa.tensor_tensor(dst=total, data1=total, data2=read, op=nl.add)
        store(out[rows], total)
    return out


@nki.jit
def attention(q, k, v):
    """Returns softmax(q.T @ k) @ v.T, [positions, 128], of q, k and v [128, positions].

    The number of positions must be a multiple of 512. Scores of 128 positions are kept in bfloat16,
    in blocks of 512. The tiles of v are transposed once. A copy follows every transpose, because
    TensorE reads SBUF only. The source negates the maxima before every exp, and here they are
    negated once, as the compiler moves such work out of loops (`mamba_channels_outside`). The
    source also sets ``is_transpose`` for q.T @ k, which is meant for products with identities; it
    is left out.
    """
    out = nl.ndarray((q.shape[1], TILE), dtype=q.dtype, buffer=nl.shared_hbm)
    queries, keys = load(q), load(k)
    values = []
    for column in range(v.shape[1] // TILE):
        values.append(narrow_transposed(load(v[:, part(column, TILE)])))
    for i in range(q.shape[1] // TILE):
        blocks, most = scores(queries[:, part(i, TILE)], keys)
        offset = scaled(most, -1.0)
        sums = zeros(len(values))
        result = nl.ndarray((TILE, TILE), dtype=nl.float32, buffer=nl.psum)
        for column in range(len(values)):
            block, inside = blocks[column * TILE // WIDE], column % (WIDE // TILE)
            weights = nl.ndarray((TILE, TILE), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.activation(dst=weights, op=nl.exp, data=block[:, part(inside, TILE)], bias=offset)
            nisa.tensor_reduce(dst=sums[:, part(column, 1)], op=nl.add, data=weights, axis=1)
            nisa.nc_matmul(dst=result, stationary=narrow_transposed(weights), moving=values[column])
        total, inverse = column_of_numbers(), column_of_numbers()
        nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
        nisa.reciprocal(dst=inverse, data=total)
        nisa.tensor_scalar(
            dst=result, data=result, op0=nl.multiply, operand0=inverse, engine=nisa.engine.vector
        )
        store(out[part(i, TILE)], copied(result, out.dtype))
    return out


def scores(queries: Any, keys: Any) -> tuple[list[Any], Any]:
    """Returns queries.T @ keys in blocks [128, 512] in bfloat16, and the maxima of rows."""
    blocks = []
    count = keys.shape[1] // WIDE
    maxima = nl.ndarray((TILE, count), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(count):
        bank = nl.ndarray((TILE, WIDE), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=bank, stationary=queries, moving=keys[:, part(i, WIDE)])
        nisa.tensor_reduce(dst=maxima[:, part(i, 1)], op=nl.maximum, data=bank, axis=1)
        block = nl.ndarray((TILE, WIDE), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=block, src=bank, engine=nisa.engine.vector)
        blocks.append(block)
    most = column_of_numbers()
    nisa.tensor_reduce(dst=most, op=nl.maximum, data=maxima, axis=1)
    return blocks, most


def narrow_transposed(tile: Any) -> Any:
    """Returns the transpose of a tile [128, 128], copied to SBUF in bfloat16."""
    return copied(transposed(tile), nl.bfloat16)


def column_of_numbers() -> Any:
    """Returns a new SBUF tile [128, 1]."""
    return nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)


# The figures, and how they are modelled.

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
    return total_us(mamba_hoisted, points, points, weights, inputs, inputs)


def attention_us(positions: int) -> Value:
    """Returns the microseconds of one head of attention."""
    x = spec("bfloat16", 128, positions)
    return total_us(attention, x, x, x)


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
        lambda: matmul_us(matmul_one_by_two, 256),
    ),
    _of(
        f"{_GEMM}, candidate 4",
        "matmul, blocks of 4, 2",
        8070,
        lambda: matmul_us(matmul_four_by_two, 512, 1),
    ),
    _of(
        f"{_GEMM}, candidate 5",
        "matmul, blocks of 4, 2, pairs",
        7620,
        lambda: matmul_us(matmul_four_by_two, 512, 2),
    ),
    _of(
        f"{_CONVOLUTION}, candidate 4",
        "convolution",
        7934,
        lambda: convolution_us(convolve),
    ),
    _of(
        f"{_CONVOLUTION}, candidate 6",
        "convolution, filter in PSUM",
        4955,
        lambda: convolution_us(convolve_from_psum),
    ),
    _of(_MAMBA, "Mamba, 256 x 2048, hoisted", 539, lambda: mamba_us(256, 2048)),
    _of(_ATTENTION, "attention, 4096 positions", 411, lambda: attention_us(4096)),
)

LEFT_OUT = {"Autocomp: other candidates of these kernels": "not rebuilt"}
