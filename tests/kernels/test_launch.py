"""Rows shared among programs and processed in blocks: every row occurs once, for any batch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki_sim
from nki_kernels.base import launch
from nki_kernels.base.engines import hbm, sbuf
from nki_kernels.base.isa import nisa, nki, nl
from nki_kernels.base.launch import (
    blocks_of,
    for_rows,
    load_rows,
    on_partitions,
    rows_of_arrays,
    store_rows,
)
from nki_kernels.base.pipeline import TURN, After, Order
from nki_sim import hardware

NUMBERS = 5


class Doubling:
    """2 x, of which ``held`` columns are data; each block takes ``extra`` instructions more."""

    def __init__(self, x, y, held, extra):
        self.x, self.y, self.held, self.extra = x, y, held, extra
        self.two = None

    def setup(self):
        self.two = sbuf((128, 1))
        nisa.memset(dst=self.two, value=2.0)

    def block(self, rows, number):
        tile = sbuf((rows.partitions, rows.each, NUMBERS))
        load_rows(tile, self.x, rows, self.held)
        yield TURN
        yield self.product(tile)
        yield After(partial(store_rows, self.y, tile, rows, NUMBERS))

    def product(self, tile):
        for _ in range(self.extra):
            nisa.tensor_scalar(tile, tile, nl.multiply, 1.0)
        yield
        nisa.tensor_scalar(tile, tile, nl.multiply, self.two[0 : tile.shape[0]])


@nki.jit
def doubled(x, held, most, extra):
    y = hbm(x.shape)
    work = Doubling(x, y, held, extra)
    for_rows(x.shape[0], work, 128 * most, on_partitions(most), Order(2))
    return y


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("batch", [1, 2, 127, 128, 130, 300, 640, 1000, 2049])
def test_every_row_is_done_once(monkeypatch, batch, cores):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 30)
    x = np.arange(batch * NUMBERS, dtype=np.float32).reshape(batch, NUMBERS)
    for most in (1, 3):
        for extra in (0, 20):
            with nki_sim.strict():
                y = nki_sim.simulate(doubled[cores])(x, NUMBERS, most, extra)
            np.testing.assert_array_equal(y, 2 * x)


@nki.jit
def doubled_arrays(x, most):
    y = hbm(x.shape)
    work = Doubling(*rows_of_arrays(x, y), NUMBERS, 20)
    for_rows(x.shape[0], work, 128 * most, on_partitions(most), Order(2))
    return y


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("shape", [(NUMBERS,), (1, NUMBERS), (NUMBERS, 1), (1, NUMBERS, 1)])
@pytest.mark.parametrize("reading", [hardware.RELATIVE, hardware.ABSOLUTE])
def test_a_row_of_an_array_is_all_of_its_axes(monkeypatch, reading, shape, cores):
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 30)
    for batch in (3, 1000):  # unrolled, and looped on the device
        x = np.arange(batch * NUMBERS, dtype=np.float32).reshape(batch, *shape)
        core = replace(hardware.chip("trn2"), reading_of_ap=reading)
        with hardware.select(core), nki_sim.strict():
            y = nki_sim.simulate(doubled_arrays[cores])(x, 1)
        assert y.shape == x.shape
        np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("batch", [1, 2000])
def test_rows_are_done_where_a_tracer_does_not_let_a_count_mute(monkeypatch, batch, cores):
    monkeypatch.setenv(hardware.TARGET_VARIABLE, "trn2")
    monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", 1000)
    monkeypatch.setattr(launch.counting, "CAN_MUTE", False)
    monkeypatch.setattr(launch, "counted", None)
    x = np.arange(batch * NUMBERS, dtype=np.float32).reshape(batch, NUMBERS)
    with nki_sim.strict():
        y = nki_sim.simulate(doubled[cores])(x, NUMBERS, 1, 0)
    np.testing.assert_array_equal(y, 2 * x)


def test_zeros_follow_the_data():
    x = np.ones((70, NUMBERS), np.float32)
    y = nki_sim.simulate(doubled)(x, 2, 1, 0)
    np.testing.assert_array_equal(y, np.repeat([[2, 2, 0, 0, 0]], 70, axis=0))


def test_a_long_batch_is_a_loop_whose_body_has_about_so_many_instructions(monkeypatch):
    spec = ((128 * 3000, NUMBERS), "float32")

    def issued(limit, extra):
        monkeypatch.setattr(launch, "BODY_INSTRUCTIONS", limit)
        timeline = nki_sim.dry_run(doubled, spec, NUMBERS, 1, extra)
        return len(timeline.events), timeline.instructions

    for limit, extra in ((100, 0), (1000, 0), (1000, 97)):
        unrolled, executed = issued(limit, extra)
        assert unrolled <= 4 * limit < executed  # two iterations and what they leave
    assert len({issued(limit, 0)[1] for limit in (100, 1000)}) == 1


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
