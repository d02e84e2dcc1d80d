"""Kernels in the style of AWS's nki-library that come close to rules about places, and keep them.

Each runs in strict mode on trn2, and its result is compared with NumPy's.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki_sim
from nki_kernels.base.isa import nisa, nki, nl
from nki_sim import hardware

P = 128
BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(autouse=True)
def trn2() -> Any:
    with hardware.select(hardware.TRN2):
        yield


def sbuf(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def psum(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def out(*shape: int, dtype: Any = nl.float32) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def whole(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Small whole numbers, which every dtype here holds exactly."""
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(dtype)


# A step of partitions.


@nki.jit
def rotary_halves(x: Any) -> Any:
    """Gathers the even and odd rows of x [2 h, n] in HBM, and turns each half by 90 degrees."""
    rows, columns = x.shape
    half = rows // 2
    y = out(rows, columns)
    tile, turned = sbuf(rows, columns), sbuf(rows, columns)
    nisa.dma_copy(dst=tile[:half, :], src=x[0:rows:2, :])
    nisa.dma_copy(dst=tile[half:, :], src=x[1:rows:2, :])
    nisa.tensor_scalar(dst=turned[:half, :], data=tile[half:, :], op0=nl.multiply, operand0=-1.0)
    nisa.tensor_copy(dst=turned[half:, :], src=tile[:half, :])
    nisa.dma_copy(dst=y[0:rows:2, :], src=turned[:half, :])
    nisa.dma_copy(dst=y[1:rows:2, :], src=turned[half:, :])
    return y


def test_even_and_odd_rows_are_gathered_in_hbm() -> None:
    x = whole(P, 24)
    expected = np.empty_like(x)
    expected[0::2], expected[1::2] = -x[1::2], x[0::2]
    with nki_sim.strict():
        np.testing.assert_array_equal(nki_sim.simulate(rotary_halves)(x), expected)


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


# Places in PSUM.


