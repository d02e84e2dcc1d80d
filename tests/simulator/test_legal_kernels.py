"""Kernels in the style of AWS's nki-library that come close to rules about places, and keep them.

Each runs in strict mode on trn2, and its result is compared with NumPy's.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki_sim
from nki_kernels.isa import nisa, nki, nl
from nki_sim import hardware

P = 128
BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(autouse=True)
def trn2() -> Any:
    with hardware.select(hardware.TRN2):
        yield


def sbuf(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def out(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def whole(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Small whole numbers, which every dtype here holds exactly."""
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(dtype)


# A step of partitions.


@nki.jit
def quadrants(x: Any) -> Any:
    """Adds one row of each quadrant of partitions to the first, with steps in free dimensions."""
    y, tile = out(1, x.shape[1] // 2), sbuf(*x.shape)
    nisa.dma_copy(dst=tile, src=x)
    total = sbuf(1, x.shape[1] // 2)
    nisa.tensor_copy(dst=total, src=tile[0:1, ::2])
    for start in range(32, P, 32):
        row = tile[start : start + 2 : 2, 1::2]  # a step over a single partition
        moved = sbuf(1, x.shape[1] // 2)
        nisa.tensor_copy(dst=moved, src=row)
        nisa.tensor_tensor(dst=total, data1=total, data2=moved, op=nl.add)
    nisa.dma_copy(dst=y, src=total)
    return y


def test_single_partitions_and_steps_in_free_dimensions() -> None:
    x = whole(P, 16)
    expected = x[0:1, ::2] + x[32:33, 1::2] + x[64:65, 1::2] + x[96:97, 1::2]
    with nki_sim.strict():
        np.testing.assert_array_equal(nki_sim.simulate(quadrants)(x), expected)


# Transposes by DMA.


@nki.jit
def gains(gamma: Any) -> Any:
    """Loads gamma [1, h] as columns [128, h / 128], which fill no whole line of 32 bytes."""
    count = gamma.shape[1] // P
    y, tile = out(P, count, dtype=gamma.dtype), sbuf(P, count, dtype=gamma.dtype)
    source = gamma.reshape((count, P)).expand_dim(1).expand_dim(1)
    nisa.dma_transpose(dst=tile.expand_dim(1).expand_dim(1), src=source)
    nisa.dma_copy(dst=y, src=tile)
    return y


@pytest.mark.parametrize("dtype", [BF16, np.float32])
def test_a_narrow_tile_of_its_own_is_transposed(dtype: Any) -> None:
    gamma = whole(1, 5 * P, dtype=dtype)
    with nki_sim.strict(), pytest.warns(match="'transposed-pitch'"):
        found = nki_sim.simulate(gains)(gamma)
    np.testing.assert_array_equal(found, gamma.reshape(5, P).T)


@nki.jit
def weights_in_steps(weights: Any) -> Any:
    """Transposes weights [r, (blocks, 128)] 16 rows at a time, into rows padded to 32 bytes."""
    rows, blocks = weights.shape[0], weights.shape[1] // P
    y = out(P, blocks, rows, dtype=weights.dtype)
    tile = sbuf(P, blocks, -(-rows // 16) * 16, dtype=weights.dtype)
    for first in range(0, rows, 16):
        count = min(16, rows - first)
        pattern = [[weights.shape[1], count], [P, blocks], [1, P]]
        source = weights.ap(pattern, offset=first * weights.shape[1])
        nisa.dma_transpose(dst=tile[:, :, first : first + count], src=source)
    nisa.dma_copy(dst=y, src=tile[:, :, 0:rows])
    return y


@pytest.mark.parametrize("rows", [16, 41])
def test_rows_are_padded_to_lines_of_32_bytes(rows: int) -> None:
    weights = whole(rows, 2 * P, dtype=BF16)
    with nki_sim.strict():
        found = nki_sim.simulate(weights_in_steps)(weights)
    np.testing.assert_array_equal(found, weights.reshape(rows, 2, P).transpose(2, 1, 0))


# Copies within a tensor.


@nki.jit
def swapped_columns(x: Any) -> Any:
    """Swaps the halves of rows by way of columns beside them, in one HBM tensor and one tile."""
    rows, columns = x.shape
    half = columns // 2
    y, tile = out(rows, columns + half), sbuf(rows, columns)
    nisa.dma_copy(dst=y[:, 0:columns], src=x)
    nisa.dma_copy(dst=y[:, columns:], src=y[:, 0:half])
    nisa.dma_copy(dst=y[:, 0:half], src=y[:, half:columns])
    nisa.dma_copy(dst=y[:, half:columns], src=y[:, columns:])
    nisa.dma_copy(dst=tile, src=y[:, 0:columns])
    nisa.dma_copy(dst=tile[:, 0:columns:2], src=tile[:, 1:columns:2])
    nisa.dma_copy(dst=y[:, 0:columns], src=tile)
    return y


def test_columns_of_one_tensor_are_disjoint() -> None:
    x = whole(4, 16)
    expected = np.concatenate([x[:, 8:], x[:, :8]], 1)
    expected[:, 0::2] = expected[:, 1::2]
    with nki_sim.strict():
        found = nki_sim.simulate(swapped_columns)(x)
    np.testing.assert_array_equal(found[:, :16], expected)
