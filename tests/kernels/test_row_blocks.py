"""Rows shared among programs and processed in blocks: every row occurs once, for any batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki_sim
from nki_kernels import launch
from nki_kernels.isa import nisa, nki, nl
from nki_kernels.row_blocks import blocks_of, load_rows, share_rows, store_rows
from nki_sim import hardware

NUMBERS = 5


@nki.jit
def doubled(x, held, most, instructions):
    """2 x, of which ``held`` columns are data, in blocks of up to ``most`` rows a partition."""
    y = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    share = share_rows(x.shape[0], 128 * most, instructions)
    end = share.first + share.trips * share.step

    def body(row):
        double_blocks(x, y, held, blocks_of(row, 0, share.step, most))

    if share.trips > 0:
        nl.fori_loop(share.first, end, body, share.step)
    double_blocks(x, y, held, blocks_of(None, end, share.rest, most))
    return y


def double_blocks(x, y, held, blocks):
    for rows in blocks:
        shape = (rows.partitions, rows.each, x.shape[1])
        tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        load_rows(tile, x, rows, held)
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        store_rows(y, tile, rows, x.shape[1])


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("batch", [1, 2, 127, 128, 130, 300, 640, 1000, 2049])
def test_every_row_is_done_once(monkeypatch, batch, cores):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 300)
    x = np.arange(batch * NUMBERS, dtype=np.float32).reshape(batch, NUMBERS)
    for most in (1, 3):
        for instructions in (100, 300):
            with nki_sim.strict():
                y = nki_sim.simulate(doubled[cores])(x, NUMBERS, most, instructions)
            np.testing.assert_array_equal(y, 2 * x)


def test_zeros_follow_the_data():
    x = np.ones((70, NUMBERS), np.float32)
    y = nki_sim.simulate(doubled)(x, 2, 1, 100)
    np.testing.assert_array_equal(y, np.repeat([[2, 2, 0, 0, 0]], 70, axis=0))


@given(first=st.integers(0, 10**6), count=st.integers(0, 10**4), most=st.integers(1, 40))
def test_blocks_are_consecutive_and_small_enough(first, count, most):
    blocks = blocks_of(None, first, count, most)
    for rows in blocks:
        assert rows.first == first
        assert 1 <= rows.partitions <= 128
        assert 1 <= rows.each <= most
        first += rows.partitions * rows.each
        count -= rows.partitions * rows.each
    assert count == 0
    assert len(blocks) <= 10**4 // (128 * most) + 2


def test_programs_have_as_many_trips():
    @nki.jit
    def shares(x):
        share = share_rows(100_001, 128, 1000)
        y = nl.ndarray((2, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((1, 4), dtype=nl.float32, buffer=nl.sbuf)
        numbers = (share.first, share.step, share.trips, share.rest)
        for column in range(4):
            nisa.memset(tile[:, column : column + 1], value=float(numbers[column]))
        nisa.dma_copy(y[nl.program_id(0) : nl.program_id(0) + 1], tile)
        return y

    with hardware.select(hardware.chip("trn2")):
        first, second = nki_sim.simulate(shares[2])(np.zeros((1, 1), np.float32))
    assert first[0] == 0 and second[0] == 50_000
    assert first[1] == second[1] and first[2] == second[2] > 1
    assert first[1] * first[2] + first[3] == 50_000
    assert second[1] * second[2] + second[3] == 50_001
