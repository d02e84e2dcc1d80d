"""Tests of the kernels in bench/block_circulant, and of the result of their comparison."""

import numpy as np
import pytest

import nki_sim
from bench.block_circulant.__main__ import (
    BATCHES,
    BLOCK,
    FEATURES,
    circulant_us,
    dense_us,
    naive_us,
)
from bench.block_circulant.dense_product import dense_product
from bench.block_circulant.naive_flow import multiply_pairs, sum_blocks

RNG = np.random.default_rng(0)


def real(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.sweep
@pytest.mark.parametrize("batch", BATCHES)
def test_three_times_faster_than_the_naive_flow_and_faster_than_dense(batch):
    blocks = FEATURES // BLOCK
    forward, _ = circulant_us(batch, blocks, blocks, BLOCK)
    assert 3 * forward <= sum(naive_us(batch, blocks, blocks, BLOCK).values())
    assert 2.5 * forward <= dense_us(batch, FEATURES, FEATURES)


def test_the_kernels_of_the_naive_flow():
    x, w = real(2, 5, 64, 9), real(2, 64, 3, 9)
    with nki_sim.strict():
        y_re, y_im = nki_sim.simulate(multiply_pairs)(*x, *w)
        exact = (x[0] + 1j * x[1])[:, :, None] * (w[0] + 1j * w[1])
        np.testing.assert_allclose(y_re + 1j * y_im, exact, atol=1e-5)
        ones = np.kron(np.eye(2), np.ones((64, 1))).astype(np.float32)
        x = real(5, 64, 700)
        np.testing.assert_allclose(nki_sim.simulate(sum_blocks)(x, ones), x.sum(1), atol=1e-4)


def test_the_dense_kernel():
    x, weight = real(200, 512), real(512, 1024)
    stored = np.ascontiguousarray(weight.reshape(4, 128, 4, 256).transpose(2, 1, 0, 3))
    with nki_sim.strict():
        y = nki_sim.simulate(dense_product)(x, stored)
    np.testing.assert_allclose(y, x @ weight, atol=1e-3)