@nki.jit
def padded_transposes(x: Any) -> Any:
    """Transposes blocks of x [t, (blocks, 128)] into slots of one PSUM tile, padded to 4 bytes."""
    tokens, blocks = x.shape[0], x.shape[1] // P
    y = out(P, blocks, tokens, dtype=x.dtype)
    slot = -(-tokens // 2) * 2
    tile, turned = sbuf(*x.shape, dtype=x.dtype), sbuf(P, blocks, tokens, dtype=x.dtype)
    nisa.dma_copy(dst=tile, src=x)
    bank = psum(P, blocks * slot, dtype=x.dtype)
    for block in range(blocks):
        place = bank[:, block * slot : block * slot + tokens]
        nisa.nc_transpose(dst=place, data=tile[:, block * P : (block + 1) * P])
    slots = bank.reshape_dim(1, (blocks, slot))
    nisa.tensor_copy(dst=turned, src=slots[:, :, 0:tokens])
    nisa.dma_copy(dst=y, src=turned)
    return y


@pytest.mark.parametrize("tokens", [1, 4, 5])
def test_slots_in_psum_are_padded(tokens: int) -> None:
    x = whole(tokens, 3 * P, dtype=BF16)
    with nki_sim.strict():
        found = nki_sim.simulate(padded_transposes)(x)
    np.testing.assert_array_equal(found, x.reshape(tokens, 3, P).transpose(2, 1, 0))


@nki.jit
def bias_columns(bias: Any) -> Any:
    """Transposes pairs of rows of bias [2, n] into columns of 4 bytes of a PSUM tile."""
    tiles = bias.shape[1] // P
    y, rows = out(P, 2 * tiles, dtype=bias.dtype), sbuf(*bias.shape, dtype=bias.dtype)
    nisa.dma_copy(dst=rows, src=bias)
    bank = psum(P, 2 * tiles, dtype=bias.dtype)
    for i in range(tiles):
        nisa.nc_transpose(dst=bank[:, 2 * i : 2 * i + 2], data=rows[:, i * P : (i + 1) * P])
    columns = sbuf(P, 2 * tiles, dtype=bias.dtype)
    nisa.tensor_copy(dst=columns, src=bank)
    nisa.dma_copy(dst=y, src=columns)
    return y


def test_pairs_of_16_bit_columns_in_psum() -> None:
    bias = whole(2, 3 * P, dtype=BF16)
    expected = bias.reshape(2, 3, P).transpose(2, 1, 0).reshape(P, 6)
    with nki_sim.strict():
        np.testing.assert_array_equal(nki_sim.simulate(bias_columns)(bias), expected)


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


# Copies within a tensor, registers, and GpSimdE.


@nki.jit
def shifted_cache(cache: Any, new: Any) -> Any:
    """Moves the rows of a cache up by as many as are new, block by block, and appends the new."""
    rows, count = cache.shape[0], new.shape[0]
    y = out(*cache.shape)
    nisa.dma_copy(dst=y, src=cache)
    for first in range(0, rows - count, count):
        nisa.dma_copy(dst=y[first : first + count], src=y[first + count : first + 2 * count])
    nisa.dma_copy(dst=y[rows - count :], src=new)
    return y


def test_a_cache_is_shifted_by_disjoint_blocks() -> None:
    cache, new = whole(12, 8), whole(3, 8, seed=1)
    with nki_sim.strict():
        found = nki_sim.simulate(shifted_cache)(cache, new)
    np.testing.assert_array_equal(found, np.concatenate([cache[3:], new]))


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


@nki.jit
def experts(table: Any, chosen: Any) -> Any:
    """Sums rows of a table that registers choose, each of which is loaded just before its use."""
    count, width = chosen.shape[1], table.shape[1]
    y, numbers, total = out(1, width), sbuf(1, count, dtype=nl.int32), sbuf(1, width)
    nisa.dma_copy(dst=numbers, src=chosen)
    nisa.memset(dst=total, value=0.0)
    for i in range(count):
        index = nisa.register_alloc()
        nisa.register_load(index, numbers[:, i : i + 1])
        row = sbuf(1, width)
        source = table.ap([[width, 1], [1, width]], scalar_offset=index, indirect_dim=0)
        nisa.dma_copy(dst=row, src=source)
        nisa.tensor_tensor(dst=total, data1=total, data2=row, op=nl.add)
    nisa.dma_copy(dst=y, src=total)
    return y


def test_a_hundred_registers_one_after_the_other() -> None:
    table = whole(9, 16)
    chosen = np.random.default_rng(3).integers(0, 9, (1, 100)).astype(np.int32)
    with nki_sim.strict():
        found = nki_sim.simulate(experts)(table, chosen)
    np.testing.assert_array_equal(found, table[chosen[0]].sum(0, keepdims=True))


@nki.jit
def positions(x: Any) -> Any:
    """Adds whole numbers on GpSimdE, and takes powers of floats there, as only it can."""
    y, power = out(*x.shape, dtype=nl.int32), out(*x.shape)
    tile, count = sbuf(*x.shape, dtype=nl.int32), sbuf(*x.shape, dtype=nl.int32)
    nisa.dma_copy(dst=tile, src=x)
    nisa.iota(dst=count, pattern=[[1, x.shape[1]]], offset=0, channel_multiplier=0)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=count, op=nl.add, engine=nisa.engine.gpsimd)
    floats, twos = sbuf(*x.shape), sbuf(*x.shape)
    nisa.tensor_copy(dst=floats, src=tile, engine=nisa.engine.gpsimd)
    nisa.memset(dst=twos, value=2.0, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=floats, data1=floats, data2=twos, op=nl.power)
    nisa.dma_copy(dst=y, src=tile)
    nisa.dma_copy(dst=power, src=floats)
    return y, power


def test_gpsimd_adds_whole_numbers() -> None:
    x = whole(8, 16, dtype=np.int32)
    expected = x + np.arange(16, dtype=np.int32)
    with nki_sim.strict():
        found, squares = nki_sim.simulate(positions)(x)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(squares, expected.astype(np.float32) ** 2, rtol=1e-5)
